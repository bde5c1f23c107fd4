"""The bar of a fit: what a terminal sees, and what a log sees."""

import io

from twinify_lite.cli_progress import Progress, bar


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
