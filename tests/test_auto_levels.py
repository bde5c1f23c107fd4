"""Levels: codes merged until noise no longer hides them, and how a level divides among its codes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinify_lite.auto.fine import Codes, codes, with_heaps
from twinify_lite.auto.levels import _CLEAR, _MOST, _halved, merge
from twinify_lite.auto.margins import combine
from twinify_lite.schema import Column, Schema


def line_of(count, off_line=0):
    return Codes(count + off_line, np.arange(count), np.ones(count), np.zeros(count, bool))


def sums_by_level(levels):
    return np.bincount(levels.of_code, weights=levels.weights, minlength=levels.size)


# -- which codes are together ------------------------------------------------------------------------------------------


def test_clear_counts_keep_every_step_of_a_short_line():
    levels = merge(line_of(10, 2), np.full(12, 100.0), 1.0, 1200.0)
    assert (levels.of_code == np.arange(12)).all()
    assert (levels.line == [*range(10), -1, -1]).all()
    assert (levels.weights == 1).all()


def test_counts_that_noise_hides_are_merged_into_one_level():
    counts = np.random.default_rng(0).normal(0, 50, 20)
    levels = merge(line_of(20), counts, 50.0, 10.0)
    assert levels.size == 1
    assert levels.weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("noise", [0.01, 0.3, 1.0])
def test_no_single_row_is_a_level_however_faint_the_noise(noise):
    """Tables of pairs would be as large as the data is wide."""
    rng = np.random.default_rng(0)
    one_each = np.isin(np.arange(1000), rng.choice(1000, 300, replace=False)).astype(float)
    assert merge(line_of(1000), one_each, noise, 300.0).size <= _MOST
    assert merge(line_of(0, 1000), one_each, noise, 300.0).size == 1
    points = Codes(1000, np.arange(1000), np.ones(1000), np.arange(1000) % 2 == 0)
    assert merge(points, one_each, noise, 300.0).size <= _MOST


def test_a_long_line_is_cut_into_about_equal_counts():
    levels = merge(line_of(1000), np.full(1000, 100.0), 1.0, 100_000.0)
    found = np.bincount(levels.of_code)
    assert 0.8 * _MOST <= levels.size <= _MOST
    assert found[:-1].min() == found[:-1].max()


def test_a_heap_stands_alone_on_a_long_line():
    counts = np.full(300, 20.0)
    counts[[0, 140]] = 5000.0
    levels = merge(line_of(300), counts, 4.0, counts.sum())
    for heap in (0, 140):
        assert (levels.of_code == levels.of_code[heap]).sum() == 1
        assert levels.weights[heap] == 1


def test_points_that_do_not_stand_out_go_with_a_bin_and_the_others_are_levels():
    column = with_heaps(Schema([Column(name="x", kind="number", decimals=2, min=0, max=100, nullable=False)]))["x"]
    fine = codes(column, 16)
    counts = np.zeros(fine.size)
    bins, points = fine.line[~fine.point], fine.line[fine.point]
    counts[bins] = 1000.0
    counts[points[0]] = 4000.0
    levels = merge(fine, counts, 5.0, counts.sum())
    alone = np.bincount(levels.of_code)
    assert alone[levels.of_code[points[0]]] == 1
    with_bins = set(levels.of_code[bins])
    assert all(levels.of_code[point] in with_bins for point in points[1:])
    # Noise found nothing at those points, so the level gives them next to nothing.
    assert levels.weights[points[1:]].max() < 0.05


def test_rare_codes_beside_the_line_are_pooled_and_a_single_one_is_not():
    apart = Codes(5, np.arange(0), np.ones(0), np.zeros(0, bool))
    pooled = merge(apart, np.array([100.0, 2.0, 100.0, -1.0, 1.0]), 2.0, 200.0)
    assert (pooled.of_code == [0, 2, 1, 2, 2]).all()
    assert (pooled.line == -1).all()
    single = merge(apart, np.array([100.0, 100.0, 2.0, 100.0, 100.0]), 2.0, 400.0)
    assert (single.of_code == np.arange(5)).all()


def test_missing_is_never_merged_with_values():
    levels = merge(line_of(8, 1), np.zeros(9), 100.0, 1.0)
    assert levels.of_code[8] not in levels.of_code[:8]
    assert (levels.line == [0, -1]).all()


@given(st.integers(1, 120), st.integers(0, 6), st.sampled_from([0.5, 3.0, 40.0]), st.integers(0, 10**6), st.booleans())
def test_levels_are_runs_that_stand_clear_of_noise_and_weights_sum_to_one(on_line, off_line, noise, seed, heaped):
    rng = np.random.default_rng(seed)
    true = rng.poisson(rng.gamma(0.3, 100, on_line + off_line)) * np.where(
        heaped, rng.random(on_line + off_line) < 0.2, 1
    )
    counts = true + np.rint(rng.normal(0, noise, on_line + off_line))
    levels = merge(line_of(on_line, off_line), counts, noise, max(1.0, counts.sum()))
    assert set(levels.of_code) == set(range(levels.size))
    assert (np.diff(levels.of_code[:on_line]) >= 0).all()
    runs = levels.of_code[:on_line].max() + 1
    assert (levels.line == np.where(np.arange(levels.size) < runs, np.arange(levels.size), -1)).all()
    assert (levels.weights >= 0).all()
    assert sums_by_level(levels) == pytest.approx(1)
    assert on_line > 32 or _faint(levels, counts, noise)[1:runs].sum() <= 1


def _faint(levels, counts, noise):
    """Levels whose counts their noise hides; those to the right of a heap have no one to join."""
    total = np.bincount(levels.of_code, weights=counts, minlength=levels.size)
    after_heap = np.concatenate([[False], np.bincount(levels.of_code, minlength=levels.size)[:-1] == 1])
    return (total < _CLEAR * noise * np.sqrt(np.bincount(levels.of_code, minlength=levels.size))) & ~after_heap


# -- how a level divides -----------------------------------------------------------------------------------------------


def test_without_noise_neighbours_divide_as_their_counts_do():
    counts = np.array([5.0, 1.0, 0.0, 2.0, 7.0])
    assert _halved(counts, np.ones(5), 1e-9) == pytest.approx(counts / 15)


def test_under_much_noise_a_level_divides_as_its_widths_do():
    width = np.array([1.0, 2.0, 3.0, 4.0])
    fine = Codes(4, np.arange(4), width, np.zeros(4, bool))
    levels = merge(fine, np.array([30.0, 20.0, 20.0, 30.0]), 1000.0, 100.0)
    assert levels.size == 1
    assert levels.weights == pytest.approx(width / 10)


def test_long_runs_of_nothing_stay_empty_where_noisy_counts_cut_off_at_zero_would_add_up():
    rng = np.random.default_rng(3)
    found, cut_off = [], []
    for _ in range(20):
        counts = rng.normal(0, 30, 512)
        counts[:16] += 400
        found.append(_halved(counts, np.ones(512), 30.0)[16:].sum())
        cut_off.append(np.maximum(counts[16:], 0).sum() / np.maximum(counts, 0).sum())
    assert np.mean(found) < 0.15
    assert np.mean(cut_off) > 0.4


def test_a_half_is_not_emptied_for_one_that_is_hardly_larger():
    rng = np.random.default_rng(0)
    even = 2 * 28 * np.sqrt(8) / 8  # each half's count is two standard deviations of its noise
    left = [_halved(even + rng.normal(0, 28, 16), np.ones(16), 28.0)[:8].sum() for _ in range(300)]
    assert np.isin(left, [0.0, 1.0]).mean() < 0.1


def test_pooled_codes_divide_by_their_counts_as_far_as_noise_lets_one_believe():
    apart = Codes(6, np.arange(0), np.ones(0), np.zeros(0, bool))
    counts = np.array([9000.0, 9000.0, 20.0, 4.0, 4.0, 4.0])
    sure, unsure = merge(apart, counts, 7.0, 18_000.0), merge(apart, counts, 1000.0, 18_000.0)
    assert (sure.of_code[2:] == 2).all()
    assert sure.weights[2] > 1.2 * sure.weights[3]
    assert unsure.weights[2:] == pytest.approx(0.25)


def test_a_number_without_a_grid_has_weights_at_any_noise():
    column = with_heaps(Schema([Column(name="x", kind="number", min=-5, max=5, nullable=False)]))["x"]
    fine = codes(column, 16)
    counts = np.random.default_rng(0).normal(100, 20, fine.size)
    levels = merge(fine, counts, 20.0, counts.sum())
    assert np.isfinite(levels.weights).all()
    assert sums_by_level(levels) == pytest.approx(1)


def drawn_ends(line, sigma, seed):
    """The first and the last code that a level gives any weight to."""
    noisy = line + np.random.default_rng(seed).normal(0, sigma, len(line))
    kept = np.flatnonzero(merge(line_of(len(line)), noisy, sigma, line.sum()).weights > 0)
    return kept[0], kept[-1]


def test_a_range_wider_than_the_data_does_not_stretch_them():
    line = np.concatenate([np.zeros(7), np.full(53, 600.0)])  # adults: a sharp edge, seven empty years before it
    assert sum(drawn_ends(line, 35.0, seed)[0] == 7 for seed in range(40)) >= 36
    assert sum(drawn_ends(line[::-1], 35.0, seed)[1] == 52 for seed in range(40)) >= 36


def test_a_value_that_its_count_shows_beyond_doubt_is_not_cut_off_with_the_tail_around_it():
    line = np.zeros(200)
    line[:60] = 600.0
    for seed in range(10):
        noisy = line + np.random.default_rng(seed).normal(0, 35.0, 200)
        noisy[150] = 4.7 * 35  # too little for a heap
        levels = merge(line_of(200), noisy, 35.0, line.sum())
        share = np.maximum(np.bincount(levels.of_code, weights=noisy), 0)[levels.of_code] * levels.weights
        assert share[150] > 15


def test_an_end_that_fades_out_is_not_cut_off():
    line = np.concatenate([[60.0, 180.0, 400.0], np.full(12, 1500.0)])
    assert sum(drawn_ends(line, 35.0, seed)[0] == 0 for seed in range(40)) >= 36


def test_a_line_that_noise_hides_comes_out_even():
    """200 rows over 73 ages behind noise of 10 a count: which ages are more frequent cannot be seen."""
    apart = []
    for seed in range(20):
        counts = 200 / 73 + np.random.default_rng(seed).normal(0, 10, 73)
        levels = merge(line_of(73), counts, 10.0, 200.0)
        share = np.maximum(np.bincount(levels.of_code, weights=counts), 0)
        drawn = (share / share.sum())[levels.of_code] * levels.weights
        apart.append(np.abs(drawn[:72].reshape(8, 9).sum(1) - 9 / 73).sum() / 2)
    assert np.mean(apart) < 0.15


@pytest.mark.parametrize("seen", [-40.0, 0.0, 30.0])
def test_ends_that_are_known_to_be_there_are_kept_whatever_noise_shows_of_them(seen):
    grades = codes(Column(name="grade", kind="integer", min=1, max=6, nullable=False), 64)
    counts = np.array([seen, 120.0, 900.0, 3000.0, 800.0, seen])
    for has_ends in (False, True):
        levels = merge(grades, counts, 40.0, 4800.0, has_ends=has_ends)
        by_level = np.bincount(levels.of_code, weights=counts)
        single = [(by_level, 1600.0 * np.bincount(levels.of_code))]
        ends = [np.isin(np.arange(levels.size), levels.of_code[[0, -1]]) & has_ends]
        shares = combine(single, {}, [levels.alone], ends).shares[0][levels.of_code] * levels.weights
        assert shares.sum() == pytest.approx(1)
        assert shares[3] == pytest.approx(3000 / 4800, abs=0.05)
        if has_ends:
            assert (4800 * shares[[0, -1]] > 5).all()
            assert (4800 * shares[[0, -1]] < 2 * 40).all()
        elif seen < 0:
            assert 4800 * shares[-1] < 1
