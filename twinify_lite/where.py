"""Rows with given values: `where={"sex": "female", "age": ">=40"}`, by drawing until enough have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from twinify_lite.cells import MISSING, VALUE, number_of, parse, plain, rounded, stored, ticks
from twinify_lite.errors import SchemaError
from twinify_lite.schema import Column, Schema
from twinify_lite.schema.words import suggestion
from twinify_lite.table import CsvStyle

_SIGNS = {"<=": np.less_equal, ">=": np.greater_equal, "<": np.less, ">": np.greater}
_SHOWN = 20  # names or levels, above which the rest of them is dots


@dataclass(frozen=True)
class Condition:
    """A column and the text that it must have; an empty one is a missing cell, `>=40` a comparison of a number or time.

    `sign` is empty where the text itself is asked for.
    """

    column: Column
    sign: str
    text: str

    @classmethod
    def of(cls, column: Column, value: Any) -> Condition:
        """A special value that looks like a comparison is that value."""
        text = _text(value)
        is_comparison = column.is_ranged and text not in map(str, column.special or ())
        sign = next((sign for sign in _SIGNS if is_comparison and text.startswith(sign)), "")
        return cls(column, sign, text.removeprefix(sign).strip() if sign else text)

    def holds(self, cells: pa.ChunkedArray, decimal: str) -> np.ndarray:
        """In which cells."""
        column, found = self.column, parse(self.column, plain(cells), decimal=decimal)
        if not self.text:
            return found.state == MISSING
        if self._state != VALUE:
            return found.state == self._state
        if column.is_levelled:
            return (found.state == VALUE) & (found.value == parse(column, pa.array([self.text])).value[0])
        compare = _SIGNS.get(self.sign, np.equal)
        return (found.state == VALUE) & compare(found.value, stored(column, np.array([self._number]))[0])

    def problem(self) -> str | None:
        """Why no row can ever have it."""
        column, name = self.column, self.column.name
        if not self.text and not self.sign:
            return None if column.nullable else f"Column {name!r} is never missing, so no row has an empty value there."
        if column.is_levelled:
            levels = [*column.levels, *([] if column.other is None else [column.other])]
            known = self.text in levels or (column.kind == "boolean" and self._state == VALUE)
            return None if known else f"Column {name!r} has no level {self.text!r}. Its levels are {_some(levels)}."
        if self._is_possible():
            return None
        return f"Column {name!r} lies between {column.min} and {column.max}; it never is {self.sign + self.text!r}."

    @property
    def _state(self) -> int:
        """Of the text as a cell: a value, or a special one."""
        if self.column.is_ranged and self._number is not None and self.text not in map(str, self.column.special or ()):
            return VALUE
        return int(parse(self.column, pa.array([self.text])).state[0])

    @property
    def _number(self) -> int | float | None:
        """The text as a number or tick; a time may be in the column's format or as ISO has it."""
        found = number_of(self.column, self.text)
        if found is None and self.column.kind == "datetime":
            try:
                moment = pd.Timestamp(self.text)
            except ValueError:
                return None
            return ticks(self.column, moment.to_pydatetime()) if pd.notna(moment) else None
        return found

    def _is_possible(self) -> bool:
        """Whether a number or time can be so: a special value, or one inside the range."""
        if not self.sign and self.text in map(str, self.column.special or ()):
            return True
        number, low, high = (
            self._number,
            *(number_of(self.column, bound) for bound in (self.column.min, self.column.max)),
        )
        if number is None:
            return False
        if self.sign:
            return bool(_SIGNS[self.sign](low if "<" in self.sign else high, number))
        step = number if self.column.kind == "datetime" else _step(self.column, number)
        return low <= number <= high and number == step


def _step(column: Column, number: float) -> float:
    """The nearest number with the column's decimals."""
    return round(number) if column.kind == "integer" else float(rounded(column, np.array([number]))[0])


@dataclass(frozen=True)
class Filter:
    """Conditions, all of which must hold in a row."""

    schema: Schema
    wanted: tuple[Condition, ...]

    @classmethod
    def of(cls, schema: Schema, where: Mapping[str, Any]) -> Filter | None:
        """None if nothing is asked for; what no row can have is refused. A list of values are several conditions."""
        lists = {name: value if isinstance(value, list | tuple) else [value] for name, value in where.items()}
        problems = [problem for name, values in lists.items() for problem in _problems(schema, name, values)]
        if problems:
            raise SchemaError.listing(problems)
        wanted = tuple(Condition.of(schema[name], value) for name, values in lists.items() for value in values)
        return cls(schema, wanted) if wanted else None

    def apply(self, rows: pa.Table, *, first: int) -> pa.Table:
        """The rows that have the wanted values; surrogate identifiers are counted anew from `first`."""
        keep, decimal = np.ones(rows.num_rows, bool), (self.schema.style or CsvStyle()).decimal
        for condition in self.wanted:
            keep &= condition.holds(rows.column(condition.column.name), decimal)
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


def _problems(schema: Schema, name: str, values: list[Any]) -> Iterator[str]:
    if name not in schema or not schema[name].is_modelled:
        names = [column.name for column in schema.modelled]
        hint = suggestion(name, names) or "."
        yield f"There is no column {name!r} to choose rows by, which can be {_some(names)}{hint}"
        return
    yield from filter(None, (Condition.of(schema[name], value).problem() for value in values))


def _some(words: list[str]) -> str:
    return ", ".join([*map(repr, words[:_SHOWN]), *["..."] * (len(words) > _SHOWN)])
