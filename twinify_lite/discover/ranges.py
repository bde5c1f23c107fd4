"""From noisy histograms to ranges: where a column's numbers lie, to within a human-looking factor.

Everything here is public: grids that are fixed beforehand, and what is concluded from noisy counts on them.
"""

from __future__ import annotations

import datetime
import decimal
import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from twinify_lite.cells import ticks
from twinify_lite.schema import Column

# 1, 2, 5, 10, ... from 10^-12 to 10^18: thirty orders of magnitude, one side.
_SERIES = np.array([float(f"{digit}e{power}") for power in range(-12, 18) for digit in (1, 2, 5)] + [1e18])
_YEARS = range(1800, 2210, 10)

#: The least bound of a range on a log scale.
SMALLEST = {"number": 1e-12, "integer": 1}
#: Parts that a range is cut into when it is looked at more closely.
PARTS = 16

# Beyond a range that is clear, so many standard deviations are enough, by the number of bins that are looked at.
_FAINT = np.array([2.5, 3.5, 3.5, *(4.0,) * 9])
# On the other side of zero, at the same magnitudes.
_MIRRORED = 4.0
# Stands for the noise where there is none.
_NONE = 1e-6
# Where too little is clear: numbers reach to about 100 and times to about today. Each step of ten times from there,
# each decade, and the other side of zero are so much less likely, in natural logarithms.
_USUAL, _TODAY = 100.0, 2030
_STEP, _DECADE, _NEGATIVE = 1.5, 1.5, 6.0
# So many bins are looked at together then.
_TOGETHER = 6
# The outer parts of a range may be cut off where their sum is below the first, and what is left is above the second.
_LITTLE, _MUCH = 2.0, 20.0


@dataclass(frozen=True, eq=False)
class Grid:
    """Edges on the scale of `Cells.value`; bin i holds edges[i] <= value <= edges[i + 1], the outer ones all beyond.

    An edge that stands twice is a bin of its own for that number: `zero` is its place.
    """

    edges: np.ndarray
    zero: int | None = None

    @property
    def bins(self) -> int:
        """How many."""
        return len(self.edges) - 1

    def place(self, values: np.ndarray) -> np.ndarray:
        """The bin of each value. Positive values belong to the bin below an edge, negative ones to the one above."""
        left, right = (np.searchsorted(self.edges, values, side) for side in ("left", "right"))
        towards_zero = np.where(values > 0, left, right) - 1
        return np.clip(np.where(right - left == 2, left, towards_zero), 0, self.bins - 1)


def magnitudes(column: Column) -> Grid:
    """The first look at a column: 1-2-5 steps on both sides of zero, or decades for a time."""
    if column.kind == "datetime":
        return Grid(np.array([ticks(column, datetime.date(year, 1, 1)) for year in _YEARS], np.float64))
    series = _SERIES[_SERIES >= 1] if column.kind == "integer" else _SERIES
    return Grid(np.concatenate([-series[::-1], [0.0, 0.0], series]), zero=len(series))


def clear(bins: int) -> float:
    """How many standard deviations some run of `bins` must have for noise to pass as one once in ten thousand times.

    Runs are many, but overlap: simulated, the largest of all runs of 40 to 90 bins is as large as that of 8 times as
    many numbers that do not.
    """
    return float(norm.isf(1e-4 / (8 * bins)))


def hull(grid: Grid, noisy: np.ndarray, noise: float, *, clear: float) -> tuple[float, float] | None:
    """The range of the bins that are clearly not empty, with faint neighbours; None where nothing is clear.

    `noisy` are counts with noise of standard deviation `noise`. A run of bins is clear if its sum exceeds `clear`
    standard deviations: numbers that spread over many magnitudes fill no single bin clearly.
    """
    scores = noisy / max(noise, _NONE)
    if grid.zero is None:
        filled = _filled(scores, clear)
        return None if filled is None else (float(grid.edges[filled[0]]), float(grid.edges[filled[1]]))
    below, above = scores[: grid.zero + 1][::-1], scores[grid.zero :]  # outwards, zero's own bin first
    left, right = (_filled(side, clear, beyond=1) for side in (below, above))
    left, right = left or _mirrored(below, right), right or _mirrored(above, left)
    outwards = grid.edges[grid.zero :].copy()
    if outwards[2] == 1:  # whole numbers: what lies above 0 and not above 1 is 1
        outwards[1] = 1
    ends = [-outwards[place] for place in left or ()] + [outwards[place] for place in right or ()]
    return (float(min(ends)) + 0.0, float(max(ends)) + 0.0) if ends else None


def likeliest(grid: Grid, noisy: np.ndarray, noise: float) -> tuple[float, float]:
    """The range that noisy counts speak for most, beside what is usual: a guess where `hull` finds nothing clear."""
    scores = noisy / max(noise, _NONE)
    if grid.zero is None:
        away = _DECADE * np.abs(np.array(_YEARS[1:]) - _TODAY) / 10
        stop = int(np.argmax(_evidence(scores) - away)) + 1
        return float(grid.edges[max(0, stop - _TOGETHER)]), float(grid.edges[stop])
    outwards = grid.edges[grid.zero + 2 :]
    away = _STEP * np.abs(np.log10(outwards / _USUAL))
    sides = scores[grid.zero + 1 :], scores[: grid.zero][::-1]
    likely = np.array([_evidence(side) for side in sides]) - away - [[0.0], [_NEGATIVE]]
    side, place = np.unravel_index(int(np.argmax(likely)), likely.shape)
    return (-float(outwards[place]), 0.0) if side else (0.0, float(outwards[place]))


def _evidence(scores: np.ndarray) -> np.ndarray:
    """How much the best run of bins that ends with each one speaks for itself against noise, in natural logarithms."""
    sums = np.concatenate([[0.0], np.cumsum(scores)])
    widths = np.arange(1, _TOGETHER + 1)
    starts = np.arange(1, len(sums))[:, None] - widths
    runs = np.where(starts >= 0, sums[1:, None] - sums[np.maximum(starts, 0)], 0.0)
    return (np.maximum(runs, 0.0) ** 2 / (2 * widths)).max(axis=1)


def _filled(scores: np.ndarray, clear: float, *, beyond: int = 0) -> tuple[int, int] | None:
    """From where to where the clear runs reach, with their faint neighbours. Scores are counts over their noise.

    Runs are looked for `beyond` the first bins; those may be faint neighbours.
    """
    runs = _runs(scores[beyond:], clear)
    if not runs:
        return None
    low, high = beyond + min(start for start, _ in runs), beyond + max(stop for _, stop in runs)
    return low - _faint(scores[:low][::-1]), high + _faint(scores[high:])


def _runs(scores: np.ndarray, clear: float) -> list[tuple[int, int]]:
    """The run of bins that is the clearest, and those on either side of it."""
    if not len(scores):
        return []
    sums = np.concatenate([[0.0], np.cumsum(scores)])
    lengths = np.arange(len(sums)) - np.arange(len(sums))[:, None]
    clearness = np.where(lengths > 0, (sums - sums[:, None]) / np.sqrt(np.maximum(lengths, 1)), -np.inf)
    start, stop = np.unravel_index(int(np.argmax(clearness)), clearness.shape)
    if clearness[start, stop] <= clear:
        return []
    beyond = [(stop + low, stop + high) for low, high in _runs(scores[stop:], clear)]
    return [*_runs(scores[:start], clear), (int(start), int(stop)), *beyond]


def _faint(beyond: np.ndarray) -> int:
    """How many of the bins beyond a clear one are not empty either: as many as are the clearest together."""
    widths = np.arange(1, min(len(beyond), len(_FAINT)) + 1)
    together = np.cumsum(beyond[: len(widths)]) / np.sqrt(widths)
    enough = together > _FAINT[: len(widths)]
    if not enough.any():
        return 0
    width = int(widths[np.argmax(np.where(enough, together, -np.inf))])
    return width + _faint(beyond[width:])


def _mirrored(scores: np.ndarray, other: tuple[int, int] | None) -> tuple[int, int] | None:
    """The magnitudes that are filled on the other side of zero, if they are not empty together on this one."""
    if other is None:
        return None
    same = scores[max(1, other[0]) : other[1]]  # without zero, which is on both sides
    return other if same.sum() > _MIRRORED * math.sqrt(len(same)) else None


def is_skewed(grid: Grid, noisy: np.ndarray, low: float, high: float) -> bool:
    """Whether half of the numbers lie in the lowest eighth of a positive range, so that a log scale suits them."""
    inside = (grid.edges[:-1] >= low) & (grid.edges[1:] <= high)
    counts = np.cumsum(np.where(inside, np.maximum(noisy, 0.0), 0.0))
    median = grid.edges[1:][np.searchsorted(counts, counts[-1] / 2)]
    return low > 0 and median <= high / 8


def is_coarse(column: Column, low: float, high: float) -> bool:
    """Whether steps of magnitude may be too coarse for this range: it lies within one, away from zero."""
    return column.kind == "datetime" or (low > 0 and high <= 10 * low) or (high < 0 and low >= 10 * high)


def parts(low: float, high: float) -> Grid:
    """The range, cut into equal parts, for a closer look."""
    return Grid(np.linspace(low, high, PARTS + 1))


def zoom(grid: Grid, noisy: np.ndarray, noise: float, *, spare: int, most: float) -> tuple[float, float]:
    """The parts that hold what is clearly there and `spare` more on either side, if they are at most `most` of all.

    Parts are cut off from outside as long as their sum is within twice its noise, and only where what is left is so
    much more that such a sum is a small part of it.
    """
    low = _empty_parts(noisy, noise)
    high = len(noisy) - _empty_parts(noisy[::-1], noise)
    low, high = max(0, low - spare), min(len(noisy), high + spare)
    is_much = noisy[low:high].sum() > _MUCH * noise * math.sqrt(len(noisy))
    if is_much and high - low <= most * len(noisy):
        return float(grid.edges[low]), float(grid.edges[high])
    return float(grid.edges[0]), float(grid.edges[-1])


def _empty_parts(noisy: np.ndarray, noise: float) -> int:
    sums = np.cumsum(noisy)
    filled = np.flatnonzero(sums > _LITTLE * noise * np.sqrt(np.arange(1, len(noisy) + 1)))
    return int(filled[0]) if len(filled) else len(noisy)


def rounded(column: Column, low: float, high: float) -> tuple[float, float]:
    """The range, widened to a multiple of a power of ten that is at most a tenth of it; times keep whole ticks."""
    if column.kind == "datetime":
        return math.floor(low), math.ceil(high)
    step = decimal.Decimal(1).scaleb(math.floor(math.log10(high - low)) - 1)
    # Exact in decimals; and the float nearest to what lies below a float's decimals is not above that float.
    low = float(decimal.Decimal(repr(float(low))).quantize(step, decimal.ROUND_FLOOR))
    high = float(decimal.Decimal(repr(float(high))).quantize(step, decimal.ROUND_CEILING))
    return (math.floor(low), math.ceil(high)) if column.kind == "integer" else (low, high)
