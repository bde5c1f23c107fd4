"""Rows with given values: `where={"sex": "female"}`, by drawing until enough have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from twinify_lite.cells import number_of
from twinify_lite.errors import SchemaError
from twinify_lite.schema import Column, Schema


@dataclass(frozen=True)
class Filter:
    """Columns and the text that each must have; an empty text is a missing cell."""

    schema: Schema
    wanted: Mapping[str, str]

    @classmethod
    def of(cls, schema: Schema, where: Mapping[str, Any]) -> Filter | None:
        """None if nothing is asked for; unknown columns and levels are refused."""
        problems = [problem for name, value in where.items() for problem in _problems(schema, name, _text(value))]
        if problems:
            raise SchemaError.listing(problems)
        return cls(schema, {name: _text(value) for name, value in where.items()}) if where else None

    def apply(self, rows: pa.Table, *, first: int) -> pa.Table:
        """The rows that have the wanted values; surrogate identifiers are counted anew from `first`."""
        keep = np.ones(rows.num_rows, bool)
        for name, text in self.wanted.items():
            keep &= _matches(rows.column(name), text)
        kept = rows.filter(pa.array(keep))
        for column in self.schema.columns:
            if column.kind == "identifier" and column.sample == "surrogate":
                numbers = rows.column(column.name).slice(0, kept.num_rows)
                kept = kept.set_column(kept.column_names.index(column.name), column.name, numbers)
        return kept


def _text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _matches(column: pa.ChunkedArray, text: str) -> np.ndarray:
    if text == "":
        return column.is_null().to_numpy()
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
        return pc.fill_null(pc.equal(column.cast(pa.float64()), float(text)), False).to_numpy()
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        moment = pa.scalar(pd.Timestamp(text).to_pydatetime(), pa.timestamp("us", getattr(column.type, "tz", None)))
        return pc.fill_null(pc.equal(column, moment.cast(column.type)), False).to_numpy()
    return pc.fill_null(pc.equal(column.cast(pa.string()), text), False).to_numpy()


def _problems(schema: Schema, name: str, text: str):
    if name not in schema or not schema[name].is_modelled:
        yield f"There is no modelled column {name!r} to choose rows by. The columns are {', '.join(map(repr, schema))}."
        return
    column = schema[name]
    if text == "" and not column.nullable:
        yield f"Column {name!r} is never missing, so no row has an empty value there."
    elif text and column.is_levelled and text not in (*column.levels, column.other):
        levels = ", ".join([*map(repr, column.levels[:20]), *["..."] * (len(column.levels) > 20)])
        yield f"Column {name!r} has no level {text!r}. Its levels are {levels}."
    elif text and column.is_ranged and not _is_possible(column, text):
        yield f"Column {name!r} lies between {column.min} and {column.max}; it never is {text!r}."


def _is_possible(column: Column, text: str) -> bool:
    """Whether a number or time can be this text: a special value, or one inside the range."""
    if text in map(str, column.special or ()):
        return True
    try:
        if column.kind == "datetime":
            return pd.notna(pd.Timestamp(text))
        return number_of(column, column.min) <= float(text) <= number_of(column, column.max)
    except (ValueError, TypeError):
        return column.kind == "datetime" and column.format is not None  # a text in the column's own format
