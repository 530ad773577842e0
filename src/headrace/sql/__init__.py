"""The query language: text to values (`parse_script`, `parse_query`) and back (`format_query`, `digest`)."""

from headrace.sql.ddl import format_stream, format_table
from headrace.sql.printer import digest, format_query, format_window
from headrace.sql.script import (
    NamedQuery,
    Script,
    ScriptReader,
    parse_next,
    parse_query,
    parse_script,
    unknown_relation,
)

__all__ = [
    "NamedQuery",
    "Script",
    "ScriptReader",
    "digest",
    "format_query",
    "format_stream",
    "format_table",
    "format_window",
    "parse_next",
    "parse_query",
    "parse_script",
    "unknown_relation",
]
