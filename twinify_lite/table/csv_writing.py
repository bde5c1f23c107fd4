"""CSV written such that reading it gives back the same texts."""

from __future__ import annotations

import contextlib
import re
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinify_lite.errors import TableError
from twinify_lite.table.csv_notes import decimals_of, units_of
from twinify_lite.table.csv_parts import TEXT, Part, always, changed, joined, looked_up, pointed, whole
from twinify_lite.table.csv_style import SEPARATORS, CsvStyle

_WRITE_BYTES = 16 << 20


class CsvWriter:
    """Write tables as CSV to `file`: one header, quotes only where they are needed, a missing cell as nothing.

    Numbers of which `schema` notes the decimals have all of these, and times of which it notes the unit no finer one.
    Formal guarantee: `read_csv` gives back the same texts, and guesses the separator rightly.
    """

    def __init__(self, file: BinaryIO, schema: pa.Schema, style: CsvStyle):
        self._file, self._style = file, style
        self._decimals, self._units = decimals_of(schema), units_of(schema)
        self._alone = len(schema) == 1
        # Other separators in the header, or in an only column, would mislead whoever guesses the separator.
        self._special = "".join(SEPARATORS) + '"\r\n' if self._alone else style.separator + '"\r\n'
        header = style.separator.join(self._quoted_name(name) for name in schema.names)
        self._put(pa.py_buffer(f"{header}\n".encode()))

    @staticmethod
    def _quoted_name(name: str) -> str:
        # A first letter beyond ASCII could be taken for a byte order mark.
        plain = name[:1].isascii() and not re.search('[,;\t|"\r\n]', name)
        return name if plain else '"' + name.replace('"', '""') + '"'

    def write(self, table: pa.Table) -> None:
        """Append the rows of `table`, a few megabytes at a time."""
        rows = max(1, _WRITE_BYTES * table.num_rows // max(1, table.nbytes))
        for batch in table.to_batches(max_chunksize=min(rows, 1 << 16)):
            marks = [always(self._style.separator)] * (batch.num_columns - 1) + [always("\n")]
            cells = [self._parts(name, batch[name]) for name in batch.schema.names]
            parts = [part for column, mark in zip(cells, marks, strict=True) for part in (*column, mark)]
            self._put(_data(joined(parts)))

    def close(self) -> None:
        """Nothing is left to write."""

    def _parts(self, name: str, column: pa.Array) -> list[Part]:
        """The column's cells, which together are one text in each row."""
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        has_point = pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        is_digits = not self._alone and (pa.types.is_integer(kind) or pa.types.is_date32(kind) or has_point)
        # Digits alone are never quoted. A comma in them may be, and then they are one text.
        is_digits &= not has_point or self._style.decimal not in self._special
        if pa.types.is_dictionary(column.type):
            parts = [looked_up(column)]
        elif pa.types.is_integer(kind) or pa.types.is_date32(kind):
            parts = [whole(column)]
        elif name in self._decimals:
            parts = pointed(column, self._decimals[name], apart=is_digits)
        else:
            parts = [column.cast(self._units.get(name, column.type), safe=False).cast(TEXT)]
        if self._style.decimal == "," and has_point:
            parts = [changed(part, lambda text: pc.replace_substring(text, ".", ",")) for part in parts]
        return parts if is_digits else [changed(part, self._quoted) for part in parts]

    def _quoted(self, text: pa.Array) -> pa.Array:
        data = _data(text).to_pybytes()
        if b"\0" in data:
            raise TableError("A text has a NUL byte, which CSV cannot hold. Write a .parquet file.")
        if any(mark.encode() in data for mark in self._special):
            doubled = pc.replace_substring(text, '"', '""')
            mark, nothing = pa.scalar('"', TEXT), pa.scalar("", TEXT)
            special = pc.match_substring_regex(text, f"[{self._special}]")
            text = pc.if_else(special, pc.binary_join_element_wise(mark, doubled, mark, nothing), text)
        if self._alone:  # a line with nothing on it is no row
            text = pc.fill_null(text, "")
            text = pc.if_else(pc.equal(text, ""), '""', text)
        return text

    def _put(self, data: pa.Buffer) -> None:
        encoding = self._style.encoding
        self._file.write(data if encoding == "utf-8" else _encoded(data.to_pybytes(), encoding))


def _encoded(data: bytes, encoding: str) -> bytes:
    with contextlib.suppress(UnicodeEncodeError):
        return data.decode().encode(encoding)
    raise TableError(f"A text has letters that {encoding} lacks. Write it in UTF-8: --encoding utf-8.")


def _data(text: pa.Array) -> pa.Buffer:
    """The bytes of all cells of a large_string array, one after the other."""
    _, offsets, data = text.buffers()
    if data is None or len(text) == 0:
        return pa.py_buffer(b"")
    edges = np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1]
    return data.slice(int(edges[0]), int(edges[-1] - edges[0]))
