"""`fit` from end to end: what comes out is like what went in, and everything is paid for before it is run."""

import numpy as np
import pandas as pd
import pytest

import twinify_lite as tw
from twinify_lite.errors import BudgetExceeded
from twinify_lite.fitting import COUNTED
from twinify_lite.ledger import Ledger
from twinify_lite.schema import Column, Schema
from twinify_lite.verification import verify

ROWS = 2000
QUICK = {"particles": 2048}
SCHEMA = """
constraints = ["start <= end", "if age < 30 then income == 'N'"]
columns.id = {kind = "identifier", sample = "surrogate", pattern = "P{:04}"}
columns.name = {kind = "identifier"}
columns.site = {kind = "constant", value = "K"}
columns.age = {kind = "integer", min = 18, max = 90, nullable = false}
columns.sex = {kind = "category", levels = ["f", "m"], nullable = false}
columns.pregnant = {kind = "category", levels = ["no", "yes"], nullable = true}
columns.cost = {kind = "number", min = 0, max = 2000, decimals = 2, nullable = false}
columns.income = {kind = "integer", min = 0, max = 50000, special = ["N"], nullable = false}
columns.smoker = {kind = "boolean", nullable = false}
columns.stage = {kind = "ordinal", levels = ["I", "II", "III"], nullable = false}
columns.sodium = {kind = "number", min = 120, max = 160, decimals = 1, nullable = true}
columns.start = {kind = "datetime", min = 2020-01-01, max = 2020-12-31, nullable = false}
columns.end = {kind = "datetime", min = 2020-01-01, max = 2020-12-31, nullable = false}
"""


def made_up(rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 91, rows)
    sex = rng.choice(["f", "m"], rows)
    income = np.where(rng.random(rows) < 0.3, 20_000, rng.integers(0, 50_001, rows))
    start = np.datetime64("2020-01-01") + rng.integers(0, 300, rows)
    return pd.DataFrame(
        {
            "id": np.arange(rows),
            "name": [f"someone {number}" for number in range(rows)],
            "site": "K",
            "age": age,
            "sex": sex,
            "pregnant": np.where(sex == "m", None, np.where(rng.random(rows) < 0.2, "yes", "no")),
            "cost": np.where(rng.random(rows) < 0.6, 0, np.round(rng.lognormal(5, 1, rows), 2)).clip(0, 2000),
            "income": np.where(age < 30, "N", income.astype(str)),
            "smoker": rng.random(rows) < 0.3,
            "stage": rng.choice(["I", "II", "III"], rows, p=[0.5, 0.3, 0.2]),
            "sodium": np.where(rng.random(rows) < 0.25, np.nan, rng.normal(140, 3, rows).round(1)),
            "start": start.astype("datetime64[ns]"),
            "end": (start + rng.integers(0, 60, rows)).astype("datetime64[ns]"),
        }
    )


@pytest.fixture(scope="module")
def people():
    return made_up()


@pytest.fixture(scope="module")
def twin(people):
    return tw.fit(people, epsilon=10, schema=Schema.from_toml(SCHEMA), insecure_seed=0, options=QUICK)


@pytest.fixture(scope="module")
def rows(twin):
    return twin.sample(5000, seed=0)


SMALL = Schema(
    [
        Column(name="a", kind="integer", min=0, max=9, nullable=False),
        Column(name="b", kind="category", levels=("x", "y"), nullable=False),
        Column(name="c", kind="boolean", nullable=False),
    ]
)


def small(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 10, rows)
    return pd.DataFrame({"a": a, "b": np.where(a < 5, "x", "y"), "c": rng.random(rows) < 0.3})


# -- what comes out ----------------------------------------------------------------------------------------------------


def test_columns_and_types_are_those_of_the_table_without_names(people, rows):
    assert list(rows) == [name for name in people if name != "name"]
    typed = [name for name in rows if name != "id"]
    assert (rows[typed].dtypes == people[typed].dtypes).all()


def test_identifiers_are_made_up_and_constants_stay(rows):
    assert list(rows["id"][:2]) == ["P0001", "P0002"]
    assert rows["id"].is_unique
    assert set(rows["site"]) == {"K"}


def test_single_columns_are_close(people, rows):
    for name in ("sex", "smoker", "stage"):
        found, true = (table[name].value_counts(normalize=True) for table in (rows, people))
        assert (found - true).abs().max() < 0.04
    for name in ("age", "sodium"):
        assert rows[name].mean() == pytest.approx(people[name].mean(), abs=0.12 * people[name].std())
        assert rows[name].std() == pytest.approx(people[name].std(), rel=0.3)
    gap = rows["start"].mean() - people["start"].mean()
    assert abs(gap).days < 15


def test_values_stay_in_their_ranges(rows):
    assert rows["age"].between(18, 90).all()
    assert rows["cost"].between(0, 2000).all()
    assert rows["sodium"].dropna().between(120, 160).all()
    assert rows["end"].max() <= pd.Timestamp("2020-12-31")
    assert set(rows["pregnant"].dropna()) == {"no", "yes"}


def test_numbers_are_continuous_with_their_decimals(rows):
    costs = rows["cost"][rows["cost"] > 0]
    assert costs.nunique() > 0.8 * len(costs)
    assert (costs == costs.round(2)).all()
    assert rows["sodium"].nunique() > 100


def test_zeros_and_heaps_survive(people, rows):
    assert (rows["cost"] == 0).mean() == pytest.approx((people["cost"] == 0).mean(), abs=0.04)
    heap = [(table["income"] == "20000").mean() for table in (people, rows)]
    assert heap[1] == pytest.approx(heap[0], abs=0.05)
    assert (rows["income"] == "N").mean() == pytest.approx((people["income"] == "N").mean(), abs=0.05)


def test_missing_cells_survive_where_they_belong(people, rows):
    assert rows["sodium"].isna().mean() == pytest.approx(people["sodium"].isna().mean(), abs=0.04)
    wrong = rows["pregnant"].isna() != (rows["sex"] == "m")
    assert wrong.mean() < 0.03


def test_constraints_hold_in_every_row(rows):
    assert (rows["start"] <= rows["end"]).all()
    assert (rows["income"][rows["age"] < 30] == "N").all()


def test_a_twin_is_about_as_many_rows_as_there_were(twin):
    assert twin.rows == pytest.approx(ROWS, abs=200)


# -- sizes and budgets -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.1, 1, 10])
@pytest.mark.parametrize("columns", ["a", "ab", "abc"])
def test_small_tables_of_few_columns_have_twins_at_every_epsilon(epsilon, columns):
    schema = Schema([SMALL[name] for name in columns])
    twin = tw.fit(small()[list(columns)], epsilon=epsilon, schema=schema, options=QUICK)
    found = twin.sample(100, seed=0)
    assert list(found) == list(columns)
    assert len(found) == 100
    assert verify(twin.statement).recomputed <= epsilon


def test_two_hundred_rows_of_many_columns_fall_back_to_independent_columns():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"c{i}": rng.integers(0, 4, 200) for i in range(12)})
    columns = [Column(name=name, kind="integer", min=0, max=3, nullable=False) for name in frame]
    schema = Schema(columns, rows=200)
    twin = tw.fit(frame, epsilon=0.5, schema=schema, insecure_seed=0, options=QUICK)
    assert twin.fitted.describe()["pairs"] == 0
    assert [receipt["what"] for receipt in twin.statement["stages"][0]["receipts"]] == ["single columns"]
    found = twin.sample(4000, seed=0)
    assert np.abs(np.corrcoef(found.to_numpy().T) - np.eye(12)).max() < 0.09


def test_substitution_has_a_public_row_count_and_more_noise():
    one, other = (
        tw.fit(small(), epsilon=1, schema=SMALL, relation=relation, options=QUICK)
        for relation in ("add-remove", "substitute")
    )
    assert other.rows == 300
    assert [len(twin.statement["stages"]) for twin in (one, other)] == [2, 1]
    assert "the number of rows" in other.statement["public"]
    noise = [twin.statement["stages"][-1]["receipts"][0]["mechanism"]["noise_multiplier"] for twin in (one, other)]
    assert verify(other.statement).relation == "substitute"
    assert all(value > 1 for value in noise)


def test_without_a_schema_the_rest_is_found_from_the_budget(tmp_path):
    path = tmp_path / "data.csv"
    small(1500).to_csv(path, index=False)
    twin = tw.fit(path, epsilon=8, insecure_seed=0, options=QUICK)
    whats = [receipt["what"] for receipt in twin.statement["stages"][1]["receipts"]]
    assert whats[:2] == ["values", "rare values"]
    assert {"new values", "single columns"} <= set(whats)
    found = twin.sample(500, seed=0)
    assert set(found["b"]) <= {"x", "y", "other"}
    assert twin.statement["spent"]["epsilon"] <= 8


def test_numbers_of_any_decimals_have_twins():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(0, 1, 500).clip(-5, 5)})
    schema = Schema([Column(name="x", kind="number", min=-5, max=5, nullable=False)])
    twin = tw.fit(frame, epsilon=1, schema=schema, insecure_seed=0, options=QUICK)
    assert twin.sample(500, seed=0)["x"].nunique() > 300


def test_a_special_value_inside_the_range_has_twins():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": np.where(rng.random(300) < 0.4, 0, rng.integers(0, 1000, 300))})
    schema = Schema([Column(name="x", kind="integer", min=0, max=1000, special=(0,), nullable=False)])
    found = tw.fit(frame, epsilon=5, schema=schema, insecure_seed=0, options=QUICK).sample(1000, seed=0)
    assert (found["x"] == 0).mean() == pytest.approx(0.4, abs=0.1)


def test_a_target_is_last_in_the_chain_and_its_pairs_are_measured():
    twin = tw.fit(small(), epsilon=3, schema=SMALL, target="b", insecure_seed=0, options=QUICK)
    assert twin.fitted.describe()["order"][-1] == "b"
    assert twin.fitted.settings["target"] == "b"
    found = twin.sample(2000, seed=0)
    assert ((found["a"] < 5) == (found["b"] == "x")).mean() > 0.85


# -- what is paid, and when --------------------------------------------------------------------------------------------


def test_all_receipts_after_the_row_count_are_in_one_stage_within_the_budget():
    twin = tw.fit(small(), epsilon=10, schema=SMALL, options=QUICK)
    first, second = twin.statement["stages"]
    assert [receipt["what"] for receipt in first["receipts"]] == ["row count"]
    assert [receipt["what"] for receipt in second["receipts"]] == ["single columns", "pairs"]
    assert 0.95 * 10 < twin.statement["spent"]["epsilon"] <= 10
    assert twin.statement["spent"]["delta"] <= 1e-6
    assert verify(twin.statement).private
    assert twin.is_private


def test_nothing_but_the_row_count_is_run_before_all_is_paid_for(monkeypatch):
    events, spend, redeem = [], Ledger.spend, Ledger._redeem
    monkeypatch.setattr(
        Ledger, "spend", lambda self, mechanism, what: events.append(("spend", what)) or spend(self, mechanism, what)
    )
    monkeypatch.setattr(
        Ledger,
        "_redeem",
        lambda self, receipt, kind: events.append(("run", receipt.what)) or redeem(self, receipt, kind),
    )
    tw.fit(small(1000), epsilon=5, insecure_seed=0, options=QUICK)
    assert events[:2] == [("spend", "row count"), ("run", "row count")]
    kinds = [kind for kind, _ in events[2:]]
    assert kinds == sorted(kinds, reverse=True)
    paid, run = ([what for kind, what in events if kind == wanted] for wanted in ("spend", "run"))
    assert len(set(paid)) == len(paid)
    assert len(set(run)) == len(run)
    assert {"values", "single columns", "pairs"} <= set(run) <= set(paid)


def test_the_noisy_row_count_is_told_before_anything_else_is_paid_for():
    def stop(phase, done, total):
        assert (phase, done) == (COUNTED, total)
        assert 500 < total < 2000
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        tw.fit(small(1000), epsilon=1, schema=SMALL, progress=stop)
    assert stopped.value.spent.startswith("Spent before this: epsilon 0.02 of 1, delta 0")


def test_whatever_fails_after_spending_says_what_was_spent():
    def stop(phase, *_):
        if phase != COUNTED:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        tw.fit(small(), epsilon=1, schema=SMALL, progress=stop)
    assert stopped.value.spent.startswith("Spent before this: epsilon 0.99")

    def fail(*_):
        raise BudgetExceeded("Refused.")

    with pytest.raises(BudgetExceeded) as refused:
        tw.fit(small(20), epsilon=0.1, insecure_seed=0, progress=fail)
    assert refused.value.spent.startswith("Spent before this: epsilon 0.002 of 0.1, delta 0")


def test_a_row_count_that_is_mostly_noise_is_told_as_such():
    assert not any("give or take" in note for note in tw.fit(small(1000), epsilon=1, schema=SMALL).notes)
    assert "rows, give or take 1500: " in tw.fit(small(1000), epsilon=0.1, schema=SMALL).notes[0]


@pytest.mark.parametrize("epsilon", [0.1, 1, 10])
def test_few_rows_without_a_schema_give_a_twin_with_all_their_columns(epsilon):
    draw = np.random.default_rng(0)
    day = pd.Timestamp("2020-03-01") + pd.to_timedelta(draw.integers(0, 300, 200), unit="D")
    columns = {"age": draw.integers(18, 90, 200), "ward": draw.choice(["north", "south"], 200), "day": day}
    frame = pd.DataFrame({**columns, "dose": draw.uniform(0.5, 4, 200).round(1), "alive": draw.random(200) < 0.8})
    sample = tw.fit(frame, epsilon=epsilon).sample(300)
    assert list(sample.columns) == list(frame.columns)
    assert sample.dtypes.equals(frame.dtypes)
    if epsilon == 10:
        assert 0.5 < sample["alive"].mean() < 0.95
        assert {"north", "south"} <= set(sample["ward"])
        assert 18 <= sample["age"].median() <= 90
