"""A twin of one's own model: its code is run only from the user's file, or by explicit trust."""

import json
import os
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from twinify_lite import demo
from twinify_lite.cli import main

MODEL = """
import numpyro, numpyro.distributions as dist

open("ran", "a").close()


def model(rows):
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    with rows:
        numpyro.sample("age", dist.Normal(0, scale))
        numpyro.sample("sex", dist.Bernoulli(0.5))
"""
SCHEMA = """
[columns.age]
kind = "integer"
min = 0
max = 100
nullable = false

[columns.sex]
kind = "category"
levels = ["female", "male"]
nullable = false
"""


OWN = ["--model", "own.py", "--set", "steps=50"]


def twin(*arguments):
    """The end of a command, and whether it ran the model's code."""
    Path("ran").unlink(missing_ok=True)
    ended = CliRunner().invoke(main, list(arguments))
    return ended, os.path.exists("ran")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("own")
    demo.hospital(1000)[["age", "sex"]].to_csv(made / "data.csv", index=False)
    (made / "schema.toml").write_text(SCHEMA)
    (made / "own.py").write_text(MODEL)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        ended, ran = twin("fit", "data.csv", "--epsilon", "1", "--schema", "schema.toml", *OWN)
    assert (ended.exit_code, ran) == (0, True), ended.output
    assert "--model own.py" in ended.stderr
    return made


@pytest.fixture(autouse=True)
def inside(folder, monkeypatch):
    monkeypatch.chdir(folder)


@pytest.mark.parametrize("command", ["describe", "verify"])
def test_a_twin_is_described_and_verified_without_its_code(command):
    ended, ran = twin(command, "data.twin")
    assert (ended.exit_code, ran) == (0, False), ended.output
    assert twin(command, "data.twin", "--json")[1] is False


def test_a_description_without_its_code_says_who_states_the_guarantee():
    assert "`twin verify` recomputes it" in twin("describe", "data.twin")[0].stdout


def test_the_code_in_a_twin_is_not_run_unless_it_is_trusted():
    ended, ran = twin("sample", "data.twin", "--n", "5", "--json")
    assert (ended.exit_code, ran) == (1, False)
    assert "--model FILE" in json.loads(ended.stdout)["error"]["message"]
    ended, ran = twin("sample", "data.twin", "--n", "5", "--trust-model", "-o", "trusted.csv")
    assert (ended.exit_code, ran) == (0, True), ended.output
    assert len(pd.read_csv("trusted.csv")) == 5


def test_the_same_file_is_taken_and_another_one_is_not():
    ended, _ = twin("sample", "data.twin", "--n", "5", "--model", "own.py", "-o", "given.csv")
    assert ended.exit_code == 0, ended.output
    assert list(pd.read_csv("given.csv")) == ["age", "sex"]
    Path("other.py").write_text(MODEL + "# changed\n")
    ended, _ = twin("sample", "data.twin", "--n", "5", "--model", "other.py", "-o", "other.csv")
    assert ended.exit_code == 1
    assert "hash differs" in ended.stderr
    assert not os.path.exists("other.csv")
