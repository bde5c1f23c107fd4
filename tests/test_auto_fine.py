"""Fine codes: steps or bins on a line, round numbers that may be heaps, and everything else beside the line."""

import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinify_lite.auto.fine import _ROUND, _STEPS, _candidates, _round_step, bins_of, codes, with_heaps
from twinify_lite.encode import decode, encode, layout
from twinify_lite.encode.axis import axis
from twinify_lite.schema import Column, Schema


def integer(low, high, **more):
    return Column(name="x", kind="integer", min=low, max=high, **{"nullable": False, **more})


def number(low, high, **more):
    return Column(name="x", kind="number", min=low, max=high, **{"nullable": False, "decimals": 2, **more})


def prepared(column):
    return with_heaps(Schema([column]))["x"]


# -- codes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "size", "on_line"),
    [
        (Column(name="x", kind="category", levels=("a", "b", "c"), nullable=False), 3, 0),
        (Column(name="x", kind="category", levels=("a", "b"), other="else", nullable=True), 4, 0),
        (Column(name="x", kind="boolean", nullable=True), 3, 0),
        (Column(name="x", kind="ordinal", levels=("low", "middle", "high"), nullable=True), 4, 3),
        (integer(0, 9), 10, 10),
        (integer(0, 9, special=(99, "N"), nullable=True), 13, 10),
    ],
)
def test_levels_steps_special_values_and_missing_have_a_code_each(column, size, on_line):
    found = codes(column, 64)
    assert found.size == size
    assert sorted(found.line) == list(range(on_line))
    assert len(found.width) == len(found.point) == on_line
    assert (found.width == 1).all()
    assert not found.point.any()


def test_a_short_range_has_a_code_for_each_step_however_few_bins_others_get():
    assert bins_of(integer(0, _STEPS - 1), 16) == _STEPS
    assert codes(integer(0, _STEPS - 1), 16).size == _STEPS
    assert bins_of(integer(0, _STEPS), 16) == 16
    assert bins_of(number(0, 2), 16) == _STEPS
    assert bins_of(number(0, 100), 16) == 16
    assert bins_of(number(0, 2, decimals=None), 16) == 16
    assert bins_of(Column(name="x", kind="category", levels=("a",), nullable=False), 16) == 16


def test_codes_on_the_line_are_in_the_order_of_their_values_and_a_heap_comes_before_its_bin():
    column = prepared(number(0, 100))
    found, plan = codes(column, 16), layout(column, 16)
    starts = np.concatenate([plan.edges[:-1], plan.heaps])[found.line]
    assert (np.diff(starts) >= 0).all()
    same = np.flatnonzero(np.diff(starts) == 0)
    assert len(same)
    assert found.point[same].all()
    assert not found.point[same + 1].any()
    assert found.point.sum() == len(plan.heaps)
    assert set(found.line[found.point]) == set(range(plan.bins, plan.bins + len(plan.heaps)))


def test_widths_are_those_of_bins_and_of_single_steps():
    column = prepared(number(0, 100))
    found, plan = codes(column, 16), layout(column, 16)
    assert found.width[~found.point].sum() == pytest.approx(plan.edges[-1] - plan.edges[0])
    assert found.width[found.point] == pytest.approx(0.01)
    assert (codes(number(0, 100, decimals=None), 16).width == 100 / 16).all()


@given(
    st.integers(-(10**6), 10**6),
    st.integers(1, 10**7),
    st.sampled_from([1, 16, 64, 1024]),
    st.booleans(),
    st.sampled_from([(), ("N",), ("N", "refused")]),
)
def test_every_code_of_the_layout_is_on_the_line_or_beside_it(low, span, bins, nullable, special):
    column = prepared(integer(low, low + span, nullable=nullable, special=special))
    found, plan = codes(column, bins), layout(column, bins_of(column, bins))
    assert found.size == plan.size
    assert len(set(found.line.tolist())) == len(found.line) == plan.bins + len(plan.heaps)
    assert found.size - len(found.line) == len(special) + nullable
    assert (found.width > 0).all()


# -- heaps -------------------------------------------------------------------------------------------------------------


def test_long_ranges_get_their_ends_zero_and_round_numbers_as_heaps():
    assert {0, 10_000, 50_000, 99_999} <= set(prepared(integer(0, 99_999)).heaps)
    assert {-250, 0, 50, 750} <= set(prepared(integer(-250, 750)).heaps)
    assert {0.0, 2000.0, 1900.0} <= set(prepared(number(0, 2000)).heaps)
    assert {-5.0, 0.0, 5.0} <= set(prepared(number(-5, 5, decimals=None)).heaps)


def test_declared_heaps_stay():
    found = prepared(integer(0, 99_999, heaps=(12_345, 0))).heaps
    assert {0, 12_345, 50_000} <= set(found)
    assert len(found) == len(set(found))


@pytest.mark.parametrize(
    "column",
    [
        integer(0, 99),
        number(0, 2),
        Column(name="x", kind="datetime", min=datetime.date(1900, 1, 1), max=datetime.date(2100, 1, 1), nullable=False),
        Column(name="x", kind="category", levels=("a",), nullable=False),
    ],
)
def test_short_ranges_dates_and_levels_get_no_heaps(column):
    assert prepared(column) == column


def test_adding_heaps_twice_is_adding_them_once_and_leaves_other_columns_alone():
    others = (
        Column(name="id", kind="identifier", sample="surrogate"),
        Column(name="sex", kind="category", levels=("f", "m"), nullable=False),
    )
    schema = Schema([others[0], integer(0, 10**6), others[1]], rows=10)
    once = with_heaps(schema)
    assert with_heaps(once) == once
    assert (once["id"], once["sex"]) == others
    assert (list(once), once.rows) == (list(schema), 10)


@pytest.mark.parametrize("special", [(0,), (1000,), (500,), (0, "N", 250)], ids=str)
def test_a_special_value_inside_the_range_is_no_heap(special):
    assert not set(special) & set(prepared(integer(0, 1000, special=special)).heaps)


@pytest.mark.parametrize("low", [2**60, 10**18 + 1, -(2**61) - 1])
def test_heaps_of_very_large_whole_numbers_are_in_their_range(low):
    heaps = prepared(integer(low, low + 12_345)).heaps
    assert low in heaps
    assert low + 12_345 in heaps


@given(st.floats(-1e9, 1e9), st.floats(1e-3, 1e12), st.sampled_from([None, 0, 2, 6]))
def test_candidates_lie_in_the_range_with_its_ends_and_are_few(low, span, decimals):
    line = axis(number(low, low + span, decimals=decimals))
    if line.low == line.high:
        return
    found = _candidates(line)
    assert found[0] == line.low
    assert found[-1] == line.high
    assert (np.diff(found) > 0).all()
    assert len(found) <= _ROUND + 3
    assert (line.low < 0 < line.high) <= (0 in found)


@given(st.floats(1e-9, 1e15))
def test_the_step_between_round_numbers_is_the_smallest_that_gives_few(span):
    step = _round_step(span)
    digit = float(step) / 10.0 ** np.floor(np.log10(float(step)) + 1e-9)
    assert round(digit, 6) in (1, 2, 5)
    assert span / float(step) <= _ROUND
    assert span / float(step) > _ROUND / 2.6


def test_heaps_are_read_and_written_back_as_themselves():
    column = prepared(number(0, 2000))
    schema = Schema([column])
    values = np.array([0.0, 1900.0, 2000.0, 0.01, 1899.99])
    found = encode(schema, pd.DataFrame({"x": values}), view="discrete", bins=16)
    back = decode(schema, found, view="discrete", bins=16, rng=np.random.default_rng(0)).column("x").to_numpy()
    assert (back[:3] == values[:3]).all()
    assert not np.isin(back[3:], column.heaps).any()
