"""`twin`, which is also `python -m twinify_lite`."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn

from twinify_lite.stopping import INTERRUPTED, TERMINATED, heed, words


def run() -> None:
    """Run the command line. Ctrl-C and SIGTERM have their exit codes also before a command has begun."""
    try:
        heed()
        from twinify_lite.cli import main

        main(prog_name="twin")
    except KeyboardInterrupt as stop:
        said, code = words(stop)
        sys.stderr.write(f"Error: {said}\n")
        _end_stopped(code)
    except SystemExit as end:
        if end.code in (INTERRUPTED, TERMINATED):
            _end_stopped(end.code)
        raise


def _end_stopped(code: int) -> NoReturn:
    # Not by `sys.exit`: once an interrupt came through `exec`, which imports use, Python ends by the signal instead.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    run()
