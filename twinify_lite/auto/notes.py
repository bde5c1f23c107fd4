"""What the user should know of a fitted chain: what noise has hidden, and what would show more of it.

Everything here is post-processing of noisy counts; it names columns, never values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from twinify_lite.auto.constrained import constraints_that_move
from twinify_lite.auto.fine import bins_of, codes, with_heaps
from twinify_lite.schema import Column
from twinify_lite.schema.constraints import Determines

if TYPE_CHECKING:
    from twinify_lite.auto.fitted import Chained
    from twinify_lite.auto.levels import Levels
from twinify_lite.encode import Cuts

# A column is nearly independent if no other one's level moves its distribution by more than this part of what it could.
_WEAK = 0.1
# So much of a column's mass in so little of its range and so few of its bins, or in a single one, is coarse.
_MASS, _NARROW, _ENOUGH = 0.95, 0.05, 5
# Columns that a sentence with figures lists.
_LISTED = 10


def notes(fitted: Chained) -> tuple[str, ...]:
    """One sentence or two for each thing that the user may want to change."""
    return (
        *_misfits(fitted),
        *_outside(fitted),
        *_unordered(fitted),
        *_constrained(fitted),
        *_pooled(fitted),
        *_independent(fitted),
        *_coarse(fitted),
    )


def _unordered(fitted: Chained) -> Iterator[str]:
    """Times whose order nothing keeps."""
    times = [column.name for column in fitted.schema.modelled if column.kind == "datetime"]
    if len(times) > 1 and not fitted.schema.constraints:
        yield (
            f"Nothing keeps the order of times ({len(times)}): {_names(times)}. Where one never comes before another, "
            f"declare it in the schema, such as constraints = ['{times[0]} <= {times[1]}']."
        )


def _constrained(fitted: Chained) -> Iterator[str]:
    """Constraints that the chain's rows fulfil only once other values are more frequent than the noisy counts say."""
    moved = constraints_that_move(fitted)
    if moved:
        told = [f"{constraint} moves {100 * part:.2g} % of {name!r}" for constraint, name, part in moved[:_LISTED]]
        more = "" if len(moved) <= _LISTED else ", ..."
        yield (
            f"Constraints change how frequent values are, by more than noise does ({len(moved)}): {', '.join(told)}"
            f"{more}. Either they are not true, or noise hides what they say."
        )


def _pooled(fitted: Chained) -> Iterator[str]:
    """Columns some values of which are too rare for anyone to see what they determine."""
    for constraint in fitted.schema.constraints:
        if isinstance(constraint, Determines) and len(rare := fitted.pooled[constraint.of]):
            yield (
                f"Constraint {constraint} is not applied to {len(rare)} values of {constraint.of!r}: they are so rare "
                "that noise hides what they determine."
            )


def _misfits(fitted: Chained) -> Iterator[str]:
    """Columns that are probably declared, or guessed, wrongly: most cells do not fit, as the noisy counts tell."""
    for name, part in list(fitted.misfits.items())[:_LISTED]:
        how = "do not fit the schema" if fitted.outside.get(name, 0.0) > 0.5 else "are missing or do not fit the schema"
        yield f"About {100 * part:.0f} % of the cells of {name!r} {how}. Check its kind, levels and format."
    if len(fitted.misfits) > _LISTED:
        others = list(fitted.misfits)[_LISTED:]
        yield (
            f"Most cells are missing or do not fit the schema in {len(others)} more columns: {_names(others)}. Check "
            "their kinds, levels and formats."
        )


def _outside(fitted: Chained) -> Iterator[str]:
    """Columns with cells that are none of what the schema declares, as the noisy counts tell."""
    some = {name: part for name, part in fitted.outside.items() if name not in fitted.misfits}
    if some:
        told = [f"{name!r} about {100 * part:.0f} %" for name, part in list(some.items())[:_LISTED]]
        more = "" if len(some) <= _LISTED else ", ..."
        yield (
            f"Some cells do not fit the schema ({len(some)}): {', '.join(told)}{more}. They were left out, so the twin "
            "describes the others. Declare the `levels` that are missing, `other`, or `nullable = true`."
        )


def _independent(fitted: Chained) -> Iterator[str]:
    """Where not all pairs could be measured: the columns that the chain ties to no other."""
    columns = [column.name for column in fitted.schema.modelled]
    possible, measured = len(columns) * (len(columns) - 1) // 2, fitted.settings["measured_pairs"]
    if measured >= possible:  # more were planned where columns were left out since
        return
    strengths = strength(fitted)
    alone = [name for name, found in zip(columns, strengths, strict=True) if found < _WEAK]
    if alone:
        yield (
            f"Nearly independent of all others ({len(alone)} of {len(columns)}): {_names(alone)}. At this epsilon and "
            f"about {fitted.settings['rows']} rows noise allows for {measured} of {possible} pairs of columns, and "
            "hides much of those. A larger epsilon, fewer columns, or declared ranges and levels would show more."
        )


def strength(fitted: Chained) -> np.ndarray:
    """Of each column, how far its strongest tie moves the distribution of the column at either end, at most 1."""
    shares = {link.column: link.shares for link in fitted.links}
    found = np.zeros(len(fitted.links))
    for link in fitted.links:
        for parent, effects in zip(link.parents, link.effects, strict=True):
            moved = _moved(effects, shares[parent], link.shares)
            found[[link.column, parent]] = np.maximum(found[[link.column, parent]], moved)
    return found


def _moved(effects: np.ndarray, given: np.ndarray, shares: np.ndarray) -> float:
    """The mean total variation between a column given its parent's level and the column by itself.

    It is divided by what it could be: two columns that are nearly always the same value cannot move each other much.
    """
    logits = np.log(shares) + effects
    each = np.exp(logits - logits.max(axis=1, keepdims=True))
    each /= each.sum(axis=1, keepdims=True)
    moved = float(given @ np.abs(each - given @ each).sum(axis=1) / 2)
    return moved / max(min(1 - given.max(), 1 - shares.max()), 1e-6)


def _coarse(fitted: Chained) -> Iterator[str]:
    """Columns nearly all of whose mass lies in a small part of a long range, in few of its bins."""
    shares = {link.column: link.shares for link in fitted.links}
    crowded = [
        column
        for number, column in enumerate(with_heaps(fitted.schema).modelled)
        if _is_crowded(column, fitted.cuts, fitted.levels[number], shares[number])
    ]
    if crowded:
        logs = ", or for positive numbers scale = 'log'," if any(c.kind != "datetime" for c in crowded) else ""
        yield (
            f"Coarse ({len(crowded)}): {_names([column.name for column in crowded])}. Almost all of their values lie "
            "in a small part of the range from `min` to `max`, over which the twin spreads them evenly. A tighter "
            f"range{logs} would keep more detail."
        )


def _is_crowded(column: Column, bins: Cuts, levels: Levels, shares: np.ndarray) -> bool:
    if not column.is_ranged or column.scale == "log" or bins_of(column, bins) != bins:  # else there is a code a step
        return False
    line = codes(column, bins)
    is_bin = ~line.point
    mass = (shares[levels.of_code] * levels.weights)[line.line][is_bin]
    width = line.width[is_bin] / line.width[is_bin].sum()
    if mass.sum() < 1 - _MASS:  # heaps, special values and missing cells are nearly all of it
        return False
    dense = np.argsort(-mass / width)
    enough = int(np.searchsorted(np.cumsum(mass[dense]) / mass.sum(), _MASS)) + 1
    return enough == 1 or (enough < _ENOUGH and float(width[dense[:enough]].sum()) <= _NARROW)


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
