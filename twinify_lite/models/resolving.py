"""From what a user says (`--model ...`) to a model family."""

from __future__ import annotations

import os
from typing import Any

from twinify_lite.errors import ModelError
from twinify_lite.models.catalogue import template_path, templates
from twinify_lite.schema import Schema


def resolve(model: Any, schema: Schema | None = None) -> Any:
    """The family that `model` names: an object with `plan` and `fit`.

    `model` is "auto", the name of a template, the path of a .py file, a function of `rows`, a `Declared`; or None,
    which is what the schema's `distribution` lines say, and "auto" if it has none.
    """
    if model is None:
        model = "lines" if schema is not None and has_lines(schema) else "auto"
    if callable(getattr(model, "fit", None)) and callable(getattr(model, "plan", None)):
        return model
    if model == "auto":
        from twinify_lite.auto import Auto

        return Auto()
    from twinify_lite.models.fitting import Declared

    return Declared(source=find_source(model, schema))


def has_lines(schema: Schema) -> bool:
    """Whether any column says its distribution."""
    return any(column.distribution is not None for column in schema.columns)


def find_source(model: Any, schema: Schema | None = None) -> Any:
    """The `Source` of a declared model."""
    from twinify_lite.models import source

    if model == "lines" or (model is None and schema is not None):
        from twinify_lite.models.lines import source_from_lines

        return source_from_lines(schema)
    if isinstance(getattr(model, "source", None), source.Source):
        return model.source
    if callable(model):
        return source.from_function(model)
    if not isinstance(model, str | os.PathLike):
        raise ModelError("A model is the name of a template, the path of a .py file, or a function of `rows`.")
    path = os.fspath(model)
    if path in dict(templates()):
        return source.from_file(template_path(path), origin="template", name=path)
    if path.endswith(".py") or os.sep in path or os.path.exists(path):
        return source.from_file(path)
    template_path(path)
    raise AssertionError("unreachable: an unknown template is refused")
