"""Total variation distances of marginals: half the sum of what the shares of all cells differ by."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from twinify_lite.score.coding import Coding
from twinify_lite.score.comparing import SIDES, Comparison
from twinify_lite.score.reading import Sheet
from twinify_lite.score.result import CellScore, Figure, PairScore, PairTable

TRIPLES = 60
# Cells of a table that is counted whole; larger ones are counted by the cells that occur.
_DENSE = 2**20
# Of so many rows, times those of another table, 64 bits may not hold the number.
_MANY = 2**29
# Cells named of each order, worst pairs shown as tables, and levels of these.
_CELLS, _TABLES, _LEVELS = 5, 6, 8
_NAMES = {1: "single columns", 2: "pairs of columns", 3: "triples of columns"}

Shares = tuple[np.ndarray | None, np.ndarray]  # the cells that occur (all, if None), and their shares or counts
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class Marginal:
    """The distances of one set of columns on all four sides, and its worst cells on the whole."""

    columns: tuple[str, ...]
    distances: Mapping[str, float]
    worst: tuple[CellScore, ...]


class Tables:
    """The codes of one sheet; counts any set of its columns."""

    def __init__(self, sheet: Sheet, codings: Mapping[str, Coding]):
        self._codings, self.rows = codings, sheet.rows
        self._codes = {name: coding.codes(sheet) for name, coding in codings.items()}

    def shares(self, columns: tuple[str, ...]) -> Shares:
        """The share of rows in each cell of the table of `columns`."""
        seen, counts = self.counts(columns)
        return seen, counts / self.rows

    def counts(self, columns: tuple[str, ...]) -> Shares:
        """How many rows are in each cell of the table of `columns`."""
        sizes = [self._codings[name].size for name in columns]
        index = np.zeros(self.rows, np.int64)
        for name, size in zip(columns, sizes, strict=True):
            index *= size
            index += self._codes[name]
        if math.prod(sizes) <= _DENSE:
            return None, np.bincount(index, minlength=math.prod(sizes))
        return np.unique(index, return_counts=True)

    def coarse(self, columns: tuple[str, str], kept: Sequence[_Kept]) -> tuple[tuple[float, ...], ...]:
        """The table of two columns in which only the levels that are kept stand for themselves."""
        places = [one.places(self._codes[name]) for name, one in zip(columns, kept, strict=True)]
        table = np.zeros((kept[0].size, kept[1].size))
        np.add.at(table, tuple(places), 1 / self.rows)
        return tuple(tuple(row) for row in table.tolist())

    def levels(self, columns: tuple[str, ...], cell: int) -> tuple[str, ...]:
        """The names of the levels that meet in a cell of the table of `columns`."""
        names = []
        for name in reversed(columns):
            cell, place = divmod(cell, self._codings[name].size)
            names.append(self._codings[name].labels[place])
        return tuple(reversed(names))


class _Kept(NamedTuple):
    """The commonest codes of a column, sorted; `size` counts them, and one more for the others if there are any."""

    codes: np.ndarray
    size: int

    def places(self, codes: np.ndarray) -> np.ndarray:
        """The place of each code among those kept, the last for the others."""
        place = np.searchsorted(self.codes, codes)
        place[place == len(self.codes)] = 0
        return np.where(self.codes[place] == codes, place, self.size - 1)


def distance(one: Shares, other: Shares) -> float:
    """The total variation distance of two tables of the same columns."""
    _, left, right = _aligned(one, other)
    # Exact, so that cells which are empty in both tables, such as levels of a third one, do not change the last digit.
    return math.fsum(np.abs(left - right).tolist()) / 2


def apart(one: Tables, other: Tables, columns: tuple[str, ...]) -> int:
    """The total variation distance of two tables of `columns` times 2 * one.rows * other.rows.

    Formal guarantee: exact, as it is the sum of |count * other.rows - other count * one.rows|. It is at most
    2 * one.rows * other.rows, so that 64 bits hold it for 2^33 rows of `one` and 2^29 of `other`. More rows of `other`
    are counted in Python's own numbers, whatever the rows of `one` are.
    """
    whole = np.int64 if other.rows < _MANY else object
    _, left, right = _aligned(one.counts(columns), other.counts(columns))
    return int(np.abs(left.astype(whole) * other.rows - right.astype(whole) * one.rows).sum())


def _aligned(one: Shares, other: Shares) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The cells of both, and the shares of each in them."""
    if one[0] is None:
        return np.arange(len(one[1])), one[1], other[1]
    cells = np.union1d(one[0], other[0])
    both = np.zeros((2, len(cells)), one[1].dtype)
    for row, (seen, shares) in zip(both, (one, other), strict=True):
        row[np.searchsorted(cells, seen)] = shares
    return cells, *both


class Counter:
    """The tables of all sheets of a comparison."""

    def __init__(self, compared: Comparison, codings: Mapping[str, Coding]):
        self._codings, self._compared = codings, compared
        sheets = {id(sheet): sheet for _, *both in compared.pairs() for sheet in both}
        self._tables = {key: Tables(sheet, codings) for key, sheet in sheets.items()}

    def marginal(self, columns: tuple[str, ...]) -> Marginal:
        """Distances of the marginal of `columns`."""
        shares = {key: tables.shares(columns) for key, tables in self._tables.items()}
        distances = {side: distance(shares[id(a)], shares[id(b)]) for side, a, b in self._compared.pairs()}
        whole = (shares[id(sheet)] for sheet in (self._compared.real, self._compared.whole))
        return Marginal(columns, distances, self._worst(columns, *whole))

    def _worst(self, columns: tuple[str, ...], real: Shares, synthetic: Shares) -> tuple[CellScore, ...]:
        cells, real_share, synthetic_share = _aligned(real, synthetic)
        apart = np.abs(real_share - synthetic_share)
        worst = np.argpartition(-apart, min(_CELLS, len(apart) - 1))[:_CELLS]
        tables = self._tables[id(self._compared.real)]
        return tuple(
            CellScore(
                columns=columns,
                levels=tables.levels(columns, int(cells[place])),
                real=float(real_share[place]),
                synthetic=float(synthetic_share[place]),
            )
            for place in worst
        )

    def largest_share(self, name: str) -> float:
        """The share of real rows in the fullest bin or level of a column; missing cells are in none."""
        return float(self._tables[id(self._compared.real)].shares((name,))[1][:-1].max())

    def table(self, pair: PairScore) -> PairTable:
        """The joint table of a pair, real and synthetic, of its commonest levels."""
        both = [self._tables[id(sheet)] for sheet in (self._compared.real, self._compared.whole)]
        kept = [self._kept(name, both) for name in pair.columns]
        real, synthetic = (tables.coarse(pair.columns, kept) for tables in both)
        labels = tuple(
            tuple([*(self._codings[name].labels[code] for code in one.codes), "others"][: one.size])
            for name, one in zip(pair.columns, kept, strict=True)
        )
        return PairTable(columns=pair.columns, labels=labels, real=real, synthetic=synthetic, tvd=pair.tvd)

    def _kept(self, name: str, both: Sequence[Tables]) -> _Kept:
        _, shares, others = _aligned(*(tables.shares((name,)) for tables in both))
        shares = shares + others
        present = np.flatnonzero(shares)
        kept = np.sort(present[np.argsort(-shares[present], kind="stable")[:_LEVELS]])
        return _Kept(kept, len(kept) + (len(present) > len(kept)))


# -- all of them -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Marginals:
    """The marginals of one, two and three columns."""

    counter: Counter
    orders: Mapping[int, tuple[Marginal, ...]]

    def figures(self) -> list[Figure]:
        """Mean distances, and the largest of pairs."""
        found = [_figure(order, marginals) for order, marginals in self.orders.items() if marginals]
        if self.orders[2]:
            what = "The largest distance of all pairs."
            found.append(_summary("tvd_2way_worst", "worst pair of columns", what, self.orders[2], max))
        return found

    def pairs(self) -> tuple[PairScore, ...]:
        """All pairs of columns, the worst first."""
        pairs = (
            PairScore(
                columns=one.columns,
                tvd=one.distances["whole"],
                sampled=one.distances["synthetic"],
                heldout=one.distances["heldout"],
            )
            for one in self.orders[2]
        )
        return tuple(sorted(pairs, key=lambda pair: -pair.tvd))

    def tables(self) -> tuple[PairTable, ...]:
        """The joint tables of the worst pairs."""
        return tuple(self.counter.table(pair) for pair in self.pairs()[:_TABLES])

    def cells(self) -> tuple[CellScore, ...]:
        """The worst cells of each order."""
        return tuple(cell for marginals in self.orders.values() for cell in _worst_cells(marginals))


def _figure(order: int, marginals: Sequence[Marginal]) -> Figure:
    what = f"Mean total variation distance between real and synthetic shares, over {len(marginals)} {_NAMES[order]}."
    return _summary(f"tvd_{order}way", _NAMES[order], what, marginals, _mean)


def _summary(
    key: str, name: str, what: str, marginals: Sequence[Marginal], of: Callable[[Iterable[float]], float]
) -> Figure:
    sides = {side: of([marginal.distances[side] for marginal in marginals]) for side in SIDES}
    return Figure(key=key, name=name, group="Marginals", better="lower", what=what, **sides)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _worst_cells(marginals: Sequence[Marginal]) -> list[CellScore]:
    """The worst of all; each level is named once, or one bad level would fill the list."""
    found, named = [], set()
    every = (cell for marginal in marginals for cell in marginal.worst)
    for cell in sorted(every, key=lambda cell: -abs(cell.real - cell.synthetic)):
        parts = {*zip(cell.columns, cell.levels, strict=True)}
        if len(found) < _CELLS and cell.real != cell.synthetic and not parts & named:
            found.append(cell)
            named |= parts
    return found


def measure(
    compared: Comparison, codings: Mapping[str, Coding], rng: np.random.Generator, progress: Progress
) -> Marginals:
    """All single columns, all pairs, and triples: all if they are few, else some at random."""
    counter = Counter(compared, codings)
    wanted = choose_columns(list(codings), rng)
    total, done, orders = sum(map(len, wanted.values())), 0, {}
    for order, sets in wanted.items():
        found = []
        for columns in sets:
            progress("counting", done, total)
            found.append(counter.marginal(columns))
            done += 1
        orders[order] = tuple(found)
    return Marginals(counter, orders)


def choose_columns(names: Sequence[str], rng: np.random.Generator) -> dict[int, list[tuple[str, ...]]]:
    """The sets of one, two and three columns that are looked at."""
    pairs = list(itertools.combinations(names, 2))
    return {1: [(name,) for name in names], 2: pairs, 3: _triples(names, rng)}


def _triples(names: Sequence[str], rng: np.random.Generator) -> list[tuple[str, ...]]:
    if math.comb(len(names), 3) <= TRIPLES:
        return list(itertools.combinations(names, 3))
    drawn: dict[tuple[int, ...], None] = {}
    while len(drawn) < TRIPLES:
        drawn[tuple(sorted(rng.choice(len(names), 3, replace=False).tolist()))] = None
    return [tuple(names[place] for place in places) for places in drawn]
