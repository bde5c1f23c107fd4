"""What never goes together stays apart, and nothing else does."""

import jax
import numpy as np
import pytest

from twinify_lite.auto.chain import fit_chain
from twinify_lite.auto.drawing import sampler
from twinify_lite.auto.margins import combine
from twinify_lite.auto.tables import Noisy
from twinify_lite.auto.zeros import empty_cells, runs

NOISE = 40.0
LINE = np.arange(12)


def seen(table, seed=0, lines=None):
    """The cells of a table with noise that are taken for empty."""
    noisy = table + np.random.default_rng(seed).normal(0, NOISE, table.shape)
    rows = table.sum()
    independent = np.outer(table.sum(1), table.sum(0)) / rows**2
    lines = lines or tuple(np.full(size, -1) for size in table.shape)
    return empty_cells(noisy / rows, NOISE / rows, independent, lines)


def test_a_cell_that_nobody_is_in_is_found():
    table = np.array([[5000, 3000, 2000], [7000, 3000, 0]])
    found = sum(seen(table, seed)[1, 2] for seed in range(40))
    assert found >= 30  # noise exceeds one standard deviation in a sixth of all runs
    assert all(seen(table, seed).sum() <= 1 for seed in range(40))


@pytest.mark.parametrize("few", [200, 500, 1000])
def test_a_cell_with_a_few_people_is_not_empty(few):
    table = np.array([[5000, 3000, 2000], [7000, 3000, few]])
    assert sum(seen(table, seed).any() for seed in range(40)) <= 1


def test_independent_columns_have_no_empty_cells():
    table = np.outer([0.6, 0.3, 0.08, 0.02], [0.7, 0.2, 0.09, 0.01]) * 20_000
    assert not any(seen(table, seed).any() for seed in range(40))


def test_neighbours_are_empty_together_where_noise_hides_each_of_them():
    children = np.concatenate([np.full(3, 1200.0), np.zeros(9)])
    table = np.stack([children, np.where(children > 0, 0.0, 2000.0)], axis=1)
    alone = [seen(table, seed)[3:, 0].mean() for seed in range(20)]
    together = [seen(table, seed, (LINE, np.array([-1, -1])))[3:, 0].mean() for seed in range(20)]
    assert np.mean(together) > 0.7 > np.mean(alone)


def test_no_row_or_column_loses_all_its_cells():
    table = np.zeros((2, 2))
    assert not empty_cells(table, 1e-4, np.full((2, 2), 0.25), (np.array([-1, -1]), np.array([-1, -1]))).any()


def test_runs_are_all_neighbours_on_a_line_and_single_levels_elsewhere():
    found = {tuple(np.flatnonzero(run)) for run in runs(np.array([0, 1, -1, 2]))}
    assert found == {(0,), (1,), (3,), (0, 1), (1, 3), (0, 1, 3), (2,)}
    assert len(runs(np.arange(1000))) == 820
    assert runs(np.array([-1])).tolist() == [[1.0]]


def test_what_never_goes_together_is_never_drawn_together():
    table = np.array([[5000.0, 3000, 2000], [7000, 3000, 0]])
    rng = np.random.default_rng(1)
    single = [(sums, np.full(len(sums), NOISE**2)) for sums in (table.sum(1), table.sum(0))]
    noisy = table + rng.normal(0, NOISE, table.shape)
    noisy[1, 2] = 20.0
    pairs = {(0, 1): Noisy(noisy, NOISE)}
    lines = [np.full(2, -1), np.full(3, -1)]
    margins = combine(single, pairs)
    links = fit_chain(margins, pairs, lines, [0, 1], {}, particles=4096, progress=lambda *_: None)
    drawn = np.zeros((2, 3))
    np.add.at(drawn, tuple(np.asarray(column) for column in sampler(links)(jax.random.key(0), 20_000)), 1)
    assert drawn[1, 2] / drawn.sum() < 1e-3
    assert drawn / drawn.sum() == pytest.approx(table / table.sum(), abs=0.01)


def test_a_level_that_no_parent_leaves_a_place_keeps_its_share():
    """Two tables with noise say of one level that it goes with half of the rows each: with none, both together."""
    half = np.array([[3000.0, 2000.0], [5000.0, 0.0]])
    single = [(sums, np.full(2, NOISE**2)) for sums in (half.sum(1), half.sum(1), half.sum(0))]
    pairs = {
        (0, 2): Noisy(half, NOISE),
        (1, 2): Noisy(half[::-1].copy(), NOISE),
        (0, 1): Noisy(5000 * np.eye(2), NOISE),
    }
    lines = [np.full(2, -1)] * 3
    margins = combine(single, pairs)
    links = fit_chain(margins, pairs, lines, [0, 1, 2], {}, particles=4096, progress=lambda *_: None)
    independent = np.outer(margins.shares[0], margins.shares[2])
    assert empty_cells(half / 10_000, NOISE / 10_000, independent, (lines[0], lines[2]))[1, 1]
    drawn = np.asarray(sampler(links)(jax.random.key(0), 2**14)[2])
    assert (drawn == 1).mean() == pytest.approx(0.2, abs=0.01)
