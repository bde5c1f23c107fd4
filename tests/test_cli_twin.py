"""`twin fit`, `sample`, `describe` and `verify` as a skin: what they pass on, say, write, refuse and return."""

import dataclasses
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import pandas as pd
import pyarrow.parquet as pq
import pytest
import stub_twin
from click.testing import CliRunner

import twinify_lite
from twinify_lite import artifact, describing
from twinify_lite.checkpoint import Checkpoint
from twinify_lite.cli import main
from twinify_lite.cli_plan import plan_lines
from twinify_lite.errors import ModelError

CSV = "age,sex\n" + "3,f\n4,m\n" * 50


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Every test runs in a folder of its own, on the stub."""
    monkeypatch.setitem(sys.modules, "twinify_lite.twin", stub_twin)
    monkeypatch.setattr(twinify_lite, "twin", stub_twin, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text(CSV)
    stub_twin.CALLS.clear()
    return tmp_path


def twin(*arguments, **options):
    return CliRunner().invoke(main, list(map(str, arguments)), **options)


def refuse_without_model(path, **_):
    raise ModelError("Give the model file.")


def files():
    return sorted(os.listdir())


@pytest.fixture
def fitted(here):
    assert twin("fit", "data.csv", "--epsilon", 1).exit_code == 0
    stub_twin.CALLS.clear()
    return "data.twin"


@pytest.fixture
def seeded(here):
    assert twin("fit", "data.csv", "--epsilon", 1, "--seed", 3).exit_code == 0
    return "data.twin"


# -- fit ---------------------------------------------------------------------------------------------------------------


def test_a_fit_says_what_is_guaranteed_where_the_twin_is_and_what_comes_next():
    ended = twin("fit", "data.csv", "--epsilon", 1)
    assert ended.exit_code == 0
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("(1, 1e-06)-differential privacy under adding or removing one row")
    assert lines[1].startswith("Spent: epsilon ")
    assert lines[2].startswith("Public: ")
    assert lines[3:] == ["The twin is data.twin."]
    assert ended.stderr.splitlines()[0] == "compiling ..."
    assert "Next: twin sample data.twin --n 1000" in ended.stderr
    assert "Column 'note' was left out." in ended.stderr
    assert files() == ["data.csv", "data.twin"]


def test_all_that_is_said_of_a_fit_is_passed_on():
    Path("s.toml").write_text('[columns.age]\nkind = "integer"\n')
    arguments = (
        "--delta 1e-7 --model mixture --schema s.toml -o out.twin --relation substitute --device cpu --target sex"
    )
    arguments += " --accept age --accept sex --set steps=50 --set rate=0.5 --set guide=normal --set exact=true"
    assert twin("fit", "data.csv", "--epsilon", 2, *arguments.split()).exit_code == 0
    (call,) = stub_twin.CALLS
    assert (call["epsilon"], call["delta"], call["model"], call["device"]) == (2, 1e-7, "mixture", "cpu")
    assert (call["target"], call["accept"], call["resume"]) == ("sex", ("age", "sex"), False)
    assert call["options"] == {"steps": 50, "rate": 0.5, "guide": "normal", "exact": True}
    assert list(call["schema"]) == ["age"]
    assert call["data"].columns == ("age", "sex")
    assert call["checkpoint"] == "out.twin.checkpoint"
    assert "out.twin" in files()


def test_an_epsilon_must_be_given():
    ended = twin("fit", "data.csv")
    assert ended.exit_code == 2
    assert "--epsilon 1 is a common choice" in ended.stderr
    assert stub_twin.CALLS == []


def test_a_twin_is_replaced_only_by_force_and_refused_before_anything_is_spent(here):
    (here / "data.twin").write_text("mine")
    ended = twin("fit", "data.csv", "--epsilon", 1)
    assert (ended.exit_code, stub_twin.CALLS) == (1, [])
    assert "--force" in ended.stderr
    assert (here / "data.twin").read_text() == "mine"
    assert twin("fit", "data.csv", "--epsilon", 1, "--force").exit_code == 0
    assert artifact.read("data.twin")


@pytest.mark.parametrize("output", ["nowhere/a.twin", "data.csv/a.twin"])
def test_a_folder_that_is_not_there_is_refused_before_anything_is_spent(output):
    ended = twin("fit", "data.csv", "--epsilon", 1, "-o", output)
    assert (ended.exit_code, stub_twin.CALLS) == (1, [])
    assert "There is no folder" in ended.stderr


def test_a_table_from_stdin_needs_a_name_for_its_twin():
    assert twin("fit", "-", "--epsilon", 1).exit_code == 2
    assert "-o FILE.twin" in twin("fit", "-", "--epsilon", 1).stderr


def test_an_interrupted_fit_is_not_begun_anew_by_accident(here):
    (here / "data.twin.checkpoint").write_text("")
    ended = twin("fit", "data.csv", "--epsilon", 1)
    assert (ended.exit_code, stub_twin.CALLS) == (1, [])
    assert "--resume" in ended.stderr
    assert twin("fit", "data.csv", "--epsilon", 1, "--resume").exit_code == 0
    assert stub_twin.CALLS[0]["resume"] is True
    assert files() == ["data.csv", "data.twin"]
    ended = twin("fit", "data.csv", "--epsilon", 1, "--resume", "--force")
    assert ended.exit_code == 1
    assert "to continue from" in ended.stderr


def test_a_dry_run_prints_the_plan_and_writes_nothing():
    ended = twin("fit", "data.csv", "--epsilon", 1, "--dry-run", "--set", "steps=7")
    assert ended.stdout.splitlines()[1:] == ["  sampling_rate  0.01", "  steps          7"]
    assert "Nothing was spent" in ended.stderr
    assert json.loads(twin("fit", "data.csv", "--epsilon", 1, "--dry-run", "--json").stdout)["steps"] == 100
    assert files() == ["data.csv"]


def test_a_plan_shows_apart_what_can_be_set_what_follows_and_the_noise():
    plan = {"rows (supposed)": 10_000, "rows": 10_000, "single": 0.25, "pairs": 0.5249999999, "target": None}
    plan |= {"noise of row count": 50.0, "noise of new values": 0.0, "noise of pairs": 6.346492822034512}
    lines = plan_lines({**plan, "epsilon": 0.99873513549771, "delta": 1e-06})
    assert [line.split() for line in lines if line.startswith("  ")] == [
        ["single", "0.25"],
        ["pairs", "0.525"],
        ["row", "count", "50"],
        ["pairs", "6.346"],
        ["epsilon", "0.9987"],
        ["delta", "1e-06"],
    ]
    titles = [line for line in lines if not line.startswith("  ")]
    assert titles[0].startswith("For 10000 rows")
    assert "--set NAME=VALUE" in titles[1]
    assert [lines.index(title) for title in titles] == [0, 1, 3, 5, 8]


def test_a_seed_is_announced_in_red_by_every_command_that_touches_its_twin(here):
    red = click.style("NOT PRIVATE", fg="red").removesuffix("\x1b[0m")
    runs = [["fit", "data.csv", "--epsilon", 1, "--seed", 3], ["sample", "--n", 5], ["describe", "data.twin", "--json"]]
    for arguments in [*runs, ["verify", "data.twin"]]:
        ended = twin(*arguments, color=True)
        assert ended.stderr.count(red) == 1, arguments
        assert ended.exit_code == (arguments[0] == "verify")
    assert twin("fit", "data.csv", "--epsilon", 1, "--seed", 3, "--force", "--quiet").stderr.startswith("NOT PRIVATE")
    assert json.loads(twin("sample", "--n", 5, "--force", "--json").stdout)["private"] is False


def test_a_fit_says_once_before_it_and_once_in_the_statement_that_it_is_not_private(here):
    ended = twin("fit", "data.csv", "--epsilon", 1, "--seed", 3)
    assert ended.stderr.startswith("NOT PRIVATE")
    assert (ended.stderr.count("NOT PRIVATE"), ended.stdout.count("NOT PRIVATE")) == (1, 1)


def test_a_page_about_a_seeded_twin_says_it_once_at_its_top(here, monkeypatch):
    twin("fit", "data.csv", "--epsilon", 1, "--seed", 3)
    fitted = SimpleNamespace(kind="auto", describe=lambda: {"model": "stub"})
    monkeypatch.setattr(
        stub_twin.Twin, "describe", lambda self: describing.describe(dataclasses.replace(self, fitted=fitted))
    )
    ended = twin("describe", "data.twin")
    assert ended.exit_code == 0, ended.output
    assert ended.output.count("NOT PRIVATE") == 1
    assert "NOT PRIVATE: rows and noise were drawn from a seed" in ended.stdout.splitlines()[0]
    monkeypatch.setattr(stub_twin, "load", refuse_without_model)
    ended = twin("describe", "data.twin")
    assert ended.output.count("NOT PRIVATE") == 1
    assert ended.stdout.startswith("NOT PRIVATE")


def test_a_delta_above_one_over_the_rows_is_warned_of():
    ended = twin("fit", "data.csv", "--epsilon", 1, "--delta", 0.01, "--quiet")
    assert ended.stderr.startswith("Warning: delta 0.01 is above one over the noisy number of rows, 1000")


def test_quiet_says_nothing_beside_the_result():
    assert twin("fit", "data.csv", "--epsilon", 1, "--quiet").stderr == ""
    assert twin("sample", "--n", 5, "--quiet").output == ""


def test_json_is_one_document_on_stdout():
    shown = json.loads(twin("fit", "data.csv", "--epsilon", 1, "--json").stdout)
    assert (shown["twin"], shown["private"], shown["rows"]) == ("data.twin", True, 1000)
    assert shown["statement"]["epsilon"] == 1
    shown = json.loads(twin("sample", "--n", 5, "--json").stdout)
    assert shown == {"twin": "data.twin", "files": ["synthetic.csv"], "rows": 5, "private": True}
    assert json.loads(twin("describe", "data.twin", "--json").stdout)["columns"]["age"] == "integer"
    assert json.loads(twin("verify", "data.twin", "--json").stdout)["epsilon"] == 1
    assert json.loads(twin("schema", "data.csv", "--json").stdout)["schema"].count("[columns.") == 2


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


# -- sample ------------------------------------------------------------------------------------------------------------


def test_the_only_twin_here_is_taken(fitted):
    ended = twin("sample", "--n", 2500)
    assert ended.exit_code == 0
    assert len(pd.read_csv("synthetic.csv")) == 2500
    assert "2500 synthetic rows from data.twin: synthetic.csv" in ended.stderr


def test_of_several_twins_the_newest_is_taken_and_named(fitted):
    os.utime("data.twin", (1, 1))
    twin("fit", "data.csv", "--epsilon", 1, "-o", "new.twin")
    ended = twin("sample", "--n", 5)
    assert "2 twins are here; this is the newest, new.twin" in ended.stderr
    assert "from data.twin" in twin("sample", "data.twin", "--n", 5, "--force").stderr


def test_without_a_twin_the_next_command_is_told():
    ended = twin("sample", "--n", 5)
    assert ended.exit_code == 1
    assert "twin fit DATA --epsilon E" in ended.stderr


def test_without_a_number_as_many_rows_come_as_the_table_had_with_noise(fitted):
    twin("sample")
    assert len(pd.read_csv("synthetic.csv")) == 1000


def test_every_dataset_is_a_file_and_a_draw_of_its_own(fitted):
    assert twin("sample", "--n", 50, "--datasets", 10, "--seed", 4, "-o", "s.csv.gz").exit_code == 0
    names = [f"s-{number:02d}.csv.gz" for number in range(1, 11)]
    assert [name for name in files() if name.startswith("s-")] == names
    assert len({pd.read_csv(name).to_csv() for name in names}) == 10
    assert [call["dataset"] for call in stub_twin.CALLS[1:]] == list(range(10))
    assert {call["seed"] for call in stub_twin.CALLS[1:]} == {4}


def test_more_datasets_than_there_are_draws_are_refused_before_any_is_written(fitted):
    ended = twin("sample", "--n", 5, "--datasets", 21)
    assert ended.exit_code == 1
    assert "data.twin has 20 draws" in ended.stderr
    assert files() == ["data.csv", "data.twin"]


def test_the_format_follows_from_the_name_or_the_option(fitted):
    twin("sample", "--n", 5000, "-o", "a.parquet")
    twin("sample", "--n", 5000, "--format", "parquet")
    assert pq.read_table("a.parquet").num_rows == pq.read_table("synthetic.parquet").num_rows == 5000


def test_rows_go_to_stdout(fitted):
    ended = twin("sample", "--n", 3, "-o", "-")
    assert ended.stdout.startswith("age,sex\n")
    assert len(ended.stdout.splitlines()) == 4
    assert twin("sample", "--n", 3, "-o", "-", "--json").exit_code == 2
    assert twin("sample", "--n", 3, "-o", "-", "--datasets", 2).exit_code == 2
    assert files() == ["data.csv", "data.twin"]


def test_files_are_refused_before_any_is_written(fitted, here):
    (here / "s-2.csv").write_text("mine")
    ended = twin("sample", "--n", 3, "--datasets", 3, "-o", "s.csv")
    assert ended.exit_code == 1
    assert "s-2.csv is there already" in ended.stderr
    assert files() == ["data.csv", "data.twin", "s-2.csv"]
    assert twin("sample", "--n", 3, "--datasets", 3, "-o", "s.csv", "--force").exit_code == 0


def test_conditions_and_the_model_file_are_passed_on(fitted):
    ended = twin("sample", "--n", 3, "--where", "sex=f", "--where", "income=<=50K", "--model", "m.py", "--trust-model")
    assert ended.exit_code == 0
    assert stub_twin.CALLS[0] == {"model": "m.py", "trust_model": True}
    assert stub_twin.CALLS[1]["where"] == {"sex": "f", "income": "<=50K"}
    ended = twin("sample", "--n", 3, "--where", "age>=40", "--where", "age<50", "--where", "bmi > 3", "--force")
    assert ended.exit_code == 0, ended.output
    assert stub_twin.CALLS[-1]["where"] == {"age": [">=40", "<50"], "bmi": "> 3"}
    assert twin("sample", "--n", 3, "--where", "sex").exit_code == 2
    assert twin("sample", "--n", 3, "--where", "=f").exit_code == 2


def test_a_failure_while_sampling_leaves_no_file(fitted, monkeypatch):
    whole = stub_twin.Twin.batches

    def broken(self, n, **options):
        yield from whole(self, 10, **options)
        raise RuntimeError

    monkeypatch.setattr(stub_twin.Twin, "batches", broken)
    assert twin("sample", "--n", 3).exit_code == 1
    assert files() == ["data.csv", "data.twin"]


# -- describe and verify -----------------------------------------------------------------------------------------------


def test_what_is_shown_cannot_steer_the_terminal(fitted):
    ended = twin("describe", fitted)
    assert ended.exit_code == 0
    assert "s\\x1b[31mex" in ended.stdout
    assert "\x1b" not in ended.output
    assert "\x1b" not in twin("describe", "no\x1b[31m.twin").output


def test_a_twin_is_described_without_the_model_that_it_needs_to_be_sampled(fitted, monkeypatch):
    monkeypatch.setattr(stub_twin, "load", refuse_without_model)
    ended = twin("describe", fitted)
    assert ended.exit_code == 0
    assert "age" in ended.stdout
    assert "(1, 1e-06)-differential privacy" in ended.stdout
    assert json.loads(twin("describe", fitted, "--json").stdout)["columns"]["age"] == "integer"
    assert twin("sample", fitted).exit_code == 1


def test_a_true_statement_is_recomputed(fitted):
    ended = twin("verify", fitted)
    assert "The statement holds: epsilon 1 at delta 1e-06" in ended.stdout
    assert "Recomputed: epsilon " in ended.stdout


def test_a_false_statement_and_a_changed_file_are_refused(fitted):
    members = artifact.read(fitted)
    statement = json.loads(members["statement.json"])
    statement["epsilon"] = 0.1
    artifact.write("lie.twin", {**members, "statement.json": artifact.json_bytes(statement)})
    ended = twin("verify", "lie.twin")
    assert ended.exit_code == 1
    assert "epsilon 0.1 is claimed" in ended.stderr
    with open(fitted, "r+b") as file:
        file.seek(200)
        file.write(b"!!!!")
    assert twin("verify", fitted).exit_code == 1
    assert "cannot be read" in twin("verify", fitted).stderr


def test_an_interrupted_fit_says_how_to_go_on(here, monkeypatch):
    def interrupted(*_, checkpoint, **__):
        Path(checkpoint).write_text("")
        raise KeyboardInterrupt

    monkeypatch.setattr(stub_twin, "fit", interrupted)
    ended = twin("fit", "data.csv", "--epsilon", 1)
    assert ended.exit_code == 130
    assert "Error: Interrupted.\nThe same command with --resume continues" in ended.stderr
    assert files() == ["data.csv", "data.twin.checkpoint"]
