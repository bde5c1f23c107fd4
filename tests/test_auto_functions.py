"""Functions among columns: found where the noise allows it, kept exactly, and counts that say the same are pooled."""

import jax
import numpy as np
import pytest

from twinify_lite.auto.chain import fit_chain
from twinify_lite.auto.drawing import sampler
from twinify_lite.auto.functions import find_functions, pool
from twinify_lite.auto.margins import combine
from twinify_lite.auto.tables import Noisy

ROWS = 30_000
CITY = np.array([9000, 7000, 5000, 4000, 2500, 1500, 900, 100])
COUNTRY = np.array([0, 1, 0, 2, 1, 3, 2, 3])


def exact(level_of, counts=CITY):
    table = np.zeros((len(counts), level_of.max() + 1))
    table[np.arange(len(counts)), level_of] = counts
    return table


def measured(table, noise, seed=0):
    """Counts of both columns and of the pair, with noise."""
    rng = np.random.default_rng(seed)
    single = [
        (sums + rng.normal(0, noise, len(sums)), np.full(len(sums), noise**2)) for sums in (table.sum(1), table.sum(0))
    ]
    return single, {(0, 1): Noisy(table + rng.normal(0, noise, table.shape), noise)}


def margins_of(single, pairs):
    """Of columns whose levels are single values."""
    return combine(single, pairs, [np.ones(len(counts), bool) for counts, _ in single])


def functions(table, noise, seed=0):
    single, pairs = measured(table, noise, seed)
    return find_functions(pairs, margins_of(single, pairs))


def test_a_country_is_a_function_of_its_city_and_not_the_other_way_round():
    for seed in range(20):
        found = functions(exact(COUNTRY), 30.0, seed)
        assert list(found) == [(0, 1)]
        chances = found[0, 1].chances
        assert (chances.argmax(1)[:7] == COUNTRY[:7]).all()
        assert chances.max(1)[:7].min() > 0.99
        assert chances.sum(1) == pytest.approx(1)


@pytest.mark.parametrize("noise", [0.01, 0.1])
def test_a_few_rows_that_are_all_different_make_no_function_however_faint_the_noise(noise):
    assert not functions(exact(np.arange(8), np.ones(8)), noise)
    assert functions(exact(np.arange(8), np.full(8, 20.0)), noise)


def test_a_rare_level_gets_the_level_that_no_other_has():
    counts = np.append(CITY[:7], 150)
    right = [functions(exact(np.arange(8), counts), 60.0, seed)[0, 1].chances[7].argmax() == 7 for seed in range(30)]
    assert sum(right) >= 25  # 150 rows behind noise of 60: the largest of 8 noisy cells is the right one in 22


def test_no_row_gets_a_level_that_is_empty():
    table = np.pad(exact(np.arange(8)), ((0, 0), (0, 1)))
    seen = 0
    for seed in range(30):
        single, pairs = measured(table, 60.0, seed)
        margins = combine(single, pairs)
        if margins.shares[1][8] < 1e-6:
            seen += 1
            assert find_functions(pairs, margins)[0, 1].chances[:, 8].max() < 1e-6
    assert seen > 20


@pytest.mark.parametrize("leak", [0.05, 0.3, 1.0])
def test_what_is_no_function_is_none(leak):
    table = (1 - leak) * exact(COUNTRY) + leak * np.outer(CITY, exact(COUNTRY).sum(0)) / ROWS
    assert not any(functions(table, 30.0, seed) for seed in range(20))


def missing_somewhere(part):
    """Seven cities with their countries, `part` of which are missing, in every city alike."""
    table = np.pad((1 - part) * exact(COUNTRY[:7], CITY[:7]), ((0, 0), (0, 1)))
    table[:, -1] = part * CITY[:7]
    return table


def noisy_pair_and_clear_singles(table, seed):
    rng = np.random.default_rng(seed)
    clear, faint = 60.0, 120.0
    single = [
        (sums + rng.normal(0, clear, len(sums)), np.full(len(sums), clear**2)) for sums in (table.sum(1), table.sum(0))
    ]
    return single, {(0, 1): Noisy(table + rng.normal(0, faint, table.shape), faint)}


def test_missing_cells_that_a_single_count_shows_clearly_are_not_explained_away():
    """1.35 % of the cells, 405 rows: more than six standard deviations of the single count, and hidden in the pair."""
    table, lines = missing_somewhere(0.0135), [np.full(7, -1), np.full(5, -1)]
    for seed in range(12):
        single, pairs = noisy_pair_and_clear_singles(table, seed)
        margins = margins_of(single, pairs)
        found = find_functions(pairs, margins)
        links = fit_chain(margins, pairs, lines, [0, 1], found, particles=4096, progress=lambda *_: None)
        drawn = np.asarray(sampler(links)(jax.random.key(0), 2**14)[1])
        assert (drawn == 4).mean() == pytest.approx(0.0135, abs=5 * 60 / ROWS)
        assert (drawn == 4).mean() > 0.002


def test_a_function_without_missing_cells_is_still_found_in_such_a_table():
    seen = (noisy_pair_and_clear_singles(missing_somewhere(0.0), seed) for seed in range(20))
    assert sum((0, 1) in find_functions(pairs, margins_of(single, pairs)) for single, pairs in seen) >= 16


def test_nothing_is_called_a_function_behind_noise_that_could_hide_anything():
    assert not any(functions(exact(COUNTRY), 3000.0, seed) for seed in range(20))
    rare = np.outer(CITY, [0.99, 0.01])  # one level alone is nearly all there is to know
    assert not any(functions(rare, 30.0, seed) for seed in range(20))


def test_pooled_counts_agree_and_are_nearer_to_the_truth():
    table, other = exact(np.arange(8)), np.outer(CITY, [0.5, 0.3, 0.2])
    errors = []
    for seed in range(30):
        single, pairs = measured(table, 40.0, seed)
        rng = np.random.default_rng([seed, 1])
        single.append((other.sum(0), np.full(3, 1600.0)))
        pairs |= {(0, 2): Noisy(other + rng.normal(0, 40, other.shape), 40.0)}
        pairs |= {(1, 2): Noisy(other + rng.normal(0, 40, other.shape), 40.0)}
        found = find_functions({(0, 1): pairs[0, 1]}, margins_of(single, pairs))
        pooled_single, pooled = pool(found, single, pairs)
        groups = found[0, 1].groups()
        assert len(groups) >= 6
        for level, members in groups:
            assert pooled_single[0][0][members].sum() == pytest.approx(pooled_single[1][0][level])
            assert pooled[0, 2].counts[members].sum(0) == pytest.approx(pooled[1, 2].counts[level])
        assert pooled[0, 2].noise < 0.8 * 40
        errors.append([((tables[0, 2].counts - other) ** 2).mean() for tables in (pairs, pooled)])
    before, after = np.mean(errors, axis=0)
    assert 0.5 < after / before < 0.62  # one level in eight is not pooled in some runs


def test_pooling_a_coarser_column_keeps_its_sums():
    single, pairs = measured(exact(COUNTRY), 30.0)
    other = np.outer(CITY, [0.5, 0.5])
    coarse = np.stack([other[country == COUNTRY].sum(0) for country in range(4)])
    single.append((other.sum(0), np.full(2, 900.0)))
    rng = np.random.default_rng(1)
    # The pair is stored with the other column first, as a user's order of columns may have it.
    pairs |= {(0, 2): Noisy(other + rng.normal(0, 30, other.shape), 30.0)}
    pairs |= {(1, 2): Noisy(coarse + rng.normal(0, 30, coarse.shape), 30.0)}
    found = find_functions({(0, 1): pairs[0, 1]}, margins_of(single, pairs))
    _, pooled = pool(found, single, pairs)
    for level, members in found[0, 1].groups():
        assert pooled[0, 2].counts[members].sum(0) == pytest.approx(pooled[1, 2].counts[level])


def test_three_names_of_one_thing_seem_no_surer_than_they_are():
    table, other, rng = exact(np.arange(8)), np.outer(CITY, [0.5, 0.3, 0.2]), np.random.default_rng(0)
    single = [(CITY + rng.normal(0, 40, 8), np.full(8, 1600.0)) for _ in range(3)]
    single.append((other.sum(0), np.full(3, 1600.0)))
    same = {pair: Noisy(table + rng.normal(0, 40, (8, 8)), 40.0) for pair in ((0, 1), (0, 2), (1, 2))}
    tables = {(name, 3): Noisy(other + rng.normal(0, 40, other.shape), 40.0) for name in range(3)}
    found = find_functions(same, margins_of(single, same | tables))
    assert len(found) == 6
    pooled_single, pooled = pool(found, single, same | tables)
    assert min(pooled[name, 3].noise for name in range(3)) > 0.99 * 40 / np.sqrt(3)
    assert min(variance.min() for _, variance in pooled_single) > 0.99 * 1600 / 3


def test_tables_that_stand_the_other_way_round_are_pooled_alike():
    table, other = exact(np.arange(8)), np.outer(CITY, [0.5, 0.3, 0.2])
    single, pairs = measured(table, 40.0)
    rng = np.random.default_rng(1)
    one, two = (other + rng.normal(0, 40, other.shape) for _ in range(2))
    single = [*single, (other.sum(0), np.full(3, 1600.0))]
    found = find_functions(pairs, margins_of(single, pairs))
    straight = pool(found, single, pairs | {(0, 2): Noisy(one, 40.0), (1, 2): Noisy(two, 40.0)})[1]
    turned = pool(found, single, pairs | {(2, 0): Noisy(one.T, 40.0), (2, 1): Noisy(two.T, 40.0)})[1]
    assert pytest.approx(straight[0, 2].counts) == turned[2, 0].counts.T
    assert pytest.approx(straight[1, 2].counts) == turned[2, 1].counts.T


def test_drawn_rows_keep_the_function():
    single, pairs = measured(exact(COUNTRY), 30.0)
    margins = margins_of(single, pairs)
    found = find_functions(pairs, margins)
    lines = [np.full(8, -1), np.full(4, -1)]
    links = fit_chain(margins, pairs, lines, [0, 1], found, particles=4096, progress=lambda *_: None)
    city, country = map(np.asarray, sampler(links)(jax.random.key(0)))
    clear = city < 7
    assert (country[clear] == COUNTRY[city[clear]]).mean() > 0.999


def test_two_countries_of_one_city_are_no_function_where_noise_would_hide_them_in_the_sum():
    table = np.pad(exact(COUNTRY), ((0, 0), (0, 8)))
    table[0, 1], table[0, 0] = 300, table[0, 0] - 300  # 300 rows; what all other cells leave over is 2 * 30 * sqrt(88)
    assert sum(bool(functions(table, 30.0, seed)) for seed in range(20)) == 0
    table[0, 1], table[0, 0] = 0, table[0, 0] + 300
    assert sum(bool(functions(table, 30.0, seed)) for seed in range(20)) >= 18
