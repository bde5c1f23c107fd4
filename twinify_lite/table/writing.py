"""Files written whole or not at all, whatever their format."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import gzip
import io
import itertools
import os
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
from pyarrow import parquet

from twinify_lite.errors import TableError
from twinify_lite.table.columns import check_columns
from twinify_lite.table.csv_notes import style_of, with_style, without_notes
from twinify_lite.table.csv_style import CsvStyle
from twinify_lite.table.csv_writing import CsvWriter
from twinify_lite.table.formats import Format, target_format
from twinify_lite.table.frames import as_arrow, is_frame, without_pandas_index
from twinify_lite.table.guard import FIXES, guarded
from twinify_lite.table.private import PrivateTable

if TYPE_CHECKING:
    import pandas as pd

Rows = pa.Table | pa.RecordBatch


def write_table(
    table: pa.Table | pd.DataFrame | PrivateTable | Iterable[Rows],
    target: str | os.PathLike[str],
    *,
    style: CsvStyle | None = None,
    format: Format | None = None,
) -> None:
    """Write a table, or chunks of one as they come, to a CSV, Parquet or Feather file, or to "-" for stdout.

    The format follows from the extension (.csv and .tsv also with .gz), or is `format`. `style` is for CSV: by default
    that of a `PrivateTable`, or of the schema that `decode` had, whose decimals numbers then have too; else commas,
    decimal points and UTF-8. A .tsv file always has tabs. Of chunks, the first tells. A missing cell is empty, and so
    is an empty text.

    Formal guarantee: the file is whole or, after any error, as it was before. `read_table` gives back an equal table;
    from CSV, its texts.
    """
    name = "stdout" if target == "-" else os.fspath(target)
    kind, packed = target_format(name, format)
    chunks = _chunks(table, name, keep_dictionaries=kind != "feather")
    first = next(chunks, None)
    if first is None:
        raise TableError(f"There is nothing to write to {name}: not one chunk came. Give a table with its columns.")
    check_columns(first.schema, name)
    style = _style(style or (table.style if isinstance(table, PrivateTable) else None), first.schema, kind)
    with _target(target) as file:
        _write_all(_Sink(file), itertools.chain([first], chunks), kind=kind, packed=packed, style=style, name=name)


def size_of(rows: Rows, target: str | os.PathLike[str], *, format: Format | None = None) -> int:
    """How many bytes `write_table` would write of `rows` to a file of this name."""
    name, file = os.fspath(target), io.BytesIO()
    kind, packed = target_format(name, format)
    (whole,) = _chunks([rows], name, keep_dictionaries=kind != "feather")
    style = _style(None, whole.schema, kind)
    _write_all(_Sink(file), iter([whole]), kind=kind, packed=packed, style=style, name=name)
    return file.tell()


def _style(given: CsvStyle | None, schema: pa.Schema, kind: str) -> CsvStyle:
    style = given or style_of(schema) or CsvStyle()
    return dataclasses.replace(style, separator="\t") if kind == "tsv" else style


def _chunks(table: Any, name: str, *, keep_dictionaries: bool) -> Iterator[pa.Table]:
    """Tables of one schema, with no notes but ours, and with the first one's types."""
    if isinstance(table, PrivateTable):
        table = table.reveal()
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if isinstance(table, pa.Table) or is_frame(table):
        yield _plain(table, name).unify_dictionaries()
        return
    schema = None
    for chunk in table if isinstance(table, Iterable) else [table]:
        rows = _plain(pa.Table.from_batches([chunk]) if isinstance(chunk, pa.RecordBatch) else chunk, name)
        if not keep_dictionaries:  # a Feather file holds one dictionary a column, and the next chunk may have another
            rows = rows.cast(_without_dictionaries(rows.schema))
        schema = schema or rows.schema
        if rows.schema.names != schema.names:
            raise TableError(f"{name}: the chunks to write have different columns. Give all of them the same ones.")
        same = functools.partial(rows.cast, schema)
        yield guarded(same, f"{name}: the chunks to write have different types. Give all of them the same ones.")


def _plain(rows: Any, name: str) -> pa.Table:
    table = as_arrow(rows, name)
    return with_style(without_pandas_index(table), style_of(table.schema))


def _without_dictionaries(schema: pa.Schema) -> pa.Schema:
    plain = (f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in schema)
    return pa.schema(plain)


@contextlib.contextmanager
def _target(target: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    if target != "-":
        with replacing(target) as file:
            yield file
        return
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()


def _write_all(sink: _Sink, chunks: Iterator[pa.Table], *, kind: str, packed: bool, style: CsvStyle, name: str) -> None:
    problem = f"{name} cannot be written."
    writer = None
    try:
        # No name and no time in the gzip header: the same table gives the same bytes.
        file = gzip.GzipFile("", "wb", compresslevel=6, fileobj=sink, mtime=0) if packed else sink
        for chunk in chunks:
            if writer is None:
                start = functools.partial(CsvWriter, file, chunk.schema, style)
                if kind not in ("csv", "tsv"):
                    start = functools.partial(_ArrowWriter, file, chunk.schema, kind)
                writer = guarded(start, problem)
            guarded(functools.partial(writer.write, chunk), problem)
        guarded(writer.close, problem)
        if packed:
            guarded(file.close, problem)
    except BaseException:
        # Arrow's writers and gzip finish their file when they are thrown away: it must not look whole.
        sink.stopped = True
        raise


class _Sink:
    """A file for Arrow to write to, which need not tell its position (stdout), and which can be stopped for good."""

    closed = False

    def __init__(self, file: BinaryIO):
        self._file, self._position, self.stopped = file, 0, False

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if not self.stopped:
            self._file.write(data)
            self._position += size
        return size

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """The file is flushed when it is closed."""

    def close(self) -> None:
        """The file belongs to whoever opened it."""


class _ArrowWriter:
    """Write tables as Parquet or Feather to `file`."""

    def __init__(self, file: _Sink, schema: pa.Schema, kind: str):
        make = parquet.ParquetWriter if kind == "parquet" else pa.ipc.new_file
        self._schema = without_notes(schema)
        self._writer = make(pa.PythonFile(file, mode="w"), self._schema)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(pa.Table.from_arrays(table.columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file that becomes `path` when the block ends well.

    Formal guarantee: on any error the old file stays as it was, and nothing is left beside it. A new file gets the
    permissions that the umask allows, and a replaced one keeps its own. A pipe or device is written to directly.
    """
    name = os.fspath(path)
    target = os.path.realpath(name)  # a link stays, and the file that it points to is replaced
    folder = os.path.dirname(target)
    problem = f"{name} cannot be written."
    if os.path.isdir(target):
        raise TableError(f"{name} is a folder. Give the name of a file in it.")
    if not os.path.isdir(folder):
        raise TableError(f"{problem} There is no folder {folder}: make it first.")
    old = os.stat(target).st_mode if os.path.exists(target) else None
    if old is not None and not stat.S_ISREG(old):
        with _closing(guarded(lambda: open(target, "wb"), problem), problem) as file:
            yield file
        return
    if old is not None and not os.access(target, os.W_OK):
        raise TableError(f"{problem} {FIXES[errno.EACCES]}")
    # Not by `tempfile`, whose files are for their owner only, whatever the umask says.
    beside = os.path.join(folder, f".twin-{secrets.token_hex(8)}.tmp")
    mode = 0o666 if old is None else stat.S_IMODE(old)
    try:
        make = functools.partial(open, beside, "xb", opener=lambda *where: os.open(*where, mode))
        with _closing(guarded(make, problem), problem) as file:
            yield file
            guarded(lambda: _settle(file), problem)
        if old is not None:
            os.chmod(beside, mode)
        guarded(lambda: os.replace(beside, target), problem)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside)
        raise


@contextlib.contextmanager
def _closing(file: BinaryIO, problem: str) -> Iterator[BinaryIO]:
    try:
        yield file
    except BaseException:
        with contextlib.suppress(OSError):  # a full disk is full for the last bytes as well
            file.close()
        raise
    guarded(file.close, problem)


def _settle(file: BinaryIO) -> None:
    """See to it that the bytes are on the disk before the old file is given up."""
    file.flush()
    os.fsync(file.fileno())
