"""Tables and their neighbours, hostile rows, and all that can be seen of how a command ends on one of them."""

from __future__ import annotations

import contextlib
import json
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
from click.testing import CliRunner
from replaying import Tape, recorded

from twinify_lite import cli_progress
from twinify_lite.cli import main

HEADER = "age,cost,sex,seen,ill"
SCHEMA = """
columns.age = {kind = "integer", min = 0, max = 90, nullable = true}
columns.cost = {kind = "number", min = -5, max = 15, nullable = false}
columns.sex = {kind = "category", levels = ["f", "m"], nullable = false}
columns.seen = {kind = "datetime", min = 2020-01-01, max = 2021-12-31, nullable = false}
columns.ill = {kind = "boolean", levels = ["no", "yes"], nullable = false}
"""

#: Cells that no schema covers and few programs like. One hostile row has one of them in every column.
HOSTILE = {
    "nothing": "",
    "spaces": "   ",
    "no number": "nan",
    "endless": "inf",
    "endless below": "-Infinity",
    "large": "1e38",
    "beyond floats": "-1e400",
    "beyond 64 bits": "9" * 40,
    "the end of 64 bits": "-9223372036854775809",
    "tiny": "5e-324",
    "a decimal comma": '"1,5"',
    "a control character": "\x07\x1b[31m",
    "two lines": '"one\ntwo"',
    "quotes": '""""',
    "the first day": "0001-01-01T00:00:00+23:59",
    "the last day": "9999-12-31T23:59:59.999999",
    "no day": "2024-02-30",
    "a long text": "x" * 100_000,
    "letters from right to left": "\u202e\U0010ffff",
    "a formula": "=1+1",
    "a usual code": "-999",
    "N/A": "N/A",
}


def people(rows: int, seed: int = 0) -> list[str]:
    """Lines of a CSV file, without the header."""
    rng = np.random.default_rng(seed)
    days = np.datetime64("2020-01-01") + rng.integers(0, 700, rows)
    columns = (
        rng.integers(0, 90, rows),
        np.round(rng.normal(5, 2, rows), 2),
        rng.choice(["f", "m"], rows),
        days,
        rng.choice(["no", "yes"], rows),
    )
    return [",".join(map(str, cells)) for cells in zip(*columns, strict=True)]


def hostile(name: str) -> str:
    """The line that has this cell in every column."""
    return ",".join([HOSTILE[name]] * (HEADER.count(",") + 1))


def changed(lines: list[str], line: str, relation: str) -> list[str]:
    """The neighbour that has `line` beside the others, or in the place of the last one."""
    return [*lines, line] if relation == "add-remove" else [*lines[:-1], line]


@dataclass(frozen=True)
class End:
    """All that anybody sees of a command: nothing of it is private."""

    code: int
    error: type
    stdout: str
    stderr: str
    files: dict[str, bytes]

    def differs(self, other: End) -> list[str]:
        """What is not the same, in words that are short."""
        found = [
            f"{name}: {getattr(self, name)!r} / {getattr(other, name)!r}"
            for name in ("code", "error", "stdout", "stderr")
            if getattr(self, name) != getattr(other, name)
        ]
        names = sorted({*self.files, *other.files})
        return found + [f"the file {name}" for name in names if self.files.get(name) != other.files.get(name)]

    def public(self, file: str = "data.twin") -> str:
        """What the statement in the twin, or that of a score on stdout, says is public."""
        if file in self.files:
            with zipfile.ZipFile(file) as archive:
                return "; ".join(json.loads(archive.read("statement.json"))["public"])
        return "; ".join(json.loads(self.stdout)["statement"]["public"])


def ended(*command: object, given: Tape | None = None) -> tuple[End, Tape]:
    """Run a command in the current folder, and see how it ends: shown what was released to `given`, if that is there.

    What time does is left out: the clock stands still.
    """
    before = {path: path.read_bytes() for path in Path().iterdir() if path.suffix != ".twin"}
    still = patch.object(cli_progress.time, "monotonic", lambda: 0.0)
    with recorded(given) as tape, still:
        result = CliRunner().invoke(main, [str(word) for word in command])
    after = {path: path.read_bytes() for path in sorted(Path().iterdir())}
    changed = {path.name: data for path, data in after.items() if before.get(path) != data}
    return End(result.exit_code, type(result.exception), result.stdout, result.stderr, changed), tape


def write(lines: list[str], header: str = HEADER, name: str = "data.csv") -> None:
    """Write a table into the current folder."""
    Path(name).write_text("\n".join([header, *lines]) + "\n", encoding="utf-8", newline="")


def remove(*names: str) -> None:
    """Remove files, if they are there."""
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
