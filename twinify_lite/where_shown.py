"""Rows with given values in the columns that a model's `postprocess` makes: no schema knows those, so the rows do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from twinify_lite import cells
from twinify_lite.errors import SchemaError
from twinify_lite.schema import Schema
from twinify_lite.where import ISO, SIGNS, kept_rows, listed, sign_of, text_of, unknown_column

_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True)
class ShownFilter:
    """What the cells of finished rows must be, by columns: compared by the type that the column has there."""

    schema: Schema
    wanted: dict[str, list[str]]
    hint = ""

    @classmethod
    def of(cls, schema: Schema, where: Mapping[str, Any]) -> ShownFilter | None:
        """None if nothing is asked for. Which columns there are shows with the first rows."""
        wanted = {name: [text_of(value) for value in values] for name, values in listed(where).items()}
        return cls(schema, wanted) if wanted else None

    def apply(self, rows: pa.Table) -> pa.Table:
        """The rows that have the wanted values; surrogate identifiers are counted anew."""
        strangers = [name for name in self.wanted if name not in rows.column_names]
        if strangers:
            raise SchemaError.listing([unknown_column(name, rows.column_names) for name in strangers])
        keep = np.ones(rows.num_rows, bool)
        for name, texts in self.wanted.items():
            array = cells.plain(rows.column(name))
            for text in texts:
                keep &= _holds(name, array, text)
        return kept_rows(self.schema, rows, keep)


def _holds(name: str, array: pa.Array, text: str) -> np.ndarray:
    """In which cells."""
    if not text:
        return _flags(pc.is_null(array, nan_is_null=True))
    sign = sign_of(text)
    kind, asked = array.type, text.removeprefix(sign).strip()
    try:
        if pa.types.is_temporal(kind):
            return _compare_times(array, sign, asked)
        if pa.types.is_boolean(kind) and not sign:
            return _flags(pc.equal(array, _TRUTH[asked.lower()]))
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            held = SIGNS.get(sign, np.equal)(array.cast(pa.float64()).to_numpy(zero_copy_only=False), float(asked))
            return held & _flags(array.is_valid())
    except (KeyError, ValueError):
        raise SchemaError(f"Column {name!r} is of type {kind}, and {text!r} is nothing that it can be.") from None
    return _flags(pc.equal(cells.texts(array), text))


def _compare_times(array: pa.Array, sign: str, asked: str) -> np.ndarray:
    if not ISO.match(asked):
        raise ValueError
    moments, moment = pd.to_datetime(array.to_pandas()), pd.Timestamp(asked)
    if moments.dt.tz is not None and moment.tz is None:
        moment = moment.tz_localize(moments.dt.tz)
    held = SIGNS.get(sign, np.equal)(moments, moment)
    return held.to_numpy(bool) & moments.notna().to_numpy()


def _flags(array: pa.Array | pa.ChunkedArray) -> np.ndarray:
    return pc.fill_null(array, False).to_numpy(zero_copy_only=False).astype(bool)
