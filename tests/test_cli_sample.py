"""`twin sample`, `describe` and `verify` as a skin."""

import json
import os
import re
import shutil
from types import SimpleNamespace

import pandas as pd
import pyarrow.parquet as pq
import pytest
import stub_twin
from stubbed import fit, install, twin

from twinify_lite import artifact
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


# -- sample ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(monkeypatch):
    """A disk with room for a megabyte."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10**6))


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz", "rows.parquet", "rows.feather"])
def test_rows_that_have_no_room_are_refused_before_any_is_written(fitted, small_disk, name):
    ended = twin("sample", "--n", 10**11, "-o", name)
    assert ended.exit_code == 1
    found = re.search(r"100,000,000,000 rows take about [0-9.]+ [GT]B, and only 1.0 MB are free where", ended.stderr)
    assert found, ended.stderr
    assert f"{name} was not written." in ended.stderr
    assert files() == ["data.csv", "data.twin"]


def test_as_many_rows_as_are_said_to_fit_do_fit(fitted, small_disk):
    refused = twin("sample", "--n", 10**9, "--datasets", 2)
    most = int(re.search("--n, ([0-9,]+) at most", refused.stderr)[1].replace(",", ""))
    assert most > 50_000
    assert twin("sample", "--n", most, "--datasets", 2).exit_code == 0
    assert sum(os.path.getsize(name) for name in files() if name.startswith("synthetic")) < 1.1e6


def test_few_rows_are_not_weighed(fitted, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: pytest.fail("The disk was looked at."))
    assert twin("sample", "--n", 1000).exit_code == 0


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
    assert [call["dataset"] for call in stub_twin.CALLS[1:]] == list(range(1, 11))
    assert {call["seed"] for call in stub_twin.CALLS[1:]} == {4}


def test_one_table_comes_from_the_best_estimate(fitted):
    assert twin("sample", "--n", 5).exit_code == 0
    assert [call["dataset"] for call in stub_twin.CALLS[1:]] == [0]


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
