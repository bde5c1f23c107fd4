"""Columns that are functions of others: a city's country, a code's label. They are found in noisy tables of pairs.

Everything here is post-processing of noisy counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twinify_lite.auto.margins import NEVER, Margins, Pair
from twinify_lite.auto.tables import Noisy, doubt_of, surely

# What the largest cells of all rows leave over is no more than noise if all of it is below so many standard deviations,
# and if no single cell of it stands out.
_LEAK = 2.0
# That says something only if so much noise is a small part of what the column's most frequent level leaves open.
_TELLS = 0.25
# A row is clear about its cell at this chance. One that is not has more likely a level that no clear row has, so many
# times if the column has fewer levels than its parent, and if it has as many.
_CLEAR, _FEWER, _AS_MANY = 0.9, 20.0, 200.0
# Rows are left over by a function if noise does as much in one of so many: a fit has many pairs, and most have none.
_LEFT_OVER = 10_000
# No chance is quite zero, so that its logarithm is a number.
_NEVER = 1e-12

Counts = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Function:
    """`chances` of a column's levels by those of its parent, and the share of rows that seem to stand elsewhere.

    It is whole unless it leaves over rows, which counts show and which follow from no level of the parent.
    """

    chances: np.ndarray
    leak: float
    is_whole: bool = True

    def groups(self) -> list[tuple[int, np.ndarray]]:
        """Levels of the column, each with the levels of the parent that it stands for, if none is likely missing."""
        clear, level = self.chances.max(axis=1) > _CLEAR, self.chances.argmax(axis=1)
        doubtful = (self.chances[~clear] > 0.5).any(axis=0)
        return [(v, np.flatnonzero(clear & (level == v))) for v in np.unique(level[clear]) if not doubtful[v]]


def find_functions(pairs: Mapping[Pair, Noisy], margins: Margins) -> dict[Pair, Function]:
    """By (parent, column): all functions that the tables show."""
    found = {}
    for (i, j), noisy in pairs.items():
        for parent, column, counts in ((i, j, noisy.counts), (j, i, noisy.counts.T)):
            one = function_of(counts / margins.rows, doubt_of(noisy.noise) / margins.rows, margins, (parent, column))
            if one is not None:
                found[parent, column] = one
    return found


def function_of(table: np.ndarray, noise: float, margins: Margins, pair: Pair) -> Function | None:
    """How the second column of a noisy table follows from the first, or None if it does not, or nobody can tell."""
    rows, columns = (margins.shares[number] for number in pair)
    leak = 1 - table.max(axis=1).sum()
    doubt = _LEAK * noise * np.sqrt(table.size - len(table))
    if (
        len(columns) < 2
        or leak > doubt
        or doubt > _TELLS * (1 - columns.max())
        or _second(table) > surely(table.size) * noise
    ):
        return None
    present = columns > 2 * NEVER
    evidence = np.where(present, table * rows[:, None] / noise**2, -np.inf)
    chances = _over_rows(np.exp(evidence - evidence.max(axis=1, keepdims=True)))
    clear = chances.max(axis=1) > _CLEAR
    taken = ~present | np.isin(np.arange(len(columns)), chances[clear].argmax(axis=1))
    if not taken.all():
        likelier = _FEWER if table.shape[1] < table.shape[0] else _AS_MANY
        chances[~clear] = _over_rows(chances[~clear] * np.where(taken, 1.0, likelier))
    left = _left_over(chances, margins, pair)
    if left.sum() > 1 - _CLEAR:
        return None
    # Noise hides where the rows that are left over are: anywhere.
    chances = (1 - left.sum()) * np.maximum(chances, _NEVER) + left
    return Function(chances, float(leak), is_whole=not left.any())


def _left_over(chances: np.ndarray, margins: Margins, pair: Pair) -> np.ndarray:
    """Of each level of the column, the share of all rows that its own counts show and no row of the parent leaves it.

    A table of a pair may hide a few rows in each of its rows, missing cells for one. A single count shows their sum.
    """
    (rows, columns), (parent, column) = ([of[number] for number in pair] for of in (margins.seen, margins.spreads))
    variance = column**2 + parent**2 @ chances**2
    doubt = np.sqrt(np.maximum(variance, margins.rows**-2.0))  # at least one row
    lacking = columns - rows @ chances
    return np.where(lacking > surely(len(columns), _LEFT_OVER) * doubt, lacking, 0.0)


def _second(table: np.ndarray) -> float:
    """The largest cell that is not the largest of its row: two wards of one diagnosis, if it is no noise."""
    return float(np.partition(table, -2, axis=1)[:, -2].max())


def _over_rows(weights: np.ndarray) -> np.ndarray:
    return weights / weights.sum(axis=1, keepdims=True)


def pool(
    functions: Mapping[Pair, Function], single: Sequence[Counts], pairs: Mapping[Pair, Noisy]
) -> tuple[list[Counts], dict[Pair, Noisy]]:
    """Counts that measure the same thing twice, once by a column and once by its function, averaged by their noise.

    Of columns that follow from one another round in a circle, the last two are not: they were averaged already, and
    would seem surer than they are.
    """
    single, pairs = list(single), dict(pairs)
    family = list(range(len(single)))
    for (parent, column), one in functions.items():
        if family[parent] == family[column] or not one.is_whole:
            continue
        family = [family[parent] if number == family[column] else number for number in family]
        groups = one.groups()
        single[parent], single[column] = _pooled_single(single[parent], single[column], groups)
        for other in range(len(single)):
            keys = [next((k for k in ((c, other), (other, c)) if k in pairs), None) for c in (parent, column)]
            if other not in (parent, column) and None not in keys:
                pairs |= _pooled_pairs(pairs, keys, (parent, column), groups)
    return single, pairs


def _pooled_single(parent: Counts, column: Counts, groups: list[tuple[int, np.ndarray]]) -> tuple[Counts, Counts]:
    (fine, fine_variance), (coarse, coarse_variance) = ((c.copy(), v.copy()) for c, v in (parent, column))
    for level, members in groups:
        total = fine_variance[members].sum() + coarse_variance[level]
        apart = coarse[level] - fine[members].sum()
        fine[members] += fine_variance[members] / total * apart
        coarse[level] -= coarse_variance[level] / total * apart
        fine_variance[members] *= 1 - fine_variance[members] / total
        coarse_variance[level] *= 1 - coarse_variance[level] / total
    return (fine, fine_variance), (coarse, coarse_variance)


def _pooled_pairs(
    pairs: Mapping[Pair, Noisy], keys: list[Pair], columns: Pair, groups: list[tuple[int, np.ndarray]]
) -> dict[Pair, Noisy]:
    """Tables of the parent and of the column with the same other column."""
    turned = [key.index(column) == 1 for key, column in zip(keys, columns, strict=True)]
    fine, coarse = (
        (pairs[key].counts.T if turn else pairs[key].counts).copy() for key, turn in zip(keys, turned, strict=True)
    )
    variances = [pairs[key].noise ** 2 for key in keys]
    kept = [np.ones(len(fine)), np.ones(len(coarse))]
    for level, members in groups:
        total = len(members) * variances[0] + variances[1]
        apart = coarse[level] - fine[members].sum(axis=0)
        fine[members] += variances[0] / total * apart
        coarse[level] -= variances[1] / total * apart
        kept[0][members] = 1 - variances[0] / total
        kept[1][level] = 1 - variances[1] / total
    return {
        key: Noisy(counts.T if turn else counts, float(np.sqrt(variance * part.mean())))
        for key, counts, turn, variance, part in zip(keys, (fine, coarse), turned, variances, kept, strict=True)
    }
