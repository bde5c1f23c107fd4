"""Do the parts of a twin's file agree? Its statement compared with its schema, its model and the words it must have.

Who can write a file can make all of its parts agree, so this does not prove where a file comes from. It finds what was
left out or mixed up: a release that no receipt pays for, noise that the model was not planned with, words that promise
more than the package does. The figures of the statement itself are recomputed in `verification`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from twinify_lite.accountant import Relation
from twinify_lite.artifact import json_from_bytes
from twinify_lite.errors import ArtifactError
from twinify_lite.schema import Schema
from twinify_lite.statement import ACCEPTED, GUESSED, STYLE, TYPES, Statement, accepted_of

_ROWS = "row count"
#: The releases of the automatic model, and the settings that say how its budget is divided among them.
_PARTS = {"single columns": "single", "choice of pairs": "choice", "pairs": "pairs"}
_SAME = 1e-6
_MOST_ROWS = 10**11  # more than a machine's memory holds
_VERSION = re.compile(r"\d+(\.\d+)*")

#: What was paid for, and by which mechanism.
Receipts = Mapping[str, Mapping[str, Any]]


def is_row_count(value: Any) -> bool:
    """Whether a table can have so many rows."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST_ROWS


def require_consistent(members: Mapping[str, bytes]) -> None:
    """Refuse a twin whose statement the other members of its file contradict, with all that is wrong."""
    names = ("statement.json", "twin.json", "fitted.json")
    statement, facts, fitted = (json_from_bytes(members[name], name) for name in names)
    try:
        schema = Schema.from_toml(members["schema.toml"].decode())
        problems = [*_problems(statement, facts["fitted"], fitted, schema), *_counted(facts, fitted)]
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError):
        raise ArtifactError("The statement cannot be compared with its file. Make the twin again.") from None
    if problems:
        raise ArtifactError("The privacy statement does not hold.\n" + "\n".join(problems))


def _problems(statement: Mapping[str, Any], kind: str, fitted: Mapping[str, Any], schema: Schema) -> Iterator[str]:
    stages = [stage["receipts"] for stage in statement["stages"]]
    receipts = {receipt["what"]: receipt["mechanism"] for stage in stages for receipt in stage}
    relation = Relation(statement["relation"])
    yield from (_auto if kind == "auto" else _declared)(receipts, fitted)
    yield from _row_count(stages, relation, schema)
    yield from _words(statement, relation)
    yield from _untold(list(statement["treated_as_public"]), schema)


def _counted(facts: Mapping[str, Any], fitted: Mapping[str, Any]) -> Iterator[str]:
    """The number of rows is one, and that of the plan."""
    rows = facts["rows"]
    if not is_row_count(rows):
        yield "The number of rows is none that a table can have."
    elif facts["fitted"] == "auto" and fitted["settings"]["rows"] != rows:
        yield "The model was planned with another number of rows than the twin tells."


def _auto(receipts: Receipts, fitted: Mapping[str, Any]) -> Iterator[str]:
    """All that the automatic model rests on is paid for, with the noise that it was planned with."""
    settings = fitted["settings"]
    linked = any(link["parents"] for link in fitted["links"])
    needed = [what for what, part in _PARTS.items() if settings[part] > 0 or (what == "pairs" and linked)]
    lacking = [what for what in needed if what not in receipts]
    yield from (f"The model rests on the release {what!r}, which no receipt pays for." for what in lacking)
    # Each release has its part of 1 / noise^2, so all of them tell the same noise of one release in their place.
    whole = [receipts[what]["noise_multiplier"] ** 2 * settings[_PARTS[what]] for what in _PARTS if what in receipts]
    if not all(math.isclose(one, whole[0], rel_tol=_SAME) for one in whole):
        yield "The receipts of single columns and pairs do not divide the budget as the model's settings do."


def _declared(receipts: Receipts, fitted: Mapping[str, Any]) -> Iterator[str]:
    """The steps of DPSVI are those that were paid for."""
    if "DPSVI" not in receipts:
        yield "The model was fitted by DPSVI, which no receipt pays for."
        return
    told = {key: fitted["settings"][key] for key in ("steps", "sampling_rate", "noise_multiplier")}
    if not all(math.isclose(receipts["DPSVI"][key], value, rel_tol=_SAME) for key, value in told.items()):
        yield "The receipt for DPSVI is for other steps, another sampling rate or other noise than the model's."


def _row_count(stages: Sequence[Sequence[Mapping[str, Any]]], relation: Relation, schema: Schema) -> Iterator[str]:
    """The plan rests on the number of rows: declared, public where rows are replaced, or a stage of its own."""
    counted = [stage for stage in stages if any(receipt["what"] == _ROWS for receipt in stage)]
    if relation is Relation.SUBSTITUTE and counted:
        yield "The number of rows was paid for, which only adding or removing a row needs, not replacing one."
    if relation is Relation.ADD_REMOVE and schema.rows is None and not counted:
        yield "The model was planned with the number of rows, which is not declared and which no receipt pays for."
    if any(len(stage) > 1 for stage in counted):
        yield "The number of rows was paid for beside what was planned with it: it must be a stage of its own."


def _words(statement: Mapping[str, Any], relation: Relation) -> Iterator[str]:
    """What is promised, of what and to whom, is what a ledger promises under this relation."""
    written = Statement(
        private=True,
        why_not=None,
        relation=relation,
        epsilon=0.0,
        delta=0.0,
        spent_epsilon=0.0,
        spent_delta=0.0,
        stages=(),
        treated_as_public=tuple(statement["treated_as_public"]),
    ).to_json()
    if statement["public"] != written["public"]:
        yield "What the statement calls public is not what its relation and its own list make public."
    if statement["not_public"] != written["not_public"]:
        yield "What the statement calls not public is not what is hidden under its relation."
    if set(statement) != set(written):
        yield "The statement says something else than what a statement says, or leaves something out."
    for key in ("accountant", "crosscheck"):  # of any version
        if not isinstance(statement[key], str):
            yield "The accountant and the cross-check of the statement must be named."
        elif _VERSION.sub("", statement[key]) != _VERSION.sub("", written[key]):
            yield f"The {key} of the statement is none of this package's: {written[key]}."
    for key in ("unit", "composition"):
        if statement[key] != written[key]:
            yield f"The {key} of the statement must read: {written[key]}."


def _untold(told: list[str], schema: Schema) -> Iterator[str]:
    """What the schema has from the table without paying, and the statement does not say."""
    needed = [
        (STYLE, TYPES),
        *[(GUESSED,)] * schema.guessed,
        *[(accepted_of(schema.accepted),)] * bool(schema.accepted),
    ]
    if schema.peeked:
        yield "The schema has values that were read from the data, and that nobody accepted."
    for sentences in needed:
        if not any(sentence in told for sentence in sentences):
            yield f"The statement does not list as public: {', or: '.join(sentences)}."
    if not schema.accepted and any(sentence.startswith(ACCEPTED) for sentence in told):
        yield "The statement tells of columns that were accepted as public, and the schema does not name them."
