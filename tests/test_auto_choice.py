"""Which pairs are measured: the strongest, judged from coarse noisy tables."""

import itertools

import numpy as np
import pytest

from twinify_lite.auto.choice import _GROUPS, groups, strongest
from twinify_lite.auto.levels import Levels
from twinify_lite.auto.margins import Margins
from twinify_lite.auto.tables import Noisy

UNIFORM = np.full(3, 1 / 3)
COARSE = [np.arange(3)] * 5
MARGINS = Margins(3000.0, (UNIFORM,) * 5)
INDEPENDENT = np.full((3, 3), 3000 / 9)


def levels_of(line):
    line = np.asarray(line)
    return Levels(np.arange(len(line)), np.ones(len(line)), line)


def tables(strengths, noise=1.0, rng=None):
    """Tables of all pairs of five columns; the diagonal of those in `strengths` is heavier."""
    found = {}
    for pair in itertools.combinations(range(5), 2):
        counts = INDEPENDENT + strengths.get(pair, 0.0) * (np.eye(3) - 1 / 3)
        found[pair] = Noisy(counts + (0 if rng is None else rng.normal(0, noise, (3, 3))), noise)
    return found


def test_a_line_is_cut_into_thirds_of_its_rows():
    shares = np.full(30, 1 / 30)
    found = groups(levels_of(np.arange(30)), shares)
    assert (np.diff(found) >= 0).all()
    assert np.bincount(found) == pytest.approx([10] * _GROUPS)
    skewed = np.array([0.7, 0.1, 0.1, 0.1])
    assert groups(levels_of(np.arange(4)), skewed)[0] < groups(levels_of(np.arange(4)), skewed)[1]


def test_beside_the_line_the_most_frequent_levels_are_groups_and_the_others_one():
    found = groups(levels_of([-1] * 6), np.array([0.05, 0.4, 0.05, 0.3, 0.1, 0.1]))
    assert found[1] != found[3]
    assert len({found[i] for i in (0, 2, 4, 5)}) == 1
    assert set(found) == {0, 1, 2}


def test_missing_is_apart_from_the_line():
    found = groups(levels_of([0, 1, 2, 3, -1]), np.array([0.2, 0.2, 0.2, 0.2, 0.2]))
    assert found[4] not in found[:4]
    assert set(found) == set(range(found.max() + 1))


@pytest.mark.parametrize("line", [[0], [-1], [0, -1], [0, 1], [-1, -1]])
def test_columns_of_one_or_two_levels_have_as_many_groups(line):
    assert sorted(groups(levels_of(line), np.full(len(line), 1 / len(line)))) == list(range(len(line)))


def test_the_strongest_pairs_are_chosen_in_order_of_columns():
    found = strongest(tables({(1, 3): 100.0, (0, 4): 80.0, (2, 3): 60.0}), COARSE, MARGINS, 3, None)
    assert found == [(0, 4), (1, 3), (2, 3)]


def test_as_many_as_asked_for_and_no_more_than_there_are():
    assert len(strongest(tables({}), COARSE, MARGINS, 4, None)) == 4
    assert strongest(tables({}), COARSE, MARGINS, 99, None) == list(itertools.combinations(range(5), 2))


def test_noise_alone_makes_no_pair_strong():
    """A noisier table of nothing is not taken for a stronger one."""
    rng = np.random.default_rng(0)
    taken = 0
    for _ in range(200):
        found = tables({(0, 1): 60.0}, 5.0, rng)
        found[3, 4] = Noisy(INDEPENDENT + rng.normal(0, 20, (3, 3)), 20.0)
        taken += strongest(found, COARSE, MARGINS, 1, None) == [(0, 1)]
    assert taken > 190


def test_pairs_with_the_target_come_first():
    found = strongest(tables({(0, 1): 100.0, (1, 3): 50.0}), COARSE, MARGINS, 5, 2)
    assert found == [(0, 1), (0, 2), (1, 2), (2, 3), (2, 4)]
