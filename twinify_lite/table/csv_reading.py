"""CSV as text: every cell is kept as it stands, and a bad file is explained by its lines, never by a cell.

Arrow reads and is fast, but its errors quote cells. So they are dropped, and `find_problem` reads the file a second
time, slowly and in bounded memory, to say which line is wrong and why.
"""

from __future__ import annotations

import codecs
import dataclasses
import io
import itertools
from collections.abc import Callable
from typing import BinaryIO, NamedTuple

import pyarrow as pa
from pyarrow import csv

from twinify_lite.errors import TableError
from twinify_lite.table.columns import name_problems
from twinify_lite.table.csv_problems import find_problem, record_problem
from twinify_lite.table.csv_records import EXCEL_LINE, LONGEST_LINE, Record, has_stray_quote, records, split
from twinify_lite.table.csv_style import SEPARATORS, CsvStyle

_BLOCK = 1 << 20
_SAMPLE_BYTES, _SAMPLE_ROWS = 1 << 16, 50


def read_csv(
    opened: Callable[[], BinaryIO], name: str, *, separator: str | None, decimal: str, encoding: str
) -> tuple[pa.Table, CsvStyle]:
    """The rows as text and the style of a file that `opened()` opens, as often as it is called.

    Every cell is the text that stands in the file; an empty cell is missing. Lines without any text are left out.
    """
    style = CsvStyle(separator or ",", decimal, encoding)
    wanted = style.separator if separator else None
    with opened() as stream:
        start = _read_start(stream, name, wanted, style)
        table = _parse(stream, start, _BLOCK)
    if table is None:
        with opened() as stream:
            problem = find_problem(stream, start.style, len(start.names))
        if problem:
            raise TableError(f"{name}: {problem}")
        # Nothing is wrong, so that a row was longer than a block.
        with opened() as stream:
            start = _read_start(stream, name, wanted, style)
            table = _parse(stream, start, 2 * LONGEST_LINE + 2)
    if table is None:
        raise TableError(f"{name} cannot be read as CSV. Save it again, with quotes around every text, or as Parquet.")
    if table.num_rows == 0:
        raise TableError(f"{name} has a header and no rows. Give a file with at least one row.")
    return table, start.style


class _Start(NamedTuple):
    """The header of a file, and the bytes that were read beyond it."""

    names: list[str]
    style: CsvStyle
    head: bytes


def _read_start(stream: BinaryIO, name: str, separator: str | None, style: CsvStyle) -> _Start:
    """Read the header, and as many rows as it takes to guess the separator."""
    sample, size = b"", _SAMPLE_BYTES
    while True:
        sample += stream.read(size - len(sample))
        whole = len(sample) < size
        text = sample.removeprefix(codecs.BOM_UTF8)
        if len(text) < len(sample):
            style = dataclasses.replace(style, encoding="utf-8")
        if wide := _utf16(sample):
            raise TableError(f"{name} is in UTF-16. Save it in UTF-8, e.g. `iconv -f {wide} -t UTF-8`.")
        guess = separator or _told_separator(text) or guess_separator(text, whole=whole, decimal=style.decimal)
        header = next(records(io.BytesIO(text), guess), None)
        if header is None:
            if whole or size > LONGEST_LINE:
                raise TableError(f"{name} is empty. The first line must name the columns.")
        elif whole or header.start + len(header.text) < len(text) or "\0" in header.text or size > LONGEST_LINE:
            break
        size = min(4 * size, LONGEST_LINE + 2)
    problem = record_problem(header, style.encoding, None)
    if problem:
        raise TableError(f"{name}: {problem}")
    names = split(header.text.encode("latin-1").decode(style.encoding), guess)
    problems = name_problems(names)
    if problems:
        raise TableError("\n".join(f"{name}: {problem}" for problem in problems))
    return _Start(names, dataclasses.replace(style, separator=guess), text[header.start + len(header.text) :])


def _utf16(sample: bytes) -> str | None:
    """The name of UTF-16, with its mark or by zeros in every other place; None if the bytes are something else."""
    if sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "UTF-16"
    even, odd = sample[:1000:2], sample[1:1000:2]
    for name, zeros, letters in (("UTF-16LE", odd, even), ("UTF-16BE", even, odd)):
        if 2 * zeros.count(0) > len(zeros) and not letters.count(0):
            return name
    return None


def _told_separator(sample: bytes) -> str | None:
    """The separator in a first line such as sep=; if there is one."""
    told = EXCEL_LINE.match(sample[:10].decode("latin-1"))
    return told and told[1]


def guess_separator(sample: bytes, *, whole: bool, decimal: str = ".") -> str:
    """The separator that cuts the header into cells and the first rows into as many.

    `whole` says that `sample` is the whole file. A header without separators makes a table of one column.
    """
    samples = {separator: _sample_records(sample, separator, whole) for separator in SEPARATORS}
    widths = {separator: _widths(found) for separator, found in samples.items()}

    def agreement(separator: str) -> tuple[float, bool, int]:
        header, *rows = widths[separator]
        agreeing = sum(width == header for width in rows) / max(1, len(rows))
        return agreeing, not has_stray_quote(samples[separator][0].text, separator), header

    several = [separator for separator, (header, *_) in widths.items() if header > 1]
    if several:
        return max(several, key=agreement)
    order = [*SEPARATORS] if decimal == "." else [";", "\t", "|"]
    # Rows that all have the same number of cells, under a header of one: that is refused later, and not read as one.
    table = [mark for mark in order if len(set(widths[mark][1:])) == 1 and widths[mark][1] > 1]
    absent = [mark for mark in order if set(widths[mark]) == {1}]
    return [*table, *absent, order[0]][0]


def _sample_records(sample: bytes, separator: str, whole: bool) -> list[Record]:
    found = list(itertools.islice(records(io.BytesIO(sample), separator), _SAMPLE_ROWS))
    if not whole and len(found) > 1:
        found.pop()  # it may be cut
    return found


def _widths(found: list[Record]) -> list[int]:
    """The cells of the header and of each row; 1 if there is no header."""
    # A row whose quote is never closed agrees with no header: with another separator it may be no quote.
    widths = [record.cells if record.end == "complete" else 0 for record in found[1:]]
    return [found[0].cells, *widths] if found else [1]


def _parse(stream: BinaryIO, start: _Start, block: int) -> pa.Table | None:
    """The rows after the header, or None when anything is wrong with them."""
    names, style, head = start
    try:
        table = csv.read_csv(
            pa.PythonFile(_Rows(head, stream, style=style, width=len(names)), mode="r"),
            read_options=csv.ReadOptions(column_names=names, block_size=block, encoding=style.encoding),
            parse_options=csv.ParseOptions(delimiter=style.separator, newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
            ),
        )
    except MemoryError:
        raise
    except Exception:  # whatever it is, its message may quote a cell
        return None
    mark = table.slice(max(0, table.num_rows - 1))
    return table.slice(0, table.num_rows - 1) if all(column.null_count == 1 for column in mark.columns) else None


class _Rows:
    """What Arrow reads: the bytes after the header, then a row of empty cells. It stops at a NUL byte.

    Arrow takes a quote that is never closed for a cell that reaches to the end of the file. The row of empty cells then
    ends up inside that cell, which `_parse` sees.
    """

    closed = False

    def __init__(self, head: bytes, stream: BinaryIO, *, style: CsvStyle, width: int):
        # Arrow takes a byte order mark off the first block: a blank line before it keeps the cells as they stand.
        self._head = b"\n" + head
        self._stream = stream
        self._mark = b"\n" + (style.separator.encode() * (width - 1) or b'""') + b"\n"

    def read(self, size: int) -> bytes:
        data = self._head + self._stream.read(size - len(self._head)) if self._head else self._stream.read(size)
        self._head = b""
        if b"\0" in data:
            raise ValueError("NUL")
        if not data:
            data, self._mark = self._mark, b""
        return data
