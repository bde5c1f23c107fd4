"""One at a time on one file: a lock beside it, which the system frees however its holder ends.

A checkpoint is `held` by its fit, and others are sent away; a ledger file is for all of them, and each waits its
`turn`.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator

from twinify_lite.errors import BookError, ReceiptError, TableError, TwinError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

# Seconds between two looks at a lock that somebody holds.
_PAUSE = 0.01


@contextlib.contextmanager
def held(path: str | os.PathLike[str] | None) -> Iterator[None]:
    """Keep others from the checkpoint `path` until the block ends. None is nobody's.

    Formal guarantee: while one is inside, whoever else asks for the same file on this machine gets a `ReceiptError` at
    once. Where Python has no `fcntl` (Windows), and on file systems that have no locks, nobody is kept out.
    """
    if path is None:
        yield
        return
    name = _require_place(path, "checkpoint")
    busy = ReceiptError(
        f"Another fit is at work on {name}. Wait for it or end it: a checkpoint is for one fit, and two results of it "
        "would be spent for twice."
    )
    with _alone(name, busy):
        yield


@contextlib.contextmanager
def turn(path: str | os.PathLike[str], *, patience: float) -> Iterator[None]:
    """Wait for the ledger file `path`, and keep others from it until the block ends.

    Formal guarantee: while one is inside, whoever else asks for the same file on this machine waits, for `patience`
    seconds at most, and then gets a `BookError`. Where Python has no `fcntl` (Windows), and on file systems that have
    no locks, nobody is kept out, and two fits at once could spend what is there for one.
    """
    name = _require_place(path, "ledger")
    busy = BookError(f"Others were at work on {name} for {patience:g} seconds. Nothing was spent: try again later.")
    with _alone(name, busy, patience=patience):
        yield


@contextlib.contextmanager
def _alone(name: str, busy: TwinError, *, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock of the file `name`, or raise `busy` if that is not to be had in time."""
    if fcntl is None:
        yield
        return
    lock = beside(name)
    number = _locked(lock, name, busy, time.monotonic() + patience)
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


def _require_place(path: str | os.PathLike[str], what: str) -> str:
    """The name of a file that could be written, or why it could not, before anything is spent."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path) or "\0" in os.fspath(path):
        raise TableError(f'The {what} is the path of a file, such as {what}="data.{what}".')
    name = os.fspath(path)
    folder = os.path.dirname(os.path.realpath(name))
    if os.path.isdir(name):
        raise TableError(f"{name} is a folder. Give the name of a file in it.")
    if not os.path.isdir(folder):
        raise TableError(f"{name} cannot be written. There is no folder {folder}: make it first.")
    return name


def _locked(lock: str, name: str, busy: TwinError, deadline: float) -> int:
    """The number of the open lock, which nobody else holds."""
    while True:
        try:
            number = _opened(lock, name)
        except PermissionError as error:  # another user's, who has made it and not shared it yet; or not ours to share
            if time.monotonic() >= deadline:
                raise _no_lock(name, error) from None
            time.sleep(_PAUSE)
            continue
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(number)
            if time.monotonic() >= deadline:
                raise busy from None
            time.sleep(_PAUSE)
            continue
        except OSError:
            return number  # a file system without locks
        # Its last holder may have taken the file away between the two calls; then this is a lock of nothing.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(number), os.stat(lock)):
                return number
        os.close(number)


def _opened(lock: str, name: str) -> int:
    """The number of the lock, made if it is not there: whoever may write the file `name` may take its lock."""
    how = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        with contextlib.suppress(FileNotFoundError):
            return os.open(lock, how)
        with contextlib.suppress(FileExistsError):
            number = os.open(lock, how | os.O_CREAT | os.O_EXCL, 0o666)
            _share_as(name, number)
            return number
        return os.open(lock, how | os.O_CREAT, 0o666)
    except PermissionError:
        raise
    except OSError as error:
        raise _no_lock(name, error) from None


def _no_lock(name: str, error: OSError) -> TableError:
    why = os.strerror(error.errno or 0)
    return TableError(f"No lock can be made beside {name}: {why}. Choose another place for it.")


def _share_as(name: str, number: int) -> None:
    """Give a new lock the group and the permissions of the file, if it is there: the umask knows nothing of them."""
    with contextlib.suppress(OSError):
        its = os.stat(name)
        with contextlib.suppress(PermissionError):
            os.fchown(number, -1, its.st_gid)
        os.fchmod(number, stat.S_IMODE(its.st_mode) & 0o666 | 0o600)
