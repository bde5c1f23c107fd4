"""The bar of a fit: what a terminal sees, and what a log sees."""

import _imp
import contextlib
import gc
import io
import signal
import time
from importlib.machinery import ExtensionFileLoader
from types import SimpleNamespace

import pytest

from twinify_lite import cli_progress
from twinify_lite.cli_progress import Progress, bar
from twinify_lite.stopping import Terminated, heed


class Terminal(list):
    def isatty(self):
        return True

    def write(self, text):
        self.append(text)

    def flush(self):
        pass


def test_the_bar_shows_how_far_it_is_and_how_long_it_takes():
    assert bar("fitting", 500, 1000, 300.0).endswith(" 50 %, 5 min left")
    assert bar("fitting", 1000, 1000, 60.0).endswith("100 %")
    assert bar("fitting", 900, 1000, 10.0, since=800).endswith(" 90 %, 10 s left")
    assert bar("compiling", 0, 1, 1.0) == "compiling ..."


def test_a_terminal_sees_one_line_that_is_wiped_at_the_end():
    terminal = Terminal()
    progress = Progress(file=terminal)
    progress("compiling")
    for step in range(0, 101, 10):
        progress("fitting", step, 100)
    progress.close()
    assert terminal[0] == "\rcompiling ..."
    assert "100 %" in "".join(terminal)
    assert "\n" not in "".join(terminal)
    assert "".join(terminal).endswith(" \r")


def test_quiet_progress_says_nothing():
    terminal = Terminal()
    progress = Progress(file=terminal, quiet=True)
    progress("fitting", 1, 2)
    progress.close()
    assert terminal == []


def test_a_log_has_a_line_for_each_phase():
    log = io.StringIO()
    progress = Progress(file=log)
    for step in range(100):
        progress("compiling" if step < 3 else "fitting", step, 100)
    progress.close()
    assert log.getvalue() == "compiling ...\nfitting ...\n"


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test moves."""
    now = [100.0]
    monkeypatch.setattr(cli_progress.time, "monotonic", lambda: now[0])
    return now


def fit_of(progress, clock, *, seconds, steps=600, chunk=12, since=0):
    progress("compiling", 0, steps)
    clock[0] += 30
    for step in range(since + chunk, steps + 1, chunk):
        clock[0] += seconds * chunk / steps
        progress("fitting", step, steps)
    progress.close()


def test_a_log_of_a_long_fit_says_at_each_tenth_how_far_it_is(clock):
    log = io.StringIO()
    fit_of(Progress(file=log), clock, seconds=600)
    lines = log.getvalue().splitlines()
    assert lines[:3] == ["compiling ...", "fitting ...", "fitting: step 24 of 600, about 10 min left"]
    assert lines[3:5] == ["fitting: step 60 of 600, about 9 min left", "fitting: step 120 of 600, about 8 min left"]
    assert lines[-1] == "fitting: step 540 of 600, about 60 s left"
    assert len(lines) == 12


def test_a_log_of_a_fit_of_seconds_is_not_filled(clock):
    log = io.StringIO()
    fit_of(Progress(file=log), clock, seconds=18)
    lines = log.getvalue().splitlines()
    assert 3 <= len(lines) <= 5
    short = io.StringIO()
    fit_of(Progress(file=short), clock, seconds=2)
    assert short.getvalue() == "compiling ...\nfitting ...\n"


def test_a_log_of_a_resumed_fit_reckons_from_where_it_began(clock):
    log = io.StringIO()
    fit_of(Progress(file=log), clock, seconds=600, since=300)
    assert "fitting: step 360 of 600, about 4 min left" in log.getvalue().splitlines()


def test_quiet_logs_stay_empty(clock):
    log = io.StringIO()
    fit_of(Progress(file=log, quiet=True), clock, seconds=600)
    assert log.getvalue() == ""


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM], ids=["control-c", "sigterm"])
def sent(request, interruptible):
    """A signal that is heeded, as the command line sees to."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    heed()
    yield request.param
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_that_is_swallowed_comes_again_at_the_next_step(sent):
    before = signal.getsignal(sent)
    with Progress(quiet=True) as progress:
        progress("fitting", 1, 3)
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(sent)
        with pytest.raises(KeyboardInterrupt) as stopped:
            progress("fitting", 2, 3)
    assert isinstance(stopped.value, Terminated) == (sent == signal.SIGTERM)
    assert signal.getsignal(sent) is before


def test_a_signal_that_is_swallowed_at_the_end_ends_it(sent):
    with pytest.raises(KeyboardInterrupt), Progress(quiet=True), contextlib.suppress(KeyboardInterrupt):
        signal.raise_signal(sent)


def test_a_signal_waits_until_a_library_is_loaded(sent, monkeypatch):
    """In the middle of that, jaxlib ends in a segmentation fault."""
    made, library = [], SimpleNamespace(name="a")
    with monkeypatch.context() as patched:
        patched.setattr(_imp, "create_dynamic", lambda spec: signal.raise_signal(sent) or made.append(spec.name))
        require_later(sent, lambda: ExtensionFileLoader("a", "a.so").create_module(library), made)


def test_a_signal_waits_until_garbage_is_collected(sent, monkeypatch):
    """What is raised in there is lost."""
    made = []
    monkeypatch.setattr(gc, "callbacks", [lambda: signal.raise_signal(sent) or made.append("a")])
    require_later(sent, gc.callbacks[0], made)


def require_later(sent, call, made):
    def calling():
        call()
        time.sleep(10)

    for heeding in (contextlib.nullcontext(), Progress(quiet=True)):
        made.clear()
        with pytest.raises(KeyboardInterrupt) as stopped, heeding:
            calling()
        assert made == ["a"]
        assert isinstance(stopped.value, Terminated) == (sent == signal.SIGTERM)


def test_a_job_that_ignores_interrupts_goes_on_ignoring_them():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Progress(quiet=True) as progress:
            signal.raise_signal(signal.SIGINT)
            progress("fitting", 1, 2)
    finally:
        signal.signal(signal.SIGINT, before)
