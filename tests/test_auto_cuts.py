"""Long ranges are cut finely beside zero, where amounts crowd."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import twinify_lite as tw
from twinify_lite.auto.fine import codes
from twinify_lite.auto.levels import merge
from twinify_lite.encode import Cuts, decode, encode, layout
from twinify_lite.schema import Column, Schema


def number(low, high, **more):
    return Column(name="x", kind="number", min=low, max=high, nullable=False, **more)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (number(0, 160), [0, 1.25, 2.5, 5, 10, 20, 30]),
        (number(-80, 80, decimals=2), [-10, -5, -2.5, -1.25, 0, 1.25, 2.5, 5, 10]),
        (number(-160, 0), [-20, -10, -5, -2.5, -1.25, 0]),
        (number(10, 170), [10, 11.25, 12.5, 15, 20, 30]),
        (Column(name="x", kind="integer", min=0, max=159_999, nullable=False), [0, 1250, 2500, 5000, 10_000, 20_000]),
    ],
)
def test_bins_beside_zero_are_halved(column, expected):
    edges = layout(column, Cuts(16, 3)).edges
    assert set(expected) <= set(edges.tolist())
    inner = edges[(edges >= min(expected)) & (edges <= max(expected))]
    assert len(inner) == len(expected)


@pytest.mark.parametrize(
    "column",
    [
        number(1, 1000, scale="log"),
        number(1000, 1160),
        number(15, 45, decimals=1),
        Column(name="x", kind="datetime", min=pd.Timestamp("1970-01-01").date(), max=pd.Timestamp("2020-01-01").date()),
    ],
)
def test_logarithms_times_and_ranges_away_from_zero_are_cut_evenly(column):
    column = column.replace(nullable=False)
    assert np.array_equal(layout(column, Cuts(16, 3)).edges, layout(column, 16).edges)


@pytest.mark.parametrize("column", [number(-50, 1e6, decimals=2), number(0, 1e6), number(-3, 5e-3)])
def test_values_come_back_into_their_own_cut(column):
    schema, cuts = Schema((column,)), {"x": Cuts(16, 8)}
    values = np.random.default_rng(0).uniform(column.min, column.max, 500)
    values[:250] *= 1e-4
    arrays = encode(schema, pd.DataFrame({"x": values.clip(column.min, column.max)}), view="discrete", bins=cuts)
    rows = decode(schema, arrays, view="discrete", bins=cuts, rng=np.random.default_rng(1))
    again = encode(schema, rows, view="discrete", bins=cuts)
    assert np.array_equal(arrays["x"], again["x"])


def test_a_tail_that_noise_hides_thins_out_with_its_magnitude():
    column = number(0, 1_000_000)
    fine = codes(column, Cuts(16, 8))
    counts = np.zeros(fine.size)
    counts[fine.line[:4]] = 1000.0  # nearly all below 2,000
    counts[fine.line[6:]] = 5.0  # and a few anywhere
    middles = np.convolve(layout(column, Cuts(16, 8)).edges, [0.5, 0.5], "valid")
    means = []
    for one in (fine, dataclasses.replace(fine, magnitude=None)):
        levels = merge(one, counts, 10.0, 4000.0)
        in_tail = levels.of_code == levels.of_code[fine.line[-1]]
        means.append(np.average(middles[in_tail], weights=levels.weights[in_tail]))
    assert means[0] < 0.5 * means[1]


def test_a_declared_range_is_no_worse_than_none():
    """Amounts of a few hundred in a range to a million: bins of equal width would have them all in the first."""
    amounts = np.random.default_rng(0).lognormal(5.5, 1.0, 8000).round(2)
    frame = pd.DataFrame({"amount": amounts, "kind": np.where(amounts > 300, "large", "small")})
    column = Column(name="amount", kind="number", min=0, max=1_000_000, decimals=2, nullable=False)
    twin = tw.fit(frame, epsilon=1.0, schema=Schema((column,)), insecure_seed=0, options={"bins": 16})
    drawn = twin.sample(8000, seed=0)
    quantiles = [0.1, 0.25, 0.5, 0.75, 0.9]
    assert drawn["amount"].quantile(quantiles).to_numpy() == pytest.approx(np.quantile(amounts, quantiles), rel=0.35)
    assert drawn["amount"].mean() < 3 * amounts.mean()
    assert not any("Coarse" in note for note in twin.notes)
