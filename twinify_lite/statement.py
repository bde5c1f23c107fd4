"""What a ledger guarantees, in words and as data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from twinify_lite import accountant
from twinify_lite.accountant import Relation

PUBLIC = (
    "column names and kinds",
    "the schema file",
    "the model, guide and hyperparameters",
    "this statement",
)
NOT_PUBLIC = ("ranges", "category lists", "missingness", "every cell")
ROW_COUNT = (
    "the number of rows"  # secret where a row may be added or removed, the same in both tables where one is replaced
)

# What a fit may take from the table beside that, in the words of its statement. Files are verified by these words:
# whoever changes them keeps the old ones too.
GUESSED = (
    "kinds, decimals, resolutions, zones, date formats and spellings of true and false, guessed from the cells by "
    "votes with thresholds, some as low as three cells; one row counts where a vote stands at its threshold"
)
TYPES = (
    "the types of the table's columns, which for a DataFrame may tell that whole numbers have missing cells, and for "
    "columns of Python objects are voted by their cells; and that it has rows, all of whose cells can be read"
)
STYLE = "the separator of the file, guessed from its first rows, and that it has rows, all of which can be read"
ACCEPTED = "what was read from the data without privacy, and accepted by the user, of the columns"


def accepted_of(columns: Iterable[str]) -> str:
    """That the user accepted what was read of these columns."""
    return f"{ACCEPTED} {', '.join(map(repr, columns))}"


def uncovered(statement: Mapping[str, Any]) -> str | None:
    """The warning of what stands in a release without noise, because the user accepted it, if anything does."""
    told = [one.removeprefix(ACCEPTED).strip() for one in statement.get("public", ()) if one.startswith(ACCEPTED)]
    if not told:
        return None
    return (
        f"NOT COVERED BY EPSILON: ranges, levels or missing cells of {', '.join(told)} were read from the real rows "
        "without noise, and accepted as public. They stand in what is made from these rows."
    )


def public_under(relation: Relation) -> tuple[str, ...]:
    """What no guarantee under `relation` hides."""
    return PUBLIC if relation is Relation.ADD_REMOVE else (ROW_COUNT, *PUBLIC)


@dataclass(frozen=True, kw_only=True)
class Statement:
    """What a ledger guarantees. `str(statement)` for people, `statement.to_json()` for machines."""

    private: bool
    why_not: str | None
    relation: Relation
    epsilon: float
    delta: float
    spent_epsilon: float
    spent_delta: float
    stages: tuple[dict[str, Any], ...]
    treated_as_public: tuple[str, ...] = ()

    @property
    def public(self) -> tuple[str, ...]:
        """What the guarantee does not hide."""
        return (*public_under(self.relation), *self.treated_as_public)

    @property
    def not_public(self) -> tuple[str, ...]:
        """What it hides."""
        return (ROW_COUNT, *NOT_PUBLIC) if self.relation is Relation.ADD_REMOVE else NOT_PUBLIC

    def to_json(self) -> dict[str, Any]:
        """Plain data, ready for `json.dumps`."""
        return {
            "private": self.private,
            "why_not": self.why_not,
            "unit": "one row is one person",
            "relation": str(self.relation),
            "epsilon": json_number(self.epsilon),
            "delta": self.delta,
            "spent": {"epsilon": json_number(self.spent_epsilon), "delta": self.spent_delta},
            "composition": "privacy loss distributions within a stage, basic composition between stages",
            "stages": list(self.stages),
            "public": list(self.public),
            "treated_as_public": list(self.treated_as_public),
            "not_public": list(self.not_public),
            "accountant": accountant.ACCOUNTANT,
            "crosscheck": accountant.CROSSCHECK,
        }

    def __str__(self) -> str:
        relations = {
            Relation.ADD_REMOVE: "adding or removing one row (one row is one person)",
            Relation.SUBSTITUTE: "replacing one row by another (one row is one person)",
        }
        head = (
            f"({self.epsilon:g}, {self.delta:g})-differential privacy under {relations[self.relation]}."
            if self.private
            else f"NOT PRIVATE: {self.why_not}."
        )
        warning = uncovered({"public": self.public})
        lines = [
            *([] if warning is None else [warning]),
            head,
            f"Spent: epsilon {self.spent_epsilon:.4g}, delta {self.spent_delta:.3g} (upper bounds).",
        ]
        for number, stage in enumerate(self.stages, start=1):
            lines.append(f"  stage {number}: epsilon {float(stage['epsilon']):.4g}, delta {stage['delta']:.3g}")
            lines += [f"    {_receipt_line(receipt)}" for receipt in stage["receipts"]]
        lines.append("Public: " + "; ".join(self.public) + ".")
        lines.append("Not public: " + "; ".join(self.not_public) + ".")
        checked = any(receipt["crosscheck"] is not None for stage in self.stages for receipt in stage["receipts"])
        by = f"; cross-checked by {accountant.CROSSCHECK}" if checked else ""
        lines.append(f"Accountant: {accountant.ACCOUNTANT}{by}.")
        return "\n".join(lines)


def _receipt_line(receipt: dict[str, Any]) -> str:
    mechanism = dict(receipt["mechanism"])
    name = mechanism.pop("mechanism")
    fields = ", ".join(f"{key}={value:g}" for key, value in mechanism.items())
    check = "" if receipt["crosscheck"] is None else f" (cross-check {receipt['crosscheck']:.4g})"
    return f"{receipt['what']}: {name}({fields}), alone epsilon {float(receipt['epsilon']):.4g}{check}"


def json_number(value: float) -> float | str:
    """A number for JSON, which has no infinity."""
    return value if math.isfinite(value) else "inf"
