"""Rows are drawn by the law of the chain, whether a program is compiled for it or not."""

import jax
import numpy as np
import pytest

from twinify_lite.auto import drawing, walking
from twinify_lite.auto.chain import Link
from twinify_lite.auto.drawing import BATCH, _spread_out, code_drawer, method_of, sampler
from twinify_lite.auto.walking import walker


def compiled(links):
    draw = sampler(links)
    return lambda seed: draw(jax.random.key(seed))


def walked(links):
    draw = walker(links)
    return lambda seed: draw(np.random.default_rng(seed), BATCH)


WAYS = pytest.mark.parametrize("way", [compiled, walked])


def law(links, column_levels):
    """The exact joint distribution of a small chain, level by level, in double precision."""
    joint = np.zeros(column_levels)
    for levels in np.ndindex(*column_levels):
        total = 0.0
        for link in links:
            logits = link.bias + sum(e[levels[p]] for p, e in zip(link.parents, link.effects, strict=True))
            shifted = logits - logits.max()
            total += shifted[levels[link.column]] - np.log(np.exp(shifted).sum())
        joint[levels] = np.exp(total)
    return joint


def chain_of(sizes, scale, rng):
    links = []
    for column, size in enumerate(sizes):
        parents = tuple(range(column))
        effects = tuple(rng.normal(0, scale, (sizes[p], size)) for p in parents)
        links.append(Link(column, parents, rng.normal(0, 1, size), effects, effects, np.full(size, 1 / size)))
    return links


@pytest.mark.parametrize("cells", [1, 40, 2**19], ids=["columns alone", "some together", "all together"])
@WAYS
@pytest.mark.parametrize(("scale", "method"), [(1.0, "weights"), (200.0, "logits")], ids=["mild", "extreme"])
def test_rows_have_the_law_of_the_chain(monkeypatch, way, scale, method, cells):
    for module in (drawing, walking):
        monkeypatch.setattr(module, "_CELLS", cells)
    links = chain_of((3, 4, 2, 3), scale, np.random.default_rng(7))
    assert method_of(links[-1]) == method
    joint, counts = law(links, (3, 4, 2, 3)), np.zeros((3, 4, 2, 3))
    draw = way(links)
    for seed in range(4):
        np.add.at(counts, tuple(column.astype(int) for column in draw(seed)), 1)
    rows = counts.sum()
    assert (np.abs(counts - rows * joint) < 5 * np.sqrt(rows * joint) + 3).all()


@WAYS
def test_effects_that_undo_each_other_are_added_before_they_become_weights(monkeypatch, way):
    """One parent all but forbids a level, the other all but forbids the rest: products of weights would be 0."""
    monkeypatch.setattr(walking, "_CELLS", 1)
    first = Link(0, (), np.zeros(2), (), (), np.full(2, 0.5))
    second = Link(1, (0,), np.zeros(2), (np.zeros((2, 2)),), (np.zeros((2, 2)),), np.full(2, 0.5))
    against, instead = np.tile([0.0, -300.0, -300.0], (2, 1)), np.tile([-300.0, 0.0, -1.0], (2, 1))
    third = Link(2, (0, 1), np.zeros(3), (against, instead), (against, instead), np.full(3, 1 / 3))
    drawn = way([first, second, third])(0)[2]
    expected = np.exp([0.0, 0.0, -1.0]) / np.exp([0.0, 0.0, -1.0]).sum()
    assert np.bincount(drawn) / BATCH == pytest.approx(expected, abs=0.005)


@WAYS
def test_a_level_of_one_in_a_million_is_drawn_and_no_more_often(way):
    rare = 2e-6
    link = Link(0, (), np.log([rare, 1 - 2 * rare, rare]), (), (), np.full(3, 1 / 3))
    draw = way([link])
    counts = sum(np.bincount(draw(seed)[0], minlength=3) for seed in range(60))
    expected = 60 * BATCH * rare
    assert 0 < counts[0] < 4 * expected
    assert 0 < counts[2] < 4 * expected


@WAYS
def test_more_levels_than_a_byte_holds_are_drawn(way):
    shares = np.full(300, 1 / 300)
    drawn = way([Link(0, (), np.log(shares), (), (), shares)])(0)[0]
    assert np.abs(np.bincount(drawn, minlength=300) / BATCH - shares).sum() / 2 < 0.01


def test_uniform_numbers_fill_every_interval_and_look_independent():
    uniform = np.asarray(_spread_out(jax.random.key(2), 6, BATCH), float)
    assert (np.sort(np.floor(uniform * BATCH).clip(0, BATCH - 1), axis=1) == np.arange(BATCH)).mean() > 0.99
    correlation = np.corrcoef(uniform)
    assert np.abs(correlation - np.eye(6)).max() < 5 / np.sqrt(BATCH)
    assert np.abs(np.corrcoef(uniform[:, :500]) - np.eye(6)).max() < 5 / np.sqrt(500)


def test_rows_that_are_walked_for_are_spread_out_too():
    share = 0.3
    link = Link(0, (), np.log([share, 1 - share]), (), (), np.array([share, 1 - share]))
    for rows in (1, 10, 1000, 20_001):
        first = int((walker([link])(np.random.default_rng(rows), rows)[0] == 0).sum())
        assert abs(first - rows * share) <= 1  # of 20,001 independent rows it would be off by 65


def test_columns_come_in_their_own_order_whatever_the_chains_is():
    links = [
        Link(1, (), np.log([0.5, 0.5]), (), (), np.full(2, 0.5)),
        Link(0, (1,), np.zeros(3), (np.array([[0.0, -50.0, -50.0], [-50.0, -50.0, 0.0]]),), (), np.full(3, 1 / 3)),
    ]
    for way in (compiled, walked):
        first, second = way(links)(0)
        assert (first == 2 * second).all()


def test_codes_are_drawn_by_their_weights_within_their_level():
    of_code = np.array([1, 0, 1, 0, 2, 1])
    weights = np.array([0.2, 0.9, 0.7, 0.1, 1.0, 0.1])
    levels = np.repeat([0, 1, 2], 20_000).astype(np.uint8)
    found = code_drawer(of_code, weights)(levels, np.random.default_rng(0))
    assert (of_code[found] == levels).all()
    assert np.bincount(found) / 20_000 == pytest.approx(weights, abs=0.01)


@pytest.mark.parametrize("weights", [[0.0, 1.0, 0.0], [1e-9, 1 - 2e-9, 1e-9], [1 / 3, 1 / 3, 1 / 3]], ids=str)
def test_a_code_without_weight_is_never_drawn(weights):
    found = code_drawer(np.zeros(3, int), np.array(weights))(np.zeros(30_000, np.uint8), np.random.default_rng(1))
    assert np.bincount(found, minlength=3) / 30_000 == pytest.approx(weights, abs=0.01)


def test_codes_of_a_level_without_any_weight_are_drawn_alike():
    found = code_drawer(np.zeros(2, int), np.zeros(2))(np.zeros(10_000, np.uint8), np.random.default_rng(0))
    assert np.bincount(found) / 10_000 == pytest.approx(0.5, abs=0.02)


def test_a_level_of_one_code_is_that_code():
    found = code_drawer(np.array([2, 0, 1]), np.ones(3))(np.array([0, 2, 1]), np.random.default_rng(0))
    assert (found == [1, 0, 2]).all()


@WAYS
def test_a_link_without_parents_draws_its_shares(way):
    link = Link(0, (), np.log([0.2, 0.8]), (), (), np.array([0.2, 0.8]))
    drawn = way([link])(0)[0]
    assert abs(drawn.mean() - 0.8) < 1e-3
