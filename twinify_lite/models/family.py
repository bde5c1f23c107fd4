"""A declared model among the families that `fit` knows: it plans, is paid for, says what is done, and fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from twinify_lite.ledger import Ledger
from twinify_lite.models.fitting import Declared
from twinify_lite.models.fitting import Plan as Steps
from twinify_lite.models.processing import finished_columns
from twinify_lite.receipt import Receipt
from twinify_lite.table import PrivateTable

_WHAT = "DPSVI"


@dataclass(frozen=True, eq=False)
class Plan:
    """Steps of DPSVI, whose noise is all that the ledger has left."""

    steps: Steps

    def settings_with(self, receipts: Mapping[str, Receipt]) -> dict[str, Any]:
        """For `--dry-run`: what a fit with the noise of these receipts would do."""
        return self.steps.with_mechanism(receipts[_WHAT].mechanism).settings

    def pay(self, ledger: Ledger) -> dict[str, Receipt]:
        """Spend for all steps in the ledger's current stage."""
        return {_WHAT: ledger.spend(ledger.calibrate(self.steps.mechanism), _WHAT)}


@dataclass(frozen=True, eq=False)
class Family:
    """What `fit` asks of a model."""

    declared: Declared
    target: str | None = None
    #: Its program names columns and is tried with all of them before anything is paid for: their kinds must be known by
    #: then, and discovery leaves none out.
    names_columns: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The template, file or function."""
        return self.declared.name

    @property
    def source(self) -> Any:
        """Where the model's code comes from."""
        return self.declared.source

    @property
    def notes(self) -> tuple[str, ...]:
        """What the guarantee rests on beside the noise, for the statement to say."""
        return self.declared.notes

    def prepare(self, table: PrivateTable) -> PrivateTable:
        """What the model's `preprocess` makes of the table, row by row."""
        return self.declared.prepare(table)

    def made_columns(self, schema: Any) -> list[str]:
        """The columns that the model's `postprocess` makes of generated rows."""
        return finished_columns(self.source, schema)

    def plan(self, schema: Any, rows: int, _left: float, options: Mapping[str, Any]) -> Plan:
        """Steps by public rules."""
        target = {} if self.target is None else {"target": self.target}
        return Plan(self.declared.plan(schema, rows, {**target, **options}))

    def check(self, schema: Any, plan: Plan) -> None:
        """Refuse a model that shows mistakes on made-up rows."""
        self.declared.check(schema, plan.steps)

    def done(self, _plan: Plan, kept: Mapping[str, np.ndarray]) -> tuple[set[str], dict[str, int]]:
        """How many steps a checkpoint holds."""
        return set(), {_WHAT: int(kept["step"])} if "step" in kept else {}

    def fit(self, plan: Plan, schema: Any, table: Any, receipts: Mapping[str, Receipt], **how: Any) -> Any:
        """The posterior that DPSVI leaves."""
        receipt = receipts[_WHAT]
        return self.declared.fit(plan.steps.with_mechanism(receipt.mechanism), schema, table, receipt, **how)
