"""Where a model comes from: a template, a file, or a function; loaded once, and known by its hash.

A file is run as it stands, in a module of its own. It may define
    model(rows)            the model; needed
    guide                  a function guide(rows), or the name of an automatic guide such as "AutoMultivariateNormal"
    start(rows)            initial values of latents, by name, where the automatic ones will not do
    options                defaults of the fit for this model, such as {"learning_rate": 0.01}
    preprocess(frame)      a DataFrame from a DataFrame, row by row, before anything else
    postprocess(frame)     the same, of generated rows
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import os
import textwrap
import traceback
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from twinify_lite.errors import ModelError
from twinify_lite.models.wording import first_lines, in_words

GUIDES = (
    "AutoNormal",
    "AutoDiagonalNormal",
    "AutoLowRankMultivariateNormal",
    "AutoMultivariateNormal",
    "AutoDelta",
    "AutoLaplaceApproximation",
    "AutoIAFNormal",
    "AutoBNAFNormal",
)
DEFAULT_GUIDE = "AutoNormal"
Origin = Literal["template", "file", "function", "lines"]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Source:
    """A model with what belongs to it. `text` is the file; `sha256` is that of the text."""

    name: str
    origin: Origin
    model: Callable[[Any], Any]
    guide: Callable[[Any], Any] | str = DEFAULT_GUIDE
    start: Callable[[Any], dict[str, Any]] | None = None
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    preprocess: Callable[[Any], Any] | None = None
    postprocess: Callable[[Any], Any] | None = None
    text: str = ""
    sha256: str = ""
    path: str = ""

    def locate(self, error: BaseException) -> str:
        """The error in a sentence that names the line of the model file where it arose."""
        what = in_words(error)
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if self.path and f.filename == self.path]
        return f"{self.name}, line {lines[-1]}: {what}" if lines else f"{self.name}: {what}"


def digest(text: str) -> str:
    """The hash by which a model is known, whatever its line ends."""
    return hashlib.sha256(text.replace("\r\n", "\n").encode()).hexdigest()


def from_file(path: str | os.PathLike[str], *, origin: Origin = "file", name: str = "") -> Source:
    """Run a model file and take what it defines, or raise a `ModelError` that names the mistake and its line."""
    path = Path(path)
    name = name or path.name
    return from_text(read(path), name=name, origin=origin, path=str(path.resolve()))


def from_text(text: str, *, name: str, origin: Origin = "file", path: str = "") -> Source:
    """Run the text of a model file: only ever one that the user gave, or trusts by name."""
    path = path or f"<{name}>"
    module = new_module(path)
    try:
        exec(compile(text, path, "exec"), module.__dict__)
    except SyntaxError as error:
        raise ModelError(f"{name}, line {error.lineno}: it is not Python: {error.msg}. Correct that line.") from None
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        where = f", line {lines[-1]}" if lines else ""
        raise ModelError(
            f"{name}{where}: running the file failed: {type(error).__name__}: {first_lines(error)}."
        ) from None
    return _source(module.__dict__, name=name, origin=origin, text=text, sha256=digest(text), path=path)


def new_module(path: str) -> types.ModuleType:
    """An empty module for a model file to be run in, which knows where the file is."""
    module = types.ModuleType("twinify_lite_model")
    module.__file__ = path
    return module


def from_function(model: Callable[..., Any], *, guide: Any = None, start: Any = None) -> Source:
    """A model that is a Python function; only its own lines are known, not what it calls."""
    try:
        text = textwrap.dedent(inspect.getsource(model))
        path = inspect.getsourcefile(model) or ""
    except (OSError, TypeError):
        text, path = "", ""
    parts = {"model": model, "start": start} | ({} if guide is None else {"guide": guide})
    name = getattr(model, "__name__", "model")
    return _source(parts, name=name, origin="function", text=text, sha256=digest(text) if text else "", path=path)


def read(path: Path) -> str:
    """The text of a model file."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ModelError(
            f"There is no model file {path}. Give the path of one, the name of a template (`twin templates`), or make "
            "a file from a template: `twin new NAME --template mixture`."
        ) from None
    except IsADirectoryError:
        raise ModelError(f"{path} is a folder. Give the model file in it: {path / 'model.py'}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path} cannot be read as UTF-8 text: {type(error).__name__}.") from None


_PARTS = ("model", "guide", "start", "options", "preprocess", "postprocess")


def _source(found: dict[str, Any], **known: Any) -> Source:
    parts = {key: found[key] for key in _PARTS if key in found}
    problems = [f"{known['name']}: {problem}" for problem in _problems(parts)]
    if problems:
        raise ModelError("\n".join(problems))
    return Source(**{key: value for key, value in parts.items() if value is not None}, **known)


def _problems(parts: dict[str, Any]) -> Iterator[str]:
    if not callable(parts.get("model")):
        yield "it has no function `model`. Write `def model(rows):` with a site for each column."
    if not isinstance(parts.get("options", {}), Mapping):
        yield '`options` must be a dict of settings of the fit, such as {"learning_rate": 0.01}.'
    for key, argument in _ARGUMENTS.items():
        if callable(parts.get(key)):
            yield from _signature_problems(key, parts[key], argument)
        elif isinstance(parts.get(key), str) and key == "guide":
            if parts[key] not in GUIDES:
                yield f"there is no guide {parts[key]!r}. Use one of {', '.join(GUIDES)}, or write `def guide(rows):`."
        elif key != "model" and parts.get(key) is not None:
            yield f"`{key}` must be a function with one argument, `{argument}`."


_ARGUMENTS = {"model": "rows", "guide": "rows", "start": "rows", "preprocess": "frame", "postprocess": "frame"}


def _signature_problems(key: str, function: Callable, argument: str) -> Iterator[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    takes = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)]
    # An argument that is None unless given is meant to be given, as in models of d3p and twinify; it never is here.
    waiting = [p for p in takes[1:] if p.default is None] if argument == "rows" else []
    if not takes or len(needed) > 1 or waiting:
        given = ", ".join(p.name for p in parameters)
        yield (
            f"`{key}({given})` has the wrong arguments. It is called with one: write `def {key}({argument}):`"
            + (", and take public settings from `rows.option(name, default)`." if argument == "rows" else ".")
        )
