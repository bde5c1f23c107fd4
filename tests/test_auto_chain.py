"""The chain: it meets the pair tables as closely as their noise deserves, and no closer."""

import jax
import numpy as np
import pytest

from twinify_lite.auto import chain, drawing, softmax
from twinify_lite.auto.chain import _SMOOTH, _draw, fit_chain, root
from twinify_lite.auto.drawing import BATCH, posterior_draw, sampler
from twinify_lite.auto.margins import Margins, combine
from twinify_lite.auto.softmax import fit_softmax
from twinify_lite.auto.tables import Noisy

RNG = np.random.default_rng(0)
APART, LINE = (lambda size: np.full(size, -1)), np.arange


def tvd(one, other):
    return np.abs(one - other).sum() / 2


def fitted(tables, shares, lines, *, rows=1e5, noise=1.0, particles=8192, rng=None):
    """A chain for joint tables (of shares) of pairs of columns, whose own counts are hardly noisy."""
    single = [(share * rows, np.ones(len(share))) for share in shares]
    pairs = {}
    for pair, table in tables.items():
        added = 0 if rng is None else rng.normal(0, noise, table.shape)
        pairs[pair] = Noisy(rows * table + added, noise)
    order = sorted(range(len(shares)), key=lambda column: -len(shares[column]))
    return fit_chain(combine(single, pairs), pairs, lines, order, {}, particles=particles, progress=lambda *_: None)


def pair_of(links, i, j, shape, key=0):
    drawn = sampler(links)(jax.random.key(key))
    counts = np.zeros(shape)
    np.add.at(counts, (np.asarray(drawn[i]), np.asarray(drawn[j])), 1)
    return counts / counts.sum()


# -- recovery ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known():
    """Three columns whose joint distribution is a chain: x, y given x, z given both."""
    x = np.array([0.1, 0.2, 0.3, 0.25, 0.15])
    y = RNG.dirichlet(np.ones(4), 5)
    effects = RNG.normal(0, 1, (5, 3))[:, None, :] + RNG.normal(0, 1, (4, 3))[None, :, :]
    z = np.exp(effects) / np.exp(effects).sum(-1, keepdims=True)
    joint = x[:, None, None] * y[:, :, None] * z
    tables = {(0, 1): joint.sum(2), (0, 2): joint.sum(1), (1, 2): joint.sum(0)}
    shares = [joint.sum((1, 2)), joint.sum((0, 2)), joint.sum((0, 1))]
    return joint, tables, fitted(tables, shares, [APART(5), APART(4), APART(3)])


def test_a_known_chain_is_recovered_from_exact_tables(known):
    joint, tables, links = known
    for (i, j), table in tables.items():
        assert tvd(pair_of(links, i, j, table.shape), table) < 0.015
    drawn = [np.asarray(column) for column in sampler(links)(jax.random.key(3))]
    counts = np.zeros(joint.shape)
    np.add.at(counts, tuple(drawn), 1)
    assert tvd(counts / BATCH, joint) < 0.03


def test_single_columns_keep_their_shares(known):
    joint, _, links = known
    drawn = sampler(links)(jax.random.key(1))
    for column, axes in enumerate([(1, 2), (0, 2), (0, 1)]):
        found = np.bincount(np.asarray(drawn[column]), minlength=joint.shape[column]) / BATCH
        assert tvd(found, joint.sum(axes)) < 0.006


def test_every_column_stands_once_and_after_its_parents(known):
    _, _, links = known
    assert [link.column for link in links] == [0, 1, 2]
    assert [link.parents for link in links] == [(), (0,), (0, 1)]


@pytest.mark.parametrize(
    ("lines", "function"),
    [(APART, [0, 1, 2, 3, 3, 1, 0, 2]), (LINE, [0, 0, 1, 1, 2, 2, 3, 3])],
    ids=["apart", "on a line"],
)
def test_a_column_that_is_a_function_of_another_stays_one(lines, function):
    table = np.zeros((8, 4))
    table[np.arange(8), function] = RNG.dirichlet(np.full(8, 5.0))
    links = fitted({(0, 1): table}, [table.sum(1), table.sum(0)], [lines(8), lines(4)], rows=20_000, noise=10.0)
    assert pair_of(links, 0, 1, table.shape)[table == 0].sum() < 0.05


def test_equal_columns_stay_equal():
    table = np.diag(RNG.dirichlet(np.full(6, 5.0)))
    links = fitted({(0, 1): table}, [table.sum(1), table.sum(0)], [APART(6)] * 2, rows=50_000, noise=5.0)
    assert np.trace(pair_of(links, 0, 1, (6, 6))) > 0.985


def test_a_column_with_no_pairs_is_independent():
    links = fitted({}, [np.array([0.3, 0.7]), np.array([0.5, 0.1, 0.4])], [APART(2), APART(3)])
    assert all(link.parents == () for link in links)
    assert tvd(pair_of(links, 0, 1, (2, 3)), np.outer([0.3, 0.7], [0.5, 0.1, 0.4])) < 0.015


# -- noise -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "never"), [(32, False), (640, True)])
def test_a_cell_that_lacks_a_few_rows_by_chance_is_not_an_empty_one(rows, never):
    """However faint the noise: four rows that independence would put there may be elsewhere by chance."""
    table = np.array([[0.5, 0.0], [0.25, 0.25]]) * rows
    margins = Margins(rows, (np.array([0.5, 0.5]), np.array([0.75, 0.25])))
    lines = [np.array([-1, -1])] * 2
    target = chain._target({(0, 1): Noisy(table, 0.01)}, 0, 1, margins, np.array([0, 1]), lines)
    assert (target.never < 0).any() == never


def test_where_noise_dominates_columns_are_nearly_independent():
    shares = [np.full(10, 0.1), np.full(8, 0.125)]
    rng = np.random.default_rng(1)
    independent = np.outer(*shares)
    links = fitted({(0, 1): independent}, shares, [APART(10), APART(8)], rows=300, noise=30.0, rng=rng)
    raw = np.maximum(300 * independent + rng.normal(0, 30, (10, 8)), 0)
    found = tvd(pair_of(links, 0, 1, (10, 8)), independent)
    assert found < 0.15
    assert found < 0.3 * tvd(raw / raw.sum(), independent)


def test_the_noisier_a_table_the_less_of_it_is_believed():
    table = 0.5 * np.diag(np.full(5, 0.2)) + 0.5 * np.full((5, 5), 0.04)
    shares = [np.full(5, 0.2)] * 2
    kept = [
        np.trace(pair_of(fitted({(0, 1): table}, shares, [APART(5)] * 2, rows=1000, noise=noise), 0, 1, (5, 5)))
        for noise in (1.0, 20.0, 100.0, 1000.0)
    ]
    assert kept == sorted(kept, reverse=True)
    assert kept[0] == pytest.approx(np.trace(table), abs=0.02)
    assert kept[-1] == pytest.approx(0.2, abs=0.03)


def test_effects_are_smooth_along_a_line():
    """A smooth dependence of two lines is found better from noisy tables if it is known that they are lines."""
    place = np.linspace(-2, 2, 24)
    table = np.exp(-((place[:, None] - place[None, :]) ** 2))
    table /= table.sum()
    shares, errors = [table.sum(1), table.sum(0)], {}
    for name, lines in (("line", [LINE(24)] * 2), ("apart", [APART(24)] * 2)):
        rng = np.random.default_rng(5)
        links = fitted({(0, 1): table}, shares, lines, rows=5000, noise=20.0, rng=rng)
        errors[name] = tvd(pair_of(links, 0, 1, (24, 24)), table)
    assert errors["line"] < 0.75 * errors["apart"]
    assert errors["line"] < 0.2


def test_the_prior_of_effects_is_a_process_along_the_line_and_independent_beside_it():
    line = np.array([0, 1, 2, -1, -1])
    covariance = root(line) @ root(line).T
    assert np.diag(covariance) == pytest.approx(1)
    assert covariance[3:, :3] == pytest.approx(0)
    assert covariance[3, 4] == pytest.approx(0)
    assert _SMOOTH > covariance[0, 1] > covariance[0, 2] > 0


# -- the convex problem ------------------------------------------------------------------------------------------------


def test_at_the_optimum_shares_are_kept_and_effects_are_the_misfit_over_the_penalty():
    rng = np.random.default_rng(2)
    rows = rng.integers(0, 4, 3000)
    design = np.eye(4)[rows]
    shares = np.array([0.5, 0.3, 0.2])
    wanted = design.T @ rng.dirichlet(shares * 10, 3000) / 3000
    wanted += (shares - wanted.sum(0))[None, :] / 4
    penalty = np.full(4, 0.05)
    effects, shift, given = fit_softmax(design, np.eye(3), wanted, penalty, shares)
    assert given.sum(1) == pytest.approx(1, abs=1e-5)
    assert given.mean(0) == pytest.approx(shares, abs=1e-3)
    assert design.T @ given / 3000 - wanted == pytest.approx(-penalty[:, None] * effects, abs=1e-3)
    logits = np.log(shares) + shift + design @ effects
    assert given == pytest.approx(np.exp(logits) / np.exp(logits).sum(1, keepdims=True), abs=1e-4)


def test_shares_come_out_where_the_effects_are_not_settled(monkeypatch):
    monkeypatch.setattr(softmax, "_ITERATIONS", 2)
    design = np.eye(40)[RNG.integers(0, 40, 4096)]
    shares = np.array([0.6, 0.3, 0.1])
    given = RNG.dirichlet([0.5, 0.5, 0.5], 40)
    _, _, fitted = fit_softmax(design, np.eye(3), design.T @ given[design.argmax(1)] / 4096, np.full(40, 1e-5), shares)
    assert fitted.mean(0) == pytest.approx(shares, abs=1e-4)


def test_progress_counts_columns():
    seen, shares = [], [np.full(2, 0.5)] * 3
    margins = combine([(share * 100, np.ones(2)) for share in shares], {})
    fit_chain(margins, {}, [APART(2)] * 3, [0, 1, 2], {}, particles=64, progress=lambda *step: seen.append(step))
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


# -- drawing: how rows come out is tested in test_auto_drawing.py ------------------------------------------------------


def test_posterior_draws_keep_shares_and_differ():
    table = 0.6 * np.diag(np.full(4, 0.25)) + 0.4 * np.full((4, 4), 1 / 16)
    links = fitted({(0, 1): table}, [np.full(4, 0.25)] * 2, [APART(4)] * 2, rows=1000, noise=20.0)
    lines = [APART(4)] * 2
    moved = [pair_of(posterior_draw(links, lines, dataset), 0, 1, (4, 4)) for dataset in range(1, 6)]
    mode = pair_of(links, 0, 1, (4, 4))
    for number, one in enumerate(moved):
        assert tvd(one.sum(1), np.full(4, 0.25)) < 0.02
        assert tvd(one.sum(0), np.full(4, 0.25)) < 0.03
        assert 0.01 < tvd(one, mode) < 0.35
        assert all(tvd(one, other) > 0.01 for other in moved[:number])


def test_a_posterior_draw_is_the_same_each_time_and_moves_little_where_noise_is_small(known):
    _, tables, links = known
    lines = [APART(5), APART(4), APART(3)]
    one, again = (posterior_draw(links, lines, 7) for _ in range(2))
    assert all((a.bias == b.bias).all() for a, b in zip(one, again, strict=True))
    assert tvd(pair_of(one, 0, 2, (5, 3)), tables[0, 2]) < 0.02


@pytest.mark.parametrize(
    ("setting", "value"),
    [("_CELLS", 1), ("_MILD", 0.0), ("_FEW", 1), ("_AHEAD", 1)],
    ids=["runs", "logits", "sums", "rows"],
)
def test_how_levels_are_looked_up_changes_no_row(known, monkeypatch, setting, value):
    _, _, links = known
    monkeypatch.setattr(drawing, "_CELLS", 16)
    usual = sampler(links)(jax.random.key(0))
    monkeypatch.setattr(drawing, setting, value)
    other = sampler(links)(jax.random.key(0))
    # Weights are rounded in another order, which may move a row that lies on an edge.
    assert all((a != b).mean() < 1e-3 for a, b in zip(usual, other, strict=True))


def test_levels_of_simulated_rows_are_spread_evenly():
    shares = np.broadcast_to([0.25, 0.5, 0.25], (1000, 3))
    assert (np.abs(np.bincount(_draw(shares, np.random.default_rng(0))) - [250, 500, 250]) <= 1).all()


def test_fewer_rows_than_a_batch_are_spread_out_too(known):
    links = known[2]
    first = links[0]
    drawn = sampler(links)(jax.random.key(0), 50_000)[first.column]
    assert len(drawn) == 2**15  # the rest comes from smaller batches
    counts = np.bincount(drawn, minlength=len(first.bias))
    assert np.abs(counts - 2**15 * np.exp(first.bias)).max() < 2  # independent rows would be off by 50


def test_noise_alone_makes_columns_less_dependent_than_it_seems_to():
    """Of noisy tables of independent columns, little more than half of the noise becomes effects."""
    rng = np.random.default_rng(0)
    sizes, rows, noise = [4, 5, 6, 4], 20_000, 60.0
    shares = [rng.dirichlet(np.full(size, 5.0)) for size in sizes]
    single = [(rows * one, np.full(len(one), noise**2)) for one in shares]
    apart, noisy = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        exact = {(i, j): rows * np.outer(shares[i], shares[j]) for i in range(4) for j in range(i + 1, 4)}
        pairs = {pair: Noisy(table + rng.normal(0, noise, table.shape), noise) for pair, table in exact.items()}
        lines = [np.full(size, -1) for size in sizes]
        order = [0, 1, 2, 3]
        links = fit_chain(combine(single, pairs), pairs, lines, order, {}, particles=4096, progress=lambda *_: None)
        for link in links:
            for parent, effects in zip(link.parents, link.effects, strict=True):
                centred = effects - effects @ shares[link.column][:, None]
                weight = np.outer(shares[parent], shares[link.column])
                apart.append(np.sqrt((weight * centred**2).sum()))
                table = pairs[min(parent, link.column), max(parent, link.column)].counts
                table = table if parent < link.column else table.T
                noisy.append(np.sqrt((weight * (table / rows / weight - 1) ** 2).sum()))
    assert np.mean(apart) < 0.62 * np.mean(noisy)
