"""`twin templates`, `twin new` and `twin check`: models to pick, to copy, and to try on made-up rows."""

from __future__ import annotations

from typing import Any

import click

from twinify_lite.cli_base import json_option, look_options, note, settings_option, show, show_json


@click.command()
@json_option
def templates(as_json: bool) -> None:
    """List the models that `--model` knows by name."""
    from twinify_lite import models

    known = dict(models.templates())
    if as_json:
        show_json(known)
        return
    width = max(map(len, known), default=0)
    show("\n".join(f"{name:<{width}}  {line}" for name, line in known.items()))


@click.command()
@click.argument("name")
@click.option("--template", default="mixture", show_default=True, help="The template to copy (`twin templates`).")
@json_option
def new(name: str, template: str, as_json: bool) -> None:
    """Copy a template to the file NAME, to edit it."""
    from twinify_lite import models

    path = str(models.new(name, template))
    if as_json:
        show_json({"file": path, "template": template})
    else:
        note(f"Next: edit {path}, then twin check {path} DATA")


@click.command()
@click.argument("model")
@click.argument("data")
@click.option("--schema", metavar="FILE", help="What is public of the table.")
@settings_option
@json_option
@look_options
def check(
    model: str, data: str, schema: str | None, settings: tuple[tuple[str, Any], ...], as_json: bool, **look: Any
) -> None:
    """Try MODEL on made-up rows. Spends nothing.

    The rows have the columns of the table DATA, of which only names and kinds are used.
    """
    from twinify_lite import models
    from twinify_lite.schema import Schema
    from twinify_lite.schema.draft import fill
    from twinify_lite.table import read_table

    declared = None if schema is None else Schema.load(schema)
    report = models.check_model(model, fill(declared, read_table(data, **look)), options=dict(settings)).require()
    if as_json:
        show_json({"model": model, "columns": dict(report.columns), "latents": dict(report.latents)})
    else:
        show(str(report))
        note(f"Next: twin fit {data} --epsilon E --model {model}")
