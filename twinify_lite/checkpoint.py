"""What an interrupted fit needs to go on: values from after the noise, what was paid for, and no key.

The file has the form of a twin. It continues one fit, and `twin.fit` locks it meanwhile (`locking`, which says where
there are no locks). Whoever continues two copies of it and shows both results has run the same steps twice, and pays
twice.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from twinify_lite import artifact
from twinify_lite.errors import ArtifactError
from twinify_lite.schema import Schema


class Checkpoint:
    """A file that is written again, whole, whenever something was released; without a path, it only remembers."""

    def __init__(self, path: str | os.PathLike[str] | None):
        self._path = path
        self.facts: dict[str, Any] = {}
        self.statement: dict[str, Any] = {}
        self.schema: Schema | None = None
        self._arrays: dict[str, np.ndarray] = {}

    def begin(self, *, facts: Mapping[str, Any], statement: Mapping[str, Any]) -> None:
        """All is paid for, and nothing of it was run yet."""
        self.facts, self.statement = dict(facts), dict(statement)
        self._write()

    def keep_schema(self, schema: Schema, notes: tuple[str, ...]) -> None:
        """Discovery is done."""
        self.schema = schema
        self.facts["notes"] = list(notes)
        self._write()

    def load(self) -> dict[str, np.ndarray] | None:
        """The model's own values that were saved last, None at the start."""
        return dict(self._arrays) or None

    def save(self, values: Mapping[str, np.ndarray]) -> None:
        """Keep `values` of the model in place of those before."""
        self._arrays = dict(values)
        self._write()

    def discard(self) -> None:
        """Nothing can come of this fit: leave no file that promises to."""
        if self._path is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._path)

    def _write(self) -> None:
        if self._path is None:
            return
        members = {
            "twin.json": artifact.json_bytes({"checkpoint": True, "found": self.schema is not None}),
            "schema.toml": b"" if self.schema is None else self.schema.to_toml().encode(),
            "statement.json": artifact.json_bytes(self.statement),
            "fitted.json": artifact.json_bytes(self.facts),
        }
        members |= {f"arrays/{name}.npy": artifact.array_bytes(array, name) for name, array in self._arrays.items()}
        artifact.write(self._path, members)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Checkpoint:
        """The checkpoint that was written last."""
        members = artifact.read(path)
        kind = artifact.json_from_bytes(members["twin.json"], "twin.json")
        if not (isinstance(kind, dict) and kind.get("checkpoint") is True):
            raise ArtifactError(f"{os.fspath(path)} is not a checkpoint of a fit. Start the fit without resuming.")
        found = cls(path)
        found.facts = artifact.json_from_bytes(members["fitted.json"], "fitted.json")
        found.statement = artifact.json_from_bytes(members["statement.json"], "statement.json")
        found.schema = Schema.from_toml(members["schema.toml"].decode()) if kind.get("found") else None
        prefix = "arrays/"
        found._arrays = {
            name.removeprefix(prefix).removesuffix(".npy"): artifact.array_from_bytes(data, name)
            for name, data in members.items()
            if name.startswith(prefix)
        }
        return found
