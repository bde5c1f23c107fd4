"""Ranges are found over magnitudes and signs, with heaps, codes and tails, and noise makes none."""

import datetime

import numpy as np
import pandas as pd
import pytest
from discoveries import found

from twinify_lite.discover import bounds, ranges
from twinify_lite.discover.findings import Look
from twinify_lite.schema import Column


def look_at_nothing(column):
    """A column in which noise shows nothing, with a guessed range."""
    nothing = np.zeros(0)
    look = Look(column, nothing, nothing, [], nothing, nothing, nothing, is_guessed=True)
    grid = ranges.magnitudes(column)
    look.range = ranges.likeliest(grid, np.zeros(grid.bins), 1.0)
    return look


@pytest.mark.parametrize("power", [-9, -6, -3, 0, 3, 6, 9])
@pytest.mark.parametrize("sign", [1, -1])
def test_bounds_are_robust_over_orders_of_magnitude_and_signs(power, sign):
    values = sign * 10.0**power * np.random.default_rng(0).uniform(0.5, 1.5, 30_000)
    column = found(pd.DataFrame({"x": values}))[0].schema["x"]
    assert column.min <= np.quantile(values, 0.02)
    assert column.max >= np.quantile(values, 0.98)
    assert column.max - column.min <= 5 * 10.0**power


@pytest.mark.parametrize(("values", "low", "high"), [(3e6, 0, 5e6), (-40, -50, 0), (0.03, 0, 0.05)])
def test_what_is_not_clear_is_guessed_from_votes_and_what_is_usual(values, low, high):
    grid = ranges.magnitudes(Column(name="x", kind="number"))
    votes = np.zeros(grid.bins)
    assert ranges.likeliest(grid, votes, 10.0) == (0, 100)
    votes[grid.place(np.array([values]))] = 100.0
    assert ranges.likeliest(grid, votes, 10.0) == (low, high)


def test_times_are_guessed_to_be_of_the_last_decades():
    grid = ranges.magnitudes(Column(name="x", kind="datetime"))
    votes = np.zeros(grid.bins)
    ends = [datetime.date(1970, 1, 1) + datetime.timedelta(days=end) for end in ranges.likeliest(grid, votes, 10.0)]
    assert ends == [datetime.date(1970, 1, 1), datetime.date(2030, 1, 1)]
    votes[:3] = 100.0
    assert ranges.likeliest(grid, votes, 10.0) == (grid.edges[0], grid.edges[3])


def test_whole_numbers_that_are_found_from_two_on_begin_with_one():
    grades = np.random.default_rng(0).choice(np.arange(1, 17), 30_000, p=[0.0005, *[0.9995 / 15] * 15])
    column = found(pd.DataFrame({"x": grades}))[0].schema["x"]
    assert (column.kind, column.min) == ("integer", 1)


@pytest.mark.parametrize(
    ("column", "low", "high"),
    [
        (Column(name="x", kind="integer", max=-5), -50, -5),
        (Column(name="x", kind="number", max=-200.0), -2000, -200),
        (Column(name="x", kind="number", max=0.0), -100, 0),
        (Column(name="x", kind="integer", min=1000), 1000, 10_000),
        (Column(name="x", kind="number", min=-3.0), -3, 100),
        (Column(name="x", kind="number", max=40.0), 0, 40),
        (Column(name="x", kind="number", scale="log"), 0.1, 100),
    ],
)
def test_a_guess_leaves_declared_ends_where_they_are_and_room_beside_them(column, low, high):
    look = look_at_nothing(column)
    assert bounds.bounds(look) == bounds.Bounds(low, high, [])


@pytest.mark.parametrize(("column", "sign"), [({"min": 0.0}, -1), ({"max": 0.0}, 1)])
def test_a_guess_on_the_other_side_of_a_declared_zero_is_turned_over(column, sign):
    look = look_at_nothing(Column(name="x", kind="number", **column))
    look.range = tuple(sorted((0.0, sign * 50.0)))
    assert bounds.bounds(look) == bounds.Bounds(*sorted((0.0, -sign * 50.0)), [])


@pytest.mark.parametrize(("end", "day"), [("max", (1960, 1, 1)), ("min", (2035, 1, 1)), ("min", (9998, 12, 1))])
def test_guessed_times_leave_declared_ends_where_they_are(end, day):
    column = Column(name="x", kind="datetime", **{end: datetime.date(*day)})
    low, high, apart, is_narrow = bounds.bounds(look_at_nothing(column))
    ends = {"min": low, "max": high}
    assert datetime.date(1970, 1, 1) + datetime.timedelta(days=int(ends[end])) == datetime.date(*day)
    assert low < high
    assert (apart, is_narrow) == ([], False)


def test_outliers_do_not_stretch_the_range():
    values = np.random.default_rng(0).normal(100, 10, 30_000)
    values[:5] = [1e15, -1e15, 1e12, 1e9, 1e300]
    column = found(pd.DataFrame({"x": values}))[0].schema["x"]
    assert -100 <= column.min <= np.quantile(values, 0.01)
    assert np.quantile(values, 0.99) <= column.max <= 1000


def test_heavy_tails_and_both_signs():
    values = np.random.default_rng(0).standard_t(1.5, 30_000) * 50
    column = found(pd.DataFrame({"x": values}))[0].schema["x"]
    assert column.min <= np.quantile(values, 0.05)
    assert column.max >= np.quantile(values, 0.95)
    assert column.max - column.min <= 1e5


def test_a_column_that_is_nearly_all_zero_still_has_a_range():
    values = np.zeros(30_000)
    values[:100] = 5.0
    column = found(pd.DataFrame({"x": values}))[0].schema["x"]
    assert column.kind in ("number", "integer")
    assert column.min < column.max


def test_a_log_scale_gets_a_positive_range():
    values = np.append(np.random.default_rng(0).lognormal(3, 2, 30_000), np.zeros(10_000))
    column = found(pd.DataFrame({"x": values}), Column(name="x", kind="number", scale="log"))[0].schema["x"]
    assert 0 < column.min < 5
    assert column.max > 200
    assert 0 in column.special


def test_noise_makes_no_absurd_range_in_a_table_of_many_columns():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"x{i}": rng.integers(0, 100, 20_000) for i in range(40)})
    for seed in range(10):
        schema = found(frame, seed=seed)[0].schema
        assert all(column.min >= -100 and column.max <= 1000 for column in schema.modelled)


def test_codes_of_a_small_scale_stay_numbers_of_one_range():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"x{i}": rng.integers(0, 9, 40_000) for i in range(12)})
    for seed in range(5):
        for column in found(frame, seed=seed)[0].schema.modelled:
            assert column.special == ()
            assert column.min <= 1
            assert column.max >= 8


def test_a_column_with_one_frequent_number_has_room_on_both_sides_and_says_so():
    values = np.full(40_000, 2)
    values[:400] = 1
    discovery, _ = found(pd.DataFrame({"code": values, "zero": 0}))
    assert (discovery.schema["code"].min, discovery.schema["code"].max) == (1, 3)
    assert (discovery.schema["zero"].min, discovery.schema["zero"].max) == (0, 1)
    assert any("'code', 'zero'" in note and "`min`" in note for note in discovery.notes)


def test_skewed_positive_numbers_get_a_log_scale():
    values = np.random.default_rng(0).lognormal(6, 2, 40_000).round(2)
    column = found(pd.DataFrame({"cost": values}))[0].schema["cost"]
    assert column.scale == "log"
    assert column.min > 0


def test_numbers_on_both_sides_of_zero_have_a_range_on_both():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"x{i}": rng.normal(0, 100, 12_000).round(2) for i in range(10)})
    for column in found(frame)[0].schema.modelled:
        assert -2000 <= column.min <= -100
        assert 100 <= column.max <= 2000


@pytest.mark.parametrize("sigma", [3, 7])
def test_numbers_that_fill_no_magnitude_clearly_are_found_together(sigma):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"x{i}": rng.lognormal(0, sigma, 25_000) for i in range(15)})
    declared = [Column(name=name, kind="number") for name in frame]
    for column in found(frame, *declared)[0].schema.modelled:
        assert ((frame[column.name] >= column.min) & (frame[column.name] <= column.max)).mean() > 0.7


def test_zeros_that_are_not_frequent_enough_as_a_value_are_found_as_a_magnitude():
    rng = np.random.default_rng(0)
    costs = {f"x{i}": np.where(rng.random(3_000) < 0.7, 0, rng.uniform(200, 500, 3_000)).round(2) for i in range(10)}
    for column in found(pd.DataFrame(costs))[0].schema.modelled:
        assert column.max >= 1
        assert 0 in (*column.special, *column.heaps)


@pytest.mark.parametrize("seed", range(3))
def test_where_every_number_is_frequent_the_code_among_them_stands_apart(seed):
    rng = np.random.default_rng(seed)
    scores = np.where(rng.random(100_000) < 0.3, -1, rng.integers(3, 16, 100_000))
    column = found(pd.DataFrame({"x": scores}), seed=seed)[0].schema["x"]
    assert (column.min, column.max, column.special) == (3, 15, (-1,))


def test_many_frequent_numbers_below_zero_are_no_codes():
    column = found(pd.DataFrame({"x": np.random.default_rng(0).integers(-12, 13, 200_000)}))[0].schema["x"]
    assert (column.min, column.max, column.special) == (-12, 12, ())


def test_where_every_date_is_frequent_they_make_one_range():
    months = np.random.default_rng(0).integers(0, 36, 200_000)
    dates = np.datetime64("2019-01", "M") + months
    frame = pd.DataFrame({"x": pd.Series(dates.astype("datetime64[s]")).dt.date})
    column = found(frame)[0].schema["x"]
    assert (column.min, column.max) == (datetime.date(2019, 1, 1), datetime.date(2021, 12, 1))
    assert column.special == ()


def test_thousands_of_frequent_numbers_are_looked_at_a_few_times_each(monkeypatch):
    near, calls = bounds._is_near, []
    monkeypatch.setattr(bounds, "_is_near", lambda *arguments: calls.append(1) or near(*arguments))
    none = np.zeros(0)
    look = Look(
        Column(name="x", kind="integer"), none, none, [], none, none, none, frequent=dict.fromkeys(range(3000), 9.0)
    )
    assert bounds.bounds(look)[:3] == (0, 2999, [])
    assert len(calls) < 300 * 3000  # 17 starts, each of which doubles its range until it has all
