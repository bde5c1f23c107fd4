"""One fit at a time on one checkpoint: a lock beside it, which the system frees however its holder ends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from twinify_lite.errors import ReceiptError, TableError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


@contextlib.contextmanager
def held(path: str | os.PathLike[str] | None) -> Iterator[None]:
    """Keep others from the checkpoint `path` until the block ends. None is nobody's.

    Formal guarantee: while one is inside, whoever else asks for the same file on this machine gets a `ReceiptError` at
    once. Where Python has no `fcntl` (Windows), and on file systems that have no locks, nobody is kept out.
    """
    if path is None:
        yield
        return
    name = _require_place(path)
    if fcntl is None:
        yield
        return
    lock = beside(name)
    number = _locked(lock, name)
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(lock)  # before it is freed: who has it open by then finds it gone
        os.close(number)


def beside(name: str) -> str:
    """The name of the lock of `name`: hidden, and one that nothing else has."""
    folder, last = os.path.split(os.path.realpath(name))
    return os.path.join(folder, f".{last}.twin-lock")


def _require_place(path: str | os.PathLike[str]) -> str:
    """The name of a file that could be written, or why it could not, before anything is spent."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path) or "\0" in os.fspath(path):
        raise TableError('The checkpoint is the path of a file, such as checkpoint="data.checkpoint".')
    name = os.fspath(path)
    folder = os.path.dirname(os.path.realpath(name))
    if os.path.isdir(name):
        raise TableError(f"{name} is a folder. Give the name of a file in it.")
    if not os.path.isdir(folder):
        raise TableError(f"{name} cannot be written. There is no folder {folder}: make it first.")
    return name


def _locked(lock: str, name: str) -> int:
    """The number of the open lock, which nobody else holds."""
    while True:
        number = _opened(lock, name)
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(number)
            raise ReceiptError(
                f"Another fit is at work on {name}. Wait for it or end it: a checkpoint is for one fit, and two "
                "results of it would be spent for twice."
            ) from None
        except OSError:
            return number  # a file system without locks
        # Its last holder may have taken the file away between the two calls; then this is a lock of nothing.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(number), os.stat(lock)):
                return number
        os.close(number)


def _opened(lock: str, name: str) -> int:
    try:
        return os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise TableError(f"No lock can be made beside {name}: {why}. Choose another place for it.") from None
