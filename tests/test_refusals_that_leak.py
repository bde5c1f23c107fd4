"""No exit code hangs on exact cells: a table and its neighbour end alike, through the real command."""

import itertools
from pathlib import Path

import pytest
from click.testing import CliRunner

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
