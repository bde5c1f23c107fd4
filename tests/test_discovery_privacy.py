"""That discovery is post-processing of its tallies, and that one row moves those by no more than it may.

Tables and their neighbours are read here from scratch, each by itself: what one row does to the reading of another
would show, and so would anything that reaches the result past the noise.
"""

import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import hospital

import twinify_lite as tw
from twinify_lite.discover import findings, ranges, votes
from twinify_lite.discover.known import codes_of, known_beside
from twinify_lite.schema import Column, Schema
from twinify_lite.table import PrivateTable

NASTY = [
    "0",
    "-0",
    "0.0",
    "1",
    "1.0",
    "+1",
    "1e0",
    "1e400",
    "-7",
    "007",
    "0x1F",
    "nan",
    "inf",
    "N",
    "abc",
    "٣",
    "999999999999999999999999999999",
    "1,5",
    "1.5",
    "2023-02-30",
    "2024-02-29",
    "2023-01-01",
    "2023-1-1",
    "0000-01-01",
    "0001-01-01",
    "9999-12-31",
    "2023-01-01T10:00:00",
    "2023-01-01T10:00:00Z",
    "2023-01-01T10:00:00.123456789",
    "2023-01-01T10:00:00.5",
]
NASTY += [
    "-9",
    "Y",
    "",
    " 1",
    "2023-01-01 10:00",
    "2023-01-01 10:00:00+02:00",
    "2024-03-31 03:30:00",
    "2999-07-01 12:00",
]
COLUMNS = [
    Column(name="x", kind="category"),
    Column(name="x", kind="number"),
    Column(name="x", kind="integer"),
    Column(name="x", kind="number", special=("N", -7), scale="log"),
    Column(name="x", kind="datetime"),
    Column(name="x", kind="datetime", resolution="second", zone="Europe/Helsinki"),
    Column(name="x", kind="datetime", format="%Y-%m-%d"),
    Column(name="x", kind="boolean"),
]
BALLOTS = {
    "values": findings.value_ballot,
    "rare values": findings.rare_value_ballot,
    "magnitudes": lambda look: look.number_ballot(ranges.magnitudes(look.column), inside=False),
    "closer": lambda look: look.number_ballot(ranges.parts(-10, 2000), inside=True),
}


def votes_by_item(columns, rows, release, found):
    """The tally of a table that is read from scratch, by what the items stand for, and which are asked for by name."""
    table = PrivateTable(pd.DataFrame(rows, columns=[f"{i}" for i in range(len(columns))], dtype="string"))
    looks = [findings.look_at(column.replace(name=f"{i}"), table) for i, column in enumerate(columns)]
    looks = [look for look in looks if release in ("values", "rare values") or look.seeks_range]
    for look in looks:
        names = [None, *(look.item(place) for place in range(1, len(look._found)))]
        look._found[:] = [name in found for name in names]
        look.ask([*codes_of(look.column), *known_beside([name for name in found if isinstance(name, str)])])
    moved, asked = {}, [{look.item(place) for place in np.flatnonzero(look.known[1:]) + 1} for look in looks]
    for number, (look, sums) in enumerate(
        zip(looks, votes.tally([BALLOTS[release](look) for look in looks]), strict=True)
    ):
        by_name = release in ("values", "rare values")
        names = [None, *(look.item(place) for place in range(1, len(sums)))] if by_name else range(len(sums))
        moved |= {(number, name): int(total) for name, total in zip(names, sums, strict=True)}
    return moved, asked


@pytest.mark.parametrize("release", BALLOTS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_one_row_moves_all_votes_of_a_release_together_by_at_most_its_weight(release, data):
    columns = data.draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=4))
    row = st.tuples(*[st.sampled_from(NASTY)] * len(columns))
    rows = data.draw(st.lists(row, min_size=2, max_size=8))
    found = data.draw(st.sets(st.sampled_from(["0", 0.0, 1.0, "N", "abc"])))
    whole, asked = votes_by_item(columns, rows, release, found)
    rest, asked_of_rest = votes_by_item(columns, rows[1:], release, found)
    assert asked == asked_of_rest
    moved = [whole.get(key, 0) - rest.get(key, 0) for key in whole.keys() | rest.keys()]
    assert sum(step**2 for step in moved) <= votes.WEIGHT**2


def test_a_missing_cell_that_makes_floats_of_whole_numbers_moves_no_other_vote():
    cells, found = [3, 10_000_000_000, 123_456_789_012, 2**53, -70_000_000_000] * 3, []
    for extra, dtype in (([], "int64"), ([None], "float64")):
        frame = pd.DataFrame({"x": pd.Series(cells + extra)})
        assert frame["x"].dtype == dtype
        look = findings.look_at(Column(name="x", kind="category"), PrivateTable(frame))
        (sums,) = votes.tally([findings.value_ballot(look)])
        names = [None, *(look.item(place) for place in range(1, len(sums)))]
        found.append({name: int(total) for name, total in zip(names, sums, strict=True) if total})
    whole, rest = found[1], found[0]
    assert "123456789012" in rest
    moved = [whole.get(key, 0) - rest.get(key, 0) for key in whole.keys() | rest.keys()]
    assert sum(step**2 for step in moved) <= votes.WEIGHT**2


def kinds_declared(frame, **changes):
    schema = Schema.draft(PrivateTable(frame))
    return schema.replace_columns(column.replace(**changes) for column in schema.columns)


def other_table(frame):
    """A table of the same kinds, in which every cell and the number of rows is different."""
    changed = frame.iloc[:700].copy()
    for name in frame.columns:
        present = changed[name].dropna()
        changed[name] = present.iloc[0] if len(present) else None
    return changed


def test_without_tallies_nothing_of_the_table_reaches_the_result(monkeypatch):
    """If all tallies say the same of two tables, so does everything that is found."""
    monkeypatch.setattr(votes.Noise, "add", lambda self, sums: np.arange(len(sums)) * 1000.0)
    monkeypatch.setattr(votes.Noise, "select", lambda self, sums, delta: np.full(len(sums), -np.inf))
    first, seed = hospital(3000), 7
    schema = kinds_declared(first)
    results = [
        tw.discover(frame, schema, ledger=tw.Ledger(1.0, insecure_seed=seed)) for frame in (first, other_table(first))
    ]
    assert results[0].schema == results[1].schema
    assert results[0].notes == results[1].notes
    noisy_rows = [result.rows for result in results]
    assert noisy_rows[0] - noisy_rows[1] == 2300  # the same noise on both: only the count itself differs


def test_whether_all_cells_are_missing_is_told_by_noisy_numbers_alone(monkeypatch):
    """A tally that speaks of 1500 missing cells is believed against both, a table without others and one with."""
    monkeypatch.setattr(votes.Noise, "add", lambda self, sums: np.where(np.arange(len(sums)) == 0, 1500.0, 0.0))
    monkeypatch.setattr(votes.Noise, "select", lambda self, sums, delta: np.full(len(sums), -np.inf))
    column = Column(name="x", kind="category")
    tables = [pd.DataFrame({"x": pd.array(cells, "string")}) for cells in ([None] * 3000, [None] * 300 + ["a"] * 400)]
    for rows, kind in ((3000, "identifier"), (1500, "constant")):
        found = [tw.discover(table, Schema([column], rows=rows), ledger=tw.Ledger(1.0)) for table in tables]
        assert found[0].schema == found[1].schema
        assert found[0].notes == found[1].notes
        assert found[0].schema["x"].kind == kind


def test_the_order_of_the_rows_does_not_matter(monkeypatch):
    """With noise that depends on the item alone, a table in any order gives the same result."""
    monkeypatch.setattr(votes.Noise, "add", lambda self, sums: sums / votes.WEIGHT)
    monkeypatch.setattr(
        votes.Noise,
        "select",
        lambda self, sums, delta: np.where(sums > 300 * votes.WEIGHT / 8, sums / votes.WEIGHT, -np.inf),
    )
    rng = np.random.default_rng(0)
    frame = hospital(3000)
    frame["visits"] = rng.choice(["1", "1.0", " 1", "2", "2.0", "X", "Q", "7", "8", "A"], len(frame))
    frame["zero"] = rng.choice(["0", "-0", "0.0", "-0.0", "5"], len(frame))
    schema = kinds_declared(frame)
    results = []
    for order in (slice(None), slice(None, None, -1)):
        shuffled = frame.iloc[order].reset_index(drop=True)
        results.append(tw.discover(shuffled, schema, ledger=tw.Ledger(1.0, insecure_seed=1)))
    assert results[0] == results[1]
    assert repr(results[0].schema) == repr(results[1].schema)  # where -0.0 is not 0.0


@pytest.mark.parametrize("relation", ["add-remove", "substitute"])
def test_all_selections_together_use_no_more_chance_than_was_paid_for(relation, monkeypatch):
    used = []
    select = votes.Noise.select
    monkeypatch.setattr(
        votes.Noise, "select", lambda self, sums, delta: used.append(delta) or select(self, sums, delta=delta)
    )
    ledger = tw.Ledger(1.0, 1e-6, relation=relation)
    tw.discover(hospital(500)[["sex", "ward", "age", "income"]], ledger=ledger)
    paid = next(receipt.mechanism.delta for receipt in ledger.receipts if receipt.what == "new values")
    twice = 2 if relation == "substitute" else 1
    assert 0.99 * paid <= twice * sum(used) <= paid * (1 + 1e-12)


def test_each_receipt_pays_for_one_joint_tally_and_each_item_leaves_once(monkeypatch):
    made = []
    make = votes.Tally.__init__
    monkeypatch.setattr(votes.Tally, "__init__", lambda self, *args: made.append(self) or make(self, *args))
    ledger = tw.Ledger(20.0)
    tw.discover(hospital(500), ledger=ledger, share=0.9)
    assert len(made) == sum(type(receipt.mechanism).__name__ == "Gaussian" for receipt in ledger.receipts)
    for tally in made:
        assert not any(kept.any() for kept in tally._kept)
        if tally._kept:
            with pytest.raises(tw.TwinError):
                tally.counts(0)


def test_a_year_that_python_does_not_know_is_a_text_among_the_dates():
    days = [f"2015-{month:02d}-11" for month in range(1, 13)] * 2000 + ["0000-01-01"] * 8000
    schema = tw.discover(
        pd.DataFrame({"d": days}), Schema((Column(name="d", kind="datetime"),)), ledger=tw.Ledger(1.0)
    ).schema
    assert "0000-01-01" in schema["d"].special
    assert schema["d"].min >= datetime.date(1990, 1, 1)


def test_a_ledger_without_delta_is_refused_before_anything_is_spent():
    ledger = tw.Ledger(1.0, 1e-6)
    frame = hospital(500)[["sex"]]
    for _ in range(3):
        tw.discover(frame, ledger=ledger, share=0.05)
    spent = ledger.spent
    with pytest.raises(tw.BudgetExceeded, match="delta"):
        tw.discover(frame, ledger=ledger, share=0.05)
    assert ledger.spent == spent


def test_a_frequent_value_that_is_the_declared_other_is_no_level_of_its_own():
    column = Column(name="c", kind="category", other="rest")
    found = tw.discover(pd.DataFrame({"c": ["rest", "a"] * 20_000}), Schema((column,)), ledger=tw.Ledger(1.0)).schema[
        "c"
    ]
    assert found.levels == ("a",)
    assert found.other == "rest"


def test_all_columns_share_one_rows_weight_in_every_tally_that_is_made(monkeypatch):
    made = []
    make = votes.Tally.__init__
    monkeypatch.setattr(votes.Tally, "__init__", lambda self, *args: made.append(self) or make(self, *args))
    schema = Schema(tuple(Column(name=name, kind="number") for name in "abcd"))
    tw.discover(pd.DataFrame({name: [1.5] for name in "abcd"}), schema, ledger=tw.Ledger(1.0))
    assert len(made) == 5
    for tally in made:
        assert sum(int(total) ** 2 for sums in tally._sums for total in sums) <= votes.WEIGHT**2


@pytest.mark.parametrize("cells", [["0.0", "-0.0", "1.5"], ["-0.0", "0.0", "1.5"]])
def test_equal_numbers_are_one_item_however_they_are_written(cells):
    look = findings.look_at(COLUMNS[1], PrivateTable(pd.DataFrame({"x": cells})))
    assert [repr(look.item(place)) for place in range(1, len(look._found))] == ["0.0", "1.5"]
    look = findings.look_at(COLUMNS[1], PrivateTable(pd.DataFrame({"x": ["1", "1.0", " 1", "2"]})))
    assert [look.item(place) for place in range(1, len(look._found))] == [1.0, 2.0]


def test_ranges_and_scales_come_from_noisy_tallies_alone(monkeypatch):
    """The tallies claim a few clear positive bins, whatever the table holds; range, zoom and scale follow them."""

    def add(self, sums):
        claimed = np.zeros(len(sums))
        start = len(sums) * 3 // 4
        claimed[start : start + (1 if len(sums) <= 16 else 3)] = 1e6
        return claimed

    monkeypatch.setattr(votes.Noise, "add", add)
    monkeypatch.setattr(votes.Noise, "select", lambda self, sums, delta: np.full(len(sums), -np.inf))
    schema = Schema((Column(name="x", kind="number"), Column(name="d", kind="datetime")))
    grids = [ranges.magnitudes(column) for column in schema.columns]
    (low, high), (first, last) = ((grid.edges[grid.bins * 3 // 4 + place] for place in (0, 3)) for grid in grids)
    days = [str(np.datetime64(int(first + part * (last - first)), "D")) for part in (0.02, 0.9)]
    # All numbers lie where the tallies claim them to be, but in other parts of that range: the lowest and the highest.
    low_end = pd.DataFrame({"x": np.geomspace(low * 1.01, low * 1.2, 5000), "d": days[0]})
    high_end = pd.DataFrame({"x": np.linspace(0.9, 0.99, 5000) * high, "d": days[1]})
    results = [tw.discover(frame, schema, ledger=tw.Ledger(100.0, 1e-2)) for frame in (low_end, high_end)]
    assert results[0].schema == results[1].schema
    assert high / low <= 10  # so the closer looks were made
    assert results[0].schema["x"].max < high


def test_a_frequent_number_beyond_what_a_schema_can_hold_does_not_lose_the_budget():
    frame = pd.DataFrame({"x": np.where(np.arange(40_000) % 2, 2**63 - 1, np.arange(40_000) % 50), "y": 2 * 10**18})
    schema = tw.discover(frame, ledger=tw.Ledger(1.0)).schema
    assert schema["x"].special == (2**63 - 1,)
    assert schema.is_complete


def test_one_cell_that_does_not_fit_a_declaration_refuses_nothing():
    cells = pd.Series([None] * 200 + ["abc"], dtype="string")
    column = Column(name="x", kind="integer", min=0, max=9, nullable=True)
    schema = tw.discover(pd.DataFrame({"x": cells}), Schema((column,), rows=201), ledger=tw.Ledger(1.0)).schema
    assert tw.encode(schema, pd.DataFrame({"x": cells}))["x:state"].tolist() == [1] * 201


def test_a_frequent_level_of_the_name_other_is_the_level_of_all_others():
    cells = ["other"] * 20_000 + ["b"] * 20_000 + [f"v{i}" for i in range(10_000)]
    schema = tw.discover(pd.DataFrame({"x": cells}), ledger=tw.Ledger(1.0)).schema
    assert (schema["x"].levels, schema["x"].other) == (("b",), "other")
    assert np.bincount(tw.encode(schema, pd.DataFrame({"x": cells}))["x"]).tolist() == [20_000, 30_000]


def test_a_frequent_number_beyond_whole_numbers_comes_back_as_it_is():
    numbers = np.where(np.arange(40_000) % 4, np.arange(40_000) % 50, 9.96921e36)
    schema = tw.discover(pd.DataFrame({"x": numbers}), ledger=tw.Ledger(1.0)).schema
    twin = tw.decode(schema, tw.encode(schema, pd.DataFrame({"x": numbers})))["x"].to_numpy()
    assert ((twin == 9.96921e36) == (numbers == 9.96921e36)).all()
    assert twin[numbers < 100].max() <= 100


def test_times_with_offsets_are_found_without_a_zone():
    cells = [f"2015-{1 + i % 12:02d}-{1 + i % 28:02d}T{i % 24:02d}:30:00+0200" for i in range(40_000)]
    column = Column(name="d", kind="datetime", format="%Y-%m-%dT%H:%M:%S%z", resolution="minute")
    found = tw.discover(pd.DataFrame({"d": cells}), Schema((column,)), ledger=tw.Ledger(1.0)).schema["d"]
    assert (found.kind, found.zone) == ("datetime", "UTC")
    assert found.min.year >= 2010
