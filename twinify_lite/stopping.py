"""Ctrl-C and SIGTERM end a command in the same way: what it was writing is taken away, and it says what is spent.

Both are raised as a `KeyboardInterrupt`, which nothing takes for an error of its own.
"""

from __future__ import annotations

import gc
import signal
import threading
from importlib.machinery import ExtensionFileLoader
from types import CodeType, FrameType

#: What a command ends with after each of them: 128 and the number of the signal, as a shell says it.
INTERRUPTED, TERMINATED = 130, 143
# What makes a module of a library that is not written in Python, and how many seconds a signal waits for that.
_LOADING = {ExtensionFileLoader.create_module.__code__, ExtensionFileLoader.exec_module.__code__}
_LATER = 0.02


class Terminated(KeyboardInterrupt):
    """SIGTERM: the system, a batch queue or a container wants the process to end."""


def words(stopped: KeyboardInterrupt) -> tuple[str, int]:
    """What is said of it, and the exit code."""
    return ("Terminated.", TERMINATED) if isinstance(stopped, Terminated) else ("Interrupted.", INTERRUPTED)


def heed() -> None:
    """Have Ctrl-C and SIGTERM call `stop`, unless whoever started the process had something else in mind."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
        if signal.getsignal(number) is usual:
            signal.signal(number, stop)


def stop(number: int, frame: FrameType | None) -> None:
    """The handler of both: raise, as soon as no library is being loaded and no garbage is collected.

    Python code that jaxlib runs while its module is made may not raise, or it ends in a segmentation fault; and what is
    raised in the collector's callbacks, of which JAX has one, is lost.
    """
    collecting = {callback.__code__ for callback in gc.callbacks if hasattr(callback, "__code__")}
    if _is_within(frame, _LOADING | collecting):
        again = threading.Timer(_LATER, _send, [number])
        again.daemon = True
        again.start()
        return
    raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


def _is_within(frame: FrameType | None, codes: set[CodeType]) -> bool:
    while frame is not None and frame.f_code not in codes:
        frame = frame.f_back
    return frame is not None


def _send(number: int) -> None:
    """Send a signal to the thread that heeds signals, which may be waiting for something."""
    main = threading.main_thread().ident
    if main is not None and hasattr(signal, "pthread_kill"):
        signal.pthread_kill(main, number)
    else:
        signal.raise_signal(number)
