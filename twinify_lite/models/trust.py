"""Whose code a saved twin may run: that of the user or of this package, and only the one it was fitted with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from twinify_lite.errors import ModelError
from twinify_lite.models import source as sources
from twinify_lite.models.catalogue import template_path, templates
from twinify_lite.models.source import Source
from twinify_lite.schema import Schema


def source_of(
    model: Mapping[str, Any],
    texts: Mapping[str, str],
    schema: Schema,
    *,
    model_file: Any = None,
    trust_model: bool = False,
) -> Source:
    """The model that a saved fit names, from where it may be taken; `ModelError` if it may be taken from nowhere."""
    name, origin, sha256 = str(model["name"]), model["origin"], model["sha256"]
    if origin == "lines":
        from twinify_lite.models.lines import source_from_lines

        return source_from_lines(schema)
    if model_file is not None:
        return _given(model_file, sha256, name)
    if origin == "template" and name in dict(templates()):
        installed = sources.from_file(template_path(name), origin="template", name=name)
        if installed.sha256 == sha256:
            return installed
    text = texts.get("model.py", "")
    if trust_model and text and origin != "function":
        if sources.digest(text) != sha256:
            raise ModelError("The model inside the twin is not the one it was fitted with. Do not trust this file.")
        return sources.from_text(text, name=name, origin=origin)
    raise ModelError(_refusal(name, origin, bool(text)))


def _given(model_file: Any, sha256: str, name: str) -> Source:
    """The model that the user gives, once its hash is known to be right: before that, nothing of it is run."""
    if callable(model_file):
        source = sources.from_function(model_file)
        _refuse_other(source.sha256, sha256, source.name, name)
        return source
    path = Path(model_file)
    text = sources.read(path)  # once: what is run is what was compared, also where the file is changed meanwhile
    _refuse_other(sources.digest(text), sha256, path.name, name)
    return sources.from_text(text, name=path.name, path=str(path.resolve()))


def _refuse_other(given: str, sha256: str, given_name: str, name: str) -> None:
    if sha256 and given != sha256:
        raise ModelError(
            f"{given_name} is not the model that this twin was fitted with ({name}): its hash differs. Give the very "
            "same file."
        )


def _refusal(name: str, origin: str, has_text: bool) -> str:
    if origin == "function":
        return (
            f"This twin was fitted with a function of Python, `{name}`, and a twin holds no code that is run. Load it "
            "with that function: load(path, model=...)."
        )
    trust = " Or, if you trust whoever made the twin, run the copy in it: --trust-model (trust_model=True)." * has_text
    changed = f"The template {name!r} of this version is not the one" if origin == "template" else f"Its model, {name},"
    what = (
        f"{changed} that the twin was fitted with."
        if origin == "template"
        else f"{changed} is not part of the package."
    )
    return (
        f"Code inside a twin is never run. {what} Give the model file that it was fitted with: --model FILE "
        f"(model=...).{trust}"
    )
