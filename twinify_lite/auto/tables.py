"""Noisy tables of counts: the only door through which the automatic model sees rows.

One row adds 1 to at most one cell of every table. A table's weight is its share of the row's norm: heavier tables get
less noise, and the squares of all weights sum to 1: one receipt for the Gaussian mechanism covers all tables at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twinify_lite.accountant import Gaussian, Relation
from twinify_lite.exact import Bits, rounded_gaussians
from twinify_lite.receipt import Receipt

# Rows that are counted at once: the indices of so many fit into a cache.
_CHUNK = 2**20


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
    """Add the noise that `receipt` pays for to tables of counts, each of weight `weights[k]` beside the others.

    Formal guarantee: if one row adds 1 to at most one cell of each table, this is the Gaussian mechanism of the
    receipt's noise multiplier. Scaled by its weight over the norm of all, table k moves by at most that share of 1, and
    all of them by 1; noise of `multiplier` on the scaled tables is noise of `multiplier / share` on the counts, rounded
    up to a whole number here. Counts are whole, so counts + round(noise) = round(counts + noise): post-processing.
    """
    keys = receipt.redeem(Gaussian)
    norm = math.hypot(*weights) * (1 + 1e-12)
    moves = 1.0 if receipt.relation is Relation.ADD_REMOVE else math.sqrt(2) * (1 + 1e-15)
    bits, released = Bits(keys.noise), []
    for table, weight in zip(tables, weights, strict=True):
        deviation = math.ceil(receipt.mechanism.noise_multiplier * moves * norm / weight)
        noise = rounded_gaussians(bits, deviation, table.size).reshape(table.shape)
        released.append(Noisy((table + noise).astype(np.float64), float(deviation)))
    return released


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
