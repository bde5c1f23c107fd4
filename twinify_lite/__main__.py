"""`twin`, which is also `python -m twinify_lite`."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn

_INTERRUPTED = 130


def run() -> None:
    """Run the command line. Ctrl-C has its exit code also before a command has begun."""
    try:
        from twinify_lite.cli import main

        main(prog_name="twin")
    except KeyboardInterrupt:
        sys.stderr.write("Error: Interrupted.\n")
        _end_interrupted()
    except SystemExit as end:
        if end.code == _INTERRUPTED:
            _end_interrupted()
        raise


def _end_interrupted() -> NoReturn:
    # Not by `sys.exit`: once an interrupt came through `exec`, which imports use, Python ends by the signal instead.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    run()
