"""`twin templates`, `twin new` and `twin check`: models to pick, to copy, and to try on made-up rows."""

from __future__ import annotations

import json
import shlex
from typing import Any

import click
from click.core import ParameterSource

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

    The rows have the columns of the table DATA, or those that MODEL's `preprocess` makes of them. Only names and kinds
    are used.
    """
    from twinify_lite import models
    from twinify_lite.schema import Schema
    from twinify_lite.table import read_table

    declared = None if schema is None else Schema.load(schema)
    report = models.check_on(model, read_table(data, **look), declared, options=dict(settings)).require()
    if as_json:
        columns = {name: site._asdict() for name, site in report.columns.items()}
        show_json({"model": model, "columns": columns, "latents": dict(report.latents)})
    else:
        show(str(report))
        names = f"{shlex.quote(data)} --epsilon E --model {shlex.quote(model)}"
        note(" ".join([f"Next: twin fit {names}", *_flags()]))


def _flags() -> list[str]:
    """The options that this command was given, as they are given to another."""
    context = click.get_current_context()
    given = [
        (param, context.params[param.name])
        for param in context.command.params
        if isinstance(param, click.Option) and context.get_parameter_source(param.name) is ParameterSource.COMMANDLINE
    ]
    return [f"{param.opts[0]} {shlex.quote(text)}" for param, value in given for text in _texts(value)]


def _texts(value: Any) -> list[str]:
    """The value of an option in the words of the command line; several of a setting."""
    if not isinstance(value, tuple):
        return [str(value)]
    return [f"{name}={one if isinstance(one, str) else json.dumps(one)}" for name, one in value]
