"""The models that a user picks by name, and copies to edit: the folders of `templates/`."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from twinify_lite.errors import ModelError
from twinify_lite.schema.words import suggestion

_PACKAGE = Path(__file__).resolve().parent.parent
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*", re.ASCII)


def folder() -> Path:
    """Where the templates are: inside the installed package, or beside it in a clone of the repository."""
    installed = _PACKAGE / "templates"
    return installed if installed.is_dir() else _PACKAGE.parent / "templates"


def templates() -> list[tuple[str, str]]:
    """The templates by name, each with the first sentence of its README."""
    found = sorted(path for path in folder().iterdir() if (path / "README.md").is_file()) if folder().is_dir() else []
    return [(path.name, _line(path / "README.md")) for path in found]


def template_path(name: str) -> Path:
    """The model file of a template, or a `ModelError` that lists the names."""
    names = [found for found, _ in templates()]
    path = folder() / name / "model.py"
    if name not in names or not path.is_file():
        hint = suggestion(name, names) or f". The templates are {', '.join(names)}; a file ends in .py."
        raise ModelError(f"There is no template {name!r}{hint}")
    return path


def new(name: str, template: str, directory: str | Path = ".") -> Path:
    """Copy a template to `directory`/`name`.py for editing, and return that path. Nothing is overwritten."""
    stem = name.removesuffix(".py")
    if not _NAME.fullmatch(stem):
        raise ModelError(f"{name!r} is no name for a model file. Use letters, digits, - and _, as in `my_model`.")
    source, target = template_path(template), Path(directory) / f"{stem}.py"
    if target.exists():
        raise ModelError(f"{target} exists already. Choose another name, or delete it first.")
    if not target.parent.is_dir():
        raise ModelError(f"There is no folder {target.parent}. Make it first.")
    shutil.copyfile(source, target)
    return target


def _line(readme: Path) -> str:
    """The first line of text below the title."""
    lines = readme.read_text(encoding="utf-8").splitlines()
    return next((line.strip() for line in lines if line.strip() and not line.startswith("#")), "")
