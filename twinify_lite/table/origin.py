"""Where a table is read from: a file, a pipe or stdin, each opened as often as need be."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import pyarrow as pa

from twinify_lite.errors import TableError
from twinify_lite.table.guard import guarded


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where a table is read from: what errors call it, and how it is opened, as often as need be."""

    name: str
    opened: Callable[[], BinaryIO]
    path: str | None = None

    def first_bytes(self) -> bytes:
        """As many as tell the format."""
        with self.opened() as stream:
            return stream.read(64)

    def for_arrow(self) -> pa.NativeFile:
        """The whole of it, for a reader that jumps about."""
        if self.path is not None:
            return pa.OSFile(self.path)
        with self.opened() as stream:
            return pa.BufferReader(stream.read())


@contextlib.contextmanager
def open_origin(source: str | os.PathLike[str]) -> Iterator[Origin]:
    """The origin that `source` names, "-" for stdin, until the block ends."""
    if source == "-":
        yield Origin("stdin", _Tape(sys.stdin.buffer).again)
        return
    path = os.fspath(source)
    problem = f"{path} cannot be read."
    found = guarded(lambda: os.stat(path), problem)
    if stat.S_ISDIR(found.st_mode):
        raise TableError(f"{path} is a folder. Give one file.")
    with guarded(lambda: open(path, "rb"), problem) as stream:
        if stat.S_ISREG(found.st_mode):
            yield Origin(path, functools.partial(open, path, "rb"), path)
        else:  # a pipe, as of `<(zcat data.gz)`
            yield Origin(path, _Tape(stream).again)


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
