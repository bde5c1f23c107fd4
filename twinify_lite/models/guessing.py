"""A complete schema where the real one is still open, so that a model can be tried before anything is spent."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

from twinify_lite.schema import Column, Schema

_MANY, _OTHER = tuple("abcdefghijk"), "other"


def made_up_schema(schema: Schema) -> Schema:
    """`schema` with invented ranges and levels for all that it leaves open. Nothing in it comes from a table.

    Open columns can be missing, numbers lie between 0 and 100, and categories have three levels, as the worst that a
    model must be ready for. Constraints, which may name levels that are yet to be found, are left out.
    """
    free = dataclasses.replace(schema, constraints=())
    return free.replace_columns(_complete(column) for column in free.modelled)


def extremes(schema: Schema) -> tuple[Schema, ...]:
    """`schema` with as little as discovery may find in it, and with much: a model must be ready for both.

    Little is no level but that of rare values, and no cell that is missing; much is many levels, and numbers with codes
    and missing cells among them. Empty if nothing is open.
    """
    whole = made_up_schema(schema)
    if whole.modelled == schema.modelled:
        return ()
    return tuple(
        whole.replace_columns(change(column, whole[column.name]) for column in schema.modelled)
        for change in (_least, _most)
    )


def _least(column: Column, made_up: Column) -> Column:
    changes: dict[str, Any] = {"nullable": bool(column.nullable)}
    if column.is_levelled and column.levels is None:
        changes |= {"levels": (), "other": column.other or _OTHER}
    return made_up.replace(**changes)


def _most(column: Column, made_up: Column) -> Column:
    if column.is_levelled and column.levels is None:
        other = column.other or _OTHER
        return made_up.replace(levels=tuple(level for level in _MANY if level != other), other=other)
    return made_up.replace(special=_MANY[:2]) if column.is_ranged and column.special is None else made_up


def without_levels(schema: Schema) -> frozenset[str]:
    """The columns whose levels are still to be found: those of `made_up_schema` say nothing about them."""
    return frozenset(column.name for column in schema.modelled if column.is_levelled and column.levels is None)


def _complete(column: Column) -> Column:
    changes: dict[str, Any] = {} if column.nullable is not None else {"nullable": True}
    if column.is_levelled:
        return column.replace(**changes, levels=_levels(column) if column.levels is None else column.levels)
    return column.replace(**changes, **_range(column))


def _levels(column: Column) -> tuple[str, ...]:
    return tuple(level for level in "abcd" if level != column.other)[:3]


def _range(column: Column) -> dict[str, Any]:
    if column.kind == "datetime":
        return _times(column)
    low, high = column.min, column.max
    if low is None:
        low = (1 if column.scale == "log" else 0) if high is None else (high / 100 if high > 0 else high - 100)
    high = max(low + 100, 100) if high is None else high
    if column.kind == "integer":
        low, high = int(low), int(high)
    # Ends that are open lie around the heaps that are declared.
    points = [*(column.heaps or ()), low, high]
    return {"min": min(points), "max": max(points), "special": column.special or (), "heaps": column.heaps or ()}


def _times(column: Column) -> dict[str, Any]:
    century = datetime.timedelta(days=36524)
    day = datetime.date(1950, 1, 1)
    low, high = column.min, column.max
    if low is None and high is None:
        low, high = (day, day + century) if not column.heaps else (min(column.heaps), max(column.heaps))
    try:
        low = high - century if low is None else low
        high = low + century if high is None else high
        if low == high:
            high = low + century
    except OverflowError:
        low, high = day, day + century
    return {"min": low, "max": high, "special": column.special or (), "heaps": column.heaps or ()}
