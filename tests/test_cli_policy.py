"""`--policy` of `twin fit` and `twin sample`: what is forbidden ends with exit code 3, and leaves no file."""

import json
import os
from pathlib import Path

import pytest
import stub_twin
from stubbed import fit, install, twin

from twinify_lite import artifact


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    return install(tmp_path, monkeypatch)


def policy(text):
    Path("policy.toml").write_text(text)
    return ("--policy", "policy.toml")


def test_a_fit_that_asks_for_too_much_is_refused_before_the_table_is_read():
    ended = twin("fit", "data.csv", "--epsilon", 1, *policy("epsilon = 0.5\ndelta = 1e-7\n"))
    assert (ended.exit_code, stub_twin.CALLS) == (3, [])
    assert "epsilon up to 0.5, and this is 1" in ended.stderr
    assert "delta up to 1e-07" in ended.stderr
    assert sorted(os.listdir()) == ["data.csv", "policy.toml"]


def test_a_fit_is_given_the_policy_for_what_only_the_table_tells():
    assert twin("fit", "data.csv", "--epsilon", 1, *policy('forbidden_columns = ["age"]')).exit_code == 0
    assert stub_twin.CALLS[0]["policy"] == "policy.toml"


def test_an_allowed_twin_is_sampled():
    assert twin("sample", fit(), "--n", 5, *policy("epsilon = 1\n")).exit_code == 0
    assert Path("synthetic.csv").exists()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("epsilon = 0.5", "epsilon up to 0.5"),
        ('relation = "substitute"', "demands the relation 'substitute'"),
        ('forbidden_columns = ["AG*"]', "forbids the columns 'age'"),
        ('forbidden_columns = ["sex"]', "forbids the columns 'sex'"),  # which is in the rows alone
    ],
)
def test_a_forbidden_twin_is_not_sampled(text, why):
    ended = twin("sample", fit(), "--n", 5, *policy(text))
    assert ended.exit_code == 3
    assert why in ended.stderr
    assert not Path("synthetic.csv").exists()


def test_a_twin_that_is_not_private_is_refused_by_every_policy():
    ended = twin("sample", fit("--seed", 1), "--n", 5, *policy("delta = 0.5\n"))
    assert ended.exit_code == 3
    assert "NOT PRIVATE, which every policy forbids" in ended.stderr


def test_a_statement_is_verified_and_not_merely_believed():
    members = artifact.read(fit())
    statement = artifact.json_from_bytes(members["statement.json"])
    statement["epsilon"] = statement["spent"]["epsilon"] = 0.1
    artifact.write("data.twin", {**members, "statement.json": artifact.json_bytes(statement)})
    ended = twin("sample", "data.twin", "--n", 5, *policy("epsilon = 0.5\n"))
    assert ended.exit_code == 1
    assert "The privacy statement does not hold" in ended.stderr
    assert not Path("synthetic.csv").exists()


def test_a_refusal_is_told_in_json_too():
    ended = twin("sample", fit(), "--n", 5, "--json", *policy("epsilon = 0.5\n"))
    problem = json.loads(ended.stdout)["error"]
    assert (problem["type"], problem["exit_code"], ended.exit_code) == ("PolicyRefused", 3, 3)


def test_a_policy_with_a_mistake_stops_everything():
    for command in (["fit", "data.csv", "--epsilon", 1], ["sample", "data.twin"]):
        ended = twin(*command, *policy("epsilom = 1\n"))
        assert (ended.exit_code, stub_twin.CALLS) == (1, [])
        assert "did you mean 'epsilon'?" in ended.stderr
