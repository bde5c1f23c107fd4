"""From noisy histograms to ranges: where a column's numbers lie, to within a human-looking factor.

Everything here is public: grids that are fixed beforehand, and what is concluded from noisy counts on them.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass

import numpy as np

from twinify_lite.cells import ticks
from twinify_lite.schema import Column

# 1, 2, 5, 10, ... from 10^-12 to 10^18: thirty orders of magnitude, one side.
_SERIES = np.array([float(f"{digit}e{power}") for power in range(-12, 18) for digit in (1, 2, 5)] + [1e18])
_YEARS = range(1800, 2210, 10)

#: The least bound of a range on a log scale.
SMALLEST = {"number": 1e-12, "integer": 1}
#: Parts that a range is cut into when it is looked at more closely.
PARTS = 16

# Noise passes for a value's bin once in 30,000 bins at `_CLEAR`; next to a clear bin, `_FAINT` is enough.
_CLEAR, _FAINT = 4.0, 2.0
_MUCH = 20.0


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


def hull(grid: Grid, noisy: np.ndarray, noise: float) -> tuple[float, float] | None:
    """The range of the bins that are clearly not empty, with faint neighbours; None where nothing is clear.

    `noisy` are counts with noise of standard deviation `noise`.
    """
    clear = np.flatnonzero(noisy > _CLEAR * noise)
    if not len(clear):
        clear = _clear_windows(noisy, noise, width=3)
    if not len(clear):
        return None
    low, high = int(clear[0]), int(clear[-1])
    while low > 0 and noisy[low - 1] > _FAINT * noise:
        low -= 1
    while high + 1 < len(noisy) and noisy[high + 1] > _FAINT * noise:
        high += 1
    return float(grid.edges[low]), float(grid.edges[high + 1])


def _clear_windows(noisy: np.ndarray, noise: float, *, width: int) -> np.ndarray:
    """Bins of windows (a decade is three bins) that are clear together where no bin is alone."""
    sums = np.convolve(noisy, np.ones(width), "valid")
    best = int(np.argmax(sums))
    return np.arange(best, best + width) if sums[best] > _CLEAR * noise * math.sqrt(width) else np.array([], int)


def is_coarse(column: Column, low: float, high: float) -> bool:
    """Whether steps of magnitude may be too coarse for this range: it lies within one, away from zero."""
    return column.kind == "datetime" or (low > 0 and high <= 10 * low) or (high < 0 and low >= 10 * high)


def parts(low: float, high: float) -> Grid:
    """The range, cut into equal parts, for a closer look."""
    return Grid(np.linspace(low, high, PARTS + 1))


def zoom(grid: Grid, noisy: np.ndarray, noise: float) -> tuple[float, float]:
    """The parts that hold what is clearly there and two more on either side, if that is half of the range or less.

    Parts are cut off from outside as long as their sum is within twice its noise, and only where what is left is so
    much more that such a sum is a small part of it.
    """
    low = _empty_parts(noisy, noise)
    high = len(noisy) - _empty_parts(noisy[::-1], noise)
    low, high = max(0, low - 2), min(len(noisy), high + 2)
    is_much = noisy[low:high].sum() > _MUCH * noise * math.sqrt(len(noisy))
    if is_much and high - low <= len(noisy) // 2:
        return float(grid.edges[low]), float(grid.edges[high])
    return float(grid.edges[0]), float(grid.edges[-1])


def _empty_parts(noisy: np.ndarray, noise: float) -> int:
    sums = np.cumsum(noisy)
    filled = np.flatnonzero(sums > _FAINT * noise * np.sqrt(np.arange(1, len(noisy) + 1)))
    return int(filled[0]) if len(filled) else len(noisy)


def rounded(column: Column, low: float, high: float) -> tuple[float, float]:
    """The range, widened to a multiple of a power of ten that is at most a hundredth of it; times keep whole ticks."""
    if column.kind == "datetime":
        return math.floor(low), math.ceil(high)
    power = math.floor(math.log10(high - low)) - 1
    step = 10.0**power
    low, high = (
        round(turn(bound / step) * step, max(0, -power)) for turn, bound in ((math.floor, low), (math.ceil, high))
    )
    return (math.floor(low), math.ceil(high)) if column.kind == "integer" else (low, high)
