"""What other code says of private values is not heard: a warning quotes cells, or comes only where some cell is odd."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import warnings
from collections.abc import Iterator

import numpy as np


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """No warnings, and no errors in their place: a caller may have asked for these (`-W error`, `np.seterr`)."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """The same, and nothing that other code says: by `print`, in a log, or from native code and programs it runs."""
    stdout, stderr = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
    with quietly(), _unlogged(), _deaf_streams(), stdout, stderr:
        yield


@contextlib.contextmanager
def _unlogged() -> Iterator[None]:
    """No log: a handler holds the stream or the file that it was made with, and writes there whatever stands for it."""
    before = logging.root.manager.disable
    logging.disable(sys.maxsize)
    try:
        yield
    finally:
        logging.disable(before)


@contextlib.contextmanager
def _deaf_streams() -> Iterator[None]:
    """Nothing reaches the process's own stdout and stderr, whoever holds them."""
    _flush()  # what was written before
    with contextlib.ExitStack() as stack:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        stack.callback(os.close, nowhere)
        for number in (1, 2):
            with contextlib.suppress(OSError):  # a process may have closed them
                kept = os.dup(number)
                stack.callback(os.close, kept)
                stack.callback(os.dup2, kept, number)
                os.dup2(nowhere, number)
        stack.callback(_flush)  # first of all at the end: what is still held back is gone before the streams are back
        yield


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
