"""The rules: how a budget is divided, from public numbers alone."""

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinify_lite.auto import Auto, _order, rules
from twinify_lite.auto.levels import Levels
from twinify_lite.auto.rules import settle
from twinify_lite.errors import ModelError
from twinify_lite.schema import Column, Schema


def schema(columns):
    return Schema([Column(name=f"c{i}", kind="category", levels=("a", "b"), nullable=False) for i in range(columns)])


def settled(columns=8, rows=20_000, noise=4.0, target=None, **options):
    return settle(schema(columns), rows, noise, target=target, options=options)


@given(st.integers(1, 60), st.integers(1, 10**7), st.floats(0.3, 200))
def test_the_parts_sum_to_one_and_every_setting_makes_sense(columns, rows, noise):
    found = settled(columns, rows, noise)
    assert found.single + found.choice + found.pairs == pytest.approx(1)
    assert min(found.single, 1.0) > 0
    assert found.choice >= 0
    assert found.pairs >= 0
    assert 0 <= found.measured_pairs <= columns * (columns - 1) // 2
    assert (found.pairs > 0) == (found.measured_pairs > 0)
    assert found.chooses <= (found.measured_pairs < columns * (columns - 1) // 2)
    assert 16 <= found.bins <= 1024
    assert found.bins & (found.bins - 1) == 0


def test_few_rows_have_single_columns_only():
    """200 rows of 15 columns at epsilon 0.5: nothing can be seen in pairs, so nothing is spent on them."""
    found = settled(15, 200, 9.0)
    assert (found.single, found.choice, found.pairs, found.measured_pairs) == (1.0, 0.0, 0.0, 0)
    assert set(Auto().plan(schema(15), 200, 9.0, {}).noise) == {"single columns"}


def test_one_column_has_no_pairs():
    found = settled(1)
    assert (found.single, found.measured_pairs) == (1.0, 0)


def test_many_rows_have_all_pairs_and_choose_nothing():
    found = settled(15, 10**6, 4.0)
    assert (found.measured_pairs, found.choice, found.single) == (105, 0.0, 0.25)
    assert set(Auto().plan(schema(15), 10**6, 4.0, {}).noise) == {"single columns", "pairs"}


def test_wide_tables_choose_more_than_one_pair_for_each_column():
    found = settled(200, 100_000, 4.0)
    assert found.chooses
    assert 199 <= found.measured_pairs < 19_900
    assert set(Auto().plan(schema(200), 100_000, 4.0, {}).noise) == {"single columns", "choice of pairs", "pairs"}


def test_more_rows_or_less_noise_never_give_fewer_pairs_or_bins():
    for columns in (3, 15, 60):
        by_rows = [settled(columns, 10**k, 4.0) for k in range(1, 8)]
        by_noise = [settled(columns, 30_000, 100 / 2**k) for k in range(9)]
        for found in (by_rows, by_noise):
            pairs, bins = [one.measured_pairs for one in found], [one.bins for one in found]
            assert pairs == sorted(pairs)
            assert bins == sorted(bins)


def test_a_target_is_weighted():
    assert settled(target="c1").target_weight > 1
    assert settled().target_weight == 1
    assert settled(target="c1").target == "c1"


# -- overrides ---------------------------------------------------------------------------------------------------------


def test_settings_can_be_overridden():
    found = settled(single=0.4, bins=32, particles=1000, target_weight=3)
    assert (found.single, found.bins, found.particles, found.target_weight) == (0.4, 32, 1000, 3.0)
    assert found.single + found.choice + found.pairs == pytest.approx(1)
    assert type(found.bins) is int
    assert type(found.target_weight) is float


def test_all_of_the_budget_can_go_to_single_columns():
    found = settled(single=1.0)
    assert (found.choice, found.pairs, found.measured_pairs) == (0, 0, 0)


@pytest.mark.parametrize("options", [{"components": 3}, {"choice": 0.1}, {"rows": 5}, {"pairs": 0.5}, {"": 1}])
def test_unknown_settings_are_refused_by_name_with_the_known_ones(options):
    with pytest.raises(ModelError, match=f"no setting '?{next(iter(options))}.*bins, measured_pairs") as refused:
        settle(schema(8), 20_000, 4.0, target=None, options=options)
    assert "rows" not in str(refused.value).split("It has")[1]


@pytest.mark.parametrize("single", [0, -0.1, 1.5, float("nan")])
def test_a_part_beyond_the_budget_is_refused(single):
    with pytest.raises(ModelError, match="'single'"):
        settled(single=single)


@pytest.mark.parametrize(
    "options",
    [
        {"bins": "many"},
        {"bins": 0},
        {"bins": 10**6},
        {"particles": 0},
        {"particles": -1},
        {"target_weight": 0},
        {"target_weight": float("nan")},
        {"measured_pairs": -1},
        {"single": "much"},
        {"target": "c1"},
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused_before_anything_is_paid(options):
    with pytest.raises(ModelError):
        settle(schema(8), 20_000, 4.0, target=None, options=options)


def test_fewer_pairs_can_be_asked_for_where_all_could_be_measured():
    assert settled(6, 10**6).measured_pairs == 15
    found = settled(6, 10**6, measured_pairs=5)
    assert found.measured_pairs == 5
    assert found.chooses


def test_pairs_can_be_asked_for_where_the_rules_would_measure_none():
    found = settled(15, 200, 9.0, single=0.5)
    assert (found.pairs == 0) or found.measured_pairs > 0


# -- public ------------------------------------------------------------------------------------------------------------


def test_the_rules_are_given_no_rows():
    assert list(inspect.signature(settle).parameters) == ["schema", "rows", "noise_multiplier", "target", "options"]
    text = inspect.getsource(rules)
    assert "PrivateTable" not in text
    assert "reveal" not in text


def test_settings_are_plain_data():
    found = settled().to_json()
    assert all(isinstance(value, int | float | str | None) for value in found.values())
    assert settled().to_json() == found


def test_sharp_tables_are_fitted_on_more_simulated_rows_as_long_as_columns_are_few():
    assert settled(15, 30_000, 4.0).particles == 2**14
    assert settled(15, 30_000, 0.4).particles == 2**16
    assert settled(200, 10**7, 0.4).particles == 2**14


@pytest.mark.parametrize(
    ("target", "expected"),
    [(None, ["five", "nine", "two", "three"]), ("nine", ["five", "two", "three", "nine"])],
    ids=["no target", "target"],
)
def test_few_levels_come_first_but_two_or_three_last_and_the_target_after_all(target, expected):
    sizes = {"three": 3, "nine": 9, "two": 2, "five": 5}
    table = Schema(
        [Column(name=name, kind="category", levels=tuple(map(str, range(size)))) for name, size in sizes.items()]
    )
    levels = [Levels(np.arange(size), np.ones(size), np.full(size, -1)) for size in sizes.values()]
    assert [list(sizes)[place] for place in _order(table, levels, target)] == expected
