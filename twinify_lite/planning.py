"""Which epsilon? The noise, the steps, the clearness and the risk of several, before there is any table.

    for choice in choices(20_000, 12, [0.5, 1, 2, 4]):
        print(choice.epsilon, choice.signal_to_noise, choice.risk.advantage)

Columns are made up, and planned and paid for by what plans a fit, so that the noise is that of a fit.
"""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from twinify_lite import fitting
from twinify_lite.accountant import SMALLEST_DELTA
from twinify_lite.errors import PrivacyParameterError
from twinify_lite.models.guessing import made_up_schema
from twinify_lite.release import Part, Scale
from twinify_lite.request import Ready, Request
from twinify_lite.risk import Risk, risk
from twinify_lite.risk.words import percent
from twinify_lite.schema import Column, Schema
from twinify_lite.schema.draft import Undecided

if TYPE_CHECKING:
    from twinify_lite.receipt import Receipt

#: The automatic model, and one that is fitted by DPSVI, as all others are.
MODELS = ("auto", "independent")
#: The share of the rows that a cell holds whose signal to noise is told.
CELL = 0.01
# Kinds that every template finds something in.
_KINDS = ("category", "number", "integer", "boolean")
_MOST_COLUMNS = 10_000


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What a fit of `model` with `epsilon` would do.

    `noise` is the standard deviation of what is added where one row adds at most 1: to a cell of a pair's table (auto),
    or to the sum of a step's gradients, in clip norms (DPSVI). `steps` is how often rows are looked at: releases of
    tables, or steps of DPSVI; `rows_a_step` how many of them. `signal_to_noise` is the rows of a cell that holds 1 in
    100 of them over the noise (auto), or the rows of a step over it (DPSVI), and is ample from `ample` on. Of the
    automatic model only: how many `pairs` of columns have a table, and `share_error`, the standard deviation of a share
    in a single column.
    """

    model: str
    epsilon: float
    delta: float
    noise: float
    steps: int
    rows_a_step: float
    signal_to_noise: float
    ample: float
    pairs: int | None
    share_error: float | None
    risk: Risk

    def to_json(self) -> dict[str, Any]:
        """Plain data, ready for `json.dumps`."""
        told = {name: value for name, value in vars(self).items() if name != "risk"}
        figures = self.risk.to_json()
        return {**told, "risk": {name: figures[name] for name in ("advantage", "true_positives", "suspicion")}}


def choices(
    rows: int,
    columns: int,
    epsilons: Sequence[float],
    *,
    delta: float = 1e-6,
    model: Any = None,
    declared: bool = True,
) -> list[Choice]:
    """What fits of a table of so many rows and columns would do with each of `epsilons`. Nothing is read or spent.

    `model` is the name of a template or the path of a .py file; None is `MODELS`. Ranges and levels are taken to be
    `declared`, or else to be found from the budget.
    """
    rows, columns = _whole("rows", rows, 10**11), _whole("columns", columns, _MOST_COLUMNS)
    schema = _made_up(columns, declared)
    asked = [
        Request(epsilon=epsilon, delta=delta, model=one, relation="add-remove", target=None, options=None)
        for one in (MODELS if model is None else (model,))
        for epsilon in epsilons
    ]
    if not asked:
        raise PrivacyParameterError("Choose among some epsilons, such as [0.5, 1, 2, 4].")
    return [_choice(request, schema, rows, declared=declared) for request in asked]


def _made_up(columns: int, declared: bool) -> Schema:
    kinds = itertools.islice(itertools.cycle(_KINDS), columns)
    schema = Schema([Column(name=f"column_{number}", kind=kind) for number, kind in enumerate(kinds, start=1)])
    return made_up_schema(schema) if declared else schema


def _choice(request: Request, schema: Schema, rows: int, *, declared: bool) -> Choice:
    # There is no table: a plan looks at the schema and the number of rows only.
    family = request.family(None)
    undecided = Undecided() if declared or family.names_columns else Undecided(tuple(schema))
    ready = Ready(family, None, schema, undecided, ())
    ledger, plans, receipts = fitting.suppose(request, ready, rows)
    figures = (_tables if ready.family.name == "auto" else _steps)(plans.model, receipts, rows)
    facts = {"model": ready.family.name, "epsilon": ledger.epsilon, "delta": ledger.delta}
    return Choice(**facts, **figures, risk=risk(ledger))


def _tables(plan: Any, receipts: Mapping[str, Receipt], rows: int) -> dict[str, Any]:
    """The automatic model: all tables of one release share its noise, equally but for their sizes (`auto.tables`)."""
    from twinify_lite.auto import rules

    settings = plan.settings
    single = _of_each(settings.columns, receipts["single columns"])
    pairs = _of_each(settings.measured_pairs, receipts["pairs"]) if "pairs" in receipts else single
    return {
        "noise": pairs,
        "rows_a_step": float(rows),
        "steps": sum(what in receipts for what in plan.noise),
        "signal_to_noise": CELL * rows / pairs,
        "ample": CELL * rules.SHARP,
        "pairs": settings.measured_pairs,
        "share_error": single / rows,
    }


def _of_each(tables: int, receipt: Receipt) -> float:
    """The noise of a count, if so many tables share what `receipt` pays for equally."""
    share = Fraction(1, tables)
    return Scale.of(receipt.mechanism.noise_multiplier, receipt.relation, Part(bound=1), share).deviation


def _steps(plan: Any, receipts: Mapping[str, Receipt], rows: int) -> dict[str, Any]:
    """A declared model: gradients of a sample of the rows, clipped to norm 1 in units of the noise multiplier."""
    from twinify_lite.models.fitting import SHARP

    settings = plan.settings_with(receipts)
    sampled = settings["sampling_rate"] * rows
    return {
        "noise": settings["noise_multiplier"],
        "steps": settings["steps"],
        "rows_a_step": sampled,
        "signal_to_noise": sampled / settings["noise_multiplier"],
        "ample": SHARP,
        "pairs": None,
        "share_error": None,
    }


def _whole(name: str, value: Any, most: int) -> int:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not (is_number and 1 <= value <= most and value % 1 == 0):
        raise PrivacyParameterError(f"{name} must be a whole number from 1 to {most:,}.")
    return int(value)


# -- words -------------------------------------------------------------------------------------------------------------

_TOLD = {
    "epsilon": lambda choice: f"{choice.epsilon:g}",
    "noise": lambda choice: f"{choice.noise:.3g}",
    "pairs": lambda choice: f"{choice.pairs}",
    "releases": lambda choice: f"{choice.steps}",
    "steps": lambda choice: f"{choice.steps}",
    "rows a step": lambda choice: f"{choice.rows_a_step:.0f}",
    "signal/noise": lambda choice: f"{choice.signal_to_noise:.{1 if choice.signal_to_noise < 10 else 0}f}",
    "share +-": lambda choice: percent(choice.share_error),
    "right of 100": lambda choice: f"{math.ceil(50 * (1 + choice.risk.advantage))}",
    "50 % becomes": lambda choice: percent(choice.risk.suspicion[0.5]),
}
_TABLES = ("epsilon", "noise", "pairs", "releases", "signal/noise", "share +-", "right of 100", "50 % becomes")
_STEPS = ("epsilon", "noise", "steps", "rows a step", "signal/noise", "right of 100", "50 % becomes")


def lines(found: Sequence[Choice], *, rows: int, declared: bool = True) -> Iterator[str]:
    """The choices for people: a table for each model, what stands in it, what was supposed, and how to choose."""
    for model, block in itertools.groupby(found, key=lambda choice: choice.model):
        yield from _block(model, list(block))
        yield ""
    yield (
        "right of 100: how often anybody can tell, at most, whether somebody is in the table; a coin is right 50 "
        "times. 50 % becomes: how sure of it they can get, at most, on average over the 1 in 100 cases that give away "
        "most; `twin explain` says more."
    )
    yield from _notes(found[0].delta, rows, declared)


def _block(model: str, block: Sequence[Choice]) -> Iterator[str]:
    ample = block[0].ample
    if model == "auto":
        yield "auto: noisy tables of counts, of single columns and of pairs"
        yield from _table(_TABLES, block)
        yield (
            "noise: standard deviation in a cell of a pair's table, in rows (of a single column's, without pairs). "
            f"signal/noise: the rows of a cell that holds 1 in 100 of all over that noise, ample from {ample:g} on. "
            "share +-: standard deviation of a share in a single column."
        )
    else:
        yield f"{model}: noisy gradients, by DPSVI"
        yield from _table(_STEPS, block)
        yield (
            "noise: standard deviation, in units of the most that one row adds to the sum of a step. signal/noise: the "
            f"rows of a step over that noise, ample from {ample:g} on."
        )


def _table(names: Sequence[str], block: Sequence[Choice]) -> Iterator[str]:
    cells = [names, *([_TOLD[name](choice) for name in names] for choice in block)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        yield "  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True))


def _notes(delta: float, rows: int, declared: bool) -> Iterator[str]:
    if declared:
        yield "Ranges and levels are supposed to be declared in a schema; --open supposes that they must be found, too."
    else:
        yield "Ranges and levels are supposed to be found from the budget; what a schema declares leaves more of it."
    if delta > 1 / rows:
        yield (
            f"Delta {delta:g} is above 1/rows = {1 / rows:.2g}: it would allow publishing a random person's row. "
            f"Choose one well below, such as --delta {max(0.1 / rows, SMALLEST_DELTA):.0e}."
        )
    yield (
        "To choose: take the smallest epsilon whose signal to noise you can live with. Twice the rows are worth about "
        "as much as twice the epsilon, and put nobody at more risk."
    )
