"""Rows with given values: `where={"sex": "female", "age": ">=40"}`, by drawing until enough have them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from twinify_lite.cells import MISSING, VALUE, number_of, parse, plain, rounded, stored, ticks
from twinify_lite.errors import SchemaError
from twinify_lite.schema import Column, Schema
from twinify_lite.schema.words import suggestion
from twinify_lite.table import CsvStyle

SIGNS = {"<=": np.less_equal, ">=": np.greater_equal, "<": np.less, ">": np.greater}
#: Times that nobody reads in two ways.
ISO = re.compile(r"\d{4}(-\d\d(-\d\d([T ].*)?)?)?$")
_SHOWN = 20  # names or levels, above which the rest of them is dots

#: What a cell can be: missing, a level or special word, a number or tick.
Possible = None | str | int | float


@dataclass(frozen=True)
class Condition:
    """A column and the text that it must have; an empty one is a missing cell, `>=40` a comparison of a number or time.

    `sign` is empty where the text itself is asked for. Numbers are compared as numbers, however they are written, and
    special values that are numbers are among them.
    """

    column: Column
    sign: str
    text: str

    @classmethod
    def of(cls, column: Column, value: Any) -> Condition:
        """A special value that looks like a comparison is that value."""
        text = text_of(value)
        sign = sign_of(text) if column.is_ranged and text not in _words(column) else ""
        return cls(column, sign, text.removeprefix(sign).strip() if sign else text)

    def holds(self, cells: pa.ChunkedArray, decimal: str) -> np.ndarray:
        """In which cells."""
        column, found = self.column, parse(self.column, plain(cells), decimal=decimal)
        if not self.text:
            return found.state == MISSING
        if column.is_levelled:
            return (found.state == VALUE) & (found.value == parse(column, pa.array([self.text])).value[0])
        if self.text in _words(column) and not self.sign:
            return found.state == int(parse(column, pa.array([self.text])).state[0])
        number, compare = stored(column, np.array([self._number]))[0], SIGNS.get(self.sign, np.equal)
        held = (found.state == VALUE) & compare(found.value, number)
        for place, special in _special_numbers(column).items():
            if compare(stored(column, np.array([special]))[0], number):
                held |= found.state == place
        return held

    def meets(self, cell: Possible) -> bool:
        """Whether such a cell is what is asked for."""
        if cell is None or not (self.text or self.sign):
            return cell is None and not (self.text or self.sign)
        if isinstance(cell, str):
            return not self.sign and cell == self._level
        number = None if self.column.is_levelled else self._number
        return number is not None and bool(SIGNS.get(self.sign, np.equal)(cell, number))

    def problem(self) -> str:
        """That no row can ever have it, and what the column has instead."""
        name = self.column.name
        if not self.text and not self.sign:
            return f"Column {name!r} is never missing, so no row has an empty value there."
        if self.column.is_levelled:
            only = " Only numbers and times can be compared." if sign_of(self.text) else ""
            return f"Column {name!r} has no level {self.text!r}. Its levels are {some(_levels(self.column))}.{only}"
        why = "" if self._number is not None or not self.text else f", as {self.text!r} is no {self._wanted}"
        return f"{range_of(self.column)}; it never is {self.sign + self.text!r}{why}."

    @property
    def _wanted(self) -> str:
        """What can be compared."""
        is_time = self.column.kind == "datetime"
        return "time as in 2020-12-31, or in the column's own format" if is_time else "number"

    @property
    def _level(self) -> str:
        """The text as the column spells it: yes is a true one."""
        column = self.column
        if column.kind == "boolean" and self.text not in column.levels:
            code, state = (array[0] for array in parse(column, pa.array([self.text])))
            return column.levels[code] if state == VALUE else self.text
        return self.text

    @property
    def _number(self) -> int | float | None:
        """The text as a number or tick; a time may be in the column's format or as ISO has it.

        Whoever writes 03/12/2020 may mean March or December.
        """
        found = number_of(self.column, self.text)
        if found is None and self.column.kind == "datetime" and ISO.match(self.text):
            try:
                moment = pd.Timestamp(self.text)
            except ValueError:
                return None
            return ticks(self.column, moment.to_pydatetime()) if pd.notna(moment) else None
        return found


def range_of(column: Column) -> str:
    """Between what a column of numbers or times lies, and what else it can be."""
    special = f", or is {' or '.join(repr(cell) for cell in column.special)}" if column.special else ""
    return f"Column {column.name!r} lies between {column.min} and {column.max}{special}"


def _levels(column: Column) -> list[str]:
    return [*column.levels, *([] if column.other is None else [column.other])]


def _words(column: Column) -> list[str]:
    """The special values that are no numbers or times."""
    return [str(special) for special in column.special or () if number_of(column, special) is None]


def _special_numbers(column: Column) -> dict[int, int | float]:
    """The special values that are numbers or times, by their state."""
    known = {place: number_of(column, special) for place, special in enumerate(column.special or (), start=1)}
    return {place: number for place, number in known.items() if number is not None}


def _possible(column: Column, conditions: Sequence[Condition]) -> Iterator[Possible]:
    """Cells of the column, and among them one that meets all of `conditions` if any cell does.

    Of the numbers in the range it is enough to try the ends, the numbers asked for, and one between each two.
    """
    if column.nullable:
        yield None
    if column.is_levelled:
        yield from _levels(column)
        return
    yield from _words(column)
    yield from _special_numbers(column).values()
    low, high = (number_of(column, bound) for bound in (column.min, column.max))
    asked = [number for number in (condition._number for condition in conditions) if number is not None]
    points = sorted([low, high, *(number for number in asked if low <= number <= high)])
    between = [(one + other) / 2 for one, other in pairwise(points)]
    yield from (number for number in (_step(column, point) for point in points + between) if low <= number <= high)


def _step(column: Column, number: float) -> float:
    """The nearest number with the column's decimals, or whole tick."""
    return float(rounded(column, np.array([number]))[0]) if column.kind == "number" else round(number)


@dataclass(frozen=True)
class Filter:
    """Conditions, all of which must hold in a row."""

    schema: Schema
    wanted: tuple[Condition, ...]

    @classmethod
    def of(cls, schema: Schema, where: Mapping[str, Any]) -> Filter | None:
        """None if nothing is asked for; what no row can have is refused. A list of values are several conditions."""
        lists = listed(where)
        problems = [problem for name, values in lists.items() for problem in _problems(schema, name, values)]
        if problems:
            raise SchemaError.listing(problems)
        wanted = tuple(Condition.of(schema[name], value) for name, values in lists.items() for value in values)
        return cls(schema, wanted) if wanted else None

    def apply(self, rows: pa.Table) -> pa.Table:
        """The rows that have the wanted values; surrogate identifiers are counted anew."""
        keep, decimal = np.ones(rows.num_rows, bool), (self.schema.style or CsvStyle()).decimal
        for condition in self.wanted:
            keep &= condition.holds(rows.column(condition.column.name), decimal)
        return kept_rows(self.schema, rows, keep)

    @property
    def hint(self) -> str:
        """What the columns asked for can be, for whoever asked for something too rare."""
        ranged = {condition.column.name: condition.column for condition in self.wanted if condition.column.is_ranged}
        return "".join(f" {range_of(column)}." for column in ranged.values())


def kept_rows(schema: Schema, rows: pa.Table, keep: np.ndarray) -> pa.Table:
    """The rows to keep, surrogate identifiers counted as if there were no others."""
    kept = rows.filter(pa.array(keep))
    for column in schema.columns:
        if column.kind == "identifier" and column.sample == "surrogate" and column.name in rows.column_names:
            numbers = rows.column(column.name).slice(0, kept.num_rows)
            kept = kept.set_column(kept.column_names.index(column.name), column.name, numbers)
    return kept


def listed(where: Mapping[str, Any]) -> dict[str, list[Any]]:
    """All values that are asked for, by columns."""
    return {name: list(value) if isinstance(value, list | tuple) else [value] for name, value in where.items()}


def sign_of(text: str) -> str:
    """The comparison that a text begins with, or nothing."""
    return next((sign for sign in SIGNS if text.startswith(sign)), "")


def text_of(value: Any) -> str:
    """What is asked for as a cell is written; empty for a missing one."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def unknown_column(name: str, names: list[str]) -> str:
    """That rows cannot be chosen by this column, and by which they can."""
    return f"There is no column {name!r} to choose rows by, which can be {some(names)}{suggestion(name, names) or '.'}"


def _problems(schema: Schema, name: str, values: list[Any]) -> Iterator[str]:
    if name not in schema or not schema[name].is_modelled:
        yield unknown_column(name, [column.name for column in schema.modelled])
        return
    conditions = [Condition.of(schema[name], value) for value in values]
    possible = list(_possible(schema[name], conditions))
    never = [condition for condition in conditions if not any(map(condition.meets, possible))]
    yield from (condition.problem() for condition in never)
    if not never and not any(all(one.meets(cell) for one in conditions) for cell in possible):
        asked = " and ".join(repr(one.sign + one.text) for one in conditions)
        yield f"No cell of column {name!r} can be {asked} at once. Ask for one of them."


def some(words: list[str]) -> str:
    """The first of them, quoted."""
    return ", ".join([*map(repr, words[:_SHOWN]), *["..."] * (len(words) > _SHOWN)])
