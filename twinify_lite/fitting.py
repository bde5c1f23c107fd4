"""The path of a fit, below `twin.fit`: what is planned is paid for, all of it, and only then run.

    Ready --plan--> Plans --pay--> Run --discover--> the complete schema --fit--> what a `Twin` holds

A `Checkpoint` keeps what a run released, so that it can be taken up again without spending.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from twinify_lite import __version__
from twinify_lite.accountant import DiscreteLaplace
from twinify_lite.checkpoint import Checkpoint
from twinify_lite.discover import RELEASES, count_rows, least_rows, plan_beside
from twinify_lite.discover import Plan as DiscoveryPlan
from twinify_lite.discover import run as run_discovery
from twinify_lite.errors import BookRefused, PrivacyParameterError, ReceiptError, TwinError
from twinify_lite.ledger import Ledger
from twinify_lite.models.guessing import made_up_schema
from twinify_lite.receipt import Receipt
from twinify_lite.request import Ready, Request
from twinify_lite.schema import Schema
from twinify_lite.schema.doubts import doubts
from twinify_lite.table import PrivateTable

Progress = Callable[[str, int, int], None]

# Of epsilon, for the number of rows.
_ROWS = 0.02
# Of the rest (in parts of 1 / noise^2), for discovery where all is open: the first part that finds values which so many
# times fewer than all rows share, or the last.
_DISCOVERY, _COMFORT = (0.15, 0.3, 0.5), 10.0
# Rows that a plan is made for when nobody says how many there are.
_SUPPOSED = 10_000
# 19 of 20 times the noise of the row count is within so many of its scales; it is told above this part of the rows.
_LIKELY, _UNSURE = 3.0, 0.25
_DEVICES = ("auto", "cpu", "gpu")
#: The phase in which the noisy row count is told, as steps of which all are done: before anything else is paid for.
COUNTED = "rows counted"


@dataclass(frozen=True, eq=False)
class Plans:
    """What discovery and the model will release, and with how much noise."""

    discovery: DiscoveryPlan
    model: Any
    left: float

    @classmethod
    def of(cls, request: Request, ready: Ready, rows: int, ledger: Ledger) -> Plans:
        """The plans for about so many rows, within what is left of the ledger's budget."""
        for part in _DISCOVERY:
            beside, left = plan_beside(ready.schema, ready.undecided, ledger, part=part, rows=rows)
            if rows >= _COMFORT * least_rows(ready.schema, beside.noise, beside.selection):
                break
        return cls(beside, ready.family.plan(ready.schema, rows, left, request.settings), left)

    def pay(self, ledger: Ledger) -> dict[str, Receipt]:
        """Spend for everything, in one stage, before any of it is run."""
        found = self.discovery.pay(ledger)
        return {**found, **self.model.pay(ledger)}


def require_plan(request: Request, ready: Ready, *, is_paid: bool = False) -> None:
    """Refuse options that no plan can be made with, and models with mistakes that made-up rows show.

    What is paid for already is only planned: to refuse it now would save nothing.
    """
    plan = ready.family.plan(ready.schema, _SUPPOSED, 1.0, request.settings)
    if not is_paid:
        ready.family.check(ready.schema, plan)


def rehearse(request: Request, ready: Ready) -> dict[str, Any]:
    """What a fit would plan and spend if there were as many rows as the options suppose, and what to look at before.

    No row is looked at for the plan. The `doubts` are read from the rows, for their holder alone, and say so.
    """
    options = request.settings
    rows = _supposed(options.pop("rows", None), ready.schema)
    request = dataclasses.replace(request, options=options)
    require_plan(request, ready)
    ledger, plans, receipts = suppose(request, ready, rows)
    if request.book is not None and request.book.exists:
        request.book.require_room(ledger.receipts, relation=request.relation)
    return {
        "rows (supposed)": rows,
        **plans.model.settings_with(receipts),
        **{f"noise of {receipt.what}": _noise(receipt) for receipt in ledger.receipts},
        "epsilon": ledger.spent[0],
        "delta": ledger.spent[1],
        "doubts": doubts(ready.table, ready.schema, ready.declared),
    }


def require_room(request: Request, ready: Ready) -> None:
    """Refuse a fit that the ledger file has no room for, as far as that can be told without counting the rows.

    A file that is not there yet is begun, with what this fit takes as its limit.
    """
    if request.book is None:
        return
    ledger, _, _ = suppose(request, ready, _supposed(None, ready.schema))
    if not request.book.exists:
        request.book.begin(ledger.receipts, epsilon=request.epsilon, delta=request.delta, relation=request.relation)
    request.book.require_room(ledger.receipts, relation=request.relation)


def suppose(request: Request, ready: Ready, rows: int) -> tuple[Ledger, Plans, dict[str, Receipt]]:
    """What would be paid for if there were so many rows, on a ledger that nothing is run with."""
    ledger = request.ledger()
    if ready.schema.rows is None and request.relation == "add-remove":
        count = DiscreteLaplace(scale=1 / (_ROWS * ledger.epsilon))
        ledger.spend(count, "row count").redeem(DiscreteLaplace)
    plans = Plans.of(request, ready, rows, ledger)
    return ledger, plans, plans.pay(ledger)


def _supposed(rows: Any, schema: Schema) -> int:
    if rows is not None and not (isinstance(rows, int | float) and 1 <= rows < math.inf):
        raise PrivacyParameterError("rows must be a number of rows to plan for, such as 10000.")
    return int(rows or schema.rows or _SUPPOSED)


def _noise(receipt: Receipt) -> float:
    mechanism = receipt.mechanism
    return getattr(mechanism, "noise_multiplier", None) or getattr(mechanism, "scale", 0.0)


@dataclass(frozen=True, eq=False)
class Run:
    """A fit that is paid for."""

    family: Any
    plan: Any
    ledger: Ledger
    receipts: Mapping[str, Receipt]
    rows: int
    checkpoint: Checkpoint

    @classmethod
    def start(cls, request: Request, ready: Ready, checkpoint: Checkpoint, progress: Progress) -> Run:
        """Count the rows, tell how many, plan with that, and pay."""
        ledger = request.ledger(request.book)
        ready.note_public(ledger)
        with telling_what_was_spent(ledger):
            rows = count_rows(ready.table, ready.schema, ledger, share=_ROWS)
            progress(COUNTED, rows, rows)
            plans = Plans.of(request, ready, rows, ledger)
            plans.pay(ledger)
            facts = {"version": __version__, "request": request.facts(ready), "rows": rows, "left": plans.left}
            checkpoint.begin(facts={**facts, "run": ledger.run}, statement=ledger.statement().to_json())
        return cls(ready.family, plans.model, ledger, {r.what: r for r in ledger.receipts}, rows, checkpoint)

    @classmethod
    def resume(cls, request: Request, ready: Ready, path: str | os.PathLike[str] | None) -> Run:
        """Take up a run that paid and was interrupted. Nothing is spent."""
        if path is None:
            raise ReceiptError("There is nothing to resume from. Pass the checkpoint=... of the fit to continue.")
        checkpoint = Checkpoint.read(path)
        if checkpoint.facts.get("version") != __version__:
            raise ReceiptError(
                f"{os.fspath(path)} was begun by another version of twinify_lite, whose plan may differ. Continue it "
                "with that version, or start a new fit without resuming, which spends again."
            )
        asked, statement = request.facts(ready), checkpoint.statement
        same = all(statement.get(key) == asked[key] for key in ("epsilon", "delta", "relation"))
        if checkpoint.facts.get("request") != asked or not same:
            raise ReceiptError(
                f"{os.fspath(path)} is of a fit with other arguments, another schema or other columns. Continue that "
                "one, or start a new fit without resuming, which spends again."
            )
        rows, left = checkpoint.facts["rows"], checkpoint.facts["left"]
        plan = ready.family.plan(ready.schema, rows, left, request.settings)
        used, steps = ready.family.done(plan, checkpoint.load() or {})
        found = () if checkpoint.schema is None else RELEASES
        again = {"run": checkpoint.facts.get("run"), "book": request.book, "insecure_seed": request.seed}
        ledger = Ledger.resumed(statement, used={"row count", *found, *used}, steps=steps, **again)
        ready.note_public(ledger)
        return cls(ready.family, plan, ledger, {r.what: r for r in ledger.receipts}, rows, checkpoint)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the row count and discovery have to say to people."""
        return (*self._unsure_rows(), *self.checkpoint.facts.get("notes", ()))

    def _unsure_rows(self) -> Iterator[str]:
        counts = [receipt.mechanism for receipt in self.ledger.receipts if receipt.what == "row count"]
        noise = _LIKELY * sum(getattr(mechanism, "scale", 0.0) for mechanism in counts)
        if noise > _UNSURE * self.rows:
            yield (
                f"About {self.rows} rows, give or take {noise:.0f}: plans are made with that. If their number is "
                "public, declare it (`rows = ...` at the top of the schema), which costs nothing."
            )

    def discover(self, ready: Ready) -> Schema:
        """The complete schema: discovered now, or by the run that was interrupted.

        Formal guarantee: it has a column to model, whatever was found; and all of `ready.schema` for a model that names
        columns.
        """
        if self.checkpoint.schema is None:
            payment = {what: receipt for what, receipt in self.receipts.items() if what in RELEASES}
            kept = {"made_up": made_up_schema, "keep": self.family.names_columns}
            found = run_discovery(ready.table, ready.schema, ready.undecided, payment, rows=self.rows, **kept)
            self.checkpoint.keep_schema(found.schema, found.notes)
        return self.checkpoint.schema

    def fit(self, schema: Schema, table: PrivateTable, progress: Progress) -> Any:
        """The model, fitted to what `schema` now says of the table."""
        return self.family.fit(self.plan, schema, table, self.receipts, progress=progress, checkpoint=self.checkpoint)


def reporting(progress: Progress | None) -> Progress:
    """Whom to tell how far the fit is: `progress`, or nobody."""
    if progress is not None and not callable(progress):
        raise TwinError("progress is a function of what is done, how far and of how much: progress(what, done, total).")
    return progress or (lambda *_: None)


@contextlib.contextmanager
def telling_what_was_spent(ledger: Ledger) -> Iterator[None]:
    """Have whatever goes wrong from here on say what is spent by now."""
    try:
        yield
    except BookRefused as error:
        epsilon, delta = ledger.begun
        if epsilon > 0:
            error.spent = f"Spent before this: epsilon {epsilon:.4g}, delta {delta:.3g}."
        raise
    except BaseException as error:
        if ledger.receipts:
            epsilon, delta = ledger.spent
            error.spent = f"Spent before this: epsilon {epsilon:.4g} of {ledger.epsilon:g}, delta {delta:.3g}."
        raise


@contextlib.contextmanager
def running_on(device: str) -> Iterator[None]:
    """Run on the device of this kind."""
    if device not in _DEVICES:
        raise PrivacyParameterError(f"The device is one of {', '.join(_DEVICES)}.")
    if device == "auto":
        yield
        return
    import jax

    try:
        chosen = jax.devices(device)[0]
    except RuntimeError:
        raise TwinError(f"JAX finds no {device} here. Use --device cpu, or install twinify-lite[cuda12].") from None
    except IndexError:
        raise TwinError(f"JAX finds no {device} here. Use --device cpu.") from None
    with jax.default_device(chosen):
        yield
