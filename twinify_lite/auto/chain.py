"""The chain: columns one after the other, each given the levels of its parents among those before.

    log p(x_j = v | x before j) = b_j[v] + sum over parents i of A_ij[x_i, v] - log normaliser

One softmax regression a column, with one effect for every pair of levels. It is fitted to noisy tables: column by
column on simulated rows, so that the expected pair tables meet the noisy ones as closely as their noise deserves. That
is penalised maximum entropy (Dudik, Phillips, Schapire 2007, "Maximum entropy density estimation with generalized
regularization"), a convex problem: at the optimum, expected - noisy = -penalty * A. Effects on levels that lie on a
line are smooth along it: their prior is a Gaussian process with an exponential kernel.

Everything here is post-processing of noisy counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twinify_lite.auto.functions import Function
from twinify_lite.auto.margins import Margins, Pair
from twinify_lite.auto.softmax import fit_softmax
from twinify_lite.auto.tables import Noisy, doubt_of
from twinify_lite.auto.zeros import empty_cells

# How strong an effect is expected to be, against the strength that a pair's noisy table shows, and its limits; the
# lower one is the second where the table shows something, by so many standard deviations of what noise adds to it.
_STRENGTH, _WEAKEST, _WEAK, _STRONGEST, _SHOWS = 1.2, 0.1, 0.3, 3.0, 0.5
# Of the variance of an effect, the part that is smooth along a line, and how many levels it reaches.
_SMOOTH, _REACH = 0.9, 6.0
# The effect on a level that never goes with a parent's.
_NEVER = -8.0


@dataclass(frozen=True, eq=False)
class Link:
    """One column of the chain: `bias` by level; for each parent, `effects` by its level and this one's.

    `spread` has standard deviations of the effects under a normal approximation to their posterior, in the coordinates
    in which their prior is standard; `shares` are the column's own shares.
    """

    column: int
    parents: tuple[int, ...]
    bias: np.ndarray
    effects: tuple[np.ndarray, ...]
    spread: tuple[np.ndarray, ...]
    shares: np.ndarray


def fit_chain(
    margins: Margins,
    pairs: Mapping[Pair, Noisy],
    lines: Sequence[np.ndarray],
    order: Sequence[int],
    functions: Mapping[Pair, Function],
    *,
    particles: int,
    progress: Callable[[int, int], None],
) -> tuple[Link, ...]:
    """Fit the columns in `order`. `lines` has, for each column, the place of each level on its line, or -1."""
    generator = np.random.default_rng(0)  # what is simulated here says nothing about anyone
    simulated: dict[int, np.ndarray] = {}
    links = []
    for place, column in enumerate(order):
        progress(place, len(order))
        parents = tuple(i for i in order[:place] if (i, column) in pairs or (column, i) in pairs)
        targets = [_target(pairs, i, column, margins, simulated[i], lines) for i in parents]
        link, shares = _function_link(column, parents, functions, simulated) or _fit_link(
            column, parents, targets, margins.shares[column], lines, simulated, particles
        )
        simulated[column] = _draw(shares, generator)
        links.append(link)
    progress(len(order), len(order))
    return tuple(links)


@dataclass(frozen=True, eq=False)
class _Target:
    """What one pair of columns should look like: shares, their noise, how strong the effects seem to be, and `never`,
    what is known of them beforehand."""

    shares: np.ndarray
    noise: float
    strength: float
    never: np.ndarray


def _target(
    pairs: Mapping[Pair, Noisy],
    parent: int,
    column: int,
    margins: Margins,
    simulated: np.ndarray,
    lines: Sequence[np.ndarray],
) -> _Target:
    """The noisy table of a pair, moved so that its margins are those of the simulated parent and of the column."""
    noisy = pairs[parent, column] if (parent, column) in pairs else pairs[column, parent]
    table = (noisy.counts if (parent, column) in pairs else noisy.counts.T) / margins.rows
    noise = noisy.noise / margins.rows
    rows, columns = np.bincount(simulated, minlength=len(table)) / len(simulated), margins.shares[column]
    independent = np.outer(rows, columns)
    empty = empty_cells(table, doubt_of(noisy.noise) / margins.rows, independent, (lines[parent], lines[column]))
    table = _with_margins(np.where(empty, 0.0, table), ~empty, rows, columns)
    freedom = max(1, (~empty).sum() - sum(table.shape) + 1)
    signal = max(0.0, ((table - independent) ** 2).sum() - noise**2 * freedom)
    least = _WEAK if signal > _SHOWS * noise**2 * np.sqrt(2 * freedom) else _WEAKEST
    strength = _STRENGTH * np.clip(np.sqrt(signal / (independent**2).sum()), least, _STRONGEST)
    return _Target(table, noise, float(strength), np.where(empty, _NEVER, 0.0))


def _with_margins(table: np.ndarray, free: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The table with what its margins lack spread over the cells that are free."""
    table = table + free * ((rows - table.sum(1)) / free.sum(1))[:, None]
    return table + free * ((columns - table.sum(0)) / free.sum(0))[None, :]


def _function_link(
    column: int, parents: tuple[int, ...], functions: Mapping[Pair, Function], simulated: Mapping[int, np.ndarray]
) -> tuple[Link, np.ndarray] | None:
    """The column as a function of one parent, the one that leaves least open, if there is such a parent."""
    known = [i for i in parents if (i, column) in functions]
    if not known:
        return None
    parent = min(known, key=lambda i: functions[i, column].leak)
    chances = functions[parent, column].chances
    given, effects = chances[simulated[parent]], np.log(chances)
    link = Link(column, (parent,), np.zeros(chances.shape[1]), (effects,), (np.zeros_like(effects),), given.mean(0))
    return link, given


def _fit_link(
    column: int,
    parents: tuple[int, ...],
    targets: Sequence[_Target],
    shares: np.ndarray,
    lines: Sequence[np.ndarray],
    simulated: Mapping[int, np.ndarray],
    particles: int,
) -> tuple[Link, np.ndarray]:
    """One softmax regression, and the distribution of the column for each simulated row."""
    bias = np.log(shares)
    if not parents:
        return Link(column, (), bias, (), (), shares), np.broadcast_to(shares, (particles, len(shares)))
    roots = [root(lines[i]) for i in parents]
    own = root(lines[column])
    design = np.concatenate([one[simulated[i]] for one, i in zip(roots, parents, strict=True)], axis=1)
    wanted = np.concatenate([one.T @ target.shares @ own for one, target in zip(roots, targets, strict=True)])
    lengths = [len(one) for one in roots]
    noise = np.repeat([target.noise for target in targets], lengths)
    strength = np.repeat([target.strength for target in targets], lengths)
    never = sum(target.never[simulated[i]] for target, i in zip(targets, parents, strict=True))
    found, shift, given = fit_softmax(design, own, wanted, noise / strength, shares, never)
    cuts = np.cumsum(lengths)[:-1]
    effects = tuple(
        target.never + one @ part @ own.T
        for target, one, part in zip(targets, roots, np.split(found, cuts), strict=True)
    )
    curvature = np.outer((design**2).mean(0), (own**2).T @ shares)
    spread = noise[:, None] / np.sqrt(curvature**2 + (noise / strength)[:, None] ** 2)
    return Link(column, parents, bias + shift, effects, tuple(np.split(spread, cuts)), shares), given


def root(line: np.ndarray) -> np.ndarray:
    """A square root of the prior covariance of effects over the levels of a column."""
    on_line = np.flatnonzero(line >= 0)
    covariance = np.eye(len(line))
    if len(on_line):
        apart = np.abs(line[on_line][:, None] - line[on_line][None, :])
        covariance[np.ix_(on_line, on_line)] = _SMOOTH * np.exp(-apart / _REACH) + (1 - _SMOOTH) * np.eye(len(on_line))
    return np.linalg.cholesky(covariance)


def _draw(shares: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """One level a row; the rows' uniform numbers are one in each of as many equal intervals, so that few go astray."""
    count = len(shares)
    uniform = (generator.permutation(count) + generator.random(count)) / count
    return np.minimum((uniform[:, None] > np.cumsum(shares, axis=1)).sum(1), shares.shape[1] - 1)
