"""One estimate of a column from all the tables that contain it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from twinify_lite.auto.margins import _onto_simplex, combine
from twinify_lite.auto.tables import Noisy


def exact(counts, variance=1.0):
    counts = np.asarray(counts, float)
    return counts, np.full(len(counts), variance)


def test_exact_counts_give_their_shares_and_the_number_of_rows():
    margins = combine([exact([30, 60, 10]), exact([20, 80])], {})
    assert margins.rows == pytest.approx(100)
    assert margins.shares[0] == pytest.approx([0.3, 0.6, 0.1])
    assert margins.shares[1] == pytest.approx([0.2, 0.8])


@pytest.mark.parametrize("pair", [(0, 1), (1, 0)])
def test_sharp_pairs_outweigh_faint_single_counts_whichever_way_they_lie(pair):
    table = np.array([[10.0, 20.0], [30.0, 0.0], [0.0, 40.0]])
    sharp = Noisy(table if pair == (0, 1) else table.T, 0.1)
    margins = combine([exact([50, 50, 0], 1e6), exact([90, 10], 1e6)], {pair: sharp})
    assert margins.rows == pytest.approx(100, abs=0.1)
    assert margins.shares[0] == pytest.approx([0.3, 0.3, 0.4], abs=1e-3)
    assert margins.shares[1] == pytest.approx([0.4, 0.6], abs=1e-3)


def test_faint_pairs_change_nothing():
    faint = Noisy(np.full((3, 2), -500.0), 1e6)
    margins = combine([exact([30, 60, 10]), exact([20, 80])], {(0, 1): faint})
    assert margins.shares[0] == pytest.approx([0.3, 0.6, 0.1], abs=1e-3)


def test_combining_is_better_than_the_best_of_its_sources():
    rng = np.random.default_rng(0)
    truth = np.outer([400, 300, 200, 100], [0.7, 0.3])
    alone, pair, both = [], [], []
    for _ in range(300):
        single = truth.sum(1) + rng.normal(0, 10, 4)
        other = truth.sum(0) + rng.normal(0, 10, 2)
        table = truth + rng.normal(0, 8, (4, 2))
        margins = combine([exact(single, 100), exact(other, 100)], {(0, 1): Noisy(table, 8.0)})
        both.append(margins.shares[0] - [0.4, 0.3, 0.2, 0.1])
        alone.append(single / 1000 - [0.4, 0.3, 0.2, 0.1])
        pair.append(table.sum(1) / 1000 - [0.4, 0.3, 0.2, 0.1])
    assert np.mean(np.square(both)) < 0.75 * min(np.mean(np.square(alone)), np.mean(np.square(pair)))


def test_a_faint_level_is_empty_unless_it_is_a_single_value():
    counts = [exact([9000, 900, 30, 5], 400.0)]
    alone = np.array([True, True, True, False])
    assert (combine(counts, {}).shares[0] < 1e-6).tolist() == [False, False, True, True]
    assert (combine(counts, {}, [alone]).shares[0] < 1e-6).tolist() == [False, False, False, True]


def test_what_a_single_count_shows_beyond_doubt_does_not_vanish_whatever_the_pairs_say():
    table = np.array([[5000.0, 5000.0], [0.0, 0.0]])  # of rows that lack the second level, and sharper by far
    single = [exact([9400, 600], 100.0**2), exact([5000, 5000], 100.0**2)]
    margins = combine(single, {(0, 1): Noisy(table, 10.0)})
    assert 10_000 * margins.shares[0][1] > 100
    faint = [exact([9800, 200], 100.0**2), single[1]]
    assert combine(faint, {(0, 1): Noisy(table, 10.0)}).shares[0][1] < 1e-6


@given(st.integers(1, 12), st.floats(0.1, 1e4), st.integers(0, 10**6))
def test_shares_are_a_distribution_without_impossible_levels_whatever_the_noise(size, noise, seed):
    rng = np.random.default_rng(seed)
    single = [(rng.normal(0, noise, size), np.full(size, noise**2)) for _ in range(2)]
    margins = combine(single, {(0, 1): Noisy(rng.normal(0, noise, (size, size)), noise)})
    assert margins.rows >= 1
    for shares in margins.shares:
        assert shares.sum() == pytest.approx(1)
        assert (shares > 0).all()


@given(st.integers(1, 6), st.floats(1, 1000), st.integers(0, 10**6))
def test_the_nearest_distribution_is_found(size, total, seed):
    rng = np.random.default_rng(seed)
    counts, variance = rng.normal(total / size, total, size), rng.uniform(0.5, 5, size)
    found = _onto_simplex(counts, variance, total)
    assert found.sum() == pytest.approx(total)
    assert (found >= 0).all()
    # The conditions of Karush, Kuhn and Tucker: one multiplier for what is positive, none larger for the rest.
    slope = (found - counts) / variance
    inside = slope[found > 1e-9 * total]
    assert inside == pytest.approx(inside[0], abs=1e-6 * total)
    assert (slope >= inside[0] - 1e-6 * total).all()


def test_the_nearest_distribution_is_that_of_a_general_solver():
    counts, variance, total = np.array([50.0, -20.0, 30.0, 5.0]), np.array([1.0, 1.0, 4.0, 2.0]), 40.0
    best = minimize(
        lambda x: ((x - counts) ** 2 / variance).sum(),
        np.full(4, 10.0),
        bounds=[(0, None)] * 4,
        constraints={"type": "eq", "fun": lambda x: x.sum() - total},
    )
    assert _onto_simplex(counts, variance, total) == pytest.approx(best.x, abs=1e-3)
