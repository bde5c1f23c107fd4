"""`twin describe` and `twin verify`: what a twin is, and whether its statement is true. Neither runs a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from twinify_lite.cli_base import Failure, json_option, show, show_json, warn_not_private, warn_uncovered
from twinify_lite.cli_fit import short_lines
from twinify_lite.describing import STATED

if TYPE_CHECKING:
    from twinify_lite.schema import Schema
    from twinify_lite.twin import Twin


@click.command()
@click.argument("twin")
@json_option
def describe(twin: str, as_json: bool) -> None:
    """Say what TWIN holds and guarantees."""
    from twinify_lite.errors import ModelError
    from twinify_lite.twin import load

    try:
        loaded = load(twin)
    except ModelError:  # its model is a file that is not here, and is not needed to be described
        loaded = None
    facts = _facts_of_file(twin) if loaded is None else _facts(loaded)
    if as_json and not facts["private"]:  # the page begins with it
        warn_not_private(facts["statement"].get("why_not"))
    if as_json:
        show_json(facts)
    else:
        show(_columns_and_guarantee(facts) if loaded is None else loaded.describe())


def _facts(twin: Twin) -> dict[str, Any]:
    return {**_public(twin.schema, twin.statement), "rows": twin.rows, "notes": list(twin.notes)}


def _facts_of_file(path: str) -> dict[str, Any]:
    from twinify_lite import artifact
    from twinify_lite.schema import Schema

    members = artifact.read_twin(path)
    schema = Schema.from_toml(members["schema.toml"].decode())
    return _public(schema, artifact.json_from_bytes(members["statement.json"], "statement.json"))


def _public(schema: Schema, statement: dict[str, Any]) -> dict[str, Any]:
    return {
        "private": statement["private"] is True,
        "columns": {column.name: column.kind for column in schema.columns},
        "schema": schema.to_toml(),
        "statement": statement,
    }


def _columns_and_guarantee(facts: dict[str, Any]) -> str:
    width = max(map(len, facts["columns"]), default=0)
    columns = [f"  {name:<{width}}  {kind}" for name, kind in facts["columns"].items()]
    stated = [f"{STATED[0].upper()}{STATED[1:]}."] if facts["private"] else []
    head = [*short_lines(facts["statement"]), *stated]
    return "\n".join([*head, "A twin of a model that is not part of the package. Its columns:", *columns])


@click.command()
@click.argument("twin")
@json_option
def verify(twin: str, as_json: bool) -> None:
    """Recompute the privacy of TWIN.

    Every receipt is accounted for again, and it is said by which accountants. A file whose parts do not match its
    manifest, a statement that claims less than was spent, and a twin that is not private are refused: the exit code is
    0 only if the guarantee stands.
    """
    from twinify_lite import artifact
    from twinify_lite.consistency import require_consistent
    from twinify_lite.verification import verify as recompute

    members = artifact.read_twin(twin)
    statement = artifact.json_from_bytes(members["statement.json"], "statement.json")
    result = recompute(statement)
    require_consistent(members)
    warn_uncovered(statement)
    if not result.private:
        warn_not_private(result.why_not)
        raise Failure(f"{twin} guarantees nothing: {result.why_not}.", kind="NotPrivate")
    if as_json:
        show_json({"twin": twin, **result.to_json()})
    else:
        show(str(result))
