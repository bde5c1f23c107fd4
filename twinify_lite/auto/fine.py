"""Every column as fine codes: steps or narrow bins, likely heaps, special values, levels and missing.

What is made here reads only the schema, which is public or paid for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from twinify_lite.encode import Cuts, Layout, layout
from twinify_lite.encode.axis import Axis, axis, points, specials_within
from twinify_lite.schema import Cell, Column, Schema

# A range of so many steps has a code for each, however coarse the others are.
_STEPS = 256
# Round numbers are counted in floats, which are exact below this.
_EXACT = 2.0**53
# A range of more steps than bins gets codes of its own for so many round numbers: where values heap, it is there.
_ROUND = 40


@dataclass(frozen=True, eq=False)
class Codes:
    """The codes of one column: how many, and `line`, those that lie on a line, in their order there.

    Of each code on the line, `width` is how much of the line it takes, and `point` says whether it is a single value
    between bins. `magnitude` is how much it takes of the line's orders of magnitude, where those were cut finely.
    `home` is the place on the line of the bin that it lies in; without it, points lie in none. `heap` says whether it
    is a value that stands out by the schema's word.
    """

    size: int
    line: np.ndarray
    width: np.ndarray
    point: np.ndarray
    magnitude: np.ndarray | None = None
    home: np.ndarray | None = None
    heap: np.ndarray | None = None


def with_heaps(schema: Schema) -> Schema:
    """The schema with the ends, zero and round numbers of long ranges among the heaps.

    Values inside a range often heap there. A code of its own costs no privacy and lets the noisy counts decide.
    """
    return schema.replace_columns(_with_heaps(column) for column in schema.modelled if column.is_ranged)


def _with_heaps(column: Column) -> Column:
    line = axis(column)
    if bins_of(column, 1) != 1 or column.kind == "datetime" or line.low == line.high:
        return column
    steps = np.union1d(points(column, line, column.heaps or ()), _candidates(line))
    return column.replace(heaps=tuple(line.values(np.setdiff1d(steps, specials_within(column, line))).tolist()))


def _candidates(line: Axis) -> np.ndarray:
    """Zero, both ends and round numbers of an axis, in its steps."""
    if max(abs(line.low), abs(line.high)) >= _EXACT:
        return np.array([line.low, line.high])
    unit = line.unit or 1
    step = _round_step((line.high - line.low) / unit)
    first, last = int(np.ceil(line.low / unit / float(step))), int(np.floor(line.high / unit / float(step)))
    rounds = [float(k * step) * unit for k in range(first, last + 1)]
    kept = [value for value in (line.low, *rounds, line.high) if line.low <= value <= line.high]
    return np.unique(np.array(kept) if line.unit is None else np.rint(kept).astype(np.int64))


def _round_step(span: float) -> Fraction:
    """The smallest of 1, 2, 5 times a power of ten that divides `span` into at most `_ROUND` parts."""
    power = Fraction(10) ** int(np.floor(np.log10(span / _ROUND)))
    return next(power * k for k in (1, 2, 5, 10, 20) if span / float(power * k) <= _ROUND)


def bins_of(column: Column, bins: int | Cuts) -> int | Cuts:
    """How a column is cut where a long range is cut into `bins`."""
    if not column.is_ranged:
        return bins
    line = axis(column)
    return _STEPS if line.unit is not None and line.high - line.low < _STEPS else bins


def codes(column: Column, bins: int | Cuts, known: Sequence[Cell] = ()) -> Codes:
    """The codes of `column` in the discrete view; `known` are the values that its schema says stand out."""
    plan = layout(column, bins_of(column, bins))
    if column.kind == "ordinal":
        return _even(plan.size, len(column.levels))
    if column.is_levelled:
        return _even(plan.size, 0)
    edges, heaps = np.asarray(plan.edges, float), np.asarray(plan.heaps, float)
    values = np.concatenate([edges[:-1], heaps])
    point = np.arange(len(values)) >= plan.bins
    line = axis(column)
    # A point of a line without steps takes no room on it; a little lets two of them be compared.
    step = 1e-9 * max(edges[-1] - edges[0], 1e-300) if line.unit is None else 1 / line.unit
    width = np.concatenate([np.diff(edges), np.full(len(heaps), step)])
    # A heap at the first step of a bin comes before the rest of that bin.
    order = np.lexsort((~point, values))
    magnitude = _magnitudes(edges, heaps, bins) if isinstance(bins, tuple) and column.scale == "linear" else None
    return Codes(
        plan.size,
        order,
        width[order],
        point[order],
        None if magnitude is None else magnitude[order],
        _homes(plan, order),
        _is_one_of(known, column, plan)[order],
    )


def _homes(plan: Layout, order: np.ndarray) -> np.ndarray | None:
    """Of each place on the line, the place of the bin that its code lies in."""
    if not plan.bins:
        return None
    bin_of = np.concatenate([np.arange(plan.bins), np.searchsorted(plan.edges[1:-1], plan.heaps, side="right")])
    return np.argsort(order)[bin_of[order]]


def _is_one_of(known: Sequence[Cell], column: Column, plan: Layout) -> np.ndarray:
    """Which bins and points are one of the `known` values alone."""
    line = axis(column)
    values = line.values(points(column, line, tuple(known)))
    first = plan.edges[:-1]
    single = np.zeros(plan.bins, bool) if line.unit is None else np.diff(line.steps(plan.edges)) == 1
    return np.concatenate([single & np.isin(first, values), np.isin(plan.heaps, values)])


def _magnitudes(edges: np.ndarray, heaps: np.ndarray, cuts: Cuts) -> np.ndarray:
    """Widths on a scale that is linear beside zero, within its finest cut, and logarithmic beyond."""
    finest = max(edges[-1] - edges[0], 1e-300) / cuts.bins / 2**cuts.halvings
    return np.concatenate([np.diff(np.arcsinh(edges / finest)), np.full(len(heaps), 1e-9)])


def _even(size: int, on_line: int) -> Codes:
    return Codes(size, np.arange(on_line), np.ones(on_line), np.zeros(on_line, bool))
