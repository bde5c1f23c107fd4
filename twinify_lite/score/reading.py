"""The tables of a score, read as the same columns: numbers and times as numbers, levels as codes of one list."""

from __future__ import annotations

import collections
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from twinify_lite import cells
from twinify_lite.cells import MISSING, VALUE, Cells
from twinify_lite.cells.moments import moment
from twinify_lite.errors import TableError
from twinify_lite.schema import Column, Schema
from twinify_lite.schema.draft import fill
from twinify_lite.table import PrivateTable

REAL, SYNTHETIC, HELDOUT = "real", "synthetic", "held-out"
#: Rows below which no figure says anything.
FEWEST = 20
# Cells that say nothing in a column of levels, and in one of another kind.
_BLANK, _NOTHING = "", {"", "na", "n/a", "nan", "null", "none", "inf", "infinity"}
# Whole numbers and truths that another tool wrote otherwise; beyond the last not every whole number is a float.
_WHOLE, _TRUTHS, _EXACT = re.compile(r"([-+]?\d+)\.0+"), {"True": "true", "False": "false"}, 2**53
# Of the cells that are there, so many must be of the column's kind.
_READABLE = 0.5
# So many different texts among the cells, and a column is one of names or keys.
_OWN = 0.9
# Digits of a number; so many of them are words.
_DIGITS, _LONG = re.compile(r"\d+", re.ASCII), 30
# The level of all cells that have none of the levels that count.
_STRANGE = "any other"


class Shared(NamedTuple):
    """A column that all tables have, with the levels that occur in any of them, or in those that are judged."""

    column: Column
    levels: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the column."""
        return self.column.name

    @property
    def is_ranged(self) -> bool:
        """Whether it holds numbers or times."""
        return self.column.is_ranged

    @property
    def specials(self) -> tuple[str, ...]:
        """Its declared values beside the numbers."""
        return tuple(map(str, self.column.special or ())) if self.is_ranged else ()

    def text(self, value: float) -> str:
        """A number or time as people write it."""
        if self.column.kind == "datetime":
            try:
                return str(moment(self.column, int(value)))
            except (OverflowError, ValueError):
                return "beyond all dates"
        is_plain = abs(value) < 1e15 and (value == round(value) or abs(value) >= 1000)
        return f"{value:.0f}" if is_plain else f"{value:.4g}"


class Keys(NamedTuple):
    """A column of texts that hardly ever repeat: its cells in every table, as codes of one list."""

    column: Column
    texts: tuple[str, ...]
    cells: Mapping[str, Cells]

    def copied(self) -> float:
        """Which share of the synthetic cells occurs among the real ones."""
        return _shared(self._codes(SYNTHETIC), self._codes(REAL))

    def chance(self) -> float:
        """Which share that would be of others of the same kind: as of held-out cells, or of numbers drawn anew."""
        real = self._codes(REAL)
        if HELDOUT in self.cells:
            like = _shared(self._codes(HELDOUT), real)
        else:
            like = min(2 * _shared(real[::2], real[1::2]), 1.0)
        return max(like, _density([self.texts[code] for code in np.unique(real)]))

    def _codes(self, table: str) -> np.ndarray:
        cells = self.cells[table]
        return cells.value[cells.state == VALUE]


def _shared(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.isin(one, other).mean()) if len(one) else 0.0


def _density(texts: Sequence[str]) -> float:
    """Of numbers in one pattern, such as P000123, which share of those between the least and the greatest is there."""
    found = collections.defaultdict(list)
    for text in texts:
        digits = "".join(_DIGITS.findall(text))
        if 0 < len(digits) < _LONG:
            found[_DIGITS.sub("0", text)].append(int(digits))
    numbers = max(found.values(), key=len, default=[])
    if len(numbers) < _OWN * len(texts):
        return 0.0
    return min(len(numbers) / (max(numbers) - min(numbers) + 1), 1.0)


@dataclass(frozen=True, eq=False)
class LeftOut:
    """The columns that are not compared: those that some tables lack, and which; identifiers and the like; keys."""

    lacked: Mapping[str, tuple[str, ...]]
    unmodelled: tuple[str, ...]
    keys: Mapping[str, Keys]

    @property
    def names(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.lacked, *self.unmodelled, *self.keys)


@dataclass(frozen=True, eq=False)
class Sheet:
    """One table: the cells of every shared column. Levels are codes, numbers and times are float64."""

    columns: tuple[Shared, ...]
    cells: Mapping[str, Cells]
    rows: int

    def take(self, rows: np.ndarray) -> Sheet:
        """The rows of these numbers, in this order."""
        taken = {name: Cells(one.value[rows], one.state[rows]) for name, one in self.cells.items()}
        return Sheet(self.columns, taken, len(rows))

    def independent(self, rng: np.random.Generator, rows: int) -> Sheet:
        """So many rows, in which every cell is drawn by itself: nothing depends on anything."""
        drawn = {}
        for name, one in self.cells.items():
            of = rng.integers(0, self.rows, rows)
            drawn[name] = Cells(one.value[of], one.state[of])
        return Sheet(self.columns, drawn, rows)

    def number(self, name: str) -> np.ndarray:
        """A column as floats, NaN where a cell is missing or special."""
        one = self.cells[name]
        return np.where(one.state == VALUE, one.value, np.nan)

    def is_missing(self, name: str) -> np.ndarray:
        """Which cells of a column are missing."""
        return self.cells[name].state == MISSING


def read_sheets(
    tables: Mapping[str, PrivateTable], declared: Schema | None, *, by: str = REAL, judged: Container[str] | None = None
) -> tuple[dict[str, Sheet], LeftOut]:
    """Every table as the columns that all of them have, by the kinds of the one called `by`; and what is left out.

    Tables that are `judged` (all, if None) are refused where they have too few rows or cells of another kind. Of the
    others nothing decides whether they are refused, nor which columns and levels there are: a level that only they have
    is any other.
    """
    rows = {name: table.reveal() for name, table in tables.items()}
    judged = rows if judged is None else judged
    refuse(_row_problems({name: table for name, table in rows.items() if name in judged}))
    schema = fill(declared, tables[by])
    common = [column for column in schema.modelled if all(column.name in table.column_names for table in rows.values())]
    if not common:
        raise TableError("The tables have no column in common that could be compared. Compare tables of one kind.")
    decimals = {name: table.style.decimal if table.style else "." for name, table in tables.items()}
    known = set() if declared is None else set(declared)
    columns, read, keys = [], {name: {} for name in tables}, {}
    for column in common:
        arrays = {name: table.column(column.name) for name, table in rows.items()}
        shared, found = _ranged(column, arrays, decimals) if column.is_ranged else _levelled(column, arrays, judged)
        if column.name not in known and _hardly_repeats(shared, found[by]):
            keys[column.name] = Keys(column, shared.levels, found)
            continue
        refuse(_kind_problems(shared.column, found, {name: array for name, array in arrays.items() if name in judged}))
        columns.append(shared)
        for name, one in found.items():
            read[name][column.name] = one
    if not columns:
        raise TableError("The tables have no column in common but texts that hardly ever repeat. Declare their kinds.")
    sheets = {name: Sheet(tuple(columns), found, rows[name].num_rows) for name, found in read.items()}
    return sheets, _left_out(
        {name: table.column_names for name, table in rows.items()}, {c.name for c in columns}, keys
    )


def _left_out(names: Mapping[str, Sequence[str]], compared: Container[str], keys: Mapping[str, Keys]) -> LeftOut:
    every = dict.fromkeys(name for some in names.values() for name in some)
    lacking = {name: tuple(table for table, some in names.items() if name not in some) for name in every}
    lacked = {name: tables for name, tables in lacking.items() if tables}
    return LeftOut(lacked, tuple(n for n in every if not (n in compared or n in lacked or n in keys)), keys)


def _hardly_repeats(column: Shared, cells: Cells) -> bool:
    """Whether nearly every cell is a text of its own: a name or a key, whose shares say nothing."""
    present = cells.value[cells.state == VALUE] if column.column.kind == "category" else ()
    return len(present) >= FEWEST and len(np.unique(present)) > _OWN * len(present)


def refuse(problems: Iterable[str]) -> None:
    """Raise one error for all problems, if there are any."""
    found = list(problems)
    if found:
        raise TableError("\n".join(found))


def _row_problems(rows: Mapping[str, pa.Table]) -> Iterator[str]:
    for name, table in rows.items():
        if table.num_rows < FEWEST:
            yield f"The {name} table has fewer than {FEWEST} rows, of which no figure says anything. Give more of them."


def _ranged(
    column: Column, arrays: Mapping[str, pa.ChunkedArray], decimals: Mapping[str, str]
) -> tuple[Shared, dict[str, Cells]]:
    # Another tool may have written whole numbers with decimals; they are compared as what they are.
    read_as = column
    if column.kind == "integer":
        read_as = column.replace(kind="number", dtype=None, distribution=None)
    found = {}
    for name, array in arrays.items():
        parts = [cells.parse(read_as, chunk, decimal=decimals[name]) for chunk in array.chunks]
        value = np.concatenate([part.value for part in parts]).astype(np.float64)
        found[name] = Cells(value, np.concatenate([part.state for part in parts]))
    return Shared(column), found


def _kind_problems(column: Column, found: Mapping[str, Cells], arrays: Mapping[str, pa.ChunkedArray]) -> Iterator[str]:
    for name, array in arrays.items() if column.is_ranged or column.kind == "boolean" else ():
        if (found[name].state != MISSING).sum() < _READABLE * (_present(array) - 1):
            yield (
                f"Column {column.name!r} of the {name} table: most cells are not {_wanted(column)}. Correct the table, "
                "or declare its kind in the schema (--schema)."
            )


def _wanted(column: Column) -> str:
    others = {
        "datetime": "dates or times in the format of the real table",
        "boolean": "true or false, as it spells them",
    }
    return others.get(column.kind, "numbers")


def _present(array: pa.ChunkedArray) -> int:
    """How many cells say something."""
    texts = (cells.texts(chunk).dictionary_encode() for chunk in array.chunks)
    return sum(_said(text) for text in texts)


def _said(text: pa.DictionaryArray) -> int:
    empty = np.array([cell.strip(" .-?").lower() in _NOTHING for cell in text.dictionary.to_pylist()], bool)
    codes = text.indices.drop_null().to_numpy(zero_copy_only=False)
    return len(codes) - int(empty[codes].sum()) if len(codes) else 0


def _levelled(
    column: Column, arrays: Mapping[str, pa.ChunkedArray], judged: Container[str]
) -> tuple[Shared, dict[str, Cells]]:
    """Codes of the levels of the judged tables, in the declared order, or of the real table first; one for others."""
    places: dict[str, int] = {}
    for level in column.levels or ():
        places.setdefault(_spelled(level), len(places))
    declared, found = set(places), {}
    for name in sorted(arrays, key=lambda name: name not in judged):
        place = _placing(column, declared, places, is_open=name in judged)
        codes = [_codes(column, chunk, place) for chunk in arrays[name].chunks]
        code = np.concatenate(codes)
        found[name] = Cells(np.maximum(code, 0), np.where(code < 0, MISSING, VALUE).astype(np.int16))
    strange = () if all(name in judged for name in arrays) else (_STRANGE,)
    return Shared(column, (*places, *strange)), found


def _codes(column: Column, chunk: pa.Array, place: Callable[[str], int]) -> np.ndarray:
    """The place of every cell among the levels, -1 if it is missing."""
    if column.kind == "boolean":
        one = cells.parse(column, chunk)
        return np.where(one.state == MISSING, -1, one.value).astype(np.int32)
    array = cells.plain(chunk)
    distinct = (array if _is_number(array.type) else array.cast(pa.string())).dictionary_encode()
    of = np.array([place(_spelled(cell)) for cell in distinct.dictionary.to_pylist()], np.int32)
    codes = distinct.indices.fill_null(len(of)).to_numpy(zero_copy_only=False)
    return np.append(of, np.int32(-1))[codes]


def _is_number(arrow: pa.DataType) -> bool:
    return pa.types.is_integer(arrow) or pa.types.is_float64(arrow)


def _placing(
    column: Column, declared: Container[str], places: dict[str, int], *, is_open: bool
) -> Callable[[str], int]:
    """The place of a level, -1 if it says nothing; new ones get new places if `is_open`, and one together if not."""

    def place(level: str) -> int:
        if level == _BLANK:
            return -1
        if column.other is not None and declared and level not in declared:
            level = _spelled(column.other)
        return places.setdefault(level, len(places)) if is_open else places.get(level, len(places))

    return place


def _spelled(cell: str | float) -> str:
    """A level as it is compared: without blanks around it, 3.0 as 3, True as true.

    It is the same whatever type a column has: one missing cell makes floats of whole numbers in a DataFrame, and all
    other cells must stay what they are. Whole numbers that floats do not hold are as far apart as floats are.
    """
    if not isinstance(cell, str):
        cell = repr(float(cell) + 0.0) if isinstance(cell, float) or abs(cell) >= _EXACT else str(cell)
    text = cell.strip()
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else _TRUTHS.get(text, text)
