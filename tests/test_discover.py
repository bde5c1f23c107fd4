"""Discovery: what the schema leaves open is found, and every look is paid for."""

import datetime
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from discoveries import found
from tables import hospital

from twinify_lite.accountant import DiscreteLaplace, Gaussian
from twinify_lite.discover import Undecided, discover, plan
from twinify_lite.errors import BudgetExceeded, PrivacyParameterError, SchemaError
from twinify_lite.ledger import Ledger
from twinify_lite.schema import Column, Schema
from twinify_lite.statement import GUESSED

NUMBER = {"kind": "number", "min": 0, "max": 1, "nullable": False}


@pytest.fixture(scope="module")
def hospital_twin():
    return found(hospital(60_000))


def test_discovery_takes_at_most_a_tenth_of_the_budget_when_all_is_open(hospital_twin):
    _, ledger = hospital_twin
    epsilon, delta = ledger.spent
    assert 0.09 < epsilon <= 0.1
    assert 0 < delta <= 0.25e-6


def test_the_row_count_is_a_stage_of_its_own_and_noisy(hospital_twin):
    discovery, ledger = hospital_twin
    assert [receipt.what for receipt in ledger.receipts if receipt.stage == 0] == ["row count"]
    assert discovery.rows != 60_000
    assert discovery.rows == pytest.approx(60_000, abs=1000)


def test_every_receipt_is_used_and_all_noise_is_settled_in_one_stage(hospital_twin):
    _, ledger = hospital_twin
    assert {receipt.stage for receipt in ledger.receipts[1:]} == {1}
    assert ledger._used == {id(receipt) for receipt in ledger.receipts}


def test_the_result_is_a_complete_schema_in_the_order_of_the_table(hospital_twin):
    discovery, _ = hospital_twin
    assert discovery.schema.is_complete
    assert list(discovery.schema) == list(hospital(1).columns)
    assert Schema.from_toml(discovery.schema.to_toml()) == discovery.schema


def test_ranges_of_numbers_and_dates_are_found(hospital_twin):
    schema = hospital_twin[0].schema
    for name, low, high, widest in (
        ("age", 0, 99, 100),
        ("sodium", 131, 149, 100),
        ("income", 1000, 85_000, 200_000),
        ("score", -2e-4, 2e-4, 2.1e-3),
    ):
        column = schema[name]
        assert column.min <= low, name
        assert column.max >= high, name
        assert column.max - column.min <= widest, name
    assert datetime.date(2008, 1, 1) <= schema["admitted"].min <= datetime.date(2010, 6, 1)
    assert datetime.date(2020, 6, 1) <= schema["admitted"].max <= datetime.date(2030, 1, 1)
    assert schema["born"].max >= datetime.date(2009, 1, 1)


def test_zeros_codes_and_structural_texts_become_values_of_their_own(hospital_twin):
    schema = hospital_twin[0].schema
    assert schema["income"].kind == "integer"
    assert "N" in schema["income"].special
    assert 9999 in schema["visits"].special
    assert schema["visits"].max < 100
    assert 0 in (*schema["cost"].special, *schema["cost"].heaps)


def test_missing_cells_are_found_where_they_are(hospital_twin):
    schema = hospital_twin[0].schema
    nullable = {name for name, column in schema.items() if column.nullable}
    assert nullable == {"ward", "score"}


def test_frequent_levels_are_found_and_the_rest_is_other(hospital_twin):
    schema = hospital_twin[0].schema
    assert set(schema["sex"].levels) == {"female", "male"}
    assert set(schema["ward"].levels) == {"north", "south", "west"}
    assert 20 <= len(schema["diagnosis"].levels) < 225
    assert schema["diagnosis"].other == "other"


def test_columns_that_cannot_be_modelled_are_left_out_and_the_user_is_told_what_to_declare(hospital_twin):
    discovery, _ = hospital_twin
    for name in ("patient", "note"):
        assert discovery.schema[name].kind == "identifier"
        assert any(repr(name) in note and "`levels`" in note and "identifier" in note for note in discovery.notes)


def test_the_user_is_told_how_many_columns_have_other_and_no_value(hospital_twin):
    discovery, _ = hospital_twin
    notes = " ".join(discovery.notes)
    assert "(3): 'sex', 'diagnosis', 'ward'" in notes
    levels = [level for column in discovery.schema.columns for level in column.levels or ()]
    assert not any(level in notes for level in levels)


def test_levels_come_in_alphabetical_order_not_in_that_of_the_rows():
    frame = pd.DataFrame({"c": ["z", "b", "a"] * 20_000, "x": ["9", "N", "Q"] * 20_000})
    first = found(frame)[0].schema
    second = found(frame.iloc[::-1].reset_index(drop=True))[0].schema
    assert first["c"].levels == second["c"].levels == ("a", "b", "z")


def test_a_complete_schema_and_a_declared_row_count_cost_nothing():
    schema = Schema((Column(name="x", **NUMBER),), rows=100)
    ledger = Ledger(1.0)
    discovery = discover(pd.DataFrame({"x": np.linspace(0, 1, 100)}), schema, ledger=ledger)
    assert ledger.spent == (0, 0)
    assert discovery.rows == 100
    assert discovery.schema["x"].max == 1


def test_the_share_shrinks_as_more_is_declared():
    ledger = Ledger(1.0)
    open_columns = [Column(name=f"c{i}", kind="category") for i in range(10)]
    closed = [Column(name=f"c{i}", kind="category", levels=("a",), nullable=False) for i in range(10)]
    spent = []
    for declared in range(10):
        schema = Schema((*closed[:declared], *open_columns[declared:]))
        budget = plan(schema, Undecided(), ledger, share=0.08)
        spent.append(sum(noise**-2 for noise in budget.noise.values()))
    assert all(np.diff(spent) < 0)
    assert spent[9] < spent[0] / 8
    nullable_only = Schema(tuple(column.replace(nullable=None) for column in closed))
    assert (
        sum(noise**-2 for noise in plan(nullable_only, Undecided(), ledger, share=0.08).noise.values()) < spent[0] / 8
    )
    assert not plan(Schema(tuple(closed)), Undecided(), ledger, share=0.08).noise


def test_what_is_declared_stays_as_declared():
    frame = pd.DataFrame({"x": np.random.default_rng(0).normal(5, 1, 50_000), "c": ["a", "b"] * 25_000})
    declared = Column(name="x", kind="number", min=-100)
    schema = found(frame, declared)[0].schema
    assert schema["x"].min == -100
    assert 8 <= schema["x"].max <= 20
    assert schema["c"].levels == ("a", "b")


def test_a_table_too_small_for_its_budget_keeps_its_columns_with_what_is_usual_and_says_so():
    frame = pd.DataFrame({"x": np.arange(20), "c": list("ab") * 10, "day": pd.date_range("2020-01-01", periods=20)})
    discovery, _ = found(frame)
    schema = discovery.schema
    assert [column.kind for column in schema.columns] == ["integer", "category", "datetime"]
    assert schema.is_complete
    assert (schema["c"].levels, schema["c"].other) == ((), "other")
    assert any("small for this epsilon" in note for note in discovery.notes)
    assert any("Without levels (1): 'c'." in note for note in discovery.notes)
    assert any("Guessed ranges (2): 'x', 'day'." in note for note in discovery.notes)


def test_under_substitution_the_row_count_is_public_and_noise_is_larger():
    frame = pd.DataFrame({"c": ["a", "b"] * 30_000})
    discovery, ledger = found(frame, relation="substitute")
    assert discovery.rows == 60_000
    assert discovery.schema["c"].levels == ("a", "b")
    assert ledger.spent[0] <= 0.1
    assert {type(receipt.mechanism).__name__ for receipt in ledger.receipts} == {"Gaussian", "ApproximateDP"}


def test_without_privacy_everything_is_found_exactly():
    frame = pd.DataFrame({"c": ["a", "b", "c"], "x": [1.5, 2.5, None]})
    ledger = Ledger.without_privacy()
    discovery = discover(frame, ledger=ledger)
    assert discovery.rows == 3
    assert discovery.schema["c"].levels == ("a", "b", "c")
    assert discovery.schema["x"].nullable
    assert not ledger.statement().private


def test_peeked_values_are_refused_before_anything_is_spent():
    frame = pd.DataFrame({"x": [0.5, 1.0]})
    ledger = Ledger(1.0)
    with pytest.raises(SchemaError, match=r"schema.accept\(\['x'\]\)"):
        discover(frame, Schema.draft(pa.Table.from_pandas(frame), peek=True), ledger=ledger)
    assert ledger.receipts == ()


def test_the_statement_names_the_columns_whose_peeked_values_were_accepted():
    frame = pd.DataFrame({"x": [0.5, 1.0], "y": [0.5, 1.0]})
    schema = Schema.draft(pa.Table.from_pandas(frame), peek=True).accept(["x", "y"])
    ledger = Ledger(1.0, 1e-6)
    discover(frame, Schema.from_toml(schema.to_toml()), ledger=ledger)
    assert "accepted by the user, of the columns 'x', 'y'" in str(ledger.statement())


@pytest.mark.parametrize("share", [0, -1, 1.5])
def test_a_share_outside_its_range_is_refused(share):
    with pytest.raises(PrivacyParameterError, match="share"):
        discover(pd.DataFrame({"x": [1.0]}), ledger=Ledger(1.0), share=share)


def test_the_statement_says_that_guessed_kinds_count_as_public():
    frame = pd.DataFrame({"c": ["a", "b"] * 100})
    for kinds, says in (("guess", True), ("private", False)):
        ledger = Ledger(1.0, 1e-6)
        discover(frame, ledger=ledger, kinds=kinds)
        assert (GUESSED in ledger.statement().to_json()["public"]) == says
        assert (GUESSED in str(ledger.statement())) == says


def test_a_plan_made_for_less_of_the_budget_has_more_noise():
    schema = Schema((Column(name="c", kind="category"),))
    small, large = (plan(schema, Undecided(), Ledger(1.0), share=share).noise["values"] for share in (0.01, 0.1))
    assert small > 5 * large
    assert Gaussian(noise_multiplier=large).noise_multiplier == large


def test_a_declared_kind_that_most_cells_contradict_is_not_refused_and_its_column_is_left_out_by_noisy_tallies():
    for cells in (["a", "b", *map(str, range(98))], [*map(chr, range(900, 1000))]):
        ledger = Ledger(1.0)
        frame = pd.DataFrame({"c": cells * 50, "d": [1, 2] * 2500})
        found = discover(frame, Schema((Column(name="c", kind="integer"),)), ledger=ledger)
        assert "d" in found.schema
        assert not [told for told in ledger.statement().treated_as_public if "most cells" in told]


def test_a_schema_may_be_the_path_of_its_file(tmp_path):
    path = tmp_path / "schema.toml"
    Schema((Column(name="x", **NUMBER),), rows=3).save(path)
    assert discover(pd.DataFrame({"x": [0.1, 0.2, 0.3]}), path, ledger=Ledger(1.0)).schema["x"].max == 1


def test_without_a_ledger_there_is_no_discovery():
    with pytest.raises(PrivacyParameterError, match="Ledger"):
        discover(pd.DataFrame({"x": [0.1]}), ledger=None)


def test_a_column_of_nothing_but_missing_cells_is_told_apart_from_free_text():
    frame = pd.DataFrame({"empty": pd.Series([None] * 40_000, dtype="string"), "c": ["a", "b"] * 20_000})
    discovery, _ = found(frame)
    assert any("missing cells" in note and "'empty'" in note for note in discovery.notes)


def test_columns_without_found_missing_cells_are_named_as_rare_ones_are_lost():
    rng = np.random.default_rng(0)
    present = [rng.random(40_000) > share for share in (0.3, 0.0, 0.0)]
    values = {f"c{number}": pd.Series(["a", "b"] * 20_000).where(here) for number, here in enumerate(present)}
    discovery, _ = found(pd.DataFrame(values))
    told = next(note for note in discovery.notes if note.startswith("Never missing"))
    assert "(2): 'c1', 'c2'." in told
    assert "`nullable = true`" in told
    discovery, _ = found(pd.DataFrame(values).drop(columns="c0"))
    assert any(
        note.startswith("Never missing (all 2 columns that do not declare `nullable`).") for note in discovery.notes
    )
    discovery, _ = found(pd.DataFrame({"c1": values["c1"]}), Column(name="c1", kind="category", nullable=False))
    assert not any("Never missing" in note for note in discovery.notes)


def test_declared_numbers_without_decimals_are_named_and_their_decimals_are_not_guessed():
    frame = pd.DataFrame({"x": [1.25, 2.5] * 50, "y": [1.5, 2.5] * 50, "z": [1, 2] * 50})
    bounds = {"min": 0, "max": 9, "nullable": False}
    columns = [
        Column(name="x", kind="number", **bounds),
        Column(name="y", kind="number", decimals=1, **bounds),
        Column(name="z", kind="number", dtype="int64", **bounds),
    ]
    discovery, ledger = found(frame, *columns)
    assert discovery.schema["x"].decimals is None
    assert discovery.notes == ("With all their digits (1): 'x'. Declare `decimals` to have these numbers rounded.",)
    assert not any("guessed" in public for public in ledger.statement().public)


def test_notes_begin_with_the_columns_that_they_are_about(hospital_twin):
    told = [note for note in hospital_twin[0].notes if note.startswith("Left out")]
    assert told
    assert all(re.match(r"Left out \(\d+\): '", note) for note in told)


def test_a_constraint_that_does_not_fit_what_was_found_is_named():
    frame = pd.DataFrame({"x": np.arange(40_000) % 50, "id": [f"i{i}" for i in range(40_000)]})
    schema = Schema.from_toml('constraints = ["if id == \'a\' then x == 1"]\n[columns.x]\nkind = "integer"')
    discovery = discover(frame, schema, ledger=Ledger(1.0))
    assert discovery.schema.constraints == ()
    assert any("if id ==" in note for note in discovery.notes)


def test_names_that_encode_would_refuse_are_refused_before_anything_is_spent():
    ledger = Ledger(1.0)
    with pytest.raises(SchemaError, match="Rename one"):
        discover(pd.DataFrame({"a": [1.5, 2.5], "a:state": [1.5, 2.5]}), ledger=ledger)
    assert ledger.receipts == ()


def test_a_declared_number_may_be_mostly_one_structural_word():
    frame = pd.DataFrame({"income": np.where(np.arange(40_000) % 5 == 0, (np.arange(40_000) % 900).astype(str), "N")})
    column = found(frame, Column(name="income", kind="integer"))[0].schema["income"]
    assert column.special == ("N",)
    assert column.max >= 800


def test_a_ledger_with_too_little_epsilon_left_is_refused_before_anything_is_spent():
    ledger = Ledger(1.0)
    ledger.spend(DiscreteLaplace(scale=2.0), "another release")
    spent = ledger.spent
    with pytest.raises(BudgetExceeded, match="share"):
        discover(pd.DataFrame({"c": ["a", "b"]}), ledger=ledger, share=0.9)
    assert ledger.spent == spent
