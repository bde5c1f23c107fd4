"""Columns in the units of a distribution: what `numpyro.sample("age", ...)` sees of a cell, and back.

The support of the distribution decides. A column on the real line stands at its place in [-1, 1] of the range, a
positive one is divided by `max`, one on an interval fills it, a count is the whole number itself, and levels are
codes. So models are well scaled whatever the column measures, and priors of order 1 are right for all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpyro.distributions import constraints

from twinify_lite.cells import number_of
from twinify_lite.encode import layout
from twinify_lite.encode.axis import axis
from twinify_lite.errors import ModelError
from twinify_lite.schema import Column

Arrays = Mapping[str, np.ndarray]
# How far inside an open interval its ends are put, and the least share of `max` that a positive number has.
_INSIDE, _LEAST = 1e-3, 1e-7
_LARGEST = 2**31 - 1
# In lengths of a range: what lies farther out is no value that chance has moved a little.
_FAR = 0.25


@dataclasses.dataclass(frozen=True)
class Unit:
    """How a column stands at its site.

    `states` is how many things a cell can be beside the value at the site: 1 if it always is one. With more, a site
    `name:state` tells which (0: a value), and the value's own density counts only there; elsewhere it is `filler`.
    """

    name: str
    states: int = 1
    low: float = 0.0
    high: float = 0.0
    filler: float = 0.0

    @property
    def dtype(self) -> type:
        """Of the values at the site."""
        return np.int32 if self.name in ("count", "code") else np.float32


def state_site(name: str) -> str:
    """The name of the site and of the array that tell where a column is missing or special."""
    return f"{name}:state"


def states_of(column: Column) -> int:
    """What a cell of a ranged column can be: a value, one of `special`, missing."""
    return 1 + len(column.special or ()) + bool(column.nullable) if column.is_ranged else 1


def codes_of(column: Column) -> int:
    """How many codes a levelled column has: its levels, `other`, and missing."""
    return layout(column, 1).size


def choose(column: Column, support: Any, *, has_state: bool, strict: bool = True, is_unknown: bool = False) -> Unit:
    """The unit for a site with this support, or a `ModelError` that says why there is none.

    `has_state` says that the model samples `name:state` itself. A range or number of levels that does not fit the
    support is a mistake of whoever declared it; if it was discovered (`strict` is false), the budget is spent already,
    and values are clamped. The levels of a column that `is_unknown` are made up, and no message may speak of them.
    """
    if getattr(support, "event_dim", 0):
        raise ModelError(
            f"Column {column.name!r} has a distribution over vectors. A column is one number in each row: take "
            "`to_event` away, or sample the columns one after another."
        )
    if column.is_levelled:
        return _choose_levelled(column, support, has_state, strict, is_unknown)
    unit = _choose_ranged(column, support)
    if strict:
        _refuse_range(column, support)
    return unit


def encode(column: Column, unit: Unit, arrays: Arrays) -> dict[str, np.ndarray]:
    """The column's arrays of the continuous view of `encode`, in this unit."""
    return (_encode_code if unit.name == "code" else _encode_ranged)(column, unit, arrays)


def decode(column: Column, unit: Unit, sites: Arrays) -> dict[str, np.ndarray]:
    """The inverse: arrays that `twinify_lite.decode` takes, within what the schema allows."""
    return (_decode_code if unit.name == "code" else _decode_ranged)(column, unit, sites)


def beyond(column: Column, unit: Unit, sites: Arrays) -> np.ndarray:
    """Which rows have a value, no special one, that lies far out of the range. Codes never do."""
    value = np.asarray(sites[column.name])
    if not column.is_ranged or unit.name == "interval":
        return np.zeros(len(value), bool)
    low, high = _ends(column, unit)
    margin = _FAR * (high - low)
    inside = (value >= low - margin) & (value <= high + margin)
    return ~inside if unit.states == 1 else ~inside & (np.asarray(sites[state_site(column.name)]) == 0)


# -- levels -----------------------------------------------------------------------------------------------------------


def _choose_levelled(column: Column, support: Any, has_state: bool, strict: bool, is_unknown: bool) -> Unit:
    codes = codes_of(column)
    levels = codes - bool(column.nullable)
    size = _size(support)
    if size is None:
        what, number = ("the code of a level", "") if is_unknown else (f"a code from 0 to {codes - 1}", f"{codes} ")
        raise ModelError(
            f"Column {column.name!r} is a {column.kind}, {what}, and its distribution is for {_words(support)}. Use "
            f"Categorical with {number}probabilities (`rows.levels({column.name!r})`)."
        )
    is_apart = column.nullable and (has_state or size == levels)
    if (strict and size not in (levels, codes)) or not (is_apart or size >= codes):
        raise ModelError(_other_levels(column, levels, size, is_unknown))
    return Unit("code", states=2, high=levels - 1) if is_apart else Unit("code", high=codes - 1)


def _other_levels(column: Column, levels: int, size: int, is_unknown: bool) -> str:
    if is_unknown:
        return (
            f"Column {column.name!r} has levels that are still to be found, and its distribution has {size}, however "
            f"many there are. Declare them in the schema ([columns.{column.name}]: `levels = [...]`, or `kind = "
            f'"boolean"` if it is yes or no; and `nullable = false` if no cell is empty), or give the distribution '
            f"`rows.levels({column.name!r})` of them."
        )
    missing = " and one for missing cells" if column.nullable else ""
    return (
        f"Column {column.name!r} has {levels} levels{missing}, and its distribution has {size}. Give it "
        f"`rows.levels({column.name!r})` of them."
    )


def _size(support: Any) -> int | None:
    """How many codes a discrete support from 0 on has."""
    if isinstance(support, type(constraints.boolean)):
        return 2
    if isinstance(support, constraints.integer_interval) and np.all(np.asarray(support.lower_bound) == 0):
        return int(np.min(np.asarray(support.upper_bound))) + 1
    return None


def _encode_code(column: Column, unit: Unit, arrays: Arrays) -> dict[str, np.ndarray]:
    codes = arrays[column.name].astype(np.int32)
    if unit.states == 1:
        return {column.name: codes}
    missing = codes > unit.high
    return {column.name: np.where(missing, 0, codes), state_site(column.name): missing.astype(np.int32)}


def _decode_code(column: Column, unit: Unit, sites: Arrays) -> dict[str, np.ndarray]:
    codes = np.clip(sites[column.name], 0, unit.high).astype(np.int64)
    if unit.states == 1:
        return {column.name: codes}
    return {column.name: np.where(sites[state_site(column.name)] > 0, int(unit.high) + 1, codes)}


# -- numbers and times ------------------------------------------------------------------------------------------------


def _choose_ranged(column: Column, support: Any) -> Unit:
    states = states_of(column)
    if isinstance(support, type(constraints.real)):
        return Unit("place", states)
    if isinstance(support, constraints.greater_than):
        return _share(column, support, states)
    if isinstance(support, constraints.interval):
        low, high = _bounds(column, support)
        return Unit("interval", states, low, high, filler=(low + high) / 2)
    if isinstance(support, type(constraints.boolean)):
        return _count(column, states, 0, 1)
    if isinstance(support, constraints.integer_greater_than):
        return _count(column, states, int(np.min(np.asarray(support.lower_bound))), _LARGEST)
    if isinstance(support, constraints.integer_interval):
        return _count(column, states, *map(int, _bounds(column, support)))
    raise ModelError(
        f"Column {column.name!r}: a distribution for {_words(support)} fits no column. Use one on the real line, the "
        "positive numbers, an interval, or whole numbers."
    )


def _share(column: Column, support: Any, states: int) -> Unit:
    if np.any(np.asarray(support.lower_bound) != 0):
        raise ModelError(
            f"Column {column.name!r} has a distribution above a bound that is not 0. Columns are given as shares of "
            "their `max`: use a distribution of positive numbers, such as LogNormal or Gamma."
        )
    closed = isinstance(support, constraints.greater_than_eq)
    return Unit("share", states, low=0.0 if closed else _least(column), filler=0.5)


def _count(column: Column, states: int, low: int, high: int) -> Unit:
    if column.kind == "datetime" or (column.kind == "number" and column.decimals != 0):
        raise ModelError(
            f"Column {column.name!r} is a {column.kind}, and its distribution is for whole numbers. Use a distribution "
            'of real or positive numbers, or set kind = "integer" in the schema.'
        )
    return Unit("count", states, low, high, filler=low)


def _refuse_range(column: Column, support: Any) -> None:
    """Refuse numbers with a range beyond the support."""
    whole = getattr(support, "is_discrete", False)
    begins = whole or isinstance(support, constraints.greater_than)
    if begins and column.kind != "datetime" and column.min < 0:
        raise ModelError(
            f"Column {column.name!r} begins below 0, and its distribution is for {_words(support)}. Use Normal or "
            "StudentT, or declare min = 0 if there is nothing below."
        )
    high = 1 if isinstance(support, type(constraints.boolean)) else getattr(support, "upper_bound", np.inf)
    if whole and np.any(column.max > np.asarray(high)):
        raise ModelError(
            f"Column {column.name!r} goes up to its `max`, and its distribution ends before. Give the distribution the "
            "column's range, or use one without an end, such as Poisson."
        )


def _bounds(column: Column, support: Any) -> tuple[float, float]:
    low, high = np.unique(np.asarray(support.lower_bound)), np.unique(np.asarray(support.upper_bound))
    if len(low) != 1 or len(high) != 1 or not low[0] < high[0]:
        raise ModelError(
            f"Column {column.name!r} has a distribution whose ends differ from row to row. Give it fixed ends, as in "
            "TruncatedNormal(loc, scale, low=-1, high=1)."
        )
    return float(low[0]), float(high[0])


def _least(column: Column) -> float:
    """The share of `max` that stands for 0 where 0 itself has no density: part of a step, or next to nothing."""
    line = axis(column)
    return _LEAST if line.unit is None else max(0.25 / line.unit / _span(column)[1], _LEAST)


def _span(column: Column) -> tuple[float, float]:
    """Where shares begin and how long the whole is: from 0 to `max`, or from `min` to `max` of times."""
    low, high = (float(number_of(column, bound)) for bound in (column.min, column.max))
    base = low if column.kind == "datetime" else 0.0
    return base, high - base if high > base else 1.0


def _natural(column: Column, place: np.ndarray) -> np.ndarray:
    line = axis(column)
    return line.values(line.unplace(place))


def _place(column: Column, value: np.ndarray) -> np.ndarray:
    line = axis(column)
    value = value if line.floats else np.rint(value).astype(np.int64)
    return line.place(line.clamp(value))


def _ends(column: Column, unit: Unit) -> tuple[float, float]:
    """Between which values of this unit there is one of the column to round to."""
    line = axis(column)
    half = 0.0 if line.unit is None else 0.5
    if unit.name == "place":
        reach = 1.0 if line.log or line.low == line.high else 1 + 2 * half / (line.high - line.low)
        return -reach, reach
    base, span = (0.0, 1.0) if unit.name == "count" else _span(column)
    low, high = ((end / (line.unit or 1.0) - base) / span for end in (line.low - half, line.high + half))
    return low, high


def _folded(column: Column, unit: Unit, value: np.ndarray) -> np.ndarray:
    """Values that lie beyond an end as far inside of it: clamped, they would pile up there, where few may be."""
    if unit.name == "interval":
        return value
    low, high = _ends(column, unit)
    along = np.mod((value.astype(np.float64) - low) / (high - low), 2.0)
    inside = (value >= low) & (value <= high)
    return np.where(inside, value, low + (high - low) * np.minimum(along, 2.0 - along))


def _share_of(column: Column, unit: Unit, place: np.ndarray) -> np.ndarray:
    base, span = _span(column)
    return np.maximum((_natural(column, place) - base) / span, unit.low)


def _from_share(column: Column, _unit: Unit, share: np.ndarray) -> np.ndarray:
    base, span = _span(column)
    return _place(column, base + np.clip(share, 0, 1).astype(np.float64) * span)


def _on_interval(_column: Column, unit: Unit, place: np.ndarray) -> np.ndarray:
    share = _INSIDE + (1 - 2 * _INSIDE) * (place + 1) / 2
    return unit.low + (unit.high - unit.low) * share


def _from_interval(_column: Column, unit: Unit, value: np.ndarray) -> np.ndarray:
    share = (value.astype(np.float64) - unit.low) / (unit.high - unit.low)
    return 2 * (share - _INSIDE) / (1 - 2 * _INSIDE) - 1


#: From places in [-1, 1] to the unit, and back.
_RANGED: dict[str, tuple[Callable, Callable]] = {
    "place": (lambda _c, _u, place: place, lambda _c, _u, value: value.astype(np.float64)),
    "share": (_share_of, _from_share),
    "interval": (_on_interval, _from_interval),
    "count": (
        lambda column, unit, place: np.clip(_natural(column, place), unit.low, unit.high),
        lambda column, _u, value: _place(column, value.astype(np.float64)),
    ),
}


def _encode_ranged(column: Column, unit: Unit, arrays: Arrays) -> dict[str, np.ndarray]:
    value = _RANGED[unit.name][0](column, unit, arrays[column.name])
    if unit.states == 1:
        return {column.name: value.astype(unit.dtype)}
    state = arrays[state_site(column.name)].astype(np.int32)
    return {
        column.name: np.where(state == 0, value, unit.filler).astype(unit.dtype),
        state_site(column.name): state,
    }


def _decode_ranged(column: Column, unit: Unit, sites: Arrays) -> dict[str, np.ndarray]:
    value = np.asarray(sites[column.name])
    value = _folded(column, unit, np.where(np.isfinite(value), value, unit.filler))
    place = np.clip(_RANGED[unit.name][1](column, unit, value), -1, 1)
    if unit.states == 1:
        return {column.name: place}
    return {column.name: place, state_site(column.name): np.asarray(sites[state_site(column.name)]).astype(np.int64)}


def _words(support: Any) -> str:
    """What people call a support."""
    if getattr(support, "is_discrete", False):
        return "counts" if _size(support) is None else "codes"
    if isinstance(support, constraints.greater_than):
        return "positive numbers"
    if isinstance(support, constraints.interval):
        return "numbers on an interval"
    return "real numbers" if isinstance(support, type(constraints.real)) else "something else than numbers"
