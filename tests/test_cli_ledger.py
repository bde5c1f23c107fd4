"""`twin ledger`, and `twin fit --ledger`: one budget for several fits, from the command line."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from twinify_lite import demo
from twinify_lite.accountant import Gaussian
from twinify_lite.book import Book
from twinify_lite.cli import main
from twinify_lite.table import write_table


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def twin(*arguments):
    return CliRunner().invoke(main, list(map(str, arguments)))


def test_a_file_is_begun_shown_and_given_another_limit():
    assert twin("ledger", "a.ledger", "--epsilon", 3, "--delta", 1e-5).exit_code == 0
    Book("a.ledger").charge("0123abcd", 0, [Gaussian(noise_multiplier=4.0)])
    ended = twin("ledger", "a.ledger")
    lines = ended.stdout.splitlines()
    assert lines[0].startswith("a.ledger: (3, 1e-05)-differential privacy at most, under adding or removing one row")
    assert lines[1].startswith(f"Spent: epsilon {Book('a.ledger').total():.4g} at delta 1e-05")
    assert "  0123abcd, stage 1: Gaussian (mu 0.25)" in ended.stdout
    assert "slightly more or less here" in ended.stderr
    assert twin("ledger", "a.ledger", "--epsilon", 5).exit_code == 0
    assert [limit.epsilon for limit in Book("a.ledger").read().limits] == [3, 5]


def test_json_holds_the_file_and_what_it_adds_up_to():
    twin("ledger", "a.ledger", "--epsilon", 3, "--delta", 1e-5, "--relation", "substitute")
    Book("a.ledger").charge("0123abcd", 0, [Gaussian(noise_multiplier=4.0)])
    shown = json.loads(twin("ledger", "a.ledger", "--json").stdout)
    assert shown["spent"]["epsilon"] == Book("a.ledger").total()
    assert (shown["releases"], shown["relation"], shown["entries"][0]["run"]) == (1, "substitute", "0123abcd")
    assert 0 < shown["largest_fit"] < 3


def test_a_limit_below_what_is_spent_ends_with_3():
    twin("ledger", "a.ledger", "--epsilon", 3)
    Book("a.ledger").charge("0123abcd", 0, [Gaussian(noise_multiplier=4.0)])
    before = Path("a.ledger").read_text()
    ended = twin("ledger", "a.ledger", "--epsilon", 0.5, "--json")
    assert ended.exit_code == 3
    assert json.loads(ended.stdout)["error"]["type"] == "BudgetExceeded"
    assert Path("a.ledger").read_text() == before


def test_the_relation_of_a_file_stays_as_it_is():
    twin("ledger", "a.ledger", "--epsilon", 3)
    ended = twin("ledger", "a.ledger", "--epsilon", 5, "--relation", "substitute")
    assert ended.exit_code == 1
    assert Book("a.ledger").read().limit.epsilon == 3


def test_a_file_that_is_not_there_is_not_begun_by_looking(here):
    ended = twin("ledger", "a.ledger")
    assert ended.exit_code == 1
    assert "twin ledger a.ledger --epsilon 3" in ended.stderr
    assert list(here.iterdir()) == []


# -- twin fit --ledger -------------------------------------------------------------------------------------------------


@pytest.fixture
def table():
    write_table(demo.hospital(500), "data.csv")
    Path("schema.toml").write_text(demo.SCHEMA)
    return ("fit", "data.csv", "--schema", "schema.toml")


def test_a_second_fit_is_refused_until_the_owner_raises_the_limit(table):
    ended = twin(*table, "--epsilon", 1, "--ledger", "a.ledger")
    assert ended.exit_code == 0, ended.output
    begun, spent = ended.stderr.splitlines()[-3:-1]
    assert begun.startswith("a.ledger was begun with this release as its limit, epsilon 1.0")
    assert spent.startswith("a.ledger: epsilon 0.99")
    assert spent.endswith("is spent at delta 1e-06, by 1 release.")
    before = Path("a.ledger").read_text()
    ended = twin(*table, "--epsilon", 1, "--ledger", "a.ledger", "-o", "b.twin")
    assert (ended.exit_code, ended.stdout) == (3, "")
    assert "twin ledger a.ledger --epsilon E" in ended.stderr
    assert Path("a.ledger").read_text() == before
    assert not Path("b.twin").exists()
    twin("ledger", "a.ledger", "--epsilon", 2)
    ended = twin(*table, "--epsilon", 1, "--ledger", "a.ledger", "-o", "b.twin")
    assert ended.exit_code == 0
    assert "by 2 releases." in ended.stderr


def test_a_fit_under_another_relation_or_from_a_seed_is_refused_before_the_table_is_read(table):
    twin("ledger", "a.ledger", "--epsilon", 3)
    Path("data.csv").write_text("never,read\n")
    for option, why in ((("--relation", "substitute"), "cannot be added"), (("--seed", 1), "subtracted by anyone")):
        ended = twin(*table, "--epsilon", 1, "--ledger", "a.ledger", *option)
        assert ended.exit_code == 1
        assert why in ended.stderr


def test_a_dry_run_charges_nothing_and_says_when_there_is_no_room(table):
    twin("ledger", "a.ledger", "--epsilon", 0.5)
    before = Path("a.ledger").read_text()
    assert twin(*table, "--epsilon", 0.4, "--ledger", "a.ledger", "--dry-run").exit_code == 0
    assert twin(*table, "--epsilon", 1, "--ledger", "a.ledger", "--dry-run").exit_code == 3
    assert twin(*table, "--epsilon", 1, "--ledger", "b.ledger", "--dry-run").exit_code == 0
    assert Path("a.ledger").read_text() == before
    assert not Path("b.ledger").exists()
