"""`headrace eval`: answer queries over bounded data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import rich_click as click

from headrace.cli.data_script import data_options, load, read_options
from headrace.cli.files import FILE_FORMATS, TEXT_FORMATS, DataFiles
from headrace.cli.output_file import writing
from headrace.cli.progress import Report, progress_bar
from headrace.cli.scripts import read_functions
from headrace.cli.tables import print_rows
from headrace.engine.answers import answer as answer_with_kernel
from headrace.expressions.static_tables import Data
from headrace.inputs.conversion import as_stream
from headrace.kernel.jit import announce_compile
from headrace.model.arrow import from_rows, plain_values, to_rows
from headrace.model.derived_streams import rounds, with_upstreams
from headrace.model.errors import UsageError, printable
from headrace.model.schema import Catalog, Stream, Table
from headrace.model.types import Value
from headrace.reference import Interpreter, StepResult
from headrace.sql import NamedQuery, Script


@dataclass(slots=True)
class QueryAnswer:
    """All rows of one query, window by window, and what was counted on the way."""

    named: NamedQuery
    rows: list[tuple[Value, ...]] = field(default_factory=list)
    windows: int = 0
    errors: int = 0
    left_out: int = 0
    problem: str | None = None


@click.command("eval")
@click.argument("queries")
@click.option(
    "--data",
    "path",
    type=click.Path(path_type=Path),
    required=True,
    help="File (.parquet, .csv, .json, .jsonl) or folder of files; or a folder with a folder or a file for each "
    "stream and table.",
)
@data_options
@click.option(
    "--engine",
    type=click.Choice(["kernel", "reference"]),
    default="kernel",
    show_default=True,
    help="What computes the answers: the shared plan, or the reference, exact, plain and slow.",
)
@click.option("--functions", metavar="FILE.py", help="Python file with the user functions that the queries call.")
@click.option(
    "--query", "only", multiple=True, metavar="NAME", help="Answer only this query; may be given several times."
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write one file per query into this folder instead of printing."
)
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", *FILE_FORMATS]),
    help="Format of the results: table, or all rows of one query as csv or json. Default: table; parquet with --out.",
)
@click.option("--rows", "most", type=click.IntRange(1), default=10, show_default=True, help="Rows to print per table.")
def evaluate(
    queries: str,
    path: Path,
    event_time: str | None,
    input_format: str | None,
    options: tuple[str, ...],
    engine: str,
    functions: str | None,
    only: tuple[str, ...],
    out: Path | None,
    output_format: str | None,
    most: int,
) -> None:
    """Answer QUERIES over all rows of files, then stop.

    QUERIES is SQL text, a script of SQL, or '-' for standard input. Every window that holds a row is answered, and no
    row is late. A script that declares no stream is answered over the columns that the files have; the folder of
    the data may also hold declarations in schema.sql.

    \b
    Try it:
      headrace eval "SELECT count(*) FROM flows [RANGE '1 min']" --data a.csv
      headrace eval queries.sql --data flows.parquet --out results --format csv
    """
    data = DataFiles(path, input_format, read_options(options))
    script = load(queries, data, read_functions(functions), event_time)
    known = {named.name: QueryAnswer(named) for named in script.queries}
    chosen = [named.name for named in choose(script, only)]
    chosen_format = check_format(output_format, out, len(chosen))
    parsed = {name: answer.named.query for name, answer in known.items()}
    needed = with_upstreams(chosen, parsed, script.catalog)
    for stream, ready in rounds({name: parsed[name] for name in parsed if name in needed}, script.catalog):
        run(script, stream, ready, known, data, engine)
    answers = [known[name] for name in chosen]
    if out is not None:
        write(answers, out, chosen_format)
    elif chosen_format == "table":
        for answer in answers:
            print_rows(answer.named.name, answer.named.query.result_columns(), answer.rows, most)
    else:
        click.echo(FILE_FORMATS[chosen_format](result_table(answers[0])), nl=False)
    report_counts(answers)


def check_format(output_format: str | None, out: Path | None, queries: int) -> str:
    """Return the format of the results, which must suit where they go."""
    if out is not None:
        if output_format == "table":
            raise click.UsageError("--out writes files: --format parquet, csv or json")
        return output_format or "parquet"
    if output_format == "parquet":
        raise click.UsageError("--format parquet needs --out DIR")
    if output_format in TEXT_FORMATS and queries != 1:
        hint = "choose one with --query NAME, or write a file for each with --out DIR"
        raise UsageError("format", f"{output_format} on standard output is for one query, not {queries}", hint=hint)
    return output_format or "table"


def choose(script: Script, only: tuple[str, ...]) -> list[NamedQuery]:
    wanted = {name.lower() for name in only}
    unknown = wanted - {named.name.lower() for named in script.queries}
    if unknown:
        raise UsageError("unknown-name", f"there is no query '{sorted(unknown)[0]}' in the script")
    return [named for named in script.queries if not wanted or named.name.lower() in wanted]


def run(
    script: Script, stream: Stream, ready: Iterable[str], known: dict[str, QueryAnswer], data: DataFiles, engine: str
) -> None:
    """Answer queries of one stream."""
    answers = {name: known[name] for name in ready}
    joined = dict.fromkeys(join.table for answer in answers.values() for join in answer.named.query.joins)
    tables = {name: rows_of(relation(script.catalog, name), known, data) for name in joined}
    ENGINES[engine](Data(script.catalog, stream, rows_of(stream, known, data), tables), answers)


def relation(catalog: Catalog, name: str) -> Stream | Table:
    declared = catalog.stream(name) or catalog.table(name)
    assert declared is not None
    return declared


def rows_of(relation: Stream | Table, known: Mapping[str, QueryAnswer], data: DataFiles) -> pa.Table:
    """Return the rows of files, or the results of a query."""
    if isinstance(relation, Table) or relation.derived is None:
        rows = data.read(relation)
        report_rejected(relation.name, rows.rejected)
        return rows.table
    answer = known[relation.name]
    return as_stream(from_rows(answer.rows, answer.named.query.result_columns()), relation)


def by_kernel(data: Data, answers: dict[str, QueryAnswer]) -> None:
    """Answer with one shared plan for all queries, made from a sample of the data."""
    with (
        announce_compile(),
        progress_bar(f"{data.stream.name}, {len(answers)} queries") as report,
    ):
        queries = {name: answer.named.query for name, answer in answers.items()}
        answered = answer_with_kernel(data, queries, report=report)
    for name, closed in answered.closed.items():
        answer = answers[name]
        columns = [plain_values(closed.table[column.name], column.type) for column in queries[name].result_columns()]
        answer.rows = list(zip(*columns, strict=True))
        answer.windows, answer.errors, answer.left_out = closed.windows, closed.errors, closed.left_out
        answer.problem = closed.problem
    report_dropped(answered.dropped)


def by_reference(data: Data, answers: dict[str, QueryAnswer]) -> None:
    """Answer row by row and query by query: one batch, then the end."""
    tables = {name: to_rows(rows, relation(data.catalog, name).columns) for name, rows in data.tables.items()}
    interpreter = Interpreter(data.stream, tables, data.catalog.functions, aggregates=data.catalog.aggregates)
    for name, answer in answers.items():
        interpreter.register(name, answer.named.query)
    rows = to_rows(data.rows, data.stream.columns)
    with progress_bar(f"{data.stream.name}, {len(answers)} queries") as report:
        collect(interpreter.batch(iterate_with_progress(rows, report)), answers)
    collect(interpreter.end(), answers)


ENGINES = {"kernel": by_kernel, "reference": by_reference}


def iterate_with_progress(rows: list[dict[str, Value]], report: Report) -> Iterator[Mapping[str, Value]]:
    for number, row in enumerate(rows):
        if number % 256 == 0:
            report(number, len(rows))
        yield row


def collect(step: StepResult, answers: dict[str, QueryAnswer]) -> None:
    for result in step.results:
        answers[result.query].rows += result.rows
        answers[result.query].windows += 1
    for name, errors in step.counts.errors.items():
        answers[name].errors += errors
    for gap in step.gaps:
        answers[gap.query].left_out += gap.count
    report_dropped(step.counts.dropped)


def report_rejected(name: str, rejected: pa.Table) -> None:
    if rejected.num_rows:
        first = rejected.slice(0, 1).to_pylist()[0]
        problem = f"{rejected.num_rows:,} rows could not be read and were left out"
        click.echo(f"{name}: {problem}; the first: {first['reason']}: {printable(first['raw'])}", err=True)


def report_dropped(dropped: int) -> None:
    if dropped:
        click.echo(f"{dropped:,} rows had no event time and were left out", err=True)


def result_table(answer: QueryAnswer) -> pa.Table:
    return from_rows(answer.rows, answer.named.query.result_columns())


def write(answers: list[QueryAnswer], out: Path, file_format: str) -> None:
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    for answer in answers:
        path = out / f"{answer.named.name}.{file_format}"
        with writing(path):
            path.write_bytes(FILE_FORMATS[file_format](result_table(answer)))
    click.echo(f"one {file_format} file per query in {out}", err=True)


def report_counts(answers: list[QueryAnswer]) -> None:
    rows, windows = sum(len(answer.rows) for answer in answers), sum(answer.windows for answer in answers)
    click.echo(f"queries: {len(answers)}, windows: {windows:,}, rows: {rows:,}", err=True)
    for answer in answers:
        if answer.errors:
            first = f"; the first: {answer.problem}" if answer.problem else ""
            problem = f"{answer.errors:,} values could not be computed and are NULL{first}"
            click.echo(f"{answer.named.name}: {problem}", err=True)
        if answer.left_out:
            click.echo(f"{answer.named.name}: {answer.left_out:,} empty windows in a row were left out", err=True)
