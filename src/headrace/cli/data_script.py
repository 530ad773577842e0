"""Queries over data files: the options that name the files, and the script with what it reads declared."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable

import pyarrow as pa
import rich_click as click

from headrace.cli.files import DataFiles
from headrace.cli.scripts import check_report, read_script
from headrace.engine.dataframes import declare_stream, declare_table, explain_unread, unread_columns
from headrace.inputs.source import OPTIONS
from headrace.inputs.text_file import read_text
from headrace.model.errors import HeadraceError, UsageError
from headrace.model.schema import Catalog
from headrace.sql import Script, unknown_relation

SQL = re.compile(r"(\s|--.*\n)*(SELECT|CREATE)\s", re.IGNORECASE)


def data_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say what the rows are."""
    options = (
        click.option(
            "--event-time",
            metavar="COLUMN",
            help="Column with the time of a row, for data without declarations. Default: the only TIMESTAMP column.",
        ),
        click.option(
            "--input-format",
            type=click.Choice(sorted(OPTIONS)),
            help="Format of the data. Default: what the names of the files end in.",
        ),
        click.option(
            "--option",
            "options",
            multiple=True,
            metavar="NAME=VALUE",
            help="Option of csv files: delimiter, header, quote or null_value; may be given several times.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def read_options(options: Iterable[str]) -> dict[str, str]:
    """Return the options of a format as NAME=VALUE says them."""
    pairs = [option.partition("=") for option in options]
    for name, equals, _ in pairs:
        if not equals:
            raise click.UsageError(f"--option takes NAME=VALUE, not '{name}'")
    return {name: value for name, _, value in pairs}


def read_queries(queries: str) -> tuple[str, str | None]:
    """Return the text of the queries, and the name of the file it is from: what begins as SQL is the text itself."""
    if SQL.match(queries) and not os.path.exists(queries):
        return queries, None
    return read_text(queries), queries


def load(queries: str, data: DataFiles, catalog: Catalog, event_time: str | None = None) -> Script:
    """Read the queries on top of the declarations in the data's folder, or of what the files have for columns."""
    text, file = read_queries(queries)
    data.check()
    report: list[HeadraceError] = []
    is_declared = bool(read_script(text, catalog, []).catalog.streams)
    if not is_declared and data.schema is not None:
        catalog = read_script(read_text(str(data.schema)), catalog, report, file=str(data.schema)).catalog
        check_report(report)
        is_declared = bool(catalog.streams)
    if is_declared and event_time is not None:
        raise click.UsageError("--event-time is for data without declarations: this stream declares its event time")
    unread: dict[str, pa.DataType] = {}
    missing: list[HeadraceError] = []
    if not is_declared:
        try:
            catalog, unread = declare(text, catalog, data, event_time)
        except HeadraceError as problem:
            missing = [problem]
    script = read_script(text, catalog, report, file=file)
    for mistake in report:
        explain_unread(mistake, unread)
    check_report(missing + [mistake for mistake in report if not missing or mistake.code != "unknown-name"])
    if not script.queries:
        raise UsageError("no-queries", "there is no query in the script", hint="add CREATE QUERY name AS SELECT ...")
    if data.path.is_file() and len(script.catalog.streams) > 1:
        hint = "give a folder with a file or a folder for each stream"
        raise UsageError("no-data", f"{data.path} holds the rows of one stream, and the script has several", hint=hint)
    return script


def declare(
    text: str, catalog: Catalog, data: DataFiles, event_time: str | None
) -> tuple[Catalog, dict[str, pa.DataType]]:
    """Declare what the queries read by the columns of its files: the first name is the stream's, others are tables'.

    Also return the columns that queries can't read.
    """
    unread: dict[str, pa.DataType] = {}
    while (name := unknown_relation(text, catalog)) is not None:
        is_stream = not catalog.streams
        if not is_stream and data.find(name) is None:
            break
        rows = data.columns_of(name, is_stream=is_stream)
        unread |= unread_columns(rows)
        if is_stream:
            catalog = declare_stream(catalog, name, rows, event_time, "name the one to use: --event-time COLUMN")
        else:
            catalog = declare_table(catalog, name, rows)
    return catalog, unread
