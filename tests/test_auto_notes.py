"""What a fit of the automatic model tells its user: columns that noise has cut loose, and ranges that are too wide."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest

import twinify_lite as tw
from twinify_lite.auto import notes as auto_notes
from twinify_lite.auto.chain import Link
from twinify_lite.auto.fine import bins_of, codes, with_heaps
from twinify_lite.auto.fitted import Chained
from twinify_lite.auto.levels import Levels, merge
from twinify_lite.schema import Column, Schema


def chained(*ties, columns=3, rows=500):
    """Columns of two levels each; a tie is a pair of columns and the effect between their equal levels."""
    schema = Schema(
        tuple(Column(name=f"c{k}", kind="category", levels=("a", "b"), nullable=False) for k in range(columns))
    )
    halves = np.full(2, 0.5)
    links = []
    for column in range(columns):
        found = [(first, effect) for first, second, effect in ties if second == column]
        effects = tuple(effect * np.eye(2) for _, effect in found)
        parents = tuple(parent for parent, _ in found)
        links.append(Link(column, parents, np.log(halves), effects, tuple(np.zeros((2, 2)) for _ in found), halves))
    levels = tuple(Levels(np.arange(2), np.ones(2), np.full(2, -1)) for _ in range(columns))
    return Chained(schema, levels, tuple(links), {"rows": rows, "bins": 16, "measured_pairs": len(ties)})


def test_strength_is_the_total_variation_that_a_tie_moves():
    fitted = chained((0, 1, 1.0), columns=3)
    assert auto_notes.strength(fitted) == pytest.approx([np.tanh(0.5), np.tanh(0.5), 0.0])


def test_columns_that_nothing_ties_to_others_are_named():
    (told,) = chained((0, 1, 1.0), (1, 2, 0.1), columns=4).notes()
    assert told.startswith("Nearly independent of all others (2 of 4): 'c2', 'c3'.")
    assert "about 500 rows" in told
    assert "2 of 6 pairs" in told


def test_where_all_pairs_were_measured_or_all_columns_are_tied_nothing_is_said():
    every = [(i, j, 0.01) for i, j in itertools.combinations(range(3), 2)]
    assert chained(*every).notes() == ()
    assert chained((0, 1, 1.0), (1, 2, 1.0)).notes() == ()
    assert chained(columns=1).notes() == ()


def test_a_fit_that_sees_no_pairs_says_so_and_its_twin_keeps_that(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"c{k}": rng.integers(0, 2, 60).astype(bool) for k in range(4)})
    schema = Schema(tuple(Column(name=name, kind="boolean", nullable=False) for name in frame))
    twin = tw.fit(frame, epsilon=0.2, schema=schema, insecure_seed=0)
    assert [note[:10] for note in twin.notes] == ["About 280 ", "Nearly ind"]
    assert twin.notes[1].startswith("Nearly independent of all others (4 of 4): 'c0',")
    twin.save(tmp_path / "t.twin")
    assert twin.notes[1] in tw.load(tmp_path / "t.twin").describe()


def one_column(column, counts_by_value, bins=64):
    """A chain of one column whose noisy counts are those of `counts_by_value(middle of a bin)`."""
    schema = Schema((column,))
    working = with_heaps(schema).modelled[0]
    fine = codes(working, bins)
    counts = np.zeros(fine.size)
    middles = np.cumsum(fine.width) - fine.width / 2
    counts[fine.line] = np.where(fine.point, 0.0, counts_by_value(middles / fine.width.sum()))
    levels = merge(fine, counts, 1.0, float(counts.sum()))
    shares = np.bincount(levels.of_code, weights=counts, minlength=levels.size)
    shares = np.maximum(shares / shares.sum(), 1e-7)
    assert bins_of(working, bins) == bins or column.kind == "integer"
    return Chained(
        schema,
        (levels,),
        (Link(0, (), np.log(shares), (), (), shares),),
        {"rows": 1000, "bins": bins, "measured_pairs": 0},
    )


WIDE = Column(name="income", kind="number", min=1, max=1e7, nullable=False)


def test_a_range_that_is_nearly_empty_is_named():
    (told,) = one_column(WIDE, lambda place: 1e5 * (place < 0.03)).notes()
    assert told.startswith("Coarse (1): 'income'.")
    assert "scale = 'log'" in told


@pytest.mark.parametrize(
    ("column", "law"),
    [
        (WIDE, lambda place: 1e3 * (place < 0.2)),
        (dataclasses.replace(WIDE, scale="log"), lambda place: 1e5 * (place < 0.03)),
        (Column(name="age", kind="integer", min=0, max=120, nullable=False), lambda place: 1e5 * (place < 0.03)),
    ],
    ids=["spread", "log already", "a code for each number"],
)
def test_a_range_that_is_used_or_fine_enough_is_not(column, law):
    assert one_column(column, law).notes() == ()


def test_times_whose_order_nothing_keeps_are_named_unless_the_schema_says_something():
    days = [Column(name=name, kind="datetime", min="2020-01-01", max="2020-03-01", nullable=False) for name in "ab"]
    frame = pd.DataFrame({name: pd.date_range("2020-01-01", periods=50).repeat(4) for name in "ab"})
    for constraints, count in (((), 1), (("a <= b",), 0)):
        schema = Schema.from_toml(f"constraints = {list(constraints)}\n" + Schema(days).to_toml())
        twin = tw.fit(frame, epsilon=1.0, schema=schema, insecure_seed=0)
        assert sum("Nothing keeps the order of times (2): 'a', 'b'" in note for note in twin.notes) == count
