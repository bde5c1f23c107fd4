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
_UNIT = b"twinify_lite.unit"
_UNITS = ("day", "s", "ms", "us")


def with_style(table: pa.Table, style: CsvStyle | None) -> pa.Table:
    """`table` with a note of its style, and without any others about the table as a whole."""
    return table.replace_schema_metadata(None if style is None else {_STYLE: json.dumps(dataclasses.asdict(style))})


def with_decimals(table: pa.Table, decimals: Mapping[str, int]) -> pa.Table:
    """`table` with notes of how many decimals its numbers have, by column."""
    return _noted(table, {name: {_DECIMALS: str(number)} for name, number in decimals.items()})


def with_units(table: pa.Table, units: Mapping[str, str]) -> pa.Table:
    """`table` with notes of how fine its times are, by column: in "day", "s", "ms" or "us"."""
    return _noted(table, {name: {_UNIT: unit} for name, unit in units.items()})


def _noted(table: pa.Table, notes: Mapping[str, Mapping[bytes, str]]) -> pa.Table:
    fields = [field.with_metadata(notes[field.name]) if field.name in notes else field for field in table.schema]
    return pa.Table.from_arrays(table.columns, schema=pa.schema(fields, table.schema.metadata))


def without_notes(schema: pa.Schema) -> pa.Schema:
    """`schema` without these notes, and without any others about the table as a whole."""
    others = ({key: note for key, note in (f.metadata or {}).items() if key not in (_DECIMALS, _UNIT)} for f in schema)
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


def units_of(schema: pa.Schema) -> dict[str, pa.DataType]:
    """The types of the units that `with_units` noted of columns that hold times; a day with a zone is a time still."""
    times = {field.name: field for field in schema if pa.types.is_timestamp(field.type)}
    noted = {name: (field.metadata or {}).get(_UNIT, b"").decode(errors="replace") for name, field in times.items()}
    return {name: _type(unit, times[name].type.tz) for name, unit in noted.items() if unit in _UNITS}


def _type(unit: str, zone: str | None) -> pa.DataType:
    if unit == "day" and zone is None:
        return pa.date32()
    return pa.timestamp("s" if unit == "day" else unit, zone)
