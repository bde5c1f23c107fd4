"""The codes of the discrete view: the bins of a column first, then its heaps, its special values, and missing."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from twinify_lite.cells import MISSING, VALUE, Cells, stored
from twinify_lite.encode.axis import Axis, axis, points, specials_within, unrank
from twinify_lite.schema import Column

_NONE = np.zeros(0, np.int64)
#: A bin of at most so many steps is drawn from by scaling one random double: each step is as likely but for 2**-33.
_SHORT = 2**20


@dataclasses.dataclass(frozen=True, eq=False)
class Layout:
    """What the codes of one column mean: bin i holds edges[i] <= value < edges[i + 1].

    `edges` and `heaps` are on the scale of `Cells.value`; heaps ascend, as their codes do. On a grid, the last edge is
    the step after `max`; otherwise it is `max`, which the last bin includes. Where every step has a bin of its own,
    heaps have no codes. A levelled column has a bin for each level and for `other`, and no edges. `taken` are the
    points that lie between the edges and in no bin: the heaps, and the special values among the numbers.
    """

    bins: int
    edges: np.ndarray
    heaps: np.ndarray
    specials: int
    missing: int | None
    taken: np.ndarray

    @property
    def size(self) -> int:
        """How many codes there are."""
        return self.bins + len(self.heaps) + self.specials + (self.missing is not None)

    @property
    def dtype(self) -> np.dtype:
        """The shortest unsigned integer that holds every code."""
        return np.min_scalar_type(self.size - 1)

    @functools.cached_property
    def states(self) -> np.ndarray:
        """The state of each code's cells, as `Cells` has it."""
        values = np.full(self.bins + len(self.heaps), VALUE)
        specials = np.arange(1, self.specials + 1)
        return np.concatenate([values, specials, [MISSING] * (self.missing is not None)]).astype(np.int16)


class Cuts(NamedTuple):
    """Bins of equal width, of which those beside zero are cut in halves, and the halves beside zero again, so often.

    Amounts crowd there: a range that is wide enough for the largest of them has most in its first bin.
    """

    bins: int
    halvings: int = 0


@functools.lru_cache(maxsize=1024)  # a stream of rows asks for the same few, batch after batch
def layout(column: Column, bins: int | Cuts) -> Layout:
    """The codes of `column` with at most `bins` bins, or as `Cuts` say; `bins` says nothing to a levelled column."""
    bins, halvings = bins if isinstance(bins, tuple) else (bins, 0)
    if column.is_levelled:
        count = len(column.levels) + (column.other is not None)
        return Layout(count, _NONE, _NONE, 0, count if column.nullable else None, _NONE)
    line = axis(column)
    reserved = specials_within(column, line)
    heaps = np.setdiff1d(points(column, line, column.heaps or ()), reserved)
    if line.unit is not None and line.high - line.low < bins:
        heaps = heaps[:0]
    taken = np.union1d(heaps, reserved)
    cuts = _beside_zero(line, bins, halvings) if column.kind != "datetime" else ()
    edges = _free_edges(line, bins, cuts) if line.unit is None else _grid_edges(line, bins, taken, cuts)
    count, specials = len(edges) - 1, len(column.special or ())
    missing = count + len(heaps) + specials if column.nullable else None
    return Layout(count, line.values(edges), line.values(heaps), specials, missing, line.values(taken))


def _beside_zero(line: Axis, bins: int, halvings: int) -> np.ndarray:
    """More edges of a linear axis that has zero in it, or within a bin of it: nearer and nearer to that."""
    width = (line.high - line.low) / bins
    zero = min(max(0, line.low), line.high)
    if line.log or not halvings or abs(zero) > width:
        return _NONE
    cuts = width * 2.0 ** -np.arange(1, halvings + 1)
    return np.concatenate([zero - cuts, [zero], zero + cuts])


def _free_edges(line: Axis, bins: int, cuts: Sequence[float]) -> np.ndarray:
    edges = (np.geomspace if line.log else np.linspace)(line.low, line.high, bins + 1)
    edges[[0, -1]] = line.low, line.high
    return np.unique(np.clip(np.concatenate([edges, cuts]), line.low, line.high))


def _grid_edges(line: Axis, bins: int, taken: np.ndarray, cuts: Sequence[float]) -> np.ndarray:
    """The first step of every bin and the step after the last; a bin of taken points alone joins the one before."""
    size = line.high - line.low + 1
    if size <= bins:
        edges = np.arange(line.low, line.high + 2)
    elif line.log:
        edges = np.ceil(np.geomspace(line.low, line.high + 1, bins + 1)).astype(np.int64)
    else:  # in Python's integers, which do not overflow
        edges = np.array([line.low + i * size // bins for i in range(bins + 1)], np.int64)
    edges[[0, -1]] = line.low, line.high + 1
    if size > bins:
        edges = np.concatenate([edges, np.rint(cuts).astype(np.int64)])
    edges = np.unique(np.clip(edges, line.low, line.high + 1))
    filled = np.diff(_ranks(edges, taken)) > 0
    if not filled.any():
        return edges[:1]
    return np.concatenate([[line.low], edges[:-1][filled][1:], [line.high + 1]])


def _ranks(edges: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """Where the edges lie when taken points are not counted."""
    return edges - np.searchsorted(taken, edges)


def to_codes(column: Column, plan: Layout, cells: Cells) -> np.ndarray:
    """The code of each cell. No cell may be missing in a column that is not nullable."""
    codes = cells.value if column.is_levelled else _ranged_codes(column, plan, cells)
    if plan.missing is not None:
        codes = np.where(cells.state == MISSING, plan.missing, codes)
    return codes.astype(plan.dtype)


def _ranged_codes(column: Column, plan: Layout, cells: Cells) -> np.ndarray:
    line = axis(column)
    value, edges, heaps = line.clamp(cells.value), line.steps(plan.edges), line.steps(plan.heaps)
    codes = np.searchsorted(edges[1:-1], value, side="right")
    if len(heaps):
        nearest = np.minimum(np.searchsorted(heaps, value), len(heaps) - 1)
        codes = np.where(heaps[nearest] == value, plan.bins + nearest, codes)
    return np.where(cells.state > VALUE, plan.bins + len(heaps) + cells.state - 1, codes)


def from_codes(column: Column, plan: Layout, codes: np.ndarray, rng: np.random.Generator | None) -> Cells:
    """Cells with these codes: drawn uniformly from their bins, or the middles of these if there is no `rng`.

    Formal guarantee: to_codes(column, plan, from_codes(column, plan, codes, rng)) == codes.
    """
    codes = codes.astype(np.int64)
    state = plan.states.take(codes)
    if column.is_levelled:
        return Cells(codes, state)
    line = axis(column)
    if line.unit is not None:
        return Cells(line.values(_draw_steps(line, plan, codes, rng)), state)
    value = np.zeros(len(codes))
    is_bin, is_heap = codes < plan.bins, (codes >= plan.bins) & (codes < plan.bins + len(plan.heaps))
    value[is_bin] = _draw_free(column, plan, codes[is_bin], rng)
    value[is_heap] = plan.heaps[codes[is_heap] - plan.bins]
    return Cells(value, state)


def _draw_steps(line: Axis, plan: Layout, codes: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
    """A step of each code's bin, the step of its heap, or 0 for what is no value."""
    taken = line.steps(plan.taken)
    ranks = _ranks(line.steps(plan.edges), taken)
    low, free = ranks[:-1], np.diff(ranks)
    points = np.concatenate([line.steps(plan.heaps), np.zeros(plan.size - plan.bins - len(plan.heaps), np.int64)])
    if (free == 1).all():
        return np.concatenate([unrank(low, taken), points]).take(codes)
    bins = np.minimum(codes, plan.bins - 1)
    steps = unrank(low.take(bins) + _below(free.take(bins), rng), taken)
    return np.where(codes < plan.bins, steps, points.take(codes - plan.bins, mode="clip")) if len(points) else steps


def _below(count: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
    """A whole number from 0 to below each count: drawn, or the middle one if there is no `rng`."""
    if rng is None:
        return (count - 1) // 2
    if count.max(initial=1) <= _SHORT:
        return (rng.random(len(count)) * count).astype(np.int64)
    return rng.integers(0, count)


def _draw_free(column: Column, plan: Layout, bins: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
    low, high = plan.edges[bins], plan.edges[bins + 1]
    share = np.full(len(bins), 0.5) if rng is None else rng.random(len(bins))
    value = stored(column, low + share * (high - low))
    last = bins == plan.bins - 1
    for _ in range(len(plan.taken) + 2):  # so many different shares cannot all hit a taken point
        wrong = (value < low) | (value > high) | ((value == high) & ~last) | np.isin(value, plan.taken)
        if not wrong.any():
            break
        share[wrong] = (share[wrong] + 0.6180339887498949) % 1  # the golden ratio never comes back
        value[wrong] = stored(column, low[wrong] + share[wrong] * (high[wrong] - low[wrong]))
    return value
