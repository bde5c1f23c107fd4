"""Files read whole, whatever their format, or refused by their lines and columns, never by a cell."""

from __future__ import annotations

import contextlib
import gzip
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
from pyarrow import parquet

from twinify_lite.table.columns import check_columns
from twinify_lite.table.csv_reading import read_csv
from twinify_lite.table.csv_style import CsvStyle
from twinify_lite.table.formats import Format, source_format
from twinify_lite.table.guard import guarded
from twinify_lite.table.origin import Origin, open_origin
from twinify_lite.table.private import PrivateTable

if TYPE_CHECKING:
    import pandas as pd

_GZIP = b"\x1f\x8b"


def read_table(
    source: str | os.PathLike[str] | pd.DataFrame | pa.Table | PrivateTable,
    *,
    separator: str | None = None,
    decimal: str = ".",
    encoding: str = "utf-8",
    format: Format | None = None,
) -> PrivateTable:
    """Read a CSV, Parquet or Feather file, "-" for stdin, or take a DataFrame or an Arrow table.

    The format follows from the extension or from the first bytes, and gzip is unpacked. The separator of a CSV file is
    guessed unless it is given, or told to Excel in a first line such as sep=; which is skipped. `decimal` is noted in
    the table's `style` for whoever parses its numbers; a byte order mark outdoes `encoding`. The cells of a CSV file
    stay the texts that they are, an empty cell is missing, and lines with nothing on them are left out. The index of a
    DataFrame is left out too: call `frame.reset_index()` to keep it.

    Formal guarantee: a file that cannot be read raises a `TableError` that names the file, and the line or the column,
    and shows no cell, neither in its message nor in an error chained to it.
    """
    if isinstance(source, PrivateTable):
        return source
    if not isinstance(source, str | os.PathLike):
        return PrivateTable(source)
    CsvStyle(separator or ",", decimal, encoding)
    with open_origin(source) as origin:
        first = guarded(origin.first_bytes, f"{origin.name} cannot be read.")
        kind = source_format(origin.name, first, format)
        if kind not in ("csv", "tsv"):
            return PrivateTable(_read_binary(origin, kind, first), name=origin.name)
        if kind == "tsv" and separator is None:
            separator = "\t"
        rows, style = _read_text(origin, first, separator=separator, decimal=decimal, encoding=encoding)
        return PrivateTable(rows, style=style, name=origin.name)


def _read_text(origin: Origin, first: bytes, **style: Any) -> tuple[pa.Table, CsvStyle]:
    opened, problem = origin.opened, f"{origin.name} cannot be read."
    if first.startswith(_GZIP):
        opened, problem = _unpacking(opened), f"{origin.name} is a gzip file that is damaged or cut off. Copy it again."
    return guarded(lambda: read_csv(opened, origin.name, **style), problem)


def _unpacking(opened: Callable[[], BinaryIO]) -> Callable[[], BinaryIO]:
    @contextlib.contextmanager
    def unpacked() -> Iterator[BinaryIO]:
        with opened() as packed, gzip.GzipFile(fileobj=packed, mode="rb") as stream:
            yield stream

    return unpacked


def _read_binary(origin: Origin, kind: str, first: bytes) -> pa.Table:
    """Read Parquet or Feather. The types are checked before the rows are read."""
    problem = (
        f"{origin.name} is not a whole {kind.capitalize()} file: it is damaged, cut off, encrypted or something else. "
        'Write it again, or name its format: --format csv (`format="csv"`).'
    )

    def read() -> pa.Table:
        with origin.for_arrow() as source:
            if kind == "parquet":
                file = parquet.ParquetFile(source)
                schema, rest = file.schema_arrow, file.read
            else:
                is_file = first.startswith(b"ARROW1")
                reader = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
                schema, rest = reader.schema, reader.read_all
            check_columns(schema, origin.name)
            return rest()

    return guarded(read, problem)
