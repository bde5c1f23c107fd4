"""Noisy tables of counts: the only door through which the automatic model sees rows.

One row adds 1 to at most one cell of every table. Heavier tables get less noise: one receipt for the Gaussian mechanism
covers all tables at once. Noisy counts are multiples of a power of two, which may be less than 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from twinify_lite.receipt import Receipt
from twinify_lite.release import Part, opened

# Rows that are counted at once: the indices of so many fit into a cache.
_CHUNK = 2**20
# What noise does in one of so many tables is taken for more than noise.
_STANDS_OUT = 100


@dataclass(frozen=True, eq=False)
class Noisy:
    """Noisy counts, and the standard deviation of the noise of each."""

    counts: np.ndarray
    noise: float

    def to_parts(self, name: str) -> dict[str, np.ndarray]:
        """Plain arrays for a checkpoint."""
        return {f"{name}.counts": self.counts, f"{name}.noise": np.float64(self.noise)}

    @classmethod
    def from_parts(cls, arrays: Mapping[str, np.ndarray], name: str) -> Noisy:
        """The inverse of `to_parts`."""
        return cls(arrays[f"{name}.counts"], float(arrays[f"{name}.noise"]))


def release(receipt: Receipt, tables: Iterable[np.ndarray], weights: Sequence[float]) -> list[Noisy]:
    """Add the noise that `receipt` pays for to tables of counts, each of weight `weights[k]` next to the others.

    Formal guarantee: if one row adds 1 to at most one cell of each table, this is the Gaussian mechanism of the
    receipt's noise multiplier. A row's own counts in a table are 0 but for one 1: their norm is at most 1, and none is
    negative, as `release.opened` asks for. The receipt is redeemed before the first table is counted.
    """
    noises = opened(receipt, [Part(bound=1, weight=weight) for weight in weights])
    return [Noisy(noise.add(table), noise.deviation) for noise, table in zip(noises, tables, strict=True)]


def doubt_of(noise: float) -> float:
    """What a count must be several times, to be believed: its noise, but at least one row.

    Noise may be a small part of a row. Counts that are only compared with it would make a single row a level, a heap or
    a rule, and tables as large as the data.
    """
    return max(noise, 1.0)


def surely(size: int, tables: int = _STANDS_OUT) -> float:
    """How many standard deviations are more than noise: it exceeds them in one of so many tables of `size` counts."""
    return float(norm.isf(1 / tables / size))


def shown(counts: np.ndarray, spread: np.ndarray | float) -> np.ndarray:
    """What noisy counts show beyond doubt, and nothing that follows may take away: what noise can hardly have added."""
    return np.maximum(0.0, counts - surely(len(counts)) * spread)


def one_way(codes: np.ndarray, size: int) -> np.ndarray:
    """How many rows have each code. One that is `size` stands for none, and counts nowhere."""
    return np.bincount(codes, minlength=size + 1)[:size].astype(np.int64)


def two_way(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """How many rows have each pair of levels. A level that is its column's size stands for none, as above."""
    height, width = shape[0] + 1, shape[1] + 1
    counts = np.zeros(height * width, np.int64)
    for start in range(0, len(rows), _CHUNK):
        part = slice(start, start + _CHUNK)
        counts += np.bincount(rows[part].astype(np.intp) * width + columns[part], minlength=len(counts))
    return counts.reshape(height, width)[:-1, :-1]
