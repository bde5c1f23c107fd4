"""What the schema leaves open, estimated privately: the row count, ranges, levels, missing and special values.

The row count is a stage of its own, because plans are made with it. Everything else is a few noisy tallies over all
open columns at once (`votes`), paid for before the first of them is made:

    kinds         each cell votes for its form where neither the schema nor a type tells its column's kind
    values        each row votes for its value in every open column: frequent levels, heaps, special and missing values
    rare values   rows vote again, for what was not found; most have one or two votes left, which weigh the more
    magnitudes    for the order of magnitude of every number that is not a heap
    closer, closest   for a sixteenth of the range, twice, where the numbers fill a narrow range far from zero

What is found is a complete `Schema`; all of it is post-processing of the tallies.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from scipy.stats import norm

from twinify_lite import accountant
from twinify_lite.accountant import DiscreteLaplace, Gaussian, NotPrivate, Relation
from twinify_lite.discover.completion import complete
from twinify_lite.discover.findings import find_ranges, find_values, look_at
from twinify_lite.discover.notes import hidden_kinds, ignored_constraints, unrounded
from twinify_lite.discover.votes import selection_chance, selection_cost
from twinify_lite.encode.refusals import ambiguous_names, refuse
from twinify_lite.errors import BudgetExceeded, PrivacyParameterError, SchemaError
from twinify_lite.exact import Bits, discrete_laplace
from twinify_lite.ledger import Ledger
from twinify_lite.quiet import quietly
from twinify_lite.receipt import Receipt
from twinify_lite.schema import Column, Schema
from twinify_lite.schema.draft import Undecided, fill, fill_by_types
from twinify_lite.schema.notes import ordered_categoricals
from twinify_lite.statement import GUESSED, STYLE, TYPES, accepted_of
from twinify_lite.table import PrivateTable, read_table
from twinify_lite.table.columns import header_problems

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
# Kinds that noise hides are the dearest mistake. They get the part of 1 / noise^2 with which one cell of so many is as
# much as the noise, but no less and no more than this.
_SHOWN, _KINDS = 20.0, (0.02, 0.1)
# Of the chance that one row shows a new value, for the rare forms of cells.
_FORMS = 0.1
# How the tallies divide the rest: parts of 1 / noise^2.
_PARTS = {"values": 0.12, "rare values": 0.58, "magnitudes": 0.2, "closer": 0.05, "closest": 0.05}

#: What the releases of discovery are called, but for the row count.
RELEASES = ("kinds", *_PARTS, "new values")
#: Where kinds come from that neither the schema nor a type tells.
KINDS = ("private", "guess", "declared")


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
    kinds: Literal["private", "guess", "declared"] = "private",
) -> Discovery:
    """Complete `schema` from the privacy budget: what it declares is free, what it leaves open is paid for.

    Where neither the schema nor a type tells the kind of a column, it is found from the budget too ("private"), guessed
    from the cells without noise, which the ledger's statement then says ("guess"), or asked for ("declared").

    Formal guarantee: takes at most `share` of the ledger's epsilon and a quarter of its delta, less the more is
    declared, and nothing if nothing is open. Everything in the result is computed from what was paid for.
    """
    if not 0 < share <= 1:
        raise PrivacyParameterError("share must lie in (0, 1]: the part of epsilon that discovery may take.")
    if not isinstance(ledger, Ledger):
        raise PrivacyParameterError("Discovery is paid for: pass ledger=Ledger(epsilon=..., delta=...).")
    table = read_table(table)
    declared = Schema.load(schema) if isinstance(schema, str | os.PathLike) else schema
    schema, undecided = begin(table, declared, kinds=kinds)
    budget = plan(schema, undecided, ledger, share=(1 - _ROWS) * share)  # refuses before anything is paid
    if budget.noise and share * ledger.epsilon > ledger.epsilon - ledger.spent[0]:
        raise BudgetExceeded("Less epsilon is left in this ledger than the share of discovery. Lower `share`.")
    for taken in taken_from(table, schema):
        ledger.treat_as_public(taken)
    rows = count_rows(table, schema, ledger, share=_ROWS * share)
    payment = budget.pay(ledger)
    with quietly():
        return run(table, schema, undecided, payment, rows=rows)


def begin(table: PrivateTable, declared: Schema | None, *, kinds: str) -> tuple[Schema, Undecided]:
    """The declared schema for all columns of `table`, and which kinds in it are for the time being.

    What cannot go on is refused before it is paid for: by names, types and the schema, never by what cells hold.
    """
    if kinds not in KINDS:
        raise SchemaError(f"kinds must be one of {', '.join(KINDS)}.")
    schema, undecided = (fill(declared, table), Undecided()) if kinds == "guess" else fill_by_types(declared, table)
    if kinds == "declared" and undecided.columns:
        raise SchemaError(
            f"The kinds of these columns are not declared: {', '.join(map(repr, undecided.columns))}. Declare them in "
            'the schema, or have them found from the budget: kinds="private" (--kinds private).'
        )
    schema.require_public()
    headless = () if table.style is None else header_problems(table.columns, declared or ())
    refuse([*headless, *ambiguous_names(schema)])
    return schema, undecided


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


def plan(schema: Schema, undecided: Undecided, ledger: Ledger, *, share: float) -> Plan:
    """Divide `share` of epsilon among the tallies that `schema` needs; columns that are declared lower the whole.

    The noise of a vote stays about the same when fewer columns are open, so epsilon falls with the root of their share.
    """
    delta = _DELTA * ledger.delta
    selection = _SELECTION * delta / (1 if ledger.relation is Relation.ADD_REMOVE else 2)
    parts = _parts(schema, undecided)
    if undecided.columns:
        parts = {what: (1 - _KINDS[1]) * part for what, part in parts.items()} | {"kinds": _KINDS[1]}
    if not parts or math.isinf(ledger.epsilon):
        return Plan(noise=dict.fromkeys(parts, 0.0), delta=delta, selection=selection)
    if delta > ledger.delta - ledger.spent[1]:
        raise BudgetExceeded("Discovery needs a quarter of the ledger's delta, and less is left. Make a new ledger.")
    openness = _openness(schema, undecided)
    one = accountant.calibrate(
        Gaussian(noise_multiplier=1.0),
        free="noise_multiplier",
        epsilon=share * ledger.epsilon * math.sqrt(openness),
        delta=delta,
        beside=(selection_cost(ledger.relation, selection),),
        relation=ledger.relation,
    )
    # Several Gaussian releases are as private as one whose noise^-2 is the sum of theirs.
    noise = {what: one.noise_multiplier / math.sqrt(part) for what, part in parts.items()}
    return Plan(noise=noise, delta=delta, selection=selection)


def plan_beside(schema: Schema, undecided: Undecided, ledger: Ledger, *, part: float, rows: int) -> tuple[Plan, float]:
    """A plan in one stage with other releases, and the noise multiplier of one Gaussian release that is left for them.

    Discovery takes `part` of the stage (in parts of 1 / noise^2) where all columns are open, less the more is declared,
    and before that what the kinds of columns take in about so many rows. Composed with others, its privacy loss weighs
    far less than as a stage of its own: twice the noise is a quarter.
    """
    parts = _parts(schema, undecided)
    selection = _SELECTION * _DELTA * ledger.delta / (1 if ledger.relation is Relation.ADD_REMOVE else 2)
    beside = (selection_cost(ledger.relation, selection),) if parts else ()
    whole = ledger.calibrate(Gaussian(noise_multiplier=1.0), beside=beside).noise_multiplier * _SURE
    if not parts:
        return Plan(noise={}, delta=None, selection=selection), whole
    part *= _openness(schema, undecided)
    kinds = _kinds_part(undecided, whole, rows)
    found = {what: (1 - kinds) * part * one for what, one in parts.items()} | ({"kinds": kinds} if kinds else {})
    noise = {what: whole / math.sqrt(one) for what, one in found.items()}
    return Plan(noise=noise, delta=None, selection=selection), whole / math.sqrt((1 - kinds) * (1 - part))


def _kinds_part(undecided: Undecided, noise_multiplier: float, rows: int) -> float:
    """What the kinds take of 1 / noise^2, if that of the whole stage is as given."""
    if not undecided.columns:
        return 0.0
    wanted = len(undecided.columns) * (_SHOWN * noise_multiplier / rows) ** 2
    return min(_KINDS[1], max(_KINDS[0], wanted))


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


def _parts(schema: Schema, undecided: Undecided) -> dict[str, float]:
    """The tallies of what is open, and how they divide 1 / noise^2. Columns may turn out to be numbers until all have
    their kinds."""
    open_columns = [column for column in schema.modelled if column.open]
    needed = ["values", "rare values"] if open_columns else []
    if undecided.columns or any({"min", "max"} & set(column.open) for column in open_columns):
        needed += ["magnitudes", "closer", "closest"]
    whole = sum(_PARTS[what] for what in needed)
    return {what: _PARTS[what] / whole for what in needed}


def _openness(schema: Schema, undecided: Undecided) -> float:
    """How much of the schema is open: 1 for all of it."""
    shares = (_openness_of(column, is_decided=column.name not in undecided.columns) for column in schema.modelled)
    return sum(shares) / len(schema.modelled)


def _openness_of(column: Column, *, is_decided: bool) -> float:
    if column.open == ("nullable",) and is_decided:
        return 0.1
    return 1.0 if column.open else 0.0


def run(
    table: PrivateTable,
    schema: Schema,
    undecided: Undecided,
    payment: Payment,
    *,
    rows: int,
    made_up: Callable[[Schema], Schema] | None = None,
    keep: bool = False,
) -> Discovery:
    """Make the tallies that `payment` paid for, and complete `schema` with what they show.

    `keep` keeps columns that nothing was found in, as `made_up` has them, which completes any schema; and so they are
    kept where no column would be left.
    """
    if not payment:
        return Discovery(schema=schema, rows=rows, notes=tuple(_declared_notes(table, schema)))
    chance, told = selection_chance(payment["new values"]), []
    if undecided.columns:
        from twinify_lite.discover.kinds import find_kinds

        schema, hidden = find_kinds(schema, undecided.columns, table, payment["kinds"], delta=_FORMS * chance)
        schema, ignored = undecided.decided(schema)
        told, chance = [*hidden_kinds(schema, hidden), *ignored_constraints(ignored)], (1 - _FORMS) * chance
    looks = [look_at(column, table) for column in schema.modelled if column.open]
    find_values(looks, payment, chance=chance)
    is_small = _is_small(schema, payment, rows)
    find_ranges([look for look in looks if look.seeks_range], payment, guess=is_small or keep)
    declared = _declared_notes(table, schema)
    invented = None if made_up is None else made_up(schema)
    schema, notes = complete(schema, looks, rows, guess=is_small, made_up=invented, keep=keep)
    return Discovery(schema=schema, rows=rows, notes=(*told, *notes, *declared))


def _declared_notes(table: PrivateTable, schema: Schema) -> list[str]:
    return [*unrounded(schema), *ordered_categoricals(table, schema)]
