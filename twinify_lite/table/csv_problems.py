"""What is wrong with a CSV file, by its lines, and never by a cell."""

from __future__ import annotations

from typing import BinaryIO

from twinify_lite.table.csv_records import LINE_END, LONGEST_LINE, Record, records
from twinify_lite.table.csv_style import CsvStyle


def find_problem(stream: BinaryIO, style: CsvStyle, width: int) -> str | None:
    """The first row with something wrong, by its line; None when all have `width` sound cells. Never shows a cell."""
    for number, record in enumerate(records(stream, style.separator)):
        if problem := record_problem(record, style.encoding, width if number else None):
            return problem
    return None


def record_problem(record: Record, encoding: str, width: int | None) -> str | None:
    """What is wrong with one row, and its line, or None. `width` is the number of cells it should have."""
    if "\0" in record.text:
        line = record.line + len(LINE_END.findall(record.text[: record.text.index("\0")]))
        return f"line {line} has a NUL byte. The file is damaged, or is not text in UTF-8: save it again as UTF-8."
    if record.end == "too long":
        return (
            f"line {record.last} is longer than {LONGEST_LINE >> 20} MiB. Repair it, if a line end or a quote is "
            "missing, or save the table as Parquet."
        )
    if record.end == "unclosed":
        return (
            f"the row that starts in line {record.line} opens a quote that is never closed. Close it, or double the "
            'quotes that belong to the cell ("").'
        )
    try:
        record.text.encode("latin-1").decode(encoding)
    except UnicodeDecodeError as error:
        line = record.line + len(LINE_END.findall(record.text[: error.start]))
        fix = '--encoding latin-1 (`encoding="latin-1"`)'
        if encoding == "utf-8":
            fix += ", or --encoding cp1252 if it comes from Windows"
        return f"line {line} is not valid {encoding}. Name its encoding: {fix}."
    if width is not None and record.cells != width:
        return (
            f"the row that starts in line {record.line} has {record.cells} cells, and the header has {width}. Quote "
            "cells that contain separators, or name another separator: --separator ';' (`separator=\";\"`)."
        )
    return None
