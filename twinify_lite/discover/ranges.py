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

# Next to a bin that is clearly not empty, these standard deviations are enough, by the number of bins.
_FAINT = {1: 2.5, 2: 3.0, 3: 3.0}
# The outer parts of a range may be cut off where their sum is below the first, and what is left is above the second.
_LITTLE, _MUCH = 2.0, 20.0


@dataclass(frozen=True, eq=False)
class Grid:
    """Edges on the scale of `Cells.value`; bin i holds edges[i] <= value <= edges[i + 1], the outer ones all beyond."""

    edges: np.ndarray

    @property
    def bins(self) -> int:
        """How many."""
        return len(self.edges) - 1

    def place(self, values: np.ndarray) -> np.ndarray:
        """The bin of each value. Positive values belong to the bin below an edge, negative ones to the one above."""
        towards_zero = np.where(
            values > 0, np.searchsorted(self.edges, values, "left"), np.searchsorted(self.edges, values, "right")
        )
        return np.clip(towards_zero - 1, 0, self.bins - 1)


def magnitudes(column: Column) -> Grid:
    """The first look at a column: 1-2-5 steps on both sides of zero, or decades for a time."""
    if column.kind == "datetime":
        return Grid(np.array([ticks(column, datetime.date(year, 1, 1)) for year in _YEARS], np.float64))
    series = _SERIES[_SERIES >= 1] if column.kind == "integer" else _SERIES
    return Grid(np.concatenate([-series[::-1], [0.0], series]))


def clear(bins: int) -> float:
    """How many standard deviations a bin must have for noise to pass as one of `bins` once in a thousand times."""
    return float(norm.isf(1e-3 / bins))


def hull(grid: Grid, noisy: np.ndarray, noise: float, *, clear: float) -> tuple[float, float] | None:
    """The range of the bins that are clearly not empty, with faint neighbours; None where nothing is clear.

    `noisy` are counts with noise of standard deviation `noise`; one that exceeds `clear` times that is no noise.
    """
    filled = np.flatnonzero(noisy > clear * noise)
    if not len(filled):
        filled = _clear_windows(noisy, clear * noise, width=3)
    if not len(filled):
        return None
    low = int(filled[0]) - _faint(noisy[: int(filled[0])][::-1], noise)
    high = int(filled[-1]) + 1 + _faint(noisy[int(filled[-1]) + 1 :], noise)
    return float(grid.edges[low]), float(grid.edges[high])


def _clear_windows(noisy: np.ndarray, limit: float, *, width: int) -> np.ndarray:
    """Bins of windows (a decade is three bins) that are clear together where no bin is alone."""
    sums = np.convolve(noisy, np.ones(width), "valid")
    best = int(np.argmax(sums))
    return np.arange(best, best + width) if sums[best] > limit * math.sqrt(width) else np.array([], int)


def _faint(beyond: np.ndarray, noise: float) -> int:
    """How many of the bins beyond a clear one are not empty either, by one, two or three at a time."""
    for width, limit in _FAINT.items():
        part = beyond[:width]
        if len(part) == width and part.sum() > limit * noise * math.sqrt(width):
            return width + _faint(beyond[width:], noise)
    return 0


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
