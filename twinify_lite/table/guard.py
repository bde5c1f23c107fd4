"""Errors of files, told without the error behind them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import TypeVar

from twinify_lite.errors import TableError

T = TypeVar("T")
#: What to do about the system's commonest refusals.
FIXES = {
    errno.ENOENT: "There is no such file: check the path.",
    errno.EACCES: "You have no permission: ask its owner, or see `ls -l`.",
    errno.ENOSPC: "The disk is full: make room, or write elsewhere.",
}


def guarded(action: Callable[[], T], problem: str) -> T:
    """What `action` returns, or a `TableError` without the error behind it, whose message may quote a cell.

    Where memory runs out nothing is wrong with the file, and a `MemoryError` without its figures says so.
    """
    ran_out = False
    try:
        return action()
    except (TableError, BrokenPipeError):
        raise
    except MemoryError:
        ran_out = True
    except Exception as error:
        # An error with a number is the system's, and so is its text.
        number = error.errno if isinstance(error, OSError) else None
        if number:
            problem = f"{problem} {FIXES.get(number, os.strerror(number) + '.')}"
    # Raised out here, so that it has no __context__.
    if ran_out:
        raise MemoryError
    raise TableError(problem)
