"""No exit code hangs on exact cells: a table and its neighbour end alike, through the real command."""

import itertools
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

import twinify_lite as tw
from twinify_lite.cli import main


def twin(*arguments):
    return CliRunner().invoke(main, list(map(str, arguments)))


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def ended(lines, schema=None, *more):
    """How a fit of a CSV file of these lines ends: its exit code, and what files it leaves."""
    Path("data.csv").write_text("\n".join(lines) + "\n")
    flags = [] if schema is None else ["--schema", "schema.toml"]
    if schema is not None:
        Path("schema.toml").write_text(schema)
    result = twin("fit", "data.csv", "--epsilon", 0.1, *flags, "--quiet", "--force", *more)
    left = sorted(path.name for path in Path().iterdir())
    for name in ("data.twin", "data.twin.checkpoint"):
        Path(name).unlink(missing_ok=True)
    return result.exit_code, left, type(result.exception)


def mixed(first, second, word="N"):
    """A column of whole numbers and a word, with another that is always there."""
    numbers = [f"{value},{'ab'[value % 2]}" for value in itertools.islice(itertools.cycle(range(1, 40)), first)]
    return ["x,y", *numbers, *([f"{word},a"] * second)]


@pytest.mark.parametrize("model", ["auto", "independent"])
def test_a_majority_of_cells_that_do_not_fit_ends_as_a_minority_does(model):
    few = ["--model", model, *([] if model == "auto" else ["--set", "steps=5"])]
    one, other = (ended(mixed(100, words), None, *few) for words in (100, 101))
    assert one == other
    assert one[0] == 0


DECLARED = """
columns.x = {kind = "integer", min = 0, max = 50, nullable = %s}
columns.y = {kind = "category", levels = ["a", "b"], nullable = false}
"""


@pytest.mark.parametrize("nullable", ["true", "false"])
def test_a_declared_kind_that_most_cells_contradict_ends_as_one_that_they_fit(nullable):
    ends = [
        ended(mixed(first, second), DECLARED % nullable) for first, second in ((3, 2), (2, 3), (100, 100), (0, 200))
    ]
    assert ends == [ends[0]] * len(ends)
    assert ends[0][0] == 0


COMMAS = """
columns.x = {kind = "category", levels = ["1,5", "2,5", "none"], nullable = false}
columns.y = {kind = "category", levels = ["a", "b"], nullable = false}
"""


@pytest.mark.parametrize("schema", [COMMAS, None], ids=["declared", "guessed"])
@pytest.mark.parametrize("more", [(), ("--dry-run",)], ids=["fit", "dry run"])
def test_decimal_commas_change_no_exit_code(schema, more):
    ends = [ended(["x;y", *["1,5;a"] * cells, *["none;b"] * nones], schema, *more) for cells, nones in ((2, 1), (3, 0))]
    assert ends[0] == ends[1]
    assert ends[0][0] == 0


def told(lines, schema=None, *more):
    """What a dry run says, and what a fit does."""
    ended(lines, schema)
    flags = [] if schema is None else ["--schema", "schema.toml"]
    dry = twin("fit", "data.csv", "--epsilon", 1, "--dry-run", *flags, *more)
    return dry.stderr, twin("fit", "data.csv", "--epsilon", 0.1, *flags, "--force").output


def test_a_dry_run_tells_of_doubts_and_a_fit_of_none():
    dry, fitted = told(["x;y", *["1,5;a", "2,5;b"] * 20])
    assert "Column 'x' looks like numbers with decimal commas: add --decimal ," in dry
    assert "do not share it" in dry
    assert "decimal" not in fitted
    dry, _ = told(["x;y", *["1,5;a", "2,5;b"] * 20], COMMAS)
    assert "share" not in dry
    dry, fitted = told(mixed(20, 30), DECLARED % "true")
    assert "Column 'x': most of its cells are not whole numbers." in dry
    assert "do not share it" in dry
    assert "whole numbers" not in fitted


def test_users_of_python_are_told_of_doubts_too():
    frame = pd.DataFrame({"x": ["about 3", "about 4"] * 50, "y": ["a", "b"] * 50})
    (doubt,) = tw.dry_run(frame, epsilon=1, schema=tw.Schema.from_toml(DECLARED % "true"))["doubts"]
    assert doubt.startswith("Column 'x': most of its cells are not whole numbers.")
    assert tw.dry_run(frame, epsilon=1)["doubts"] == []
    tw.write_table(pd.DataFrame({"x": ["1,5", "2,5"] * 50}), "commas.csv")
    (doubt,) = tw.dry_run("commas.csv", epsilon=1)["doubts"]
    assert "decimal commas" in doubt
