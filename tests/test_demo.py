"""The made-up hospital has what real tables have, and `twin demo` shows it beside its twin."""

import json
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import stub_twin
from click.testing import CliRunner

import twinify_lite
from twinify_lite import demo
from twinify_lite.cli import main
from twinify_lite.schema import Schema
from twinify_lite.schema.draft import fill
from twinify_lite.table import read_table


@pytest.fixture(scope="module")
def people():
    return demo.hospital()


def test_the_hospital_is_the_same_for_the_same_seed(people):
    assert people.equals(demo.hospital())
    assert not people.equals(demo.hospital(seed=1))
    assert len(people) == demo.ROWS
    assert len(demo.hospital(100)) == 100


def test_the_hospital_is_messy_in_the_ways_that_matter(people):
    by_ward = people.groupby("ward")
    assert by_ward["age"].mean().max() - by_ward["age"].mean().min() > 50
    missing = people["sodium"].isna().groupby(people["ward"]).mean()
    assert missing["children"] > 0.6
    assert missing["heart"] < 0.05
    assert 0.5 < (people["cost"] == 0).mean() < 0.6
    assert 0.4 < (people["systolic"] % 10 == 0).mean() < 0.6  # a tenth, without heaps
    assert set(people["smoker"][people["age"] < 15]) == {"not applicable"}
    assert set(people["smoker"][people["age"] >= 15]) == {"yes", "no"}
    assert (people["referred"] <= people["admitted"]).all()
    assert people["age"].between(0, 100).all()


def test_readmission_depends_on_the_others(people):
    again = people["readmitted"] == "yes"
    assert again[people["smoker"] == "yes"].mean() > again[people["smoker"] == "no"].mean() + 0.1
    assert again[people["nights"] > 15].mean() > again[people["nights"] < 3].mean() + 0.1


def test_the_schema_declares_a_part_and_leaves_the_rest_to_the_budget(people):
    schema = fill(Schema.from_toml(demo.SCHEMA), read_table(people))
    assert list(schema) == list(people.columns)
    kinds = {name: column.kind for name, column in schema.items()}
    assert kinds["admitted"] == kinds["referred"] == "datetime"
    assert kinds["diagnosis"] == kinds["ward"] == kinds["smoker"] == "category"
    assert kinds["readmitted"] == "boolean"
    assert not schema["age"].open
    assert schema["cost"].open


def test_a_comparison_has_a_line_for_each_question(people):
    lines = demo.compare(people, people.sample(frac=0.5, random_state=0)).splitlines()
    assert len(lines) == 2 + len(demo._QUESTIONS)
    assert not [line for line in lines if "nan" in line]
    assert lines[0].split() == ["of", "rows", "made", "up", "twin"]
    told = {line.rsplit(maxsplit=3)[0].strip(): line.split()[-3:] for line in lines[1:-1]}
    assert told["mean age"][0] == str(demo.ROWS)
    assert told["mean nights, mind"][0] == str((people["ward"] == "mind").sum())
    assert float(told["share of women in maternity"][1]) == 1
    assert "fewer rows" in lines[-1]


def test_the_demo_writes_its_files_and_shows_both_tables(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "twinify_lite.twin", stub_twin)
    monkeypatch.setattr(twinify_lite, "twin", stub_twin, raising=False)
    monkeypatch.setattr(stub_twin.Twin, "batches", lambda _, n: iter([pa.Table.from_pandas(demo.hospital(n, 1))]))
    folder, replaced, replace = tmp_path / "demo", set(), os.replace
    monkeypatch.setattr(os, "replace", lambda old, new: replaced.add(new) or replace(old, new))
    ended = CliRunner().invoke(main, ["demo", "--folder", str(folder), "--rows", "500"])
    assert ended.exit_code == 0, ended.output
    names = ["hospital.csv", "hospital.twin", "report.html", "schema.toml", "synthetic.csv"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert len(pd.read_csv(folder / "hospital.csv")) == 500
    assert len(pd.read_csv(folder / "synthetic.csv")) == 10_000
    assert "must not leave" in (folder / "report.html").read_text()
    assert "mean age" in ended.stdout
    assert "These people do not exist" in ended.stdout
    assert "(1, 1e-06)-differential privacy" in ended.stdout
    assert ended.stderr.startswith("compiling ...")
    assert replaced == {str(folder / name) for name in names}
    again = CliRunner().invoke(main, ["demo", "--folder", str(folder)])
    assert (again.exit_code, "--force" in again.stderr) == (1, True)
    shown = CliRunner().invoke(main, ["demo", "--folder", str(folder), "--rows", "500", "--force", "--json"])
    assert np.isclose(json.loads(shown.stdout)["statement"]["epsilon"], 1.0)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="CPU time of a child")
def test_the_demo_keeps_what_matters_in_less_than_two_minutes_of_cpu(tmp_path):
    import resource

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "twinify_lite", "demo"], cwd=tmp_path, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 120
    people, twin = (pd.read_csv(tmp_path / "twin-demo" / name) for name in ("hospital.csv", "synthetic.csv"))
    for table in (people, twin):
        table["young"] = table["age"] < 15
    for ask in (lambda t: t["young"].mean(), lambda t: (t["cost"] == 0).mean(), lambda t: t["sodium"].isna().mean()):
        assert ask(twin) == pytest.approx(ask(people), abs=0.03)
    assert (twin["systolic"] % 10 == 0).mean() > 0.4
    assert (twin["referred"] <= twin["admitted"]).all()
    assert set(twin["smoker"][twin["young"]]) == {"not applicable"}
