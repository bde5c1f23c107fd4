"""CSV written such that reading it gives back the same texts."""

from __future__ import annotations

import contextlib
import re
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinify_lite.cells.numerals import fixed
from twinify_lite.errors import TableError
from twinify_lite.table.csv_notes import decimals_of
from twinify_lite.table.csv_style import SEPARATORS, CsvStyle

_WRITE_BYTES = 8 << 20
_TEXT = pa.large_string()


class CsvWriter:
    """Write tables as CSV to `file`: one header, quotes only where they are needed, a missing cell as nothing.

    Numbers of which `schema` notes the decimals have all of these. Formal guarantee: `read_csv` gives back the same
    texts, and guesses the separator rightly.
    """

    def __init__(self, file: BinaryIO, schema: pa.Schema, style: CsvStyle):
        self._file, self._style = file, style
        self._decimals = decimals_of(schema)
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
            cells = [self._quoted(self._text(name, batch[name])) for name in batch.schema.names]
            lines = pc.binary_join_element_wise(
                *cells, pa.scalar(self._style.separator, _TEXT), null_handling="replace", null_replacement=""
            )
            self._put(_data(pc.binary_join_element_wise(lines, pa.scalar("", _TEXT), pa.scalar("\n", _TEXT))))

    def close(self) -> None:
        """Nothing is left to write."""

    def _text(self, name: str, column: pa.Array) -> pa.Array:
        text = (_fixed(column, self._decimals[name]) if name in self._decimals else column).cast(_TEXT)
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


def _fixed(column: pa.Array, decimals: int) -> pa.Array:
    missing = column.is_null().to_numpy(zero_copy_only=False)
    return fixed(column.to_numpy(zero_copy_only=False), missing, decimals)


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
