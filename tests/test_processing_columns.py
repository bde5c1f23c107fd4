"""`preprocess` and `postprocess` that make, rename and drop columns, from the command line."""

from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from twinify_lite.cli import main

MODEL = """
import os
import numpyro, numpyro.distributions as dist

FOLDER = os.path.dirname(__file__)


def preprocess(frame):
    frame["thousands"] = frame["income"] / 1000
    return frame.drop(columns="income")


def postprocess(frame):
    frame["income"] = frame["thousands"] * 1000
    frame["wealth"] = frame["income"].map(lambda income: "rich" if income > 50_000 else "poor")
    frame["born"] = (2020 - frame["age"]).map(lambda year: f"{year}-01-01").astype("datetime64[us]")
    return frame.drop(columns="thousands")


def model(rows):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    with rows:
        numpyro.sample("age", dist.Normal(0, 0.5))
        numpyro.sample("thousands", dist.Normal(mean, 0.3))
"""
SCHEMA = """
columns.id = {kind = "identifier", sample = "surrogate"}
columns.age = {kind = "integer", min = 0, max = 100, nullable = false}
columns.thousands = {kind = "number", min = 0, max = 100, decimals = 1, nullable = false}
"""
FIT = ["fit", "data.csv", "--epsilon", 5, "--schema", "schema.toml", "--model", "own.py", "--set", "steps=20"]


def twin(*arguments):
    return CliRunner().invoke(main, list(map(str, arguments)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("processing")
    rows = [f"{number},{20 + number % 50},{20_000 + 100 * number}" for number in range(300)]
    (made / "data.csv").write_text("\n".join(["id,age,income", *rows]) + "\n")
    (made / "schema.toml").write_text(SCHEMA)
    (made / "own.py").write_text(MODEL)
    return made


@pytest.fixture(autouse=True)
def inside(folder, monkeypatch):
    monkeypatch.chdir(folder)


@pytest.fixture
def fitted(folder):
    if not Path("data.twin").exists():
        ended = twin(*FIT)
        assert ended.exit_code == 0, ended.output
    return "data.twin"


def sampled(source, *where):
    asked = [part for condition in where for part in ("--where", condition)]
    return twin("sample", source, "--model", "own.py", "--n", 20, "--seed", 1, "-o", "rows.csv", "--force", *asked)


def test_the_schema_declares_columns_that_preprocess_makes(fitted):
    ended = sampled(fitted)
    assert ended.exit_code == 0, ended.output
    assert sorted(pd.read_csv("rows.csv")) == ["age", "born", "id", "income", "wealth"]


def test_a_declared_column_that_nobody_makes_is_refused_still():
    Path("other.toml").write_text(SCHEMA + 'columns.nothing = {kind = "integer"}\n')
    ended = twin(*FIT, "--schema", "other.toml", "-o", "other.twin")
    assert ended.exit_code == 1
    assert "The table has no column 'nothing'" in ended.stderr


def test_check_finds_the_model_sound_that_fit_accepts():
    ended = twin("check", "own.py", "data.csv", "--schema", "schema.toml")
    assert ended.exit_code == 0, ended.output
    assert "thousands" in ended.stdout
    assert "income" not in ended.stdout


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('frame["thousands"] * 1000', 'frame["thousand"] * 1000'), "(in postprocess, on made-up rows"),
        (('else "poor"', "else 0"), "postprocess makes columns that no table can have"),
        (('frame["income"] / 1000', 'frame["incom"] / 1000'), "(in preprocess, on made-up rows"),
        (('numpyro.sample("thousands"', 'numpyro.sample("income"'), "Column 'thousands' is not observed"),
    ],
)
def test_check_still_tells_what_is_wrong(change, said):
    Path("wrong.py").write_text(MODEL.replace(*change))
    ended = twin("check", "wrong.py", "data.csv", "--schema", "schema.toml")
    assert ended.exit_code == 1
    assert said in ended.stderr


@pytest.mark.parametrize(
    ("where", "holds"),
    [
        (("income>=50000",), lambda rows: rows["income"] >= 50_000),
        (("income>=30000", "income<60000"), lambda rows: rows["income"].between(30_000, 59_999)),
        (("wealth=rich",), lambda rows: rows["income"] > 50_000),
        (("born<1970-01-01", "wealth=poor"), lambda rows: (rows["born"] < "1970") & (rows["wealth"] == "poor")),
    ],
)
def test_rows_are_chosen_by_the_columns_that_users_see(fitted, where, holds):
    ended = sampled(fitted, *where)
    assert ended.exit_code == 0, ended.output
    rows = pd.read_csv("rows.csv")
    assert len(rows) == 20
    assert holds(rows).all()
    assert rows["id"].tolist() == list(range(1, 21))


def test_a_column_that_postprocess_drops_cannot_be_asked_for(fitted):
    ended = sampled(fitted, "thousands>=10")
    assert ended.exit_code == 1
    assert "There is no column 'thousands' to choose rows by" in ended.stderr
    assert "'income'" in ended.stderr


def test_what_a_finished_column_cannot_be_is_refused(fitted):
    ended = sampled(fitted, "income=much")
    assert ended.exit_code == 1
    assert "Column 'income' is of type double" in ended.stderr


def test_check_runs_preprocess_on_made_up_rows_only(tmp_path):
    seen = tmp_path / "seen.txt"
    spying = f'    with open("{seen}", "a") as file: file.write(frame.to_csv())\n'
    Path("spy.py").write_text(MODEL.replace("    frame[", f"{spying}    frame[", 1))
    table = pd.read_csv("data.csv").assign(income=lambda rows: rows["income"] + 0.4242)
    table.to_csv("marked.csv", index=False)
    ended = twin("check", "spy.py", "marked.csv", "--schema", "schema.toml")
    assert ended.exit_code == 0, ended.output
    assert seen.read_text()
    assert ".4242" not in seen.read_text()
