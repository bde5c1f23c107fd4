"""`twin fit` as a skin: what it passes on, says, writes and refuses."""

import dataclasses
import json
import os
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
import stub_twin
from stubbed import fit, install, twin

from twinify_lite import artifact, describing
from twinify_lite.cli_plan import plan_lines
from twinify_lite.errors import ModelError


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    return install(tmp_path, monkeypatch)


@pytest.fixture
def fitted(here):
    return fit()


def refuse_without_model(path, **_):
    raise ModelError("Give the model file.")


def files():
    return sorted(os.listdir())


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


def test_a_note_on_many_columns_shows_a_dozen_and_json_all(monkeypatch):
    names = [f"it's {number}" for number in range(84)]
    sentence = f"Left out (84): {', '.join(map(repr, names))}. Declare them."
    make = stub_twin.fit
    monkeypatch.setattr(stub_twin, "fit", lambda *a, **k: dataclasses.replace(make(*a, **k), notes=(sentence,)))
    ended = twin("fit", "data.csv", "--epsilon", 1)
    shown = ", ".join(map(repr, names[:12]))
    assert f"Left out (84): {shown} and 72 more. Declare them.\n" in ended.stderr
    ended = twin("fit", "data.csv", "--epsilon", 1, "--force", "--json")
    assert json.loads(ended.stdout)["notes"] == [sentence]


def test_a_delta_above_one_over_the_rows_is_warned_of():
    ended = twin("fit", "data.csv", "--epsilon", 1, "--delta", 0.01, "--quiet")
    assert ended.stderr.startswith("Warning: delta 0.01 is above one over the noisy number of rows, 1000")
    assert ended.stderr.count("Warning") == 1


def test_a_dry_run_warns_of_a_delta_above_one_over_the_rows_that_it_supposes():
    supposed = ["fit", "data.csv", "--epsilon", 1, "--dry-run", "--set", "rows=500"]
    ended = twin(*supposed, "--delta", 0.01)
    assert ended.stderr.startswith("Warning: delta 0.01 is above one over the supposed number of rows, 500")
    assert "Warning" not in twin(*supposed, "--delta", 0.001).stderr


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


def test_an_interrupted_fit_says_how_to_go_on(here, monkeypatch):
    def interrupted(*_, checkpoint, **__):
        Path(checkpoint).write_text("")
        raise KeyboardInterrupt

    monkeypatch.setattr(stub_twin, "fit", interrupted)
    ended = twin("fit", "data.csv", "--epsilon", 1)
    assert ended.exit_code == 130
    assert "Error: Interrupted.\nThe same command with --resume continues" in ended.stderr
    assert files() == ["data.csv", "data.twin.checkpoint"]


def test_a_fit_that_is_interrupted_before_it_spends_says_so(here, monkeypatch):
    monkeypatch.setattr(stub_twin, "fit", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    ended = twin("fit", "data.csv", "--epsilon", 1)
    assert (ended.exit_code, ended.stderr.splitlines()[-1]) == (130, "Nothing was spent.")
