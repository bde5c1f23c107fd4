"""Tables in and out: rows that are held and never shown, files that are read whole and written whole or not at all."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import gzip
import html
import io
import itertools
import json
import os
import re
import secrets
import stat
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NoReturn, TypeVar

import pyarrow as pa
from pyarrow import parquet

from twinify_lite.errors import TableError
from twinify_lite.table import csv_file
from twinify_lite.table.csv_file import CsvStyle as CsvStyle

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
Format = Literal["csv", "tsv", "parquet", "feather"]
FORMATS: tuple[str, ...] = ("csv", "tsv", "parquet", "feather")
EXTENSIONS: dict[str, Format] = {
    ".csv": "csv",
    ".txt": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
}
_FIXES = {
    errno.ENOENT: "There is no such file: check the path.",
    errno.EACCES: "You have no permission: ask its owner, or see `ls -l`.",
    errno.ENOSPC: "The disk is full: make room, or write elsewhere.",
}
_GZIP = b"\x1f\x8b"
#: First bytes, and what they say. A text file could begin with PAR1, but not go on with a control character.
_MAGIC = {
    re.compile(rb"PAR[1E][\0-\x08\x0e-\x1f]"): "parquet",
    re.compile(rb"ARROW1\0"): "feather",
    re.compile(rb"PK\x03\x04|\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"): "excel",
}


class PrivateTable:
    """Rows that are held and not shown: not by `repr`, not by a debugger, not in a pickle. Their number is private too.

    `PrivateTable(frame)` takes a pandas DataFrame or a pyarrow Table. The index of a DataFrame is left out: call
    `frame.reset_index()` first if it is a column. `style` is given when the cells are the texts of a CSV file, and
    `name` is what errors call the table.

    >>> PrivateTable(pa.table({"age": [40, 41], "sex": ["f", "m"]}))
    PrivateTable of 2 columns, rows not shown
      age  int64
      sex  string
    """

    __slots__ = ("__weakref__", "_reveal", "_schema", "_style")

    def __init__(self, rows: pa.Table | pd.DataFrame, *, style: CsvStyle | None = None, name: str = "The table"):
        table = _without_pandas_index(_as_arrow(rows, name))
        check_columns(table.schema, name)
        if table.num_rows == 0:
            raise TableError(f"{name} has no rows. Give a table with at least one row.")
        self._schema = table.schema
        self._style = style
        # In a closure and not in an attribute, so that tools which print attributes print no rows.
        self._reveal = lambda: table

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in their order."""
        return tuple(self._schema.names)

    @property
    def types(self) -> dict[str, str]:
        """The type of each column: "text" in a CSV file, else Arrow's name for it, such as "int64"."""
        return {field.name: _type_name(field.type) if self._style is None else "text" for field in self._schema}

    @property
    def style(self) -> CsvStyle | None:
        """How the CSV file was written that the table comes from; None if it comes from anything else."""
        return self._style

    def reveal(self) -> pa.Table:
        """The rows themselves. For code inside the privacy boundary: what it returns may reach nobody without noise."""
        return self._reveal()

    def __repr__(self) -> str:
        shown = [(n if n.isprintable() and n == n.strip() else repr(n), t) for n, t in self.types.items()]
        width = max(len(name) for name, _ in shown[:50])
        lines = [f"  {name:<{width}}  {kind}" for name, kind in shown[:50]]
        more = [f"  ... and {len(shown) - 50} more"] if len(shown) > 50 else []
        count = f"{len(shown)} column{'s' if len(shown) > 1 else ''}"
        return "\n".join([f"PrivateTable of {count}, rows not shown", *lines, *more])

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(repr(self))}</pre>"

    def _refuse(self, *_: Any) -> NoReturn:
        raise TableError(
            "A PrivateTable is not pickled or copied, so that its rows stay where they are. Pass the path of the file "
            "and call read_table() there, or use the same object."
        )

    __reduce__ = __reduce_ex__ = __getstate__ = __copy__ = __deepcopy__ = _refuse


def _type_name(kind: pa.DataType) -> str:
    return f"dictionary<{kind.value_type}>" if pa.types.is_dictionary(kind) else str(kind)


def check_columns(schema: pa.Schema, name: str) -> None:
    """Refuse a table without columns, with blank or equal names, or with cells that are no single value."""
    problems = csv_file.name_problems(schema.names) if len(schema) else ["There are no columns. Give at least one."]
    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if not _is_plain(kind):
            problems.append(
                f"Column {field.name!r} is of type {str(kind).split('<')[0]}. Turn it into text or numbers, one value "
                "a cell, or leave it out."
            )
    if problems:
        raise TableError("\n".join(f"{name}: {problem}" for problem in problems))


def _is_plain(kind: pa.DataType) -> bool:
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    is_value = pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)
    return is_text or (is_value and not pa.types.is_interval(kind))


def _is_frame(source: object) -> bool:
    # Without importing pandas: whoever has a DataFrame has done so.
    return "pandas" in sys.modules and isinstance(source, sys.modules["pandas"].DataFrame)


def _as_arrow(rows: pa.Table | pd.DataFrame, name: str) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    if not _is_frame(rows):
        raise TableError(f"{name} must be a path, a pandas DataFrame or a pyarrow Table, not a {type(rows).__name__}.")
    if not all(isinstance(label, str) for label in rows.columns):
        raise TableError(f"{name} has column names that are not text. Call `frame.columns = frame.columns.map(str)`.")
    columns = [_column(rows.iloc[:, place]) for place in range(rows.shape[1])]
    return pa.Table.from_arrays(columns, names=list(rows.columns))


def _column(series: pd.Series) -> pa.Array | pa.ChunkedArray:
    """A column as Arrow has it, or as text where Arrow has no type for it, such as for numbers mixed with texts."""
    values = series.array.to_dense() if hasattr(series.array, "to_dense") else series
    with contextlib.suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
        column = pa.array(values, from_pandas=True)
        if not isinstance(column.type, pa.BaseExtensionType):
            return column
    texts = [str(cell).encode(errors="replace").decode() for cell in series]
    return pa.array(texts, pa.string(), mask=series.isna().to_numpy(dtype=bool))


def _without_pandas_index(table: pa.Table) -> pa.Table:
    """Leave out the index that pandas stored beside the columns, and its notes, which tell the number of rows."""
    notes = (table.schema.metadata or {}).get(b"pandas", b"{}")
    index = []
    with contextlib.suppress(ValueError, AttributeError):  # notes that are not pandas' own
        index = json.loads(notes).get("index_columns", [])
    unnamed = [entry for entry in index if isinstance(entry, str) and re.fullmatch(r"__index_level_\d+__", entry)]
    return table.drop_columns([n for n in unnamed if n in table.column_names]).replace_schema_metadata(None)


def _guarded(action: Callable[[], T], problem: str) -> T:
    """What `action` returns, or a `TableError` without the error behind it, whose message may quote a cell."""
    try:
        return action()
    except (TableError, BrokenPipeError):
        raise
    except Exception as error:
        # An error with a number is the system's, and so is its text.
        number = error.errno if isinstance(error, OSError) else None
        if number:
            problem = f"{problem} {_FIXES.get(number, os.strerror(number) + '.')}"
    # Raised out here, so that it has no __context__.
    raise TableError(problem)


class _Tape(io.RawIOBase):
    """A stream that can be read once, such as stdin, kept while it is read, so that `again()` starts over."""

    def __init__(self, stream: BinaryIO, kept: list[bytes] | None = None, lock: threading.Lock | None = None):
        self._stream = stream
        self._kept = [] if kept is None else kept
        # Arrow reads ahead in a thread of its own, which may outlive a parse that failed.
        self._lock = lock or threading.Lock()
        self._next = 0
        self._left = memoryview(b"")

    def again(self) -> BinaryIO:
        return io.BufferedReader(_Tape(self._stream, self._kept, self._lock), 1 << 20)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            with self._lock:
                if self._next == len(self._kept):
                    self._kept.append(self._stream.read(1 << 20))
            self._left = memoryview(self._kept[self._next])
            self._next += bool(self._left)
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size


@dataclasses.dataclass(frozen=True)
class _Origin:
    """Where a table is read from: what errors call it, and how it is opened, as often as need be."""

    name: str
    opened: Callable[[], BinaryIO]
    path: str | None = None

    def first_bytes(self) -> bytes:
        with self.opened() as stream:
            return stream.read(16)

    def for_arrow(self) -> pa.NativeFile:
        if self.path is not None:
            return pa.OSFile(self.path)
        with self.opened() as stream:
            return pa.BufferReader(stream.read())


@contextlib.contextmanager
def _origin(source: str | os.PathLike[str]) -> Iterator[_Origin]:
    if source == "-":
        yield _Origin("stdin", _Tape(sys.stdin.buffer).again)
        return
    path = os.fspath(source)
    problem = f"{path} cannot be read."
    found = _guarded(lambda: os.stat(path), problem)
    if stat.S_ISDIR(found.st_mode):
        raise TableError(f"{path} is a folder. Give one file.")
    with _guarded(lambda: open(path, "rb"), problem) as stream:
        if stat.S_ISREG(found.st_mode):
            yield _Origin(path, functools.partial(open, path, "rb"), path)
        else:  # a pipe, as of `<(zcat data.gz)`
            yield _Origin(path, _Tape(stream).again)


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
    guessed unless it is given; `decimal` is noted in the table's `style` for whoever parses its numbers; a byte order
    mark outdoes `encoding`. The cells of a CSV file stay the texts that they are, an empty cell is missing, and lines
    with nothing on them are left out. The index of a DataFrame is left out too: call `frame.reset_index()` to keep it.

    Formal guarantee: a file that cannot be read raises a `TableError` that names the file, and the line or the column,
    and shows no cell, neither in its message nor in an error chained to it.
    """
    if isinstance(source, PrivateTable):
        return source
    if not isinstance(source, str | os.PathLike):
        return PrivateTable(source)
    CsvStyle(separator or ",", decimal, encoding)
    with _origin(source) as origin:
        first = _guarded(origin.first_bytes, f"{origin.name} cannot be read.")
        kind = _source_format(origin.name, first, format)
        if kind not in ("csv", "tsv"):
            return PrivateTable(_read_binary(origin, kind, first), name=origin.name)
        if kind == "tsv" and separator is None:
            separator = "\t"
        rows, style = _read_text(origin, first, separator=separator, decimal=decimal, encoding=encoding)
        return PrivateTable(rows, style=style, name=origin.name)


def _read_text(origin: _Origin, first: bytes, **style: Any) -> tuple[pa.Table, CsvStyle]:
    opened, problem = origin.opened, f"{origin.name} cannot be read."
    if first.startswith(_GZIP):
        opened, problem = _unpacking(opened), f"{origin.name} is a gzip file that is damaged or cut off. Copy it again."
    return _guarded(lambda: csv_file.read_csv(opened, origin.name, **style), problem)


def _unpacking(opened: Callable[[], BinaryIO]) -> Callable[[], BinaryIO]:
    @contextlib.contextmanager
    def unpacked() -> Iterator[BinaryIO]:
        with opened() as packed, gzip.GzipFile(fileobj=packed, mode="rb") as stream:
            yield stream

    return unpacked


def _extension(name: str) -> tuple[Format | None, bool]:
    """The format that a file's name tells, and whether it is packed."""
    name = name.lower()
    return EXTENSIONS.get(os.path.splitext(name.removesuffix(".gz"))[1]), name.endswith(".gz")


def _source_format(name: str, first: bytes, format: str | None) -> str:
    _check_format(format)
    if not first:
        raise TableError(f"{name} is empty. Give a file with a header and at least one row.")
    found = next((kind for magic, kind in _MAGIC.items() if magic.match(first)), None)
    if found == "excel":
        raise TableError(f"{name} is an Excel or zip file, perhaps with a password. Save the sheet as CSV in UTF-8.")
    named, _ = _extension(name)
    wanted = format or named
    if wanted in ("csv", "tsv") and found:
        raise TableError(f'{name} is not text but {found}. Say so: --format {found} (`format="{found}"`).')
    return wanted or found or "csv"


def _check_format(format: str | None) -> None:
    if format is not None and format not in FORMATS:
        raise TableError(f'The format must be one of {", ".join(FORMATS)}: --format csv (`format="csv"`).')


def _read_binary(origin: _Origin, kind: str, first: bytes) -> pa.Table:
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
            table = rest()
        # A damaged file can hold offsets that point nowhere.
        table.validate(full=True)
        return table

    return _guarded(read, problem)


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
        with _closing(_guarded(lambda: open(target, "wb"), problem), problem) as file:
            yield file
        return
    if old is not None and not os.access(target, os.W_OK):
        raise TableError(f"{problem} {_FIXES[errno.EACCES]}")
    # Not by `tempfile`, whose files are for their owner only, whatever the umask says.
    beside = os.path.join(folder, f".twin-{secrets.token_hex(8)}.tmp")
    mode = 0o666 if old is None else stat.S_IMODE(old)
    try:
        make = functools.partial(open, beside, "xb", opener=lambda *where: os.open(*where, mode))
        with _closing(_guarded(make, problem), problem) as file:
            yield file
            _guarded(lambda: _settle(file), problem)
        if old is not None:
            os.chmod(beside, mode)
        _guarded(lambda: os.replace(beside, target), problem)
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
    _guarded(file.close, problem)


def _settle(file: BinaryIO) -> None:
    """See to it that the bytes are on the disk before the old file is given up."""
    file.flush()
    os.fsync(file.fileno())


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
        self._writer = make(pa.PythonFile(file, mode="w"), schema)

    def write(self, table: pa.Table) -> None:
        self._writer.write_table(table)

    def close(self) -> None:
        self._writer.close()


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
    that of a `PrivateTable`, else commas, decimal points and UTF-8; a .tsv file always has tabs. A missing cell is
    empty, and so is an empty text.

    Formal guarantee: the file is whole or, after any error, as it was before. `read_table` gives back an equal table;
    from CSV, its texts.
    """
    name = "stdout" if target == "-" else os.fspath(target)
    kind, packed = _target_format(name, format)
    style = style or (table.style if isinstance(table, PrivateTable) else None) or CsvStyle()
    if kind == "tsv":
        style = dataclasses.replace(style, separator="\t")
    chunks = _chunks(table, name, keep_dictionaries=kind != "feather")
    first = next(chunks, None)
    if first is None:
        raise TableError(f"There is nothing to write to {name}: not one chunk came. Give a table with its columns.")
    check_columns(first.schema, name)
    with _target(target) as file:
        _write_all(_Sink(file), itertools.chain([first], chunks), kind=kind, packed=packed, style=style, name=name)


def _target_format(name: str, format: str | None) -> tuple[str, bool]:
    _check_format(format)
    named, packed = _extension(name)
    kind = format or named or ("csv" if name == "stdout" else None)
    if kind is None:
        known = ", ".join(EXTENSIONS)
        raise TableError(f"The extension of {name} is none of {known}. Name the format: --format csv.")
    if packed and kind not in ("csv", "tsv"):
        raise TableError(f"{name}: a {kind} file is compressed already. Leave out the .gz.")
    return kind, packed


def _chunks(table: Any, name: str, *, keep_dictionaries: bool) -> Iterator[pa.Table]:
    """Tables of one schema, without notes, and with the first one's types."""
    if isinstance(table, PrivateTable):
        table = table.reveal()
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if isinstance(table, pa.Table) or _is_frame(table):
        yield _without_pandas_index(_as_arrow(table, name)).unify_dictionaries()
        return
    schema = None
    for chunk in table if isinstance(table, Iterable) else [table]:
        rows = pa.Table.from_batches([chunk]) if isinstance(chunk, pa.RecordBatch) else _as_arrow(chunk, name)
        rows = _without_pandas_index(rows)
        if not keep_dictionaries:  # a Feather file holds one dictionary a column, and the next chunk may have another
            rows = rows.cast(_without_dictionaries(rows.schema))
        schema = schema or rows.schema
        if rows.schema.names != schema.names:
            raise TableError(f"{name}: the chunks to write have different columns. Give all of them the same ones.")
        same = functools.partial(rows.cast, schema)
        yield _guarded(same, f"{name}: the chunks to write have different types. Give all of them the same ones.")


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
                start = functools.partial(csv_file.CsvWriter, file, chunk.schema, style)
                if kind not in ("csv", "tsv"):
                    start = functools.partial(_ArrowWriter, file, chunk.schema, kind)
                writer = _guarded(start, problem)
            _guarded(functools.partial(writer.write, chunk), problem)
        _guarded(writer.close, problem)
        if packed:
            _guarded(file.close, problem)
    except BaseException:
        # Arrow's writers and gzip finish their file when they are thrown away: it must not look whole.
        sink.stopped = True
        raise
