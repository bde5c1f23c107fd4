"""How commands end: exit codes, the first mistake first, files of the wrong kind."""

import json
import os

import pytest
import stub_twin
from stubbed import fit, install, twin

from twinify_lite.checkpoint import Checkpoint


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    return install(tmp_path, monkeypatch)


@pytest.fixture
def fitted(here):
    return fit()


def files():
    return sorted(os.listdir())


# -- exit codes --------------------------------------------------------------------------------------------------------

ENDS = {
    "a typed error": (["describe", "no.twin"], 1, "ArtifactError"),
    "a file that is there": (["fit", "data.csv", "--epsilon", "1", "-o", "data.csv"], 1, "TwinError"),
    "no epsilon": (["fit", "data.csv"], 2, "UsageError"),
    "an unknown option": (["fit", "data.csv", "--epsilonn", "1"], 2, "NoSuchOption"),
    "an epsilon that is no number": (["fit", "data.csv", "--epsilon", "much"], 2, "BadParameter"),
    "no rows": (["sample", "--n", "0"], 2, "BadParameter"),
    "a budget that is refused": (["fit", "data.csv", "--epsilon", "1", "--set", "fail=budget"], 3, "BudgetExceeded"),
    "an interrupt": (["fit", "data.csv", "--epsilon", "1", "--set", "fail=interrupt"], 130, "Interrupted"),
    "a failure after spending": (["fit", "data.csv", "--epsilon", "1", "--set", "fail=late"], 1, "ModelError"),
}


@pytest.mark.parametrize("end", ENDS)
def test_an_end_has_its_exit_code_in_words_and_in_json(end):
    arguments, code, kind = ENDS[end]
    ended = twin(*arguments)
    assert (ended.exit_code, ended.stdout) == (code, "")
    assert "Error: " in ended.stderr
    shown = twin(*arguments, "--json")
    assert shown.exit_code == code
    error = json.loads(shown.stdout)["error"]
    assert (error["type"], error["exit_code"]) == (kind, code)
    assert error["message"] in ended.stderr.replace("\x1b", "")


def test_success_is_0(fitted):
    assert twin("verify", fitted).exit_code == 0


def test_a_failure_after_spending_says_what_is_gone():
    ended = twin("fit", "data.csv", "--epsilon", 1, "--set", "fail=late")
    assert ended.stderr.splitlines()[-2:] == [
        "Error: The fit went wrong.",
        "Epsilon 0.3 of 1 was spent before, and is gone.",
    ]
    assert files() == ["data.csv"]


def test_an_unexpected_error_is_told_in_json_without_its_words(monkeypatch):
    monkeypatch.setattr(stub_twin, "fit", lambda *_, **__: {}["zanzibar"])
    ended = twin("fit", "data.csv", "--epsilon", 1, "--json")
    assert json.loads(ended.stdout)["error"]["type"] == "Unexpected"
    assert "zanzibar" not in ended.output


# -- the first mistake is told first -----------------------------------------------------------------------------------

# Each command has all that comes after its first mistake wrong as well.
FIRST = {
    "no table": ("fit no.csv --epsilon 0 --model nothing -o mine.twin", "no.csv cannot be read"),
    "no budget": ("fit data.csv --epsilon 0 --model nothing -o mine.twin", "epsilon must be a positive number"),
    "no delta": ("fit data.csv --epsilon 1 --delta 2 --model nothing -o mine.twin", "delta must be"),
    "no schema": ("fit data.csv --epsilon 1 --schema no.toml --model nothing -o mine.twin", "no file no.toml"),
    "no model": ("fit data.csv --epsilon 1 --model nothing -o mine.twin", "no template 'nothing'"),
    "a twin that is there": ("fit data.csv --epsilon 1 -o mine.twin --resume", "mine.twin is there already"),
    "no twin": ("sample no.twin -o data.csv", "no file no.twin"),
    "no table to draft of": ("schema no.csv -o data.csv", "no.csv cannot be read"),
    "no budget to show": ("demo --epsilon 0 --folder data.csv", "epsilon must be a positive number"),
}


@pytest.mark.parametrize(("command", "what"), FIRST.values(), ids=FIRST)
def test_the_first_mistake_is_told_and_nothing_is_spent(here, command, what):
    (here / "mine.twin").write_text("mine")
    ended = twin(*command.split())
    assert ended.exit_code == 1
    assert what in ended.stderr
    assert not [call for call in stub_twin.CALLS if "epsilon" in call]
    assert files() == ["data.csv", "mine.twin"]


def test_a_dry_run_minds_no_file_that_is_there(fitted):
    assert twin("fit", "data.csv", "--epsilon", 1, "--dry-run").exit_code == 0


# -- the wrong kind of file --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["sample", "describe", "verify"])
def test_a_table_or_a_schema_in_place_of_a_twin_is_told_with_the_command_that_takes_it(here, command):
    (here / "schema.toml").write_text("")
    ended = twin(command, "data.csv")
    assert ended.exit_code == 1
    assert "it is a table, not a twin. Make a twin of it first: twin fit data.csv --epsilon 1." in ended.stderr
    assert "twin fit DATA --schema schema.toml" in twin(command, "schema.toml").stderr


@pytest.mark.parametrize("command", [["fit", "--epsilon", "1"], ["schema"]], ids=["fit", "schema"])
def test_a_twin_in_place_of_a_table_is_told_with_the_command_that_takes_it(fitted, command):
    ended = twin(*command, fitted)
    assert ended.exit_code == 1
    assert "data.twin is a twin, not a table. For rows: twin sample data.twin." in ended.stderr


def test_a_checkpoint_in_place_of_a_twin_is_told_with_how_to_go_on(here):
    kept = Checkpoint("data.twin.checkpoint")
    kept.begin(facts={}, statement={})
    ended = twin("verify", "data.twin.checkpoint")
    assert ended.exit_code == 1
    assert "is the checkpoint of a fit that was interrupted, not a twin" in ended.stderr
