"""Notes beside the columns of an Arrow table: what it looks like as a CSV file. No other format carries them on."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Mapping

import pyarrow as pa

from twinify_lite.errors import TableError
from twinify_lite.table.csv_style import CsvStyle

_STYLE = b"twinify_lite.csv"
_DECIMALS = b"twinify_lite.decimals"


def with_style(table: pa.Table, style: CsvStyle | None) -> pa.Table:
    """`table` with a note of its style, and without any others about the table as a whole."""
    return table.replace_schema_metadata(None if style is None else {_STYLE: json.dumps(dataclasses.asdict(style))})


def with_decimals(table: pa.Table, decimals: Mapping[str, int]) -> pa.Table:
    """`table` with notes of how many decimals its numbers have, by column."""
    fields = [
        field.with_metadata({_DECIMALS: str(decimals[field.name])}) if field.name in decimals else field
        for field in table.schema
    ]
    return pa.Table.from_arrays(table.columns, schema=pa.schema(fields, table.schema.metadata))


def without_notes(schema: pa.Schema) -> pa.Schema:
    """`schema` without these notes, and without any others about the table as a whole."""
    others = ({key: note for key, note in (f.metadata or {}).items() if key != _DECIMALS} for f in schema)
    return pa.schema(f.with_metadata(kept or None) for f, kept in zip(schema, others, strict=True))


def style_of(schema: pa.Schema) -> CsvStyle | None:
    """The style that `with_style` noted; None if there is none that can be read."""
    with contextlib.suppress(KeyError, TypeError, ValueError, TableError):
        return CsvStyle(**json.loads((schema.metadata or {})[_STYLE]))
    return None


def decimals_of(schema: pa.Schema) -> dict[str, int]:
    """The decimals that `with_decimals` noted of columns that hold floating point numbers."""
    noted = {f.name: (f.metadata or {}).get(_DECIMALS, b"") for f in schema if pa.types.is_floating(f.type)}
    return {name: int(note) for name, note in noted.items() if note.isdigit() and int(note) <= 15}
