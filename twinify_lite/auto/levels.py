"""Levels: codes merged until the noise of their counts no longer hides them.

Everything here is post-processing of noisy counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from twinify_lite.auto.fine import Codes

# A level's count is at least so many standard deviations of its noise.
_CLEAR = 3.0
# A code is a level of its own if it stands so many standard deviations above the codes around it.
_HEAP, _AROUND = 5.0, 15
# A line of more codes is cut into levels of about equal counts, at most so many; a shorter one only where noise asks.
_SHORT, _MOST = 32, 40


@dataclass(frozen=True, eq=False)
class Levels:
    """The levels of one column: of each code its level and its weight there; `line` has the place of each level on the
    column's line, -1 where it has none."""

    of_code: np.ndarray
    weights: np.ndarray
    line: np.ndarray

    @property
    def size(self) -> int:
        """How many levels there are."""
        return len(self.line)


def merge(codes: Codes, counts: np.ndarray, noise: float, rows: float) -> Levels:
    """Merge codes, by their noisy `counts`: neighbours on the line, and rare ones elsewhere."""
    on_line = codes.line
    off_line = np.setdiff1d(np.arange(codes.size), on_line)
    of_code = np.zeros(codes.size, np.int64)
    runs = _runs(counts[on_line], noise, rows)
    of_code[on_line] = runs
    first = runs.max(initial=-1) + 1
    of_code[off_line] = first + _pooled(counts[off_line], noise)
    size = of_code.max() + 1
    line = np.where(np.arange(size) < first, np.arange(size), -1)
    return Levels(of_code, _weights(of_code, size, counts, noise), line)


def _runs(counts: np.ndarray, noise: float, rows: float) -> np.ndarray:
    """Which run of neighbours each code on the line belongs to."""
    if not len(counts):
        return np.zeros(0, np.int64)
    least = _CLEAR * noise if len(counts) <= _SHORT else max(_CLEAR * noise, rows / _MOST)
    heaps = _heaps(counts, noise)
    starts, total, length = [], 0.0, 0
    for place, count in enumerate(counts):
        full = total >= least and total >= _CLEAR * noise * np.sqrt(length)
        if place == 0 or full or (heaps[place] and length) or heaps[place - 1]:
            starts.append(place)
            total, length = 0.0, 0
        total, length = total + count, length + 1
    return _join_faint(counts, heaps, np.array(starts), noise)


def _join_faint(counts: np.ndarray, heaps: np.ndarray, starts: np.ndarray, noise: float) -> np.ndarray:
    """A run that noise hides joins its left neighbour, or the right one where that is a heap."""
    run = np.cumsum(np.isin(np.arange(len(counts)), starts)) - 1
    totals, lengths = np.bincount(run, weights=counts), np.bincount(run)
    is_heap = np.isin(np.arange(len(totals)), run[heaps])
    faint = (totals < _CLEAR * noise * np.sqrt(lengths)) & ~is_heap
    joined = np.arange(len(totals))
    for k in np.flatnonzero(faint):
        if k > 0 and not is_heap[k - 1]:
            joined[k] = joined[k - 1]
    return np.unique(joined[run], return_inverse=True)[1]


def _heaps(counts: np.ndarray, noise: float) -> np.ndarray:
    if len(counts) <= _SHORT:
        return counts > _HEAP * noise
    half = _AROUND // 2
    padded = np.pad(counts, half, mode="reflect" if len(counts) > half else "edge")
    around = np.median(np.lib.stride_tricks.sliding_window_view(padded, _AROUND), axis=1)
    return counts - np.maximum(around, 0) > _HEAP * noise


def _pooled(counts: np.ndarray, noise: float) -> np.ndarray:
    """Levels of codes without order: each its own, the rare ones one together."""
    if not len(counts):
        return np.zeros(0, np.int64)
    rare = counts < _CLEAR * noise
    if rare.sum() < 2:
        return np.arange(len(counts))
    return np.where(rare, (~rare).sum(), np.cumsum(~rare) - 1)


def _weights(of_code: np.ndarray, size: int, counts: np.ndarray, noise: float) -> np.ndarray:
    """How a level divides among its codes: their noisy counts, drawn to their mean as far as noise explains them."""
    weights = np.empty(len(counts))
    for level in range(size):
        inside = of_code == level
        some = counts[inside]
        mean = max(some.mean(), 1e-9)
        signal = max(0.0, some.var(ddof=1) - noise**2) if len(some) > 1 else 0.0
        shrunk = np.maximum(mean + signal / (signal + noise**2 + 1e-12) * (some - mean), 0.02 * mean)
        weights[inside] = shrunk / shrunk.sum()
    return weights
