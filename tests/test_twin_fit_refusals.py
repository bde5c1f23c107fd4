"""What is wrong with a request is said before anything is paid, and a dry run pays nothing at all."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import twinify_lite as tw
from twinify_lite import artifact, fitting
from twinify_lite.errors import ModelError, PrivacyParameterError, ReceiptError, SchemaError, TableError, TwinError
from twinify_lite.ledger import Ledger
from twinify_lite.schema import Column, Schema
from twinify_lite.table import read_table
from twinify_lite.twin import dry_run

QUICK = {"particles": 1024}
COLUMNS = (
    Column(name="a", kind="integer", min=0, max=9, nullable=False),
    Column(name="b", kind="category", levels=("x", "y"), nullable=False),
    Column(name="c", kind="boolean", nullable=False),
)
SCHEMA = Schema(COLUMNS)


def small(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {"a": rng.integers(0, 10, rows), "b": rng.choice(["x", "y"], rows), "c": rng.random(rows) < 0.3}
    )


@pytest.fixture
def broke(monkeypatch):
    """A world in which nothing can be paid for."""

    def spend(self, mechanism, what):
        raise AssertionError(f"{what} was paid for")

    monkeypatch.setattr(Ledger, "spend", spend)


# -- refusals ----------------------------------------------------------------------------------------------------------

REFUSED = {
    "no such option": ({"options": {"components": 3}}, ModelError, "no setting '?components"),
    "a part beyond the budget": ({"options": {"single": 2}}, ModelError, "'single'"),
    "epsilon of nothing": ({"epsilon": 0}, PrivacyParameterError, "epsilon"),
    "endless epsilon": ({"epsilon": float("inf")}, PrivacyParameterError, "epsilon"),
    "epsilon that is no number": ({"epsilon": float("nan")}, PrivacyParameterError, "epsilon"),
    "epsilon in words": ({"epsilon": "1"}, PrivacyParameterError, "epsilon"),
    "delta of nothing": ({"delta": 0.0}, PrivacyParameterError, "delta"),
    "no such target": ({"target": "z"}, SchemaError, "no column 'z'"),
    "no such device": ({"device": "gpu"}, TwinError, "no gpu here"),
    "no such model": ({"model": "nothing"}, ModelError, "no template 'nothing'"),
    "no such schema": ({"schema": "nothing.toml"}, SchemaError, "no file nothing.toml"),
    "nothing to accept of": ({"schema": None, "accept": "a"}, SchemaError, "no schema of which"),
    "accepting what is not there": ({"accept": ["z"]}, SchemaError, "no column 'z' to accept"),
    "nothing to resume from": ({"resume": True}, ReceiptError, "nothing to resume"),
    "other columns": ({"schema": Schema([Column(name="z", kind="boolean", nullable=False)])}, TwinError, "'z'"),
    "a seed in words": ({"insecure_seed": "1"}, PrivacyParameterError, "seed is a whole number"),
    "a seed below zero": ({"insecure_seed": -1}, PrivacyParameterError, "seed is a whole number"),
    "epsilon that is true": ({"epsilon": True}, PrivacyParameterError, "epsilon"),
    "epsilon in an array": ({"epsilon": np.array([1.0])}, PrivacyParameterError, "epsilon"),
    "delta in words": ({"delta": "1e-6"}, PrivacyParameterError, "delta"),
    "a device that is none": ({"device": 0}, PrivacyParameterError, "one of auto, cpu, gpu"),
    "a schema that is a dict": ({"schema": {"a": "integer"}}, SchemaError, r"tw\.Schema, not of type dict"),
    "a schema that is a table": ({"schema": small()}, SchemaError, "not of type DataFrame"),
    "a schema that is columns": ({"schema": COLUMNS}, SchemaError, r"tw\.Schema\(\["),
    "a schema of no file's name": ({"schema": "a\0b"}, SchemaError, "cannot be read"),
    "several targets": ({"target": ["a", "b"]}, SchemaError, "name of one column"),
    "a model that is a number": ({"model": 3}, ModelError, "name of a template"),
    "a model that is a list": ({"model": ["auto"]}, ModelError, "name of a template"),
    "options in a list": ({"options": ["steps"]}, ModelError, "dict of settings"),
    "options in words": ({"options": "steps=3"}, ModelError, "dict of settings"),
    "options without names": ({"options": {1: 2}}, ModelError, "dict of settings"),
    "accepting everything": ({"accept": True}, SchemaError, "name of a column or a list"),
    "progress that is none": ({"progress": True}, TwinError, "progress is a function"),
    "a checkpoint that is none": ({"checkpoint": True}, TableError, "path of a file"),
    "a checkpoint that is a folder": ({"checkpoint": "."}, TableError, "is a folder"),
    "nothing to model": (
        {"schema": Schema([Column(name=name, kind="identifier") for name in "abc"])},
        SchemaError,
        "No column is left to model",
    ),
}


@pytest.mark.parametrize(("request_", "error", "what"), REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_is_said_before_anything_is_paid(broke, request_, error, what):
    with pytest.raises(error, match=what) as refused:
        tw.fit(small(), **{"epsilon": 1.0, "schema": SCHEMA, **request_})
    assert not hasattr(refused.value, "spent")


NO_TABLES = {
    "None": None,
    "3": 3,
    "no file": "nothing.csv",
    "no path": Path("nothing.csv"),
    "no rows": small(0),
    "no columns": pd.DataFrame(),
    "two columns of one name": small().rename(columns={"c": "a"}),
    "columns without names": pd.DataFrame(np.zeros((5, 2))),
    "an array": np.zeros((5, 2)),
    "a dict": {"a": [1, 2]},
    "a column": small()["a"],
    "bytes": b"a,b",
}


@pytest.mark.parametrize("data", NO_TABLES.values(), ids=NO_TABLES)
def test_what_is_no_table_is_refused(broke, data):
    with pytest.raises(TableError):
        tw.fit(data, epsilon=1, schema=SCHEMA)


@pytest.mark.parametrize("number", [np.float32(1), np.int64(1), 1], ids=repr)
def test_a_number_of_numpy_is_a_number(number):
    assert dry_run(small(), epsilon=number, delta=np.float64(1e-6), schema=SCHEMA)["epsilon"] <= 1


def test_a_twin_is_no_table(broke, tmp_path):
    members = {"twin.json": b"{}", "schema.toml": b"", "statement.json": b"{}", "fitted.json": b"{}"}
    artifact.write(tmp_path / "data", members)
    with pytest.raises(TableError, match="is a twin, not a table"):
        tw.fit(tmp_path / "data", epsilon=1)
    artifact.write(tmp_path / "data.twin.checkpoint", members)
    with pytest.raises(TableError, match="is the checkpoint of a fit, not a table"):
        tw.fit(tmp_path / "data.twin.checkpoint", epsilon=1)


def test_a_relation_that_there_is_not_is_refused(broke):
    with pytest.raises(TwinError):
        tw.fit(small(), epsilon=1, schema=SCHEMA, relation="swap")


@pytest.mark.parametrize("options", [{"bins": 0}, {"particles": -1}, {"target_weight": 0}], ids=str)
def test_options_that_make_no_sense_are_refused_before_anything_is_paid(options):
    with pytest.raises(ModelError) as refused:
        tw.fit(small(), epsilon=5, schema=SCHEMA, target="a", options=options)
    assert not hasattr(refused.value, "spent")


def test_a_checkpoint_that_cannot_be_written_is_refused_before_anything_is_paid(broke, tmp_path):
    with pytest.raises(TableError, match="no folder"):
        tw.fit(small(), epsilon=1, schema=SCHEMA, options=QUICK, checkpoint=tmp_path / "nowhere" / "x")


def test_the_device_can_be_named():
    assert tw.fit(small(), epsilon=1, schema=SCHEMA, device="cpu", options=QUICK).is_private


def test_a_seed_makes_a_twin_that_says_it_is_not_private():
    one, other = (tw.fit(small(), epsilon=1, schema=SCHEMA, insecure_seed=3, options=QUICK) for _ in range(2))
    assert not one.is_private
    assert "NOT PRIVATE" in repr(one)
    assert one.sample(50, seed=0).equals(other.sample(50, seed=0))


def test_two_fits_without_a_seed_differ():
    one, other = (tw.fit(small(), epsilon=1, schema=SCHEMA, options=QUICK) for _ in range(2))
    assert not one.sample(500, seed=0).equals(other.sample(500, seed=0))


# -- schemas -----------------------------------------------------------------------------------------------------------


def test_a_schema_can_be_a_file(tmp_path):
    SCHEMA.save(tmp_path / "schema.toml")
    twin = tw.fit(small(), epsilon=1, schema=tmp_path / "schema.toml", options=QUICK)
    assert twin.schema["b"].levels == ("x", "y")


def test_what_was_read_from_the_data_must_be_accepted_by_name_and_the_statement_says_so(broke):
    peeked = Schema.draft(read_table(small()), peek=True)
    with pytest.raises(SchemaError, match="not private"):
        tw.fit(small(), epsilon=1, schema=peeked)


def test_accepted_columns_are_named_in_the_statement():
    peeked = Schema.draft(read_table(small()), peek=True)
    twin = tw.fit(small(), epsilon=1, schema=peeked, accept=peeked.peeked, options=QUICK)
    assert any("accepted by the user" in what and "'a'" in what for what in twin.statement["treated_as_public"])


# -- dry runs ----------------------------------------------------------------------------------------------------------


def test_a_dry_run_is_the_plan_and_the_noise_of_the_fit():
    schema = Schema(COLUMNS, rows=300)
    shown = dry_run(small(), epsilon=1, schema=schema, options=QUICK)
    twin = tw.fit(small(), epsilon=1, schema=schema, options=QUICK)
    for receipt in twin.statement["stages"][0]["receipts"]:
        noise = receipt["mechanism"]["noise_multiplier"]
        assert shown[f"noise of {receipt['what']}"] == pytest.approx(noise, rel=1e-9)
    assert shown["epsilon"] == pytest.approx(twin.statement["spent"]["epsilon"])
    assert {key: shown[key] for key in twin.fitted.settings} == dict(twin.fitted.settings)


@pytest.mark.parametrize("schema", [SCHEMA, None], ids=["declared", "open"])
def test_a_dry_run_says_the_same_of_every_table_of_the_same_kinds(schema, monkeypatch):
    for name in ("count_rows", "run_discovery"):
        monkeypatch.setattr(fitting, name, None)
    monkeypatch.setattr("twinify_lite.auto.encode", None)
    one, other = (dry_run(small(*size), epsilon=1, schema=schema) for size in ((300, 0), (5000, 7)))
    assert one == other
    assert one["rows (supposed)"] == 10_000


def test_a_dry_run_can_suppose_another_number_of_rows():
    few, many = (dry_run(small(), epsilon=1, schema=SCHEMA, options={"rows": rows}) for rows in (100, 10**6))
    assert (few["rows (supposed)"], many["rows (supposed)"]) == (100, 10**6)
    assert few["bins"] < many["bins"]


@pytest.mark.parametrize("relation", ["add-remove", "substitute"])
@pytest.mark.parametrize("model", [None, "independent"])
def test_a_dry_run_says_the_noise_of_every_release_within_the_budget(relation, model):
    if (relation, model) == ("substitute", "independent"):
        with pytest.raises(PrivacyParameterError, match="no theorem"):
            dry_run(small(), epsilon=1, schema=SCHEMA, relation=relation, model=model)
        return
    shown = dry_run(small(), epsilon=1, schema=SCHEMA, relation=relation, model=model)
    assert 0.9 < shown["epsilon"] <= 1
    assert shown["delta"] <= 1e-6
    assert ("noise of row count" in shown) == (relation == "add-remove")
    assert all(shown[name] > 0 for name in shown if name.startswith("noise of"))


def test_a_dry_run_refuses_what_a_fit_refuses():
    with pytest.raises(ModelError, match=r"no setting '?components"):
        dry_run(small(), epsilon=1, schema=SCHEMA, options={"components": 3})
    with pytest.raises(PrivacyParameterError):
        dry_run(small(), epsilon=-1, schema=SCHEMA)
    with pytest.raises(PrivacyParameterError, match="seed"):
        dry_run(small(), epsilon=1, schema=SCHEMA, insecure_seed="1")
    with pytest.raises(ModelError, match="dict of settings"):
        dry_run(small(), epsilon=1, schema=SCHEMA, options=["rows"])
    with pytest.raises(SchemaError):
        dry_run(small(), epsilon=1, schema=SCHEMA, target="z")


@pytest.mark.parametrize("rows", ["many", 0, -5, float("inf"), float("nan")])
def test_a_dry_run_refuses_a_number_of_rows_that_no_table_has(rows):
    with pytest.raises((ModelError, SchemaError, PrivacyParameterError)):
        dry_run(small(), epsilon=1, schema=SCHEMA, options={"rows": rows})
