"""`twin fit` reads a table as its flags or its schema say, and never writes over what it read."""

import json
from pathlib import Path

import pytest
import stub_twin
from stubbed import install, twin

COMMAS = "weight;sex\n" + "70,5;f\n81,25;m\n" * 50


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    return install(tmp_path, monkeypatch, COMMAS)


def test_numbers_that_would_be_words_are_told_by_a_draft_and_never_by_a_fit():
    ended = twin("schema", "data.csv")
    assert "'weight' looks like numbers with decimal commas: add --decimal ," in ended.stderr
    assert "do not share it" in ended.stderr
    ended = twin("fit", "data.csv", "--epsilon", 1)
    assert (ended.exit_code, len(stub_twin.CALLS)) == (0, 1)
    assert "decimal" not in ended.output


def test_a_dry_run_tells_its_doubts_apart_from_the_plan(monkeypatch):
    monkeypatch.setattr(
        stub_twin, "dry_run", lambda *_, **__: {"steps": 100, "doubts": ["Column 'weight' ...: doubt."]}
    )
    ended = twin("fit", "data.csv", "--epsilon", 1, "--dry-run")
    assert (ended.exit_code, ended.stderr.splitlines()[0]) == (0, "Column 'weight' ...: doubt.")
    assert "doubt" not in ended.stdout
    ended = twin("fit", "data.csv", "--epsilon", 1, "--dry-run", "--json")
    assert json.loads(ended.stdout)["doubts"] == ["Column 'weight' ...: doubt."]


@pytest.mark.parametrize("mark", [",", "."])
def test_whoever_says_the_decimal_mark_is_believed(mark):
    assert twin("fit", "data.csv", "--epsilon", 1, "--decimal", mark).exit_code == 0
    assert stub_twin.CALLS[0]["data"].style.decimal == mark


def test_a_schema_that_knows_the_decimal_mark_is_enough():
    assert twin("schema", "data.csv", "--decimal", ",", "-o", "schema.toml").exit_code == 0
    assert twin("fit", "data.csv", "--epsilon", 1, "--schema", "schema.toml").exit_code == 0
    assert stub_twin.CALLS[0]["data"].style.decimal == ","


def test_a_table_is_never_replaced_by_its_twin_or_a_twin_by_a_table():
    ended = twin("fit", "data.csv", "--epsilon", 1, "--decimal", ",", "-o", "./data.csv", "--force")
    assert (ended.exit_code, Path("data.csv").read_text()) == (1, COMMAS)
    assert twin("fit", "data.csv", "--epsilon", 1, "--decimal", ",").exit_code == 0
    before = Path("data.twin").read_bytes()
    ended = twin("sample", "data.twin", "--n", 5, "-o", "data.twin", "--format", "csv", "--force")
    assert (ended.exit_code, Path("data.twin").read_bytes()) == (1, before)
