"""A heap is a level of its own, which no value next to it has any share of."""

import datetime

import numpy as np
import pandas as pd
import pytest

import twinify_lite as tw
from twinify_lite.auto.fine import Codes, bins_of, codes, with_heaps
from twinify_lite.auto.levels import merge
from twinify_lite.auto.margins import combine
from twinify_lite.encode import Cuts, encode
from twinify_lite.schema import Column, Schema

ROWS, NOISE = 10_000, 20.0
YEAR = datetime.date(2020, 1, 1)


def heaped(parts, rest):
    """Values of which `parts` lie at points, and the others are those of `rest(generator, size)`."""
    values = list(rest(np.random.default_rng(0), ROWS))
    for at, part in parts.items():
        count = round(part * ROWS)
        values = [at] * count + values[: len(values) - count]
    return values


def whole(low, high):
    return lambda rng, size: rng.integers(low, high + 1, size)


def decimals(low, high, digits):
    return lambda rng, size: rng.uniform(low, high, size).round(digits)


def amounts(rng, size):
    return rng.lognormal(4, 1, size).clip(1.5, 9000)


def days(rng, size):
    return [YEAR + datetime.timedelta(days=int(day)) for day in rng.integers(0, 3000, size)]


INTEGER, NUMBER, TIME = {"kind": "integer"}, {"kind": "number"}, {"kind": "datetime"}
CASES = {
    "at the top": (INTEGER | {"min": 1, "max": 501}, {501: 0.6}, whole(1, 499)),
    "at the top, declared": (INTEGER | {"min": 1, "max": 501, "heaps": (501,)}, {501: 0.6}, whole(1, 499)),
    "at the bottom": (INTEGER | {"min": 1, "max": 501}, {1: 0.6}, whole(2, 501)),
    "the first of two ends": (INTEGER | {"min": 0, "max": 501}, {500: 0.6}, whole(0, 501)),
    "side by side": (INTEGER | {"min": 1, "max": 501}, {500: 0.3, 501: 0.3}, whole(1, 479)),
    "declared, next to one that is not there": (
        INTEGER | {"min": 0, "max": 1000, "heaps": (999,)},
        {999: 0.5},
        whole(0, 980),
    ),
    "declared on both sides of a value": (
        INTEGER | {"min": 0, "max": 1000, "heaps": (499, 501)},
        {499: 0.3, 501: 0.3},
        whole(0, 480),
    ),
    "all there is": (INTEGER | {"min": 0, "max": 1000}, {1000: 1.0}, whole(0, 1000)),
    "all there are": (INTEGER | {"min": 0, "max": 1000}, {0: 0.5, 25: 0.25, 1000: 0.25}, whole(0, 1000)),
    "zero": (NUMBER | {"min": 0, "max": 100_000, "decimals": 2}, {0.0: 0.6}, amounts),
    "zero, nearly all there is": (NUMBER | {"min": 0, "max": 1e7, "decimals": 2}, {0.0: 0.98}, amounts),
    "zero between": (NUMBER | {"min": -500, "max": 500}, {0.0: 0.6}, decimals(-300, 300, 3)),
    "decimals": (NUMBER | {"min": 0, "max": 60, "decimals": 1, "heaps": (45.0,)}, {45.0: 0.94}, decimals(20, 43, 1)),
    "no steps": (NUMBER | {"min": 0, "max": 60, "heaps": (45.0,)}, {45.0: 0.94}, decimals(20, 43, 4)),
    "top of a logarithm": (NUMBER | {"min": 1, "max": 10_000, "scale": "log"}, {10_000.0: 0.6}, amounts),
    "bottom of a logarithm": (NUMBER | {"min": 1, "max": 10_000, "scale": "log"}, {1.0: 0.6}, amounts),
    "a time": (
        TIME | {"min": YEAR, "max": YEAR + datetime.timedelta(days=3652), "heaps": (YEAR, datetime.date(2029, 12, 31))},
        {datetime.date(2029, 12, 31): 0.6},
        days,
    ),
    "few values": (INTEGER | {"min": 0, "max": 20}, {20: 0.6}, whole(0, 15)),
    "a value each step": (INTEGER | {"min": 0, "max": 99}, {0: 0.3, 1: 0.3}, whole(3, 80)),
}


def codes_of(column, values, bins):
    working = with_heaps(Schema((column,)))
    cuts = {"x": bins_of(working["x"], bins)}
    return encode(working, pd.DataFrame({"x": values}), view="discrete", bins=cuts)["x"]


def code_shares(column, values, bins, seed):
    """True and drawn shares of all codes, and the levels."""
    fine = codes(with_heaps(Schema((column,))).modelled[0], bins, column.heaps or ())
    true = np.bincount(codes_of(column, values, bins), minlength=fine.size)
    counts = true + np.random.default_rng(seed).normal(0, NOISE, fine.size)
    levels = merge(fine, counts, NOISE, float(ROWS))
    by_level = np.bincount(levels.of_code, weights=counts), NOISE**2 * np.bincount(levels.of_code)
    drawn = combine([by_level], {}, [levels.alone]).shares[0][levels.of_code] * levels.weights
    return true / ROWS, drawn, levels


@pytest.mark.parametrize("bins", [Cuts(16, 10), Cuts(64, 8)], ids=["coarse", "fine"])
@pytest.mark.parametrize("case", CASES)
def test_a_heap_keeps_its_share_and_stands_alone(case, bins):
    keys, parts, rest = CASES[case]
    column = Column(name="x", nullable=False, **keys)
    for seed in range(3):
        true, drawn, levels = code_shares(column, heaped(parts, rest), bins, seed)
        heaps = codes_of(column, list(parts), bins)
        assert levels.alone[levels.of_code[heaps]].all()
        # All counts are scaled to their noisy sum, which is off by some 200 rows where there are 100 codes.
        assert drawn[heaps] == pytest.approx(true[heaps], abs=0.06)
        nobody = true == 0
        assert drawn[nobody].max(initial=0.0) < 0.03


def test_a_value_that_does_not_stand_out_goes_with_the_bin_it_lies_in_past_any_heap():
    column = Column(name="x", kind="integer", min=0, max=1000, heaps=(490, 492), nullable=False)
    fine = codes(column, 4)
    counts = np.array([100.0, 4000.0, 100.0, 100.0, 5000.0, 10.0])
    levels = merge(fine, counts, 20.0, counts.sum())
    assert levels.of_code[5] == levels.of_code[1]  # the bin from 250 to 499
    assert levels.alone[levels.of_code[4]]


def test_a_heap_of_the_schema_needs_less_to_be_believed_and_still_needs_something():
    places = np.arange(100)
    line = Codes(100, places, np.ones(100), np.zeros(100, bool), heap=places == 50)
    plain = Codes(100, places, np.ones(100), np.zeros(100, bool))
    counts = np.full(100, 200.0)
    counts[50] = 280.0  # four standard deviations above the others

    def stands_alone(fine):
        levels = merge(fine, counts, 20.0, counts.sum())
        return levels.alone[levels.of_code[50]]

    assert stands_alone(line)
    assert not stands_alone(plain)
    counts[50] = 40.0
    assert not stands_alone(line)


def test_the_schema_says_which_codes_are_heaps():
    column = Column(name="x", kind="integer", min=0, max=1000, heaps=(37, 500), nullable=False)
    fine = codes(with_heaps(Schema((column,)))["x"], 64, column.heaps)
    assert fine.point.sum() == 22  # every 50, and 37
    assert (fine.heap & fine.point).sum() == fine.heap.sum() == 2
    short = column.replace(max=200, heaps=(37,))
    assert np.flatnonzero(codes(with_heaps(Schema((short,)))["x"], 64, short.heaps).heap).tolist() == [37]
    assert not codes(with_heaps(Schema((column,)))["x"], 64).heap.any()


def test_a_twin_has_its_top_codes_and_none_of_the_values_below():
    rng = np.random.default_rng(0)
    months, lab = rng.integers(1, 500, 3000), rng.uniform(20, 43, 3000).round(1)
    months[:1800], lab[180:] = 501, 45.0
    columns = (
        Column(name="months", kind="integer", min=1, max=501, nullable=False),
        Column(name="lab", kind="number", min=0, max=60, decimals=1, heaps=(45.0,), nullable=False),
    )
    frame = pd.DataFrame({"months": months, "lab": lab})
    drawn = tw.fit(frame, epsilon=1.0, schema=Schema(columns), insecure_seed=0).sample(3000, seed=0)
    assert (drawn["months"] == 501).mean() == pytest.approx(0.6, abs=0.03)
    assert (drawn["months"] == 500).mean() < 0.01
    assert (drawn["lab"] == 45.0).mean() == pytest.approx(0.94, abs=0.03)
    assert (drawn["lab"] == 44.0).mean() < 0.01
