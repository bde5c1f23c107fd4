"""The line on which the values of a number, an integer or a time lie: whole steps, or any number between two ends."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from twinify_lite.cells import decimals_of, number_of, stored
from twinify_lite.schema import Column

#: Steps at most: differences of two of them still fit into 64 bits.
_FAR = 2**62 - 1
#: In float32, the place on [-1, 1] is a multiple of 2**-22; a finer grid than that needs float64.
_BITS = {np.float32: 22, np.float64: 44}


@dataclasses.dataclass(frozen=True)
class Axis:
    """The points `low` to `high` of a ranged column, counted in steps: one whole number, one tick, or 10**-decimals.

    `unit` is the number of steps in 1, None for a number of any decimals: there, the steps are the values themselves.
    """

    low: int | float
    high: int | float
    unit: float | None
    log: bool
    floats: bool  # whether values are floats: `column.kind == "number"`

    def steps(self, value: np.ndarray) -> np.ndarray:
        """The nearest step of each value, wherever it lies."""
        if self.unit is None or not self.floats:
            return value
        return np.rint(value * self.unit).astype(np.int64)

    def values(self, steps: np.ndarray) -> np.ndarray:
        """The value of each step: an exact inverse of `steps` on steps."""
        return steps if self.unit is None or not self.floats else steps / self.unit

    def clamp(self, value: np.ndarray) -> np.ndarray:
        """The step between `low` and `high` that is nearest to each value."""
        if self.unit is not None and self.floats:
            value = np.clip(value, (self.low - 1) / self.unit, (self.high + 1) / self.unit)  # no overflow in int64
        return np.clip(self.steps(value), self.low, self.high)

    @property
    def dtype(self) -> type[np.floating]:
        """The shortest float in which `place` keeps the steps apart."""
        return np.float32 if self._count < 2**22 else np.float64

    @property
    def _count(self) -> float:
        """The length of the axis in steps where they are shortest on it."""
        if self.unit is None or self.low == self.high:
            return 0
        return math.log(self.high / self.low) / -math.log1p(-1 / self.high) if self.log else self.high - self.low

    def place(self, steps: np.ndarray) -> np.ndarray:
        """Each step on [-1, 1]: affinely, or affinely in its logarithm."""
        if self.low == self.high:
            return np.zeros(len(steps), self.dtype)
        middle, half, odd = self._affine
        place = ((np.log(steps) if self.log else steps) - middle + odd) / half
        if self.log or self.dtype is np.float32:
            # On multiples, what one rounding has moved the next one does not move again.
            place = np.rint(place * 2.0 ** _BITS[self.dtype]) / 2.0 ** _BITS[self.dtype]
        return np.clip(place, -1, 1).astype(self.dtype)

    def unplace(self, place: np.ndarray) -> np.ndarray:
        """The step at each place; the nearest one for places between steps or beyond [-1, 1].

        Formal guarantee: unplace(place(s)) == s for all steps s of a linear axis with fewer than 2**52 of them.
        """
        middle, half, odd = self._affine
        offset = np.clip(place.astype(np.float64), -1, 1) * half - odd
        if self.unit is None or self.log:
            point = np.exp(middle + offset) if self.log else middle + offset
            point = self._shortened(point) if self.unit is None else np.rint(point).astype(np.int64)
            return np.clip(point, self.low, self.high)
        return np.clip(np.rint(offset).astype(np.int64), self.low - middle, self.high - middle) + middle

    def _shortened(self, point: np.ndarray) -> np.ndarray:
        """Each point with the digits that tell its place from the next one, and no more: 1.01, not 1.0100000446."""
        apart = self._affine[1] * 2.0 ** -(_BITS[self.dtype] + 1) * (np.abs(point) if self.log else 1.0)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            decimals = np.ceil(-np.log10(apart))
            up, down = 10.0 ** np.maximum(decimals, 0), 10.0 ** np.maximum(-decimals, 0)
            short = np.rint(point * up / down) / up * down
        return np.where(np.isfinite(short), short, point)

    @property
    def _affine(self) -> tuple[int | float, float, float]:
        """Middle and half length; of whole steps the middle is whole, and by the third above the true one."""
        if self.log:
            low, high = math.log(self.low), math.log(self.high)
            return (low + high) / 2, (high - low) / 2, 0.0
        if self.unit is None:
            return self.low / 2 + self.high / 2, self.high / 2 - self.low / 2, 0.0
        span = self.high - self.low
        return self.low + (span + 1) // 2, span / 2, (span % 2) / 2


def axis(column: Column) -> Axis:
    """The axis of a ranged column that has its `min` and `max`."""
    low, high = number_of(column, column.min), number_of(column, column.max)
    decimals = decimals_of(column) if column.kind == "number" else 0
    log = column.scale == "log"
    if decimals is None or (column.kind == "number" and max(abs(low), abs(high)) * 10.0**decimals >= 2**52):
        return Axis(float(low), float(high), None, log, True)
    if column.kind != "number":
        return Axis(max(low, -_FAR), min(high, _FAR), 1, log, False)
    unit = 10.0**decimals
    first, last = _first_step(low, unit), -_first_step(-high, unit)
    if first > last:  # no step between them
        first = last = max(round((low + high) / 2 * unit), 1 if log else -_FAR)
    return Axis(first, last, unit, log, True)


def _first_step(bound: float, unit: float) -> int:
    nearest = round(bound * unit)
    return nearest if nearest / unit == bound else math.ceil(bound * unit)


def points(column: Column, axis: Axis, values: tuple) -> np.ndarray:
    """Declared values as steps of the axis, in order and without repetition; without words and what lies beyond it."""
    least, most = axis.values(np.array([axis.low, axis.high]))
    numbers = [number for number in (number_of(column, value) for value in values) if number is not None]
    within = [number for number in numbers if least <= number <= most and (axis.floats or number == int(number))]
    steps = axis.steps(stored(column, np.array(within, np.float64 if axis.floats else np.int64)))
    return np.unique(steps[(steps >= axis.low) & (steps <= axis.high)])


def specials_within(column: Column, axis: Axis) -> np.ndarray:
    """The special values that are steps of the axis: a value there is always read as the special one."""
    steps = points(column, axis, column.special or ())
    numbers = [number_of(column, special) for special in column.special or ()]
    return steps[np.isin(axis.values(steps), stored(column, np.array([n for n in numbers if n is not None], float)))]


def fallback(column: Column) -> int | float:
    """What stands for a missing cell where none may be missing: the first heap, or the middle of the axis."""
    line = axis(column)
    avoid = specials_within(column, line)
    heap = points(column, line, (column.heaps or ())[:1])
    if len(heap) and not np.isin(heap, avoid).any():
        return line.values(heap)[0]
    start = line.unplace(np.zeros(1))
    if line.unit is None:
        while np.isin(start, avoid).any():
            start = np.nextafter(start, line.high)
        return start[0]
    rank = start - np.searchsorted(avoid, start)
    found = unrank(rank, avoid)
    return line.values(found if found[0] <= line.high else unrank(rank - 1, avoid))[0]


def unrank(rank: np.ndarray, without: np.ndarray) -> np.ndarray:
    """The whole number that comes at `rank` when those of `without` (in order) are left out of the counting."""
    if not len(without):
        return rank
    return rank + np.searchsorted(without - np.arange(len(without)), rank, side="right")
