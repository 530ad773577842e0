"""Files as input: listed by the driver, cut into units, read by tasks. One parser per format; no Java here."""

from headrace.spark.inputs.listing import list_files
from headrace.spark.inputs.reading import cut, one_file, read, read_file, read_table
from headrace.spark.inputs.units import BadFile, InputFile, Rows, Source, Unit

__all__ = [
    "BadFile",
    "InputFile",
    "Rows",
    "Source",
    "Unit",
    "cut",
    "list_files",
    "one_file",
    "read",
    "read_file",
    "read_table",
]
