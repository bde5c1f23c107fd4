"""Cells as codes of bins and levels, and the names of these: what marginals are counted over."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from twinify_lite.cells import MISSING, VALUE
from twinify_lite.score.reading import Shared, Sheet

BINS = 16
# Bars of a picture: every value has its own where these are few; else the middle of the range is cut into so many.
_BARS, _OUTER = 24, 0.005
# Levels that have a bar, the others one together.
_SHOWN = 500
# Levels that count by themselves: the cells of any three columns can be numbered in 63 bits.
_LEVELS = 2**20
GONE, _OTHERS = "missing", "others"


@dataclass(frozen=True, eq=False)
class Coding:
    """How one column is cut: codes of bins or levels, then of its special values, then of missing."""

    column: Shared
    edges: np.ndarray  # of ranged columns: values below edges[i + 1] have the code i, the outer ones reach everywhere
    labels: tuple[str, ...]

    @property
    def size(self) -> int:
        """How many codes there are."""
        return len(self.labels)

    def codes(self, sheet: Sheet) -> np.ndarray:
        """The code of every cell, in the smallest type that holds them."""
        one, specials = sheet.cells[self.column.name], len(self.column.specials)
        inside = self.size - specials - 1
        if self.column.is_ranged:
            code = np.searchsorted(self.edges[1:-1], one.value, side="right")
        else:
            code = np.minimum(one.value, inside - 1)
        code = np.where(one.state > VALUE, inside + one.state.astype(np.int64) - 1, code)
        return np.where(one.state == MISSING, self.size - 1, code).astype(np.min_scalar_type(self.size))


def codings(real: Sheet, bins: int = BINS) -> dict[str, Coding]:
    """Numbers and times in `bins` of equal width between the least and the greatest real one; levels by themselves."""
    return {column.name: _coding(column, real, bins) for column in real.columns}


def _coding(column: Shared, real: Sheet, bins: int) -> Coding:
    if not column.is_ranged:
        levels = column.levels if len(column.levels) <= _LEVELS else (*column.levels[:_LEVELS], _OTHERS)
        return Coding(column, np.array([]), (*levels, GONE))
    values = real.number(column.name)
    low, high = (np.nanmin(values), np.nanmax(values)) if np.isfinite(values).any() else (0.0, 0.0)
    if not high > low:  # one value, or none: one bin
        return Coding(column, np.array([low, high]), (column.text(low), *column.specials, GONE))
    edges = np.linspace(low, high, bins + 1)
    # The last bin holds its upper end, too.
    return Coding(
        column, edges, (*_bin_labels(column, [*edges[:-1], np.nextafter(high, np.inf)]), *column.specials, GONE)
    )


def _bin_labels(column: Shared, edges: Sequence[float]) -> list[str]:
    """Each bin from its first value to below the next one; of whole numbers by those that are in it."""
    return [_bin_label(column, low, high) for low, high in itertools.pairwise(edges)]


def _bin_label(column: Shared, low: float, high: float) -> str:
    first, last = np.ceil(low), np.ceil(high) - 1
    if column.column.kind != "integer" or last < first:
        first, last = low, high
    return column.text(first) if first == last else f"{column.text(first)} to {column.text(last)}"


class Picture(NamedTuple):
    """A column as bars: how many cells of two tables lie in each bin or level; the last `apart` lie on no axis."""

    labels: tuple[str, ...]
    real: tuple[int, ...]
    synthetic: tuple[int, ...]
    apart: int


def picture(column: Shared, real: Sheet, synthetic: Sheet) -> Picture:
    """Bars of both tables. A bar of missing cells is there only if some are."""
    labels, *counts = (_range_bars if column.is_ranged else _level_bars)(column, real, synthetic)
    is_gone = labels[-1] == GONE and not (counts[0][-1] or counts[1][-1])
    last = len(labels) - is_gone
    apart = len(column.specials) + 1 - is_gone
    return Picture(tuple(labels[:last]), *(tuple(count[:last].tolist()) for count in counts), apart)


def _range_bars(column: Shared, real: Sheet, synthetic: Sheet) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Numbers with long tails would all stand in one of equally wide bins: the outermost are one bar at each end."""
    values = real.number(column.name)
    values = values[np.isfinite(values)]
    seen = np.unique(np.concatenate([values, synthetic.number(column.name)]))
    seen = seen[np.isfinite(seen)]
    if 0 < len(seen) <= _BARS:
        edges, labels = np.append(seen, seen[-1]), [column.text(value) for value in seen]
    else:
        low, high = np.quantile(values, [_OUTER, 1 - _OUTER]) if len(values) else (0.0, 0.0)
        inner = _inner_edges(column, low, high) if high > low else np.array([low])
        edges, labels = np.array([-np.inf, *inner, np.inf]), _open_labels(column, inner)
    coding = Coding(column, edges, (*labels, *column.specials, GONE))
    counts = np.array([_counts(coding, sheet) for sheet in (real, synthetic)])
    ends = [0, len(edges) - 2] if np.isinf(edges[0]) else []
    kept = [place for place in range(coding.size) if place not in ends or counts[:, place].any()]
    return [coding.labels[place] for place in kept], *counts[:, kept]


def _inner_edges(column: Shared, low: float, high: float) -> np.ndarray:
    """Equally wide bars; of whole numbers each holds equally many."""
    if column.column.kind != "integer":
        return np.linspace(low, high, _BARS - 1)
    low = np.floor(low)
    step = max(np.ceil((high - low) / (_BARS - 2)), 1.0)
    return low + step * np.arange(np.ceil((high - low) / step) + 1)


def _open_labels(column: Shared, edges: np.ndarray) -> list[str]:
    low, high = (np.ceil(edges[[0, -1]]) if column.column.kind == "integer" else edges[[0, -1]]).tolist()
    return [f"below {column.text(low)}", *_bin_labels(column, edges), f"{column.text(high)} and more"]


def _level_bars(column: Shared, real: Sheet, synthetic: Sheet) -> tuple[list[str], np.ndarray, np.ndarray]:
    """The commonest levels in either table, in their order, and the rest as one."""
    coding = Coding(column, np.array([]), (*column.levels, GONE))
    counts = [_counts(coding, sheet) for sheet in (real, synthetic)]
    if coding.size <= _SHOWN + 2:
        return list(coding.labels), *counts
    shares = counts[0] / real.rows + counts[1] / synthetic.rows
    kept = np.sort(np.argsort(-shares[:-1], kind="stable")[:_SHOWN])
    rest = np.setdiff1d(np.arange(coding.size - 1), kept)
    pooled = [np.concatenate([count[kept], [count[rest].sum()], count[-1:]]) for count in counts]
    return [*(coding.labels[code] for code in kept), f"{len(rest)} other levels", GONE], *pooled


def _counts(coding: Coding, sheet: Sheet) -> np.ndarray:
    return np.bincount(coding.codes(sheet), minlength=coding.size)
