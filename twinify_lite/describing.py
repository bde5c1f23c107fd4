"""A twin in words: one line, a page, and a table for notebooks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from twinify_lite.statement import uncovered

if TYPE_CHECKING:
    from twinify_lite.schema import Column, Schema
    from twinify_lite.twin import Twin


#: A file says of itself what it guarantees, and who can write it can write that.
STATED = "the twin states this of itself; `twin verify` recomputes it from the receipts"


class Stated(NamedTuple):
    """What the file of a twin says of itself, verified; its model is not needed for that.

    If it `is_own`, that model is code of its own, which may give rows other columns than the schema has.
    """

    statement: Mapping[str, Any]
    notes: tuple[str, ...]
    schema: Schema
    is_own: bool


def stated_in(path: str | os.PathLike[str]) -> Stated:
    """Read a file's statement; one that does not hold raises `ArtifactError`."""
    from twinify_lite import artifact
    from twinify_lite.schema import Schema
    from twinify_lite.verification import verify

    members = artifact.read_twin(path)
    statement, facts = (artifact.json_from_bytes(members[name], name) for name in ("statement.json", "twin.json"))
    verify(statement)
    schema = Schema.from_toml(members["schema.toml"].decode())
    return Stated(statement, tuple(map(str, facts.get("notes", ()))), schema, facts.get("fitted") != "auto")


def require_readable(statement: Any) -> None:
    """Raise `ValueError` or `TypeError` for a statement that could not be shown; whether it holds, `verify` says."""
    for part in (statement, statement["spent"]):
        float(part["epsilon"])  # "inf" where there is no limit
        if isinstance(part["delta"], bool) or not isinstance(part["delta"], int | float):
            raise ValueError
    receipts = [receipt for stage in statement["stages"] for receipt in stage["receipts"]]
    texts = [statement["relation"], *statement["public"], *(receipt["what"] for receipt in receipts)]
    if not isinstance(statement["private"], bool) or not all(isinstance(text, str) for text in texts):
        raise ValueError
    if not statement["private"] and not isinstance(statement["why_not"], str):
        raise ValueError


def line(twin: Twin) -> str:
    """`repr`: what matters most."""
    mark = f"epsilon={float(twin.statement['epsilon']):g}, delta={twin.statement['delta']:g}"
    columns = len(twin.schema.modelled)
    return (
        f"Twin({_model(twin)}, {columns} columns, about {twin.rows} rows, {mark if twin.is_private else 'NOT PRIVATE'})"
    )


def describe(twin: Twin) -> str:
    """A page: privacy, model and columns, aligned, what the user should know, and what the guarantee rests on."""
    facts = _facts(twin)
    width = max(map(len, facts))
    lines = [f"{name:<{width}}  {value}" for name, value in facts.items()]
    rows = [(_on_one_line(column.name), column.kind, _range(column)) for column in twin.schema.columns]
    wide = max(len(name) for name, _, _ in rows)
    lines += ["", *(f"{name:<{wide}}  {kind:<10}  {what}".rstrip() for name, kind, what in rows)]
    lines += ["", *twin.notes] if twin.notes else []
    public = twin.statement.get("public", [])
    lines += ["", "Public: " + "; ".join(public) + "."] if public else []
    return "\n".join(lines)


def html(twin: Twin) -> str:
    """The facts as a table; every text is escaped."""
    escaped = [(escape(name), escape(str(value))) for name, value in _facts(twin).items()]
    cells = "".join(f"<tr><th style='text-align:left'>{name}</th><td>{value}</td></tr>" for name, value in escaped)
    notes = "".join(f"<li>{escape(sentence)}</li>" for sentence in twin.notes)
    return f"<table>{cells}</table>" + (f"<ul>{notes}</ul>" if notes else "")


def _facts(twin: Twin) -> dict[str, Any]:
    statement = twin.statement
    guarantee = (
        f"({float(statement['epsilon']):g}, {statement['delta']:g})-DP, {statement['relation']}, one row is one person"
    )
    spent = statement["spent"]
    warning = uncovered(statement)
    return {
        **({} if warning is None else {"accepted": warning}),
        "privacy": guarantee if twin.is_private else f"NOT PRIVATE: {statement['why_not']}",
        "spent": f"epsilon {float(spent['epsilon']):.4g}, delta {spent['delta']:.3g}, in "
        f"{sum(len(stage['receipts']) for stage in statement['stages'])} releases",
        **({"verify": STATED} if twin.is_private else {}),
        "rows": f"about {twin.rows}",
        "model": _model(twin),
        **{name: _short(value) for name, value in twin.fitted.describe().items() if name != "model"},
    }


def _model(twin: Twin) -> str:
    return str(twin.fitted.describe().get("model", twin.fitted.kind))


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _on_one_line(text: str) -> str:
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _range(column: Column) -> str:
    missing = ", can be missing" if column.nullable else ""
    if column.is_ranged:
        return f"{column.min} to {column.max}{missing}"
    if column.is_levelled:
        other = "" if column.other is None else f" and {column.other!r}"
        return f"{len(column.levels)} level{'s' * (len(column.levels) != 1)}{other}{missing}"
    if column.kind == "identifier":
        return "left out" if column.sample == "omit" else "made up anew"
    return ""
