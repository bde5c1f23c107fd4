"""`twin explain` and `twin plan`: a skin over `risk` and `planning`."""

import json
import math

import pytest
from click.testing import CliRunner
from stubbed import fit, install

import twinify_lite as tw
from twinify_lite import artifact
from twinify_lite.cli import main
from twinify_lite.statement import STYLE


def twin(*arguments):
    return CliRunner().invoke(main, list(map(str, arguments)))


@pytest.fixture
def here(tmp_path, monkeypatch):
    return install(tmp_path, monkeypatch)


# -- explain -----------------------------------------------------------------------------------------------------------


def test_an_epsilon_is_explained_in_sentences_and_a_picture():
    ended = twin("explain", "--epsilon", 1)
    assert ended.exit_code == 0
    assert ended.stdout == f"{tw.risk(epsilon=1.0)}\n"
    assert ended.stderr == ""


def test_a_twin_is_explained_from_its_own_receipts(here):
    ended = twin("explain", fit())
    assert ended.exit_code == 0
    assert "No twin was given" not in ended.stdout
    statement = artifact.json_from_bytes(artifact.read_twin("data.twin")["statement.json"], "statement.json")
    assert ended.stdout == f"{tw.risk(statement)}\n"


def test_delta_and_relation_count():
    told = [
        json.loads(twin("explain", "--epsilon", 1, "--json", *more).stdout)
        for more in ((), ("--delta", 1e-4), ("--relation", "substitute"))
    ]
    assert [one["delta"] for one in told] == [1e-6, 1e-4, 1e-6]
    assert [one["relation"] for one in told] == ["add-remove", "add-remove", "substitute"]
    assert told[1]["advantage"] > told[0]["advantage"]


def test_json_is_the_risk_and_its_sentences(here):
    told = json.loads(twin("explain", fit(), "--json").stdout)
    found = tw.risk("data.twin")
    assert (told["twin"], told["sentences"]) == ("data.twin", found.sentences())
    assert told["suspicion"]["0.5"] == found.suspicion[0.5]


@pytest.mark.parametrize(
    "arguments",
    [(), ("a.twin", "--epsilon", 1), ("a.twin", "--delta", 1e-6), ("a.twin", "--relation", "substitute")],
)
def test_a_twin_or_an_epsilon_is_given_and_not_both(arguments):
    ended = twin("explain", *arguments)
    assert ended.exit_code == 2
    assert "Usage:" in ended.stderr


@pytest.mark.parametrize(
    "arguments", [("--epsilon", 0), ("--epsilon", -1), ("--epsilon", "inf"), ("--epsilon", 1, "--delta", 0)]
)
def test_numbers_that_mean_nothing_are_refused(arguments):
    ended = twin("explain", *arguments)
    assert ended.exit_code == 1
    assert ended.stderr.startswith("Error: ")
    assert ended.stdout == ""


def test_a_twin_that_is_not_there_is_refused(here):
    assert twin("explain", "no.twin").exit_code == 1


def test_a_twin_that_is_not_private_is_said_to_be_none(here):
    ended = twin("explain", fit("--seed", 1))
    assert ended.exit_code == 0
    assert ended.stdout.startswith("NOT PRIVATE: rows and noise were drawn from a seed")
    told = twin("explain", "data.twin", "--json")
    assert json.loads(told.stdout)["advantage"] == 1.0
    assert "NOT PRIVATE" in told.stderr


def changed(name, change):
    """data.twin with one of its members changed, and a manifest that fits."""
    members = artifact.read_twin("data.twin")
    value = artifact.json_from_bytes(members[name], name)
    change(value)
    artifact.write("data.twin", {**members, name: artifact.json_bytes(value)})


def test_receipts_that_do_not_hold_have_no_risk(here):
    fit()
    changed("statement.json", lambda told: told["stages"][1]["receipts"][0]["mechanism"].update(noise_multiplier=1.0))
    ended = twin("explain", "data.twin")
    assert ended.exit_code == 1
    assert "does not hold" in ended.stderr


def test_receipts_that_the_rest_of_the_file_contradicts_have_no_risk(here):
    fit()
    changed("fitted.json", lambda told: told["settings"].update(pairs=0.5))
    ended = twin("explain", "data.twin")
    assert ended.exit_code == 1
    assert "no receipt pays for" in ended.stderr


def test_a_twin_of_ones_own_model_is_explained_without_the_model(here):
    ledger = tw.Ledger(1.0)
    ledger.spend(tw.DiscreteLaplace(scale=50.0), "row count").redeem(tw.DiscreteLaplace)
    steps = {"noise_multiplier": 6.0, "sampling_rate": 0.05, "steps": 100}
    ledger.spend(tw.PoissonGaussian(**steps), "DPSVI")
    ledger.treat_as_public(STYLE)
    members = {
        "twin.json": artifact.json_bytes({"fitted": "declared", "rows": 100, "notes": []}),
        "schema.toml": b'[columns.age]\nkind = "integer"\nmin = 0\nmax = 9\nnullable = false\n',
        "statement.json": artifact.json_bytes(ledger.statement().to_json()),
        "fitted.json": artifact.json_bytes({"settings": steps, "model": "own.py"}),
    }
    artifact.write("own.twin", members)
    ended = twin("explain", "own.twin")
    assert ended.exit_code == 0, ended.output
    assert ended.stdout == f"{tw.risk(ledger)}\n"


# -- plan --------------------------------------------------------------------------------------------------------------

SMALL = ("--rows", 2000, "--columns", 3, "--model", "auto")


def test_a_plan_is_a_table_with_a_line_for_each_epsilon():
    ended = twin("plan", *SMALL, "--epsilon", "0.5,1,2")
    assert ended.exit_code == 0
    assert ended.stdout.startswith("A table of 2,000 rows, 3 columns, at delta 1e-06.")
    lines = [line.split() for line in ended.stdout.splitlines() if line]
    assert [line[0] for line in lines if line[0] in ("0.5", "1", "2")] == ["0.5", "1", "2"]
    assert "To choose: " in ended.stdout


def test_a_plan_in_json_has_every_choice():
    told = json.loads(twin("plan", *SMALL, "--epsilon", "1, 2", "--delta", 1e-5, "--json").stdout)
    assert (told["rows"], told["columns"], told["delta"], told["declared"]) == (2000, 3, 1e-5, True)
    assert [(choice["model"], choice["epsilon"]) for choice in told["choices"]] == [("auto", 1.0), ("auto", 2.0)]
    assert all(0 < choice["risk"]["advantage"] < 1 for choice in told["choices"])


def test_a_plan_without_a_schema_has_more_noise():
    told = [json.loads(twin("plan", *SMALL, "--epsilon", 1, "--json", *more).stdout) for more in ((), ("--open",))]
    assert [one["declared"] for one in told] == [True, False]
    assert math.isclose(told[0]["choices"][0]["epsilon"], told[1]["choices"][0]["epsilon"])
    assert told[0]["choices"][0]["noise"] < told[1]["choices"][0]["noise"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--rows", 10, "--columns", 2), 2),
        ((*SMALL, "--epsilon", "1;2"), 2),
        ((*SMALL, "--epsilon", "1,"), 2),
        ((*SMALL, "--epsilon", "1,-2"), 1),
        ((*SMALL, "--epsilon", "1", "--delta", 3), 1),
        (("--rows", 0, "--columns", 2, "--epsilon", 1), 1),
        ((*SMALL, "--epsilon", 1, "--model", "nonsense"), 1),
    ],
)
def test_what_cannot_be_planned_is_refused(arguments, code):
    ended = twin("plan", *arguments)
    assert (ended.exit_code, ended.stdout) == (code, "")
    assert "Error: " in ended.stderr
