"""Whatever `preprocess` does with one row, the table that it makes and what is said of it stay the same."""

import logging

import numpy as np
import pandas as pd
import pytest

import twinify_lite as tw
from twinify_lite.models import source as sources
from twinify_lite.models.processing import prepare_table
from twinify_lite.table import read_table

MODEL = """
import logging, os, sys, warnings
import numpy as np
import pandas as pd


def preprocess(frame):
    frame["y"] = [made(cell) for cell in frame["x"]]
    return frame


def made(cell):
    if not pd.isna(cell) and cell == 777:
        {wrong}
    return "level"


def model(rows):
    pass
"""
WRONG = {
    "an error": "raise ValueError(cell)",
    "an exit": "sys.exit(cell)",
    "an exception of no kind": "raise type('Own', (BaseException,), {})(cell)",
    "a generator's end": "raise GeneratorExit(cell)",
    "a recursion": "return made(cell)",
    "a print": "print(cell)",
    "a line on stderr": "sys.stderr.write(str(cell))",
    "a line of the interpreter's": "sys.__stderr__ and logging.warning(cell)",
    "a line of the process's own": "sys.__stdout__.write(f'{cell}\\n') and os.write(2, str(cell).encode())",
    "another program's line": "os.system(f'echo {cell}; echo {cell} >&2')",
    "a warning": "warnings.warn(str(cell))",
    "another type": "return 5",
    "an object": "return object()",
    "half a letter": "return '\\ud800'",
    "a list": "return [1]",
}


def prepared(text, values):
    source = sources.from_text(text, name="own.py")
    return prepare_table(source, read_table(pd.DataFrame({"x": values})))


@pytest.mark.parametrize("wrong", WRONG)
def test_what_goes_wrong_in_one_row_shows_nowhere_else(wrong, capfd, recwarn, caplog):
    text = MODEL.format(wrong=WRONG[wrong])
    one, other = (prepared(text, [1, 2, cell, 4]) for cell in (777, 778))
    assert repr(one) == repr(other)
    assert one.reveal().num_rows == 4
    keep = [0, 1, 3]
    assert one.reveal().take(keep).equals(other.reveal().take(keep))
    assert capfd.readouterr() == ("", "")
    assert not recwarn.list


LOGS = """
import logging

log = logging.getLogger("twinify_lite.tests.own")
if not log.handlers:
    log.addHandler(logging.StreamHandler())
    log.addHandler(logging.FileHandler("own.log"))


def preprocess(frame):
    for cell in frame["x"]:
        log.warning("a cell of %s", cell)
    return frame


def model(rows):
    pass
"""


def test_a_log_of_the_files_own_tells_of_made_up_rows_only(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = logging.getLogger("twinify_lite.tests.own")
    try:
        prepared(LOGS, [1, 2, 777_777, 4])
        said = capfd.readouterr().err + (tmp_path / "own.log").read_text()
        log.warning("and later it is heard again")
        assert "heard again" in capfd.readouterr().err
    finally:
        while log.handlers:
            log.handlers[0].close()
            log.removeHandler(log.handlers[0])
    assert "a cell of" in said
    assert "777777" not in said


BEHIND = """
def preprocess(frame):
    cells = frame["x"].array._data
    while cells.base is not None:
        cells = cells.base
    frame["y"] = cells.size > 50
    return frame


def model(rows):
    pass
"""


@pytest.mark.parametrize("copy_on_write", [False, True])
def test_no_other_row_is_behind_the_memory_of_one(copy_on_write):
    with pd.option_context("mode.copy_on_write", copy_on_write):
        made = prepared(BEHIND, list(range(60)))
    assert set(made.reveal()["y"].to_pylist()) == {False}


MANY = """
def preprocess(frame):
    import pandas as pd
    frame["y"] = pd.Categorical([f"level {cell}" for cell in frame["x"].fillna(0)])
    return frame


def model(rows):
    pass
"""


@pytest.mark.parametrize("levels", [5, 127, 128, 129, 300])
def test_a_categorical_may_have_any_number_of_levels(levels):
    made = prepared(MANY, list(range(levels)))
    assert len(made.reveal()["y"].unique()) == levels
    assert made.types["y"] == prepared(MANY, [1, 1, 1]).types["y"]


# -- warnings ----------------------------------------------------------------------------------------------------------

ODD = {"huge": 1e308, "endless": float("inf"), "tiny": 5e-324, "usual": 1.0}


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("odd", ODD)
def test_an_odd_number_makes_no_warning_and_no_error_of_numpys(odd, recwarn):
    frame = pd.DataFrame({"x": [0.5, 1.5, ODD[odd]] * 50, "y": [1, 2, 3] * 50})
    columns = [tw.Column(name="x", kind="number", min=-8e307, max=8e307, nullable=False)]
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        for schema in (None, tw.Schema(columns)):
            assert tw.fit(frame, epsilon=1.0, schema=schema, insecure_seed=0, options={"particles": 512}).rows > 0
            tw.discover(frame, schema, ledger=tw.Ledger(1.0, 1e-6))
        tw.private_score(frame, frame.assign(x=0.5), epsilon=1.0)
    assert not recwarn.list
