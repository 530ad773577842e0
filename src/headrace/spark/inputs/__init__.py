"""Files as input: listed by the driver, cut into units, read by tasks. One parser per format; no Java here."""

from headrace.spark.inputs.listing import list_files
from headrace.spark.inputs.reading import cut, read, read_table
from headrace.spark.inputs.units import BadFile, InputFile, Rows, Source, Unit

__all__ = ["BadFile", "InputFile", "Rows", "Source", "Unit", "cut", "list_files", "read", "read_table"]
