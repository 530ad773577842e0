"""`headrace parse`: check a script and show how it is understood."""

from __future__ import annotations

import json

import rich_click as click

from headrace.cli.scripts import check_report, read_functions, read_script
from headrace.inputs.text_file import read_text
from headrace.model.errors import HeadraceError
from headrace.sql import NamedQuery, Script, digest, format_query, format_stream, format_table, format_window
from headrace.sql.names import quote


@click.command()
@click.argument("script")
@click.option("--schema", metavar="FILE", help="Read the declarations of streams and tables from FILE first.")
@click.option("--functions", metavar="FILE.py", help="Python file with the user functions that the queries call.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per query: name, digest, stream, window, text.")
def parse(script: str, schema: str | None, functions: str | None, as_json: bool) -> None:
    """Check the queries in SCRIPT ('-' is standard input) and print them in canonical form.

    Two queries that mean the same print the same text, whatever way they were written in, and have the same digest.
    The output is a script again. Every mistake is reported with its spot; the exit status is 1 if there was one.

    \b
    Try it:
      headrace workload otf-low --queries 4 | headrace parse -
    """
    report: list[HeadraceError] = []
    catalog = read_functions(functions)
    if schema is not None:
        catalog = read_script(read_text(schema), catalog, report, file=schema).catalog
        check_report(report)
    parsed = read_script(read_text(script), catalog, report, file=script)
    lines = json_lines(parsed) if as_json else canonical_lines(parsed)
    for line in lines:
        click.echo(line)
    check_report(report)
    click.echo(summary(parsed), err=True)


def canonical_lines(script: Script) -> list[str]:
    declarations = [format_stream(stream) for stream in script.catalog.streams]
    declarations += [format_table(table) for table in script.catalog.tables]
    return declarations + [
        f"CREATE QUERY {quote(named.name)} AS {format_query(named.query)};" for named in script.queries
    ]


def json_lines(script: Script) -> list[str]:
    return [json.dumps(description(named), ensure_ascii=False) for named in script.queries]


def description(named: NamedQuery) -> dict[str, object]:
    return {
        "name": named.name,
        "digest": digest(named.query),
        "stream": named.query.stream,
        "window": format_window(named.query.window),
        "columns": {column.name: str(column.type) for column in named.query.result_columns()},
        "text": format_query(named.query),
    }


def summary(script: Script) -> str:
    different = len({digest(named.query) for named in script.queries})
    catalog = script.catalog
    return (
        f"accepted; queries: {len(script.queries)} ({different} different), "
        f"streams: {len(catalog.streams)}, tables: {len(catalog.tables)}"
    )
