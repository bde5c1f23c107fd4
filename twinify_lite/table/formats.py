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
#: Formats of other programs, told by their extensions.
OTHERS = {
    ".sav": "an SPSS file",
    ".dta": "a Stata file",
    ".sas7bdat": "a SAS file",
    ".json": "a JSON file",
    ".jsonl": "a JSON file",
    ".xls": "an Excel file",
    ".xlsx": "an Excel file",
    ".ods": "an OpenDocument spreadsheet",
    ".rds": "an R file",
    ".rdata": "an R file",
    ".zip": "a zip archive",
    ".toml": "a TOML file, such as a schema",
    ".py": "a Python file, such as a model",
}
#: First bytes, and what they say. A text file could begin with PAR1, but not go on with a control character.
_MAGIC = {
    re.compile(rb"PK\x03\x04.{26}manifest\.json", re.DOTALL): "twin",
    re.compile(rb"PAR[1E][\0-\x08\x0e-\x1f]"): "parquet",
    re.compile(rb"ARROW1\0"): "feather",
    re.compile(rb"PK\x03\x04|\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"): "excel",
}


def source_format(name: str, first: bytes, format: str | None) -> str:
    """The format of a file to read: what the user says, else its name, else its `first` bytes, else CSV."""
    _check_format(format)
    extension, _ = _extension(name)
    if format is None and extension in OTHERS:
        raise TableError(
            f"{name} is by its name {OTHERS[extension]}. Export it as CSV or Parquet, or name its format, if it is "
            'another: --format csv (`format="csv"`).'
        )
    if not first:
        raise TableError(f"{name} is empty. Give a file with a header and at least one row.")
    found = next((kind for magic, kind in _MAGIC.items() if magic.match(first)), None)
    if found == "twin":
        raise TableError(f"{name} is {_twin(name)}")
    if found == "excel":
        raise TableError(f"{name} is an Excel or zip file, perhaps with a password. Save the sheet as CSV in UTF-8.")
    wanted = format or EXTENSIONS.get(extension)
    if wanted in ("csv", "tsv") and found:
        raise TableError(f'{name} is not text but {found}. Say so: --format {found} (`format="{found}"`).')
    return wanted or found or "csv"


def _twin(name: str) -> str:
    if name.endswith(".checkpoint"):
        return "the checkpoint of a fit, not a table. Give the table of that fit: `twin fit` says how to continue."
    return f"a twin, not a table. For rows: twin sample {name}. To fit again, give the table that it was made from."


def looks_like_table(name: str, first: bytes) -> bool:
    """Whether its name or its `first` bytes say that a file is a table."""
    by_bytes = any(kind in FORMATS for magic, kind in _MAGIC.items() if magic.match(first))
    return by_bytes or _extension(name)[0] in EXTENSIONS


def target_format(name: str, format: str | None) -> tuple[str, bool]:
    """The format of a file to write, and whether to pack it with gzip."""
    _check_format(format)
    extension, packed = _extension(name)
    kind = format or EXTENSIONS.get(extension) or ("csv" if name == "stdout" else None)
    if kind is None:
        known = ", ".join(EXTENSIONS)
        raise TableError(f"The extension of {name} is none of {known}. Name the format: --format csv.")
    if packed and kind not in ("csv", "tsv"):
        raise TableError(f"{name}: a {kind} file is compressed already. Leave out the .gz.")
    return kind, packed


def _extension(name: str) -> tuple[str, bool]:
    """The extension of a file's name in small letters, and whether it is packed, which is no extension."""
    name = name.lower()
    return os.path.splitext(name.removesuffix(".gz"))[1], name.endswith(".gz")


def _check_format(format: str | None) -> None:
    if format is not None and format not in FORMATS:
        raise TableError(f'The format must be one of {", ".join(FORMATS)}: --format csv (`format="csv"`).')
