"""Files as input: listed by the driver, cut into units, read by tasks. One parser per format; no Java here."""

from headrace.inputs.file_list import list_files
from headrace.inputs.footers import FooterReader
from headrace.inputs.readers import choose_unit_bytes, cut, cut_units, one_file, read, read_file, read_table
from headrace.inputs.source import BadFile, InputRows, Source

__all__ = [
    "BadFile",
    "FooterReader",
    "InputRows",
    "Source",
    "choose_unit_bytes",
    "cut",
    "cut_units",
    "list_files",
    "one_file",
    "read",
    "read_file",
    "read_table",
]
