"""How far a fit is, on stderr: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import signal
import sys
import threading
import time
from types import FrameType
from typing import Any, TextIO

from twinify_lite.stopping import stop

_WIDTH = 30
_EVERY = 0.1  # seconds between two drawings
_LINES, _APART = 10, 5.0  # lines of a phase in a log, at most, and seconds between two of them, at least


class Progress:
    """Call it with (phase, done, total). On a terminal it draws a bar; elsewhere it says each phase when it begins.

    Of a phase that takes its time it then says at each tenth, and no oftener than every few seconds, how far it is.

    In a `with` statement it also sees to it that no Ctrl-C or SIGTERM is lost: one that whatever was running swallowed
    (a destructor, a callback out of compiled code) is raised again at the next call or at the end.

    Nothing private reaches it: phases are fixed words, and how many steps there are is public.
    """

    def __init__(self, *, quiet: bool = False, file: TextIO | None = None):
        self._file = sys.stderr if file is None else file
        self._quiet = quiet
        self._draws = not quiet and self._file.isatty()
        self._phase: str | None = None
        self._began = self._drawn = 0.0
        self._first = self._shown = 0
        self._told = -1
        self._stopped: KeyboardInterrupt | None = None
        self._heeded: dict[int, Any] = {}

    def __enter__(self) -> Progress:
        is_main = threading.current_thread() is threading.main_thread()
        # A job in the background ignores interrupts, and goes on doing so.
        for number in (signal.SIGINT, signal.SIGTERM):
            if is_main and signal.getsignal(number) in (signal.default_int_handler, stop):
                self._heeded[number] = signal.signal(number, self._stop)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number, usual in self._heeded.items():
            signal.signal(number, usual)
        self.close()
        if self._stopped is not None and kind is None:
            raise self._stopped

    def _stop(self, number: int, frame: FrameType | None) -> None:
        try:
            stop(number, frame)
        except KeyboardInterrupt as stopped:
            self._stopped = stopped
            raise

    def __call__(self, phase: str, done: int = 0, total: int = 0) -> None:
        """`done` of `total` steps of `phase` are done."""
        if self._stopped is not None:
            stopped, self._stopped = self._stopped, None
            raise stopped
        now = time.monotonic()
        if phase != self._phase:
            self._begin(phase, done, now)
        if self._draws and (now - self._drawn >= _EVERY or done == total):
            self._draw(bar(phase, done, total, now - self._began, since=self._first))
            self._drawn = now
        elif self._tells(done, total, now):
            self._say(line(phase, done, total, now - self._began, since=self._first))
            self._drawn, self._told = now, _tenth(done, total)

    def close(self) -> None:
        """Leave an empty line for what comes next."""
        if self._draws and self._shown:
            self._draw("")
            self._file.write("\r")
            self._file.flush()

    def _begin(self, phase: str, done: int, now: float) -> None:
        self._phase, self._began, self._first = phase, now, done
        self._drawn = 0.0 if self._draws else now
        self._told = -1
        if not self._quiet and not self._draws:
            self._say(f"{phase} ...")

    def _tells(self, done: int, total: int, now: float) -> bool:
        """Whether a log is due for a line: in a later tenth than the last one, and some time after it."""
        if self._quiet or self._draws or not self._first < done < total:
            return False
        return _tenth(done, total) > self._told and now - self._drawn >= _APART

    def _say(self, text: str) -> None:
        self._file.write(text + "\n")
        self._file.flush()

    def _draw(self, line: str) -> None:
        self._file.write("\r" + line.ljust(self._shown))
        self._file.flush()
        self._shown = len(line)


def bar(phase: str, done: int, total: int, seconds: float, *, since: int = 0) -> str:
    """One line of progress.

    >>> bar("fitting", 250, 1000, 10.0)
    'fitting [#######.......................]  25 %, 30 s left'
    """
    if total <= 1:
        return f"{phase} ..."
    filled = int(_WIDTH * done / total)
    left = f", {_span(seconds * (total - done) / (done - since))} left" if since < done < total else ""
    return f"{phase} [{'#' * filled}{'.' * (_WIDTH - filled)}] {100 * done // total:3d} %{left}"


def line(phase: str, done: int, total: int, seconds: float, *, since: int = 0) -> str:
    """The same for a log.

    >>> line("fitting", 60, 600, 5.0)
    'fitting: step 60 of 600, about 45 s left'
    """
    return f"{phase}: step {done} of {total}, about {_span(seconds * (total - done) / (done - since))} left"


def _tenth(done: int, total: int) -> int:
    return _LINES * done // total


def _span(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes / 60:.1f} h"
