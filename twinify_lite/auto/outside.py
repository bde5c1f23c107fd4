"""Cells that are none of what their column declares: they count nowhere, and are taken to be as the others are.

A schema may leave a spelling out, or say of a column with missing cells that it has none. Counted as any of the values
that are declared, such cells would be people who are not there. How many there are, and whether most are so because a
declaration is wrong, is post-processing of noisy counts: no exact cell decides what is told.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twinify_lite.accountant import DiscreteLaplace
from twinify_lite.auto.fine import bins_of
from twinify_lite.auto.tables import Noisy
from twinify_lite.encode import Cuts, layout
from twinify_lite.receipt import Receipt
from twinify_lite.schema import Column, Schema

# Sums of counts are alike within so many standard deviations on either side; a column lacks rows if its sum is so many
# below those that are; and how few may be left to stand for all.
_ALIKE, _LACKS, _LEAST = 3.0, 4.0, 0.05
# A noisy row count is Laplace, with heavier tails than these deviations are meant for; one that is declared may be
# rounded. Twice the standard deviation of the one, and so much of the other, are taken as theirs.
_HEAVY, _ROUNDED = 2.0, 0.05
# Most cells of a column fit badly if those that fit are so many standard deviations below half of the rows.
_SURE = 2.0


@dataclass(frozen=True)
class Rows:
    """About how many rows there are, and a standard deviation of that."""

    count: float
    spread: float


def hearing_all(schema: Schema) -> Schema:
    """The schema in which every column can be missing: a cell that fits nothing has a code after all others."""
    return schema.replace_columns(column.replace(nullable=True) for column in schema.modelled)


def rows_counted(receipts: Mapping[str, Receipt], rows: float) -> Rows:
    """What the row count tells, by the receipt that paid for it; without one it is declared or public."""
    mechanism = receipts["row count"].mechanism if "row count" in receipts else None
    if isinstance(mechanism, DiscreteLaplace):
        return Rows(rows, _HEAVY * math.sqrt(2) * mechanism.scale)
    return Rows(rows, _ROUNDED * rows)


def rows_of(counts: Sequence[Noisy], counted: Rows | None = None) -> Rows:
    """How many rows there are by the noisy counts of all columns, and by the row count if it is given.

    No column counts more rows than there are, so those that may count as many as any other tell.
    """
    totals, spread = _totals(counts)
    if counted is not None:
        totals, spread = np.append(totals, counted.count), np.append(spread, counted.spread)
    whole = totals + _ALIKE * spread >= (totals - _ALIKE * spread).max()
    weights = np.maximum(spread[whole], 1e-9) ** -2.0
    return Rows(max(1.0, float(np.average(totals[whole], weights=weights))), float(weights.sum() ** -0.5))


def parts_inside(counts: Sequence[Noisy], rows: Rows) -> np.ndarray:
    """Of each column, which part of the rows its noisy counts speak of: 1 unless more than noise is lacking."""
    totals, spread = _totals(counts)
    lacking = totals < rows.count - _LACKS * np.hypot(spread, rows.spread)
    return np.where(lacking, np.clip(totals / rows.count, 0.0, 1.0), 1.0)


def made_whole(noisy: Noisy, part: float) -> Noisy:
    """The counts as they would be if all rows were like the `part` of them that was counted, or a few of them."""
    part = max(part, _LEAST)
    return noisy if part == 1.0 else Noisy(noisy.counts / part, noisy.noise / part)


def misfits(
    columns: Sequence[Column],
    cuts: Cuts,
    counts: Sequence[Noisy],
    rows: Rows,
    *,
    declared: frozenset[str],
    levels: frozenset[str],
) -> dict[str, float]:
    """The columns most of whose cells fit badly, as noisy counts show clearly, and which part of the rows that is.

    Of a column that is `declared`, missing cells are such ones too, and where its `levels` are, those of `other`: a
    wrong kind, format or list of levels turns cells into these.
    """
    found = {}
    for column, noisy in zip(columns, counts, strict=True):
        fitting = noisy.counts[_fitting(column, cuts, column.name in declared, column.name in levels)]
        spread = noisy.noise * math.sqrt(len(fitting))
        if fitting.sum() + _SURE * math.hypot(spread, rows.spread / 2) < rows.count / 2:
            found[column.name] = 1 - float(np.clip(fitting.sum() / rows.count, 0.0, 1.0))
    return found


def _fitting(column: Column, cuts: Cuts, is_declared: bool, has_levels: bool) -> np.ndarray:
    """Which codes are cells that fit."""
    plan = layout(column, bins_of(column, cuts))
    fits = np.ones(plan.size, bool)
    if is_declared and plan.missing is not None:
        fits[plan.missing] = False
    if has_levels and column.is_levelled and column.other is not None:
        fits[len(column.levels)] = False
    return fits


def _totals(counts: Sequence[Noisy]) -> tuple[np.ndarray, np.ndarray]:
    totals = np.array([one.counts.sum() for one in counts])
    return totals, np.array([one.noise * np.sqrt(one.counts.size) for one in counts])
