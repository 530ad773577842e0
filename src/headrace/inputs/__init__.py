"""Files as input: listed by the driver, cut into units, read by tasks. One parser per format; no Java here."""

from headrace.inputs.file_list import list_files
from headrace.inputs.readers import cut, one_file, read, read_file, read_table
from headrace.inputs.source import BadFile, InputRows, Source

__all__ = [
    "BadFile",
    "InputRows",
    "Source",
    "cut",
    "list_files",
    "one_file",
    "read",
    "read_file",
    "read_table",
]
