"""Levels: codes merged until the noise of their counts no longer hides them.

Everything here is post-processing of noisy counts.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from twinify_lite.auto.fine import Codes
from twinify_lite.auto.tables import doubt_of, shown

# A level's count is at least so many standard deviations of its noise.
_CLEAR = 3.0
# A code is a level of its own if it stands so many standard deviations above the codes around it.
_HEAP, _AROUND = 5.0, 15
# A cut of a level is believed if its square exceeds so many variances of its noise.
_DOUBT = 1.0
# Before any count is seen, a half is expected to hold a share so far from its width's.
_UNEVEN = 0.25
# Where more than half of the numbers lie in so small a part of the line beside zero, they crowd there.
_CROWDED = 1 / 16
# Half of a level is empty if its count is below so many standard deviations and the other half's is not; the noise of a
# few codes is small, and what they hold is kept.
_EMPTY, _LONG = 2.0, 8
# The count of an end that is known to be there is at least so many standard deviations of its noise.
ENDS = 0.5
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

    @property
    def alone(self) -> np.ndarray:
        """Of each level, whether it is a single code."""
        return np.bincount(self.of_code, minlength=self.size) == 1

    @property
    def pooled(self) -> np.ndarray:
        """Of each code, whether it is one of the rare ones without order that are one level together."""
        return (~self.alone & (self.line < 0))[self.of_code]


def merge(codes: Codes, counts: np.ndarray, noise: float, rows: float, *, has_ends: bool = False) -> Levels:
    """Merge codes, by their noisy `counts`: neighbours on the line, and rare ones elsewhere.

    With `has_ends`, the first and the last code of the line are known to be there, whatever noise shows of them.
    """
    if codes.magnitude is not None and _is_crowded(codes, counts[codes.line]):
        codes = dataclasses.replace(codes, width=codes.magnitude)
    off_line = np.setdiff1d(np.arange(codes.size), codes.line)
    of_code = np.zeros(codes.size, np.int64)
    doubt = doubt_of(noise)
    runs = _runs(codes, counts[codes.line], doubt, rows)
    of_code[codes.line] = runs
    first = runs.max(initial=-1) + 1
    of_code[off_line] = first + _pooled(counts[off_line], doubt)
    size = of_code.max() + 1
    line = np.where(np.arange(size) < first, np.arange(size), -1)
    weights = _raise_shown(_weights(codes, of_code, size, counts, noise), of_code, counts, noise)
    for end in codes.line[[0, -1]] if has_ends else ():
        _raise_end(weights, np.flatnonzero(of_code == of_code[end]), end, counts, noise)
    return Levels(of_code, weights, line)


def _raise_shown(weights: np.ndarray, of_code: np.ndarray, counts: np.ndarray, noise: float) -> np.ndarray:
    """Weights with which no code has less of its level than its own count shows beyond doubt."""
    sure = shown(counts, doubt_of(noise))
    level = np.maximum(np.bincount(of_code, weights=counts), np.bincount(of_code, weights=sure))
    raised = np.maximum(weights, sure / np.where(level > 0, level, 1.0)[of_code])
    return raised / np.bincount(of_code, weights=raised)[of_code]


def _raise_end(weights: np.ndarray, inside: np.ndarray, end: int, counts: np.ndarray, noise: float) -> None:
    """Give the code `end` of a level at least the weight that noise would hide, of the others in it."""
    least = min(ENDS * noise / max(counts[inside].sum(), noise), 1 / len(inside))
    lacking = least - weights[end]
    if lacking > 0:
        weights[inside] *= 1 - lacking / (1 - weights[end])
        weights[end] = least


def _is_crowded(codes: Codes, counts: np.ndarray) -> bool:
    """Whether most of the numbers lie where the line is cut most finely: then they thin out with their magnitude."""
    finest = np.argsort(-codes.magnitude / codes.width, kind="stable")
    finest = finest[~codes.point[finest]]
    width = np.cumsum(codes.width[finest])
    crowd = counts[finest[width <= _CROWDED * width[-1]]].sum()
    return bool(crowd > counts[finest].sum() / 2 > 0)


def _runs(codes: Codes, counts: np.ndarray, noise: float, rows: float) -> np.ndarray:
    """Which run of neighbours each code on the line belongs to."""
    if not len(counts):
        return np.zeros(0, np.int64)
    known = _known_heaps(codes, counts, noise)
    bin_of = _bin_of(codes, _stands_out(codes, counts, noise))
    folded = np.bincount(bin_of, weights=counts)
    variance = noise**2 * np.bincount(bin_of)
    return _cut(folded, variance, rows, np.isin(np.arange(len(folded)), bin_of[known]))[bin_of]


def _known_heaps(codes: Codes, counts: np.ndarray, noise: float) -> np.ndarray:
    """The schema's heaps that noise does not hide: nothing more is needed to believe them."""
    return np.zeros(len(counts), bool) if codes.heap is None else codes.heap & (counts >= _CLEAR * noise)


def _stands_out(codes: Codes, counts: np.ndarray, noise: float) -> np.ndarray:
    """Codes on the line that are believed to be more than their neighbours are."""
    return (counts > _HEAP * noise) | _known_heaps(codes, counts, noise)


def _bin_of(codes: Codes, clear: np.ndarray) -> np.ndarray:
    """Numbers of bins and of points that stand out.

    Every other point is an ordinary value of the bin that it lies in, on whichever side of a point that stands out.
    """
    place = np.arange(len(clear))
    home = place if codes.home is None else np.where(codes.point & ~clear, codes.home, place)
    return np.unique(home, return_inverse=True)[1]


def _cut(counts: np.ndarray, variance: np.ndarray, rows: float, known: np.ndarray) -> np.ndarray:
    """Runs: heaps alone, and others together until their count is large enough and clear of its noise."""
    noise = float(np.sqrt(np.median(variance)))
    least = _CLEAR * noise if len(counts) <= _SHORT else max(_CLEAR * noise, rows / _MOST)
    heaps = _heaps(counts, noise) | known
    run, total, spread = np.zeros(len(counts), np.int64), 0.0, 0.0
    for place in range(1, len(counts)):
        total, spread = total + counts[place - 1], spread + variance[place - 1]
        full = total >= least and total >= _CLEAR * np.sqrt(spread)
        cut = heaps[place] or heaps[place - 1] or full
        run[place] = run[place - 1] + cut
        if cut:
            total, spread = 0.0, 0.0
    return _join_faint(counts, variance, heaps, run)


def _join_faint(counts: np.ndarray, variance: np.ndarray, heaps: np.ndarray, run: np.ndarray) -> np.ndarray:
    """A run that noise hides joins its left neighbour, but for heaps."""
    total, spread = np.bincount(run, weights=counts), np.sqrt(np.bincount(run, weights=variance))
    heap = np.isin(np.arange(len(total)), run[heaps])
    faint = (total < _CLEAR * spread) & ~heap
    joins = faint & np.concatenate([[False], ~heap[:-1]])
    return (np.cumsum(~joins) - 1)[run]


def _heaps(counts: np.ndarray, noise: float) -> np.ndarray:
    if len(counts) <= _SHORT:
        return counts > _HEAP * noise
    padded = np.pad(counts, _AROUND // 2, mode="reflect")
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


def _weights(codes: Codes, of_code: np.ndarray, size: int, counts: np.ndarray, noise: float) -> np.ndarray:
    """How a level divides among its codes."""
    weights = np.empty(len(counts))
    for level in range(size):
        places = np.flatnonzero(of_code[codes.line] == level)
        if len(places):
            kept = _within(places, counts[codes.line], noise)
            weights[codes.line[places]] = 0.0
            weights[codes.line[kept]] = _along(codes, kept, counts[codes.line], noise)
        else:
            inside = np.flatnonzero(of_code == level)
            weights[inside] = _shrunk(counts[inside], noise)
    return weights


def _within(places: np.ndarray, counts: np.ndarray, noise: float) -> np.ndarray:
    """The places of a level at an end of the line, without a tail that holds no more than noise.

    Of all such tails the one is cut off after which the rest looks most like one block. A range is often wider than
    the data; a few rows far out would be the twin's smallest and largest values.
    """
    if places[0] == 0:
        places = _cut_off(places[::-1], counts, noise)[::-1]
    if places[-1] == len(counts) - 1:
        places = _cut_off(places, counts, noise)
    return places


def _cut_off(places: np.ndarray, counts: np.ndarray, noise: float) -> np.ndarray:
    """`places` up to where a tail of nothing begins: it holds no more than noise, and as many places before it do.

    A single place is no tail: the noise of one count often hides a few rows, and the end of a range is a value that
    somebody has more often than not.
    """
    sums = np.concatenate([[0.0], np.cumsum(counts[places])])
    kept = np.arange(1, len(places) + 1)
    tail = sums[-1] - sums[kept]
    length = len(places) - kept
    before = sums[kept] - sums[np.maximum(kept - length, 0)]
    spread = noise * np.sqrt(np.maximum(length, 1))
    nothing = (length > 1) & (tail <= _EMPTY * spread) & (before - tail >= _CLEAR * np.sqrt(2) * spread)
    block = np.where(nothing | (length == 0), np.maximum(sums[kept], 0) ** 2 / kept, -1.0)
    return places[: int(np.argmax(block)) + 1]


def _along(codes: Codes, places: np.ndarray, counts: np.ndarray, noise: float) -> np.ndarray:
    """Shares of the codes at `places` of the line. A point that does not stand out has its width's share of its bin:
    its own noisy count would make a heap of every round number."""
    clear = _stands_out(codes, counts, doubt_of(noise))
    alone = (~codes.point | clear)[places]
    group = np.unique(_bin_of(codes, clear)[places], return_inverse=True)[1]
    width = np.bincount(group, weights=codes.width[places])
    shares = _halved(np.bincount(group, weights=np.where(alone, counts[places], 0.0)), width, noise)
    return shares[group] * codes.width[places] / width[group]


def _shrunk(counts: np.ndarray, noise: float) -> np.ndarray:
    """Shares of codes without order: their noisy counts, drawn to their mean as far as noise explains them."""
    mean = max(counts.mean(), 1e-9)
    signal = max(0.0, counts.var(ddof=1) - noise**2) if len(counts) > 1 else 0.0
    shrunk = np.maximum(mean + signal / (signal + noise**2 + 1e-12) * (counts - mean), 0.02 * mean)
    return shrunk / shrunk.sum()


def _halved(counts: np.ndarray, width: np.ndarray, noise: float) -> np.ndarray:
    """Shares of neighbours: cut in halves again and again, each cut as far from their widths as noise lets one believe.

    A Haar transform, every coefficient shrunk in the manner of James and Stein: long runs of nothing stay empty, where
    noisy counts cut off at zero would add up.
    """
    if len(counts) == 1:
        return np.ones(1)
    half = len(counts) // 2
    even = width[:half].sum() / width.sum()
    total = max(counts.sum(), 1e-9)
    found = counts[:half].sum() - even * total
    variance = noise**2 * (half * (1 - even) ** 2 + (len(counts) - half) * even**2)
    prior = (_UNEVEN * total) ** 2
    believed = found * max(0.0, 1 - _DOUBT * variance / (found**2 + 1e-300)) * prior / (prior + variance)
    left = float(np.clip(even + believed / total, 0.0, 1.0))
    faint = [part.sum() < _EMPTY * noise * np.sqrt(len(part)) for part in (counts[:half], counts[half:])]
    apart = found**2 > _CLEAR**2 * variance
    if half >= _LONG and apart and faint[0] != faint[1]:  # one half shows; the other holds no more than its noise
        left = float(faint[1])
    parts = _halved(counts[:half], width[:half], noise), _halved(counts[half:], width[half:], noise)
    return np.concatenate([left * parts[0], (1 - left) * parts[1]])
