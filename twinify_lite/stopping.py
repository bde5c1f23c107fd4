"""Ctrl-C and SIGTERM end a command in the same way: what it was writing is taken away, and it says what is spent.

Both are raised as a `KeyboardInterrupt`, which nothing takes for an error of its own.
"""

from __future__ import annotations

import signal
import threading
from typing import NoReturn

#: What a command ends with after each of them: 128 and the number of the signal, as a shell says it.
INTERRUPTED, TERMINATED = 130, 143


class Terminated(KeyboardInterrupt):
    """SIGTERM: the system, a batch queue or a container wants the process to end."""


def words(stop: KeyboardInterrupt) -> tuple[str, int]:
    """What is said of it, and the exit code."""
    return ("Terminated.", TERMINATED) if isinstance(stop, Terminated) else ("Interrupted.", INTERRUPTED)


def terminate(*_: object) -> NoReturn:
    """The handler of SIGTERM."""
    raise Terminated


def heed_sigterm() -> None:
    """Have SIGTERM raise `Terminated` from now on, unless whoever started the process had something else in mind."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, terminate)
