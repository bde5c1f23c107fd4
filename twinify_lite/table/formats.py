"""The formats of files: which one a name, the first bytes or the user tells."""

from __future__ import annotations

import os
import re
from typing import Literal

from twinify_lite.errors import TableError

Format = Literal["csv", "tsv", "parquet", "feather"]
FORMATS: tuple[str, ...] = ("csv", "tsv", "parquet", "feather")
EXTENSIONS: dict[str, Format] = {
    ".csv": "csv",
    ".txt": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
}
#: First bytes, and what they say. A text file could begin with PAR1, but not go on with a control character.
_MAGIC = {
    re.compile(rb"PAR[1E][\0-\x08\x0e-\x1f]"): "parquet",
    re.compile(rb"ARROW1\0"): "feather",
    re.compile(rb"PK\x03\x04|\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"): "excel",
}


def source_format(name: str, first: bytes, format: str | None) -> str:
    """The format of a file to read: what the user says, else its name, else its `first` bytes, else CSV."""
    _check_format(format)
    if not first:
        raise TableError(f"{name} is empty. Give a file with a header and at least one row.")
    found = next((kind for magic, kind in _MAGIC.items() if magic.match(first)), None)
    if found == "excel":
        raise TableError(f"{name} is an Excel or zip file, perhaps with a password. Save the sheet as CSV in UTF-8.")
    named, _ = _extension(name)
    wanted = format or named
    if wanted in ("csv", "tsv") and found:
        raise TableError(f'{name} is not text but {found}. Say so: --format {found} (`format="{found}"`).')
    return wanted or found or "csv"


def target_format(name: str, format: str | None) -> tuple[str, bool]:
    """The format of a file to write, and whether to pack it with gzip."""
    _check_format(format)
    named, packed = _extension(name)
    kind = format or named or ("csv" if name == "stdout" else None)
    if kind is None:
        known = ", ".join(EXTENSIONS)
        raise TableError(f"The extension of {name} is none of {known}. Name the format: --format csv.")
    if packed and kind not in ("csv", "tsv"):
        raise TableError(f"{name}: a {kind} file is compressed already. Leave out the .gz.")
    return kind, packed


def _extension(name: str) -> tuple[Format | None, bool]:
    """The format that a file's name tells, and whether it is packed."""
    name = name.lower()
    return EXTENSIONS.get(os.path.splitext(name.removesuffix(".gz"))[1]), name.endswith(".gz")


def _check_format(format: str | None) -> None:
    if format is not None and format not in FORMATS:
        raise TableError(f'The format must be one of {", ".join(FORMATS)}: --format csv (`format="csv"`).')
