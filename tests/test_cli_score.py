"""`twin score`: what a user sees, and what is refused."""

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner
from score_cases import people

import twinify_lite as tw
from twinify_lite.cli import main
from twinify_lite.score import WARNING, closeness


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("score")
    for name, seed in (("real.csv", 0), ("synthetic.csv", 1), ("holdout.csv", 2)):
        tw.write_table(people(300, seed), path / name)
    return path


@pytest.fixture
def run(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return lambda *arguments: CliRunner().invoke(main, ["score", *arguments])


def test_the_first_line_is_the_warning_and_progress_goes_to_stderr(run):
    done = run("real.csv", "synthetic.csv", "--target", "retired")
    assert done.exit_code == 0
    assert done.stdout.split("\n")[0] == WARNING
    assert "predicting retired: AUC" in done.stdout
    assert "counting ..." in done.stderr
    assert "counting" not in done.stdout


def test_json_is_one_document_with_the_warning_first(run):
    done = run("real.csv", "synthetic.csv", "--holdout", "holdout.csv", "--json", "--quiet")
    told = json.loads(done.stdout)
    assert next(iter(told)) == "warning"
    assert told["rows"]["held-out"] == 300
    assert {figure["key"] for figure in told["figures"]} >= {"tvd_1way", "tvd_2way", "tvd_3way", "quality", "nearer"}
    assert done.stderr == ""


def test_a_page_is_written_whole_and_not_over_another_one(run, folder):
    done = run("real.csv", "synthetic.csv", "--report", "page.html")
    assert done.exit_code == 0
    page = (folder / "page.html").read_text()
    assert page.startswith("<!DOCTYPE html>") or page.startswith("<!doctype html>")
    assert WARNING in page
    assert "--twin" in done.stderr
    again = run("real.csv", "synthetic.csv", "--report", "page.html")
    assert again.exit_code == 1
    assert "--force" in again.stderr
    assert (folder / "page.html").read_text() == page
    nowhere = run("real.csv", "synthetic.csv", "--report", "nowhere/page.html")
    assert (nowhere.exit_code, "--report" in nowhere.stderr) == (1, True)


@pytest.mark.parametrize("place", ["synthetic.csv", "./holdout.csv", "link.html", "same.html"])
def test_a_page_never_takes_the_place_of_a_table(run, folder, place):
    if place == "link.html":
        os.symlink("real.csv", place)
    if place == "same.html":
        os.link("real.csv", place)
    before = {path.name: path.read_bytes() for path in folder.glob("*.csv")}
    done = run("real.csv", "synthetic.csv", "--holdout", "holdout.csv", "--report", place, "--force")
    assert (done.exit_code, "one of the files that are read" in done.stderr) == (1, True)
    assert {path.name: path.read_bytes() for path in folder.glob("*.csv")} == before


def test_rows_that_are_copies_are_told_below_the_warning_and_on_the_page(run, folder):
    done = run("real.csv", "real.csv", "--report", "copied.html")
    first, second = done.stdout.split("\n")[:2]
    assert first == WARNING
    assert second.startswith("LOOKS COPIED: ")
    assert second in (folder / "copied.html").read_text()


def test_the_page_tells_the_guarantee_of_a_twin_that_is_named_and_of_no_other(run, folder):
    done = CliRunner().invoke(main, ["fit", "real.csv", "--epsilon", "1", "--quiet"])
    assert done.exit_code == 0
    done = run("real.csv", "synthetic.csv", "--report", "without.html")
    assert "its guarantee is on it, too: --twin real.twin" in done.stderr
    assert "differential privacy" not in (folder / "without.html").read_text()
    done = run("real.csv", "synthetic.csv", "--report", "with_twin.html", "--twin", "real.twin")
    assert "with the guarantee of real.twin" in done.stderr
    assert "(1, 1e-06)-differential privacy" in (folder / "with_twin.html").read_text()


def test_a_twin_that_is_not_there_is_refused_before_the_score_takes_its_time(run, folder):
    done = run("real.csv", "synthetic.csv", "--report", "other.html", "--twin", "nothing.twin")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "counting" not in done.stderr
    assert not (folder / "other.html").exists()


def test_a_twin_that_leaves_a_column_out_has_not_made_rows_with_it(run, folder, tmp_path):
    schema = tw.Schema([tw.Column(name="joined", kind="identifier")])
    tw.fit(people(300), epsilon=1, schema=schema).save(tmp_path / "without.twin")
    done = run("real.csv", "synthetic.csv", "--report", "not_theirs.html", "--twin", str(tmp_path / "without.twin"))
    assert (done.exit_code, "not from this twin: it has no column 'joined'" in done.stderr) == (1, True)
    assert done.stdout.startswith(WARNING)


def test_a_twin_of_other_columns_is_not_said_to_guarantee_anything_of_these_rows(run, folder, tmp_path):
    tw.fit(people(300)[["age", "sex"]], epsilon=1).save(tmp_path / "other.twin")
    done = run("real.csv", "synthetic.csv", "--report", "not_theirs.html", "--twin", str(tmp_path / "other.twin"))
    assert (done.exit_code, "not from this twin: it has no column 'income'" in done.stderr) == (1, True)
    assert not (folder / "not_theirs.html").exists()


def test_a_private_score_may_leave(run):
    done = run("real.csv", "synthetic.csv", "--private", "1", "--target", "retired")
    assert done.exit_code == 0
    assert done.stdout.startswith("(1, 1e-06)-differentially private: this score may leave the house.")
    assert "NOT COVERED" not in done.stdout
    told = json.loads(run("real.csv", "synthetic.csv", "--private", "1", "--json").stdout)
    assert told["statement"]["private"] is True


@pytest.mark.parametrize(
    "options",
    [
        ["--private", "1", "--report", "x.html"],
        ["--private", "1", "--holdout", "holdout.csv"],
        ["--ledger", "book.json"],
        ["--delta", "1e-7"],
        ["--twin", "data.twin"],
        ["--private"],
        ["--seed", "-1"],
    ],
)
def test_options_that_do_not_go_together_are_a_usage_error(run, options):
    assert run("real.csv", "synthetic.csv", *options).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["real.csv", "gone.csv"], "gone.csv"),
        (["real.csv", "synthetic.csv", "--target", "retird"], "did you mean 'retired'"),
        (["real.csv", "synthetic.csv", "--schema", "gone.toml"], "gone.toml"),
        (["real.csv", "synthetic.csv", "--private", "0"], "epsilon"),
    ],
)
def test_what_is_wrong_is_told_with_exit_code_1(run, arguments, said):
    done = run(*arguments)
    assert done.exit_code == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    failed = json.loads(run(*arguments, "--json").stdout)
    assert failed["error"]["exit_code"] == 1


def test_a_refusal_after_the_real_rows_were_read_comes_with_the_warning(run):
    done = run("real.csv", "synthetic.csv", "--target", "nothing")
    assert done.stdout == f"{WARNING}\n"
    assert WARNING in done.stderr
    failed = json.loads(run("real.csv", "synthetic.csv", "--target", "nothing", "--json").stdout)
    assert list(failed) == ["warning", "error"]
    assert WARNING not in run("real.csv", "synthetic.csv", "--private", "1", "--target", "nothing").stderr


@pytest.mark.parametrize("way", ["interrupted", "unexpected", "a twin of other rows"])
def test_the_warning_begins_every_end_of_a_score_in_json(run, tmp_path, monkeypatch, way):
    options = []
    if way == "a twin of other rows":
        tw.fit(people(300)[["age", "sex"]], epsilon=1).save(tmp_path / "other.twin")
        options = ["--report", str(tmp_path / "r.html"), "--twin", str(tmp_path / "other.twin")]
    else:
        error = KeyboardInterrupt() if way == "interrupted" else MemoryError("a cell")
        monkeypatch.setattr(closeness, "closeness", lambda *_: (_ for _ in ()).throw(error))
    done = run("real.csv", "synthetic.csv", "--json", *options)
    assert done.exit_code == (130 if way == "interrupted" else 1)
    assert list(json.loads(done.stdout)) == ["warning", "error"]


def test_a_private_score_past_the_limit_of_its_ledger_ends_with_exit_code_3(run):
    first = run("real.csv", "synthetic.csv", "--private", "1", "--ledger", "book.json")
    assert first.exit_code == 0
    assert "book.json was begun with this release as its limit" in first.stderr
    assert "by 1 release." in first.stderr
    second = run("real.csv", "synthetic.csv", "--private", "1", "--ledger", "book.json")
    assert second.exit_code == 3
    assert "differentially private" not in second.stdout


def test_the_warning_is_red_on_a_terminal(folder):
    import pty

    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "twinify_lite", "score", "real.csv", "synthetic.csv", "--quiet"]
    with subprocess.Popen(command, cwd=folder, stdout=follower, stderr=subprocess.DEVNULL) as process:
        os.close(follower)
        shown = os.read(leader, 4096)
        while b"independent" not in shown:
            shown += os.read(leader, 4096)
        try:
            while os.read(leader, 4096):
                pass
        except OSError:  # how a terminal ends
            pass
        assert process.wait() == 0
    os.close(leader)
    assert shown.startswith(b"\x1b[31m")


def test_no_cell_of_a_table_reaches_an_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tw.write_table(people(60), "real.csv")
    tw.write_table(people(60).assign(age="CANARY-7f3a9c"), "synthetic.csv")
    done = CliRunner().invoke(main, ["score", "real.csv", "synthetic.csv"])
    assert done.exit_code == 1
    assert "'age'" in done.stderr
    assert "CANARY" not in done.output
