"""What other code says of private values is not heard: a warning quotes cells, or comes only where some cell is odd."""

from __future__ import annotations

import contextlib
import io
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
    """The same, and nothing that Python code prints."""
    with quietly(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield
