"""What the schema leaves open, estimated privately: the row count, ranges, levels, missing and special values.

The row count is a stage of its own, because plans are made with it. Everything else is a few noisy tallies over all
open columns at once (`votes`), paid for before the first of them is made:

    values        each row votes for its value in every open column: frequent levels, heaps, special and missing values
    rare values   rows vote again, for what was not found; most have one or two votes left, which weigh the more
    magnitudes    for the order of magnitude of every number that is not a heap
    closer, closest   for a sixteenth of the range, twice, where the numbers fill a narrow range far from zero

What is found is a complete `Schema`; all of it is post-processing of the tallies.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy.stats import norm

from twinify_lite import accountant
from twinify_lite.accountant import DiscreteLaplace, Gaussian, NotPrivate, Relation
from twinify_lite.discover.completion import complete
from twinify_lite.discover.findings import find_ranges, find_values, look_at
from twinify_lite.discover.notes import unrounded
from twinify_lite.discover.votes import selection_cost
from twinify_lite.encode.refusals import ambiguous_names, refuse
from twinify_lite.errors import BudgetExceeded, PrivacyParameterError
from twinify_lite.exact import Bits, discrete_laplace
from twinify_lite.ledger import Ledger
from twinify_lite.quiet import quietly
from twinify_lite.receipt import Receipt
from twinify_lite.schema import Column, Schema
from twinify_lite.schema.draft import fill
from twinify_lite.schema.notes import ordered_categoricals
from twinify_lite.statement import GUESSED, STYLE, TYPES, accepted_of
from twinify_lite.table import PrivateTable, read_table

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

#: The share of a ledger's epsilon that discovery takes when all is open.
SHARE = 0.1
# Of that share, for the number of rows.
_ROWS = 0.2
# Of the ledger's delta: for discovery, and of that for showing values that nobody knew.
_DELTA, _SELECTION = 0.25, 0.4
# Noise beyond the least, for the accountant's own rounding when several releases take the place of one.
_SURE = 1.001
# Below so many times the rows that show a value which all of them share, what was not found may well be there.
_FEW = 10.0
# How the tallies divide the rest: parts of 1 / noise^2.
_PARTS = {"values": 0.12, "rare values": 0.58, "magnitudes": 0.2, "closer": 0.05, "closest": 0.05}

#: What the releases of discovery are called, but for the row count.
RELEASES = (*_PARTS, "new values")


@dataclass(frozen=True, kw_only=True)
class Discovery:
    """A complete schema, the noisy number of rows, and what the user should know, in sentences."""

    schema: Schema
    rows: int
    notes: tuple[str, ...]


def discover(
    table: PrivateTable | pd.DataFrame | pa.Table | str | os.PathLike[str],
    schema: Schema | str | os.PathLike[str] | None = None,
    *,
    ledger: Ledger,
    share: float = SHARE,
) -> Discovery:
    """Complete `schema` from the privacy budget: what it declares is free, what it leaves open is paid for.

    Formal guarantee: takes at most `share` of the ledger's epsilon and a quarter of its delta, less the more is
    declared, and nothing if nothing is open. Everything in the result is computed from what was paid for.
    """
    if not 0 < share <= 1:
        raise PrivacyParameterError("share must lie in (0, 1]: the part of epsilon that discovery may take.")
    if not isinstance(ledger, Ledger):
        raise PrivacyParameterError("Discovery is paid for: pass ledger=Ledger(epsilon=..., delta=...).")
    table = read_table(table)
    schema = begin(table, Schema.load(schema) if isinstance(schema, str | os.PathLike) else schema)
    budget = plan(schema, ledger, share=(1 - _ROWS) * share)  # refuses what cannot be paid before anything is
    if budget.noise and share * ledger.epsilon > ledger.epsilon - ledger.spent[0]:
        raise BudgetExceeded("Less epsilon is left in this ledger than the share of discovery. Lower `share`.")
    for taken in taken_from(table, schema):
        ledger.treat_as_public(taken)
    rows = count_rows(table, schema, ledger, share=_ROWS * share)
    payment = budget.pay(ledger)
    with quietly():
        return run(table, schema, payment, rows=rows)


def begin(table: PrivateTable, declared: Schema | None) -> Schema:
    """The declared schema with kinds for all columns of `table`; what cannot go on is refused before it is paid for.

    Nothing is refused because of what cells hold: only by names, types and the schema.
    """
    schema = fill(declared, table)
    schema.require_public()
    refuse(ambiguous_names(schema))
    return schema


def taken_from(table: PrivateTable, schema: Schema) -> list[str]:
    """What the schema has from the table and nobody paid for."""
    from_file = [TYPES] if table.style is None else [STYLE]
    accepted = [accepted_of(schema.accepted)] if schema.accepted else []
    return [GUESSED] * schema.guessed + from_file + accepted


def count_rows(table: PrivateTable, schema: Schema, ledger: Ledger, *, share: float) -> int:
    """The number of rows: declared, public where rows are replaced, or else noisy, as a stage of its own."""
    if schema.rows is not None:
        return schema.rows
    count = table.reveal().num_rows
    if ledger.relation is Relation.SUBSTITUTE:
        return count
    if math.isinf(ledger.epsilon):
        ledger.spend(NotPrivate(), "row count").redeem(NotPrivate)
        return count
    receipt = ledger.spend(DiscreteLaplace(scale=1 / (share * ledger.epsilon)), "row count")
    noise = discrete_laplace(Bits(receipt.redeem(DiscreteLaplace).noise), receipt.mechanism.scale)
    return max(1, count + noise)


#: The receipts of a plan, by what they pay for.
Payment = Mapping[str, Receipt]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Which tallies are made and with how much noise: settled before any of them is seen. It holds nothing private."""

    noise: Mapping[str, float]
    delta: float | None
    selection: float

    def pay(self, ledger: Ledger) -> Payment:
        """Spend all of the plan: in one stage with its own delta, or beside others if the plan has none."""
        if not self.noise:
            return {}
        if math.isinf(ledger.epsilon):
            return {what: ledger.spend(NotPrivate(), what) for what in (*self.noise, "new values")}
        if self.delta is not None:
            ledger.open_stage(delta=self.delta)
        receipts = {what: ledger.spend(Gaussian(noise_multiplier=noise), what) for what, noise in self.noise.items()}
        cost = selection_cost(ledger.relation, self.selection)
        return {**receipts, "new values": ledger.spend(cost, "new values")}


def plan(schema: Schema, ledger: Ledger, *, share: float) -> Plan:
    """Divide `share` of epsilon among the tallies that `schema` needs; columns that are declared lower the whole.

    The noise of a vote stays about the same when fewer columns are open, so epsilon falls with the root of their share.
    """
    delta = _DELTA * ledger.delta
    selection = _SELECTION * delta / (1 if ledger.relation is Relation.ADD_REMOVE else 2)
    needed = _needed(schema)
    if not needed or math.isinf(ledger.epsilon):
        return Plan(noise=dict.fromkeys(needed, 0.0), delta=delta, selection=selection)
    if delta > ledger.delta - ledger.spent[1]:
        raise BudgetExceeded("Discovery needs a quarter of the ledger's delta, and less is left. Make a new ledger.")
    whole = sum(_PARTS[what] for what in needed)
    openness = sum(map(_openness, schema.modelled)) / len(schema.modelled)
    one = accountant.calibrate(
        Gaussian(noise_multiplier=1.0),
        free="noise_multiplier",
        epsilon=share * ledger.epsilon * math.sqrt(openness),
        delta=delta,
        beside=(selection_cost(ledger.relation, selection),),
        relation=ledger.relation,
    )
    # Several Gaussian releases are as private as one whose noise^-2 is the sum of theirs.
    noise = {what: one.noise_multiplier * math.sqrt(whole / _PARTS[what]) for what in needed}
    return Plan(noise=noise, delta=delta, selection=selection)


def plan_beside(schema: Schema, ledger: Ledger, *, part: float) -> tuple[Plan, float]:
    """A plan in one stage with other releases, and the noise multiplier of one Gaussian release that is left for them.

    Discovery takes `part` of the stage (in parts of 1 / noise^2) where all columns are open, less the more is declared.
    Composed with others, its privacy loss weighs far less than as a stage of its own: twice the noise is a quarter.
    """
    needed = _needed(schema)
    selection = _SELECTION * _DELTA * ledger.delta / (1 if ledger.relation is Relation.ADD_REMOVE else 2)
    beside = (selection_cost(ledger.relation, selection),) if needed else ()
    whole = ledger.calibrate(Gaussian(noise_multiplier=1.0), beside=beside).noise_multiplier * _SURE
    if not needed:
        return Plan(noise={}, delta=None, selection=selection), whole
    openness = sum(map(_openness, schema.modelled)) / len(schema.modelled)
    total = sum(_PARTS[what] for what in needed)
    noise = {what: whole / math.sqrt(part * openness * _PARTS[what] / total) for what in needed}
    return Plan(noise=noise, delta=None, selection=selection), whole / math.sqrt(1 - part * openness)


def least_rows(schema: Schema, noise: Mapping[str, float], selection: float) -> float:
    """Below so many rows, not even a value that all rows share is found in a column whose levels are open."""
    if not any(noise.values()):
        return 0.0
    open_columns = sum(1 for column in schema.modelled if column.open)
    scale = min(noise["values"], noise["rare values"])
    return math.sqrt(open_columns) * (1 + scale * float(norm.isf(selection)))


def _is_small(schema: Schema, payment: Payment, rows: int) -> bool:
    """Whether about so many rows are too few for what `payment` pays for to show even what a tenth of them share."""
    noise = {what: getattr(payment[what].mechanism, "noise_multiplier", 0.0) for what in ("values", "rare values")}
    selection = getattr(payment["new values"].mechanism, "delta", 1.0)
    return rows < _FEW * least_rows(schema, noise, selection)


def _needed(schema: Schema) -> list[str]:
    open_columns = [column for column in schema.modelled if column.open]
    needed = ["values", "rare values"] if open_columns else []
    if any({"min", "max"} & set(column.open) for column in open_columns):
        needed += ["magnitudes", "closer", "closest"]
    return needed


def _openness(column: Column) -> float:
    if column.open == ("nullable",):
        return 0.1
    return 1.0 if column.open else 0.0


def run(
    table: PrivateTable,
    schema: Schema,
    payment: Payment,
    *,
    rows: int,
    made_up: Schema | None = None,
    keep: bool = False,
) -> Discovery:
    """Make the tallies that `payment` paid for, and complete `schema` with what they show.

    `keep` keeps columns that nothing was found in, and so does `made_up` (which has a complete column for each of
    them) where no column would be left.
    """
    declared = [*unrounded(schema), *ordered_categoricals(table, schema)]
    if not payment:
        return Discovery(schema=schema, rows=rows, notes=tuple(declared))
    looks = [look_at(column, table) for column in schema.modelled if column.open]
    find_values(looks, payment)
    is_small = _is_small(schema, payment, rows)
    find_ranges([look for look in looks if look.seeks_range], payment, guess=is_small or keep)
    schema, notes = complete(schema, looks, rows, guess=is_small, made_up=made_up, keep=keep)
    return Discovery(schema=schema, rows=rows, notes=(*notes, *declared))
