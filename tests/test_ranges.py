"""Ranges concluded from noisy histograms."""

import datetime

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from twinify_lite.discover import ranges
from twinify_lite.schema import Column

NUMBER = Column(name="x", kind="number")
INTEGER = Column(name="k", kind="integer")
DAY = Column(name="d", kind="datetime")


def counts(grid, values):
    return np.bincount(grid.place(np.asarray(values, float)), minlength=grid.bins).astype(float)


@given(st.floats(1e-11, 1e17), st.booleans())
def test_a_value_lies_inside_the_edges_of_its_bin(value, negative):
    value = -value if negative else value
    grid = ranges.magnitudes(NUMBER)
    place = int(grid.place(np.array([value]))[0])
    assert grid.edges[place] <= value <= grid.edges[place + 1]


@pytest.mark.parametrize("power", range(-6, 7))
@pytest.mark.parametrize("sign", [1, -1])
def test_magnitudes_over_twelve_orders_and_both_signs(power, sign):
    rng = np.random.default_rng(power + 10)
    values = sign * 10.0**power * rng.uniform(0.3, 1, 1000)
    grid = ranges.magnitudes(NUMBER)
    low, high = ranges.hull(grid, counts(grid, values) + rng.normal(0, 20, grid.bins), 20, clear=4.0)
    assert low <= values.min()
    assert high >= values.max()
    assert max(abs(low), abs(high)) <= 5 * np.abs(values).max()


def test_an_empty_column_has_no_range():
    grid = ranges.magnitudes(NUMBER)
    noise = np.random.default_rng(0).normal(0, 20, (300, grid.bins))
    assert sum(ranges.hull(grid, noisy, 20, clear=ranges.clear(grid.bins)) is not None for noisy in noise) <= 4


def test_bins_that_are_clear_only_together_are_found():
    grid = ranges.magnitudes(NUMBER)
    noisy = counts(grid, [1.5, 3, 7] * 30)
    assert noisy.max() == 30
    assert ranges.hull(grid, noisy, 10, clear=4.0) == (1.0, 10.0)
    assert ranges.hull(grid, noisy, 20, clear=4.0) is None


def test_runs_are_found_on_both_sides_and_a_faint_side_by_the_magnitudes_of_the_other():
    grid = ranges.magnitudes(NUMBER)
    noisy = counts(grid, [15, 30, 70] * 100 + [-15, -30, -70] * 25)
    assert ranges.hull(grid, noisy, 10, clear=5.0) == (-100.0, 100.0)
    assert ranges.hull(grid, noisy, 25, clear=5.0) == (10.0, 100.0)


def test_zero_belongs_to_a_range_beside_it_and_to_no_other_side():
    grid = ranges.magnitudes(INTEGER)
    near, far = ([0] * 90 + [number] * 1000 for number in (1, 300))
    assert ranges.hull(grid, counts(grid, near), 10, clear=5.0) == (0.0, 1.0)
    assert ranges.hull(grid, counts(grid, far), 10, clear=5.0) == (200.0, 500.0)
    assert ranges.hull(grid, counts(grid, [0] * 900), 10, clear=5.0) is None


def test_whole_numbers_above_zero_begin_at_one():
    grid = ranges.magnitudes(INTEGER)
    assert ranges.hull(grid, counts(grid, [1] * 500 + [2] * 500 + [12] * 500), 10, clear=5.0) == (1.0, 20.0)
    assert ranges.hull(grid, counts(grid, [-1] * 500 + [-7] * 500), 10, clear=5.0) == (-10.0, -1.0)


def test_a_narrow_range_far_from_zero_is_looked_at_twice():
    years = np.random.default_rng(0).integers(1940, 2021, 5000)
    grid = ranges.magnitudes(INTEGER)
    low, high = ranges.hull(grid, counts(grid, years), 10, clear=4.0)
    assert (low, high) == (1000, 5000)
    for _ in range(2):
        assert ranges.is_coarse(INTEGER, low, high)
        grid = ranges.parts(low, high)
        low, high = ranges.zoom(grid, counts(grid, years), 10, spare=1, most=0.75)
    assert 1850 <= low <= 1940
    assert 2020 <= high <= 2150


def test_a_range_that_is_mostly_filled_stays_as_it_is():
    ages = np.random.default_rng(0).integers(17, 91, 5000)
    grid = ranges.parts(10, 100)
    assert ranges.zoom(grid, counts(grid, ages), 10, spare=1, most=0.75) == (10, 100)


def test_dates_are_found_by_decades():
    days = np.random.default_rng(0).integers(-3650, 18262, 5000)  # 1960 to 2019
    grid = ranges.magnitudes(DAY)
    low, high = ranges.hull(grid, counts(grid, days), 10, clear=4.0)
    epoch = datetime.date(1970, 1, 1).toordinal()
    assert datetime.date.fromordinal(int(low) + epoch) == datetime.date(1960, 1, 1)
    assert datetime.date.fromordinal(int(high) + epoch) == datetime.date(2020, 1, 1)


def test_rounding_gives_numbers_that_people_write():
    assert ranges.rounded(NUMBER, 123456.7, 987654.3) == (120_000, 990_000)
    assert ranges.rounded(NUMBER, 1e-12, 3e-12) == (1e-12, 3e-12)


@settings(max_examples=3000)
@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
@example(-5e-324, 100.0)
def test_rounding_only_widens_and_by_little(low, width):
    bottom, top = ranges.rounded(NUMBER, low, low + width)
    assert bottom <= low
    assert top >= low + width
    assert top - bottom <= 1.25 * width


def test_a_range_that_fills_its_lowest_part_asks_for_a_log_scale():
    rng = np.random.default_rng(0)
    grid = ranges.magnitudes(NUMBER)
    assert ranges.is_skewed(grid, counts(grid, rng.lognormal(6, 2, 5000)), 1, 100_000)
    assert not ranges.is_skewed(grid, counts(grid, rng.uniform(1, 100_000, 5000)), 1, 100_000)
    assert not ranges.is_skewed(grid, counts(grid, rng.lognormal(6, 2, 5000)), 0, 100_000)
