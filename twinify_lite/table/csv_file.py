"""CSV as text: every cell is kept as it stands, and a bad file is explained by its lines, never by a cell.

Arrow reads and is fast, but its errors quote cells. So they are dropped, and `find_problem` reads the file a second
time, slowly and in bounded memory, to say which line is wrong and why.
"""

from __future__ import annotations

import codecs
import contextlib
import dataclasses
import functools
import io
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from twinify_lite.errors import TableError

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}
DECIMALS = (".", ",")
ENCODINGS = ("utf-8", "latin-1", "cp1252")
#: Bytes of the longest line, so that a file without line ends is refused before it fills the memory.
LONGEST_LINE = 16 << 20

_BLOCK = 1 << 20
_SAMPLE_BYTES, _SAMPLE_ROWS = 1 << 16, 50
_WRITE_BYTES = 8 << 20
_LINE_END = re.compile("\r\n|\r|\n")
# The rest of a quoted cell up to the quote that closes it; doubled quotes belong to the cell.
_CLOSING = re.compile('[^"]*+(?:""[^"]*+)*+"')
_TEXT = pa.large_string()


@dataclasses.dataclass(frozen=True)
class CsvStyle:
    """How a CSV file is written: its separator, its decimal mark and its encoding. Checked when it is made."""

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"

    def __post_init__(self) -> None:
        object.__setattr__(self, "separator", {"tab": "\t", "\\t": "\t"}.get(self.separator, self.separator))
        object.__setattr__(self, "encoding", _known_encoding(self.encoding))
        problems = []
        if self.separator not in SEPARATORS:
            allowed = ", ".join(f"{mark!r} ({name})" for mark, name in SEPARATORS.items())
            problems.append(f"The separator must be one of {allowed}: --separator ';' (`separator=\";\"`).")
        if self.decimal not in DECIMALS:
            problems.append("The decimal mark must be '.' or ',': --decimal ',' (`decimal=\",\"`).")
        if self.encoding not in ENCODINGS:
            problems.append(f"The encoding must be one of {', '.join(ENCODINGS)}: --encoding latin-1.")
        if problems:
            raise TableError("\n".join(problems))


def _known_encoding(name: str) -> str:
    try:
        found = codecs.lookup(name).name
    except (LookupError, TypeError):
        return name
    return {"iso8859-1": "latin-1", "utf-8-sig": "utf-8"}.get(found, found)


def name_problems(names: Sequence[str]) -> list[str]:
    """What is wrong with these column names: blank ones by position, and those that occur twice."""
    problems = []
    blank = [number for number, name in enumerate(names, 1) if not name.strip()]
    if blank:
        fix = "Name every column in the header"
        if blank == [1]:
            fix += "; if it is the index that pandas wrote, write the file with `to_csv(index=False)`"
        elif blank == [len(names)]:
            fix += "; if every line ends with a separator, remove it from every line"
        which = f"Column {blank[0]} of {len(names)} has" if len(blank) == 1 else f"Columns {_listed(blank)} have"
        problems.append(f"{which} no name. {fix}.")
    twice = [name for name, times in Counter(names).items() if times > 1 and name.strip()]
    # A name that is a number hints at a file without a header, whose "names" are the cells of its first row.
    headless = any(_is_number(name) for name in names)
    for name in twice[:10]:
        places = _listed([number for number, other in enumerate(names, 1) if other == name])
        called = "the same" if headless else repr(name)
        hint = " If the first line is a row and not a header, put a header above it." if headless else ""
        problems.append(f"Columns {places} have {called} as their name. Rename all but one.{hint}")
    return problems


def _listed(numbers: Sequence[int]) -> str:
    shown = [str(number) for number in numbers[:10]] + (["..."] if len(numbers) > 10 else [])
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]


def _is_number(text: str) -> bool:
    try:
        float(text.replace(",", "."))
    except ValueError:
        return False
    return True


class Record(NamedTuple):
    """One row of a file, from `line` to line `last`, and from byte `start`; `text` holds its bytes as latin-1."""

    line: int
    last: int
    start: int
    text: str
    cells: int
    end: Literal["complete", "unclosed", "too long"]


def records(stream: BinaryIO, separator: str) -> Iterator[Record]:
    """The rows of `stream`, blank lines left out, by the same rules as Arrow's reader and in bounded memory.

    Formal guarantee: `line` counts physical lines from 1, ended by LF, CR or CRLF, those inside quotes too. After a
    record that is not complete there is no other.
    """
    lines = io.TextIOWrapper(stream, encoding="latin-1", newline="")
    try:
        yield from _records(functools.partial(lines.readline, LONGEST_LINE + 1), separator)
    finally:
        lines.detach()  # the stream is closed by whoever opened it


def _records(next_line: Callable[[], str], separator: str) -> Iterator[Record]:
    line, start, end = 0, 0, "complete"
    while end == "complete" and (text := next_line()):
        line += 1
        first, pieces, size, longest = line, [text], len(text), len(text)
        separators, is_open = _scan(text, separator, is_open=False)
        while is_open and size <= LONGEST_LINE and (text := next_line()):
            line += 1
            pieces.append(text)
            size, longest = size + len(text), max(longest, len(text))
            more, is_open = _scan(text, separator, is_open=True)
            separators += more
        end = "too long" if longest > LONGEST_LINE else "unclosed" if is_open else "complete"
        if len(pieces) > 1 or not _LINE_END.fullmatch(pieces[0]):
            yield Record(first, line, start, "".join(pieces), separators + 1, end)
        start += size


def _scan(text: str, separator: str, *, is_open: bool) -> tuple[int, bool]:
    """The separators of `text` outside quotes, and whether it ends in a quoted cell (`is_open`: it starts in one)."""
    found, at = 0, 0
    if not is_open:
        text, found = separator + text, -1  # so that the first cell, too, follows a separator
    while True:
        if is_open:
            close = _CLOSING.match(text, at)
            if close is None:
                return found, True
            at = close.end()
        # Only a quote right after a separator opens a cell; any other is an ordinary character.
        opening = text.find(separator + '"', at)
        if opening < 0:
            return found + text.count(separator, at), False
        found += text.count(separator, at, opening + 1)
        at, is_open = opening + 2, True


def _split(text: str, separator: str) -> list[str]:
    """The cells of one complete record."""
    text = re.sub("(\r\n|\r|\n)\\Z", "", text)
    cells, at = [], 0
    while True:
        cell = ""
        if text.startswith('"', at) and (close := _CLOSING.match(text, at + 1)):
            cell, at = close.group()[:-1].replace('""', '"'), close.end()
        end = text.find(separator, at)
        cells.append(cell + text[at : end if end >= 0 else len(text)])
        if end < 0:
            return cells
        at = end + 1


def _record_problem(record: Record, encoding: str, width: int | None) -> str | None:
    """What is wrong with one row, and its line, or None. `width` is the number of cells it should have."""
    if "\0" in record.text:
        line = record.line + len(_LINE_END.findall(record.text[: record.text.index("\0")]))
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
        line = record.line + len(_LINE_END.findall(record.text[: error.start]))
        other = "latin-1" if encoding != "latin-1" else "utf-8"
        return f'line {line} is not valid {encoding}. Name its encoding: --encoding {other} (`encoding="{other}"`).'
    if width is not None and record.cells != width:
        return (
            f"the row that starts in line {record.line} has {record.cells} cells, and the header has {width}. Quote "
            "cells that contain separators, or name another separator: --separator ';' (`separator=\";\"`)."
        )
    return None


def find_problem(stream: BinaryIO, style: CsvStyle, width: int) -> str | None:
    """The first row with something wrong, by its line; None when all have `width` sound cells. Never shows a cell."""
    for number, record in enumerate(records(stream, style.separator)):
        if problem := _record_problem(record, style.encoding, width if number else None):
            return problem
    return None


def guess_separator(sample: bytes, *, whole: bool, decimal: str = ".") -> str:
    """The separator that cuts the header into cells and the first rows into as many.

    `whole` says that `sample` is the whole file. A header without separators makes a table of one column.
    """
    widths = {separator: _sample_widths(sample, separator, whole) for separator in SEPARATORS}

    def agreement(separator: str) -> tuple[float, int]:
        header, *rows = widths[separator]
        return sum(width == header for width in rows) / max(1, len(rows)), header

    several = [separator for separator, (header, *_) in widths.items() if header > 1]
    if several:
        return max(several, key=agreement)
    order = [*SEPARATORS] if decimal == "." else [";", "\t", "|"]
    # Rows that all have the same number of cells, under a header of one: that is refused later, and not read as one.
    table = [mark for mark in order if len(set(widths[mark][1:])) == 1 and widths[mark][1] > 1]
    absent = [mark for mark in order if set(widths[mark]) == {1}]
    return [*table, *absent, order[0]][0]


def _sample_widths(sample: bytes, separator: str, whole: bool) -> list[int]:
    found = list(itertools.islice(records(io.BytesIO(sample), separator), _SAMPLE_ROWS))
    if not whole and len(found) > 1:
        found.pop()  # it may be cut
    return [record.cells for record in found] or [1]


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
        if sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise TableError(f"{name} is in UTF-16. Save it in UTF-8, e.g. `iconv -f UTF-16 -t UTF-8`.")
        guess = separator or guess_separator(text, whole=whole, decimal=style.decimal)
        header = next(records(io.BytesIO(text), guess), None)
        if header is None:
            if whole or size > LONGEST_LINE:
                raise TableError(f"{name} is empty. The first line must name the columns.")
        elif whole or header.start + len(header.text) < len(text) or "\0" in header.text or size > LONGEST_LINE:
            break
        size = min(4 * size, LONGEST_LINE + 2)
    problem = _record_problem(header, style.encoding, None)
    if problem:
        raise TableError(f"{name}: {problem}")
    names = _split(header.text.encode("latin-1").decode(style.encoding), guess)
    problems = name_problems(names)
    if problems:
        raise TableError("\n".join(f"{name}: {problem}" for problem in problems))
    return _Start(names, dataclasses.replace(style, separator=guess), text[header.start + len(header.text) :])


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
    except Exception:  # whatever it is, its message may quote a cell
        return None
    mark = table.slice(max(0, table.num_rows - 1))
    return table.slice(0, table.num_rows - 1) if all(column.null_count == 1 for column in mark.columns) else None


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


class CsvWriter:
    """Write tables as CSV to `file`: one header, quotes only where they are needed, a missing cell as nothing.

    Formal guarantee: `read_csv` gives back the same texts, and guesses the separator rightly.
    """

    def __init__(self, file: BinaryIO, schema: pa.Schema, style: CsvStyle):
        self._file, self._style = file, style
        self._alone = len(schema) == 1
        # Other separators in the header, or in an only column, would mislead whoever guesses the separator.
        self._special = "".join(SEPARATORS) + '"\r\n' if self._alone else style.separator + '"\r\n'
        header = style.separator.join(self._quoted_name(name) for name in schema.names)
        self._put(f"{header}\n".encode())

    @staticmethod
    def _quoted_name(name: str) -> str:
        # A first letter beyond ASCII could be taken for a byte order mark.
        plain = name[:1].isascii() and not re.search('[,;\t|"\r\n]', name)
        return name if plain else '"' + name.replace('"', '""') + '"'

    def write(self, table: pa.Table) -> None:
        """Append the rows of `table`, a few megabytes at a time."""
        rows = max(1, _WRITE_BYTES * table.num_rows // max(1, table.nbytes))
        for batch in table.to_batches(max_chunksize=min(rows, 1 << 16)):
            cells = [self._quoted(self._text(column)) for column in batch.columns]
            lines = pc.binary_join_element_wise(
                *cells, pa.scalar(self._style.separator, _TEXT), null_handling="replace", null_replacement=""
            )
            self._put(_data(pc.binary_join_element_wise(lines, pa.scalar("", _TEXT), pa.scalar("\n", _TEXT))))

    def close(self) -> None:
        """Nothing is left to write."""

    def _text(self, column: pa.Array) -> pa.Array:
        text = column.cast(_TEXT)
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if self._style.decimal == "," and (pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
            text = pc.replace_substring(text, ".", ",")
        return text

    def _quoted(self, text: pa.Array) -> pa.Array:
        data = _data(text)
        if any(mark.encode() in data for mark in self._special):
            doubled = pc.replace_substring(text, '"', '""')
            mark, nothing = pa.scalar('"', _TEXT), pa.scalar("", _TEXT)
            special = pc.match_substring_regex(text, f"[{self._special}]")
            text = pc.if_else(special, pc.binary_join_element_wise(mark, doubled, mark, nothing), text)
        if self._alone:  # a line with nothing on it is no row
            text = pc.fill_null(text, "")
            text = pc.if_else(pc.equal(text, ""), '""', text)
        return text

    def _put(self, data: bytes) -> None:
        if b"\0" in data:
            raise TableError("A text has a NUL byte, which CSV cannot hold. Write a .parquet file.")
        self._file.write(data if self._style.encoding == "utf-8" else _encoded(data, self._style.encoding))


def _encoded(data: bytes, encoding: str) -> bytes:
    with contextlib.suppress(UnicodeEncodeError):
        return data.decode().encode(encoding)
    raise TableError(f"A text has letters that {encoding} lacks. Write it in UTF-8: --encoding utf-8.")


def _data(text: pa.Array) -> bytes:
    """The bytes of all cells of a large_string array, one after the other."""
    _, offsets, data = text.buffers()
    if data is None or len(text) == 0:
        return b""
    edges = np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1]
    return data.slice(int(edges[0]), int(edges[-1] - edges[0])).to_pybytes()
