"""Schemas from tables: a first draft of one, and the rest of one that a user began.

What comes from the table is its columns' names and types, the look of its CSV file, and guesses that no single row can
flip (`guess`). Ranges, levels and missing cells are read only by `peek`, and are then marked as not private.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinify_lite import cells
from twinify_lite.cells.moments import moment
from twinify_lite.cells.parsing import is_text, plain, texts
from twinify_lite.errors import SchemaError
from twinify_lite.schema import Column, Schema
from twinify_lite.schema.constraints import Constraint
from twinify_lite.schema.guess import guess, looks_at_cells, type_name
from twinify_lite.schema.guess_votes import LEAST
from twinify_lite.schema.words import suggestion
from twinify_lite.table import CsvStyle, PrivateTable, read_table

#: A category with more levels than these is left open by `peek`.
MOST_LEVELS = 100
# Of the cells: the least share of a text beside the numbers for it to be special, and the most such texts.
_SPECIAL, _MOST_SPECIAL = 0.01, 10


def draft(table: PrivateTable, *, peek: bool = False) -> Schema:
    """One guessed column for each of the table's; with `peek`, also ranges, levels and missing cells from the data.

    Formal guarantee: without `peek`, the draft holds no value, range or level from the data.
    """
    table = read_table(table)
    schema = Schema(
        columns=_guesses(table, table.columns),
        guessed=_any_looked_at(table, table.columns),
        style=_unusual_style(table),
    )
    if not peek:
        return schema
    rows, decimal = table.reveal(), _decimal(table)
    return schema.replace_columns(_peek(column, rows[column.name], decimal) for column in schema.columns)


def fill(schema: Schema | None, table: PrivateTable) -> Schema:
    """`schema` for all columns of `table`, in their order: what it declares stays, what it lacks is guessed.

    Of a declared column only an open `dtype` is filled in, from the type of the table's; and the look of a CSV file
    where the schema has none.
    """
    if schema is None:
        return draft(table)
    whole = _filled(schema, read_table(table), schema.constraints, looks=True)
    whole.require_constraints()
    return whole


def fill_by_types(schema: Schema | None, table: PrivateTable) -> tuple[Schema, Undecided]:
    """`fill` that looks at no cell: what hangs on cells is as in a table without rows, and left undecided.

    Constraints that speak of such a column are left out of the schema, until its kind is known.
    """
    table = read_table(table)
    names = undecided(schema, table)
    constraints = () if schema is None else schema.constraints
    waiting = tuple(one for one in constraints if set(one.names) & set(names))
    sure = tuple(one for one in constraints if one not in waiting)
    if schema is None:
        whole = Schema(columns=_guesses(table, table.columns, looks=False), style=_unusual_style(table))
    else:
        whole = _filled(schema, table, sure, looks=False)
    whole.require_constraints()
    problems = [problem for one in waiting for problem in one.strangers(whole)]
    if problems:
        raise SchemaError.listing(problems)
    return whole, Undecided(names, waiting)


def _filled(schema: Schema, table: PrivateTable, constraints: tuple[Constraint, ...], *, looks: bool) -> Schema:
    problems = [_unknown(name, table.columns) for name in schema if name not in table.columns]
    if problems:
        raise SchemaError.listing(problems)
    lacking = [name for name in table.columns if name not in schema]
    types = {field.name: field.type for field in table.reveal().schema}
    known = {column.name: column for column in _guesses(table, lacking, looks=looks)}
    known |= {column.name: _with_dtype(column, types[column.name], table) for column in schema.columns}
    return dataclasses.replace(
        schema,
        columns=tuple(known[name] for name in table.columns),
        constraints=constraints,
        guessed=schema.guessed or (looks and _any_looked_at(table, lacking)),
        style=schema.style or _unusual_style(table),
    )


class Undecided(NamedTuple):
    """Columns whose kinds are not known yet, and the constraints that speak of them."""

    columns: tuple[str, ...] = ()
    constraints: tuple[Constraint, ...] = ()

    def decided(self, schema: Schema) -> tuple[Schema, list[Constraint]]:
        """`schema`, in which the kinds are known, with those of the constraints that fit it; and the others."""
        ignored = [one for one in self.constraints if one.problems(schema)]
        kept = (one for one in self.constraints if one not in ignored)
        return dataclasses.replace(schema, constraints=(*schema.constraints, *kept)), ignored


def undecided(schema: Schema | None, table: PrivateTable) -> tuple[str, ...]:
    """The columns of `table` whose kind or precision neither `schema` nor their type tells."""
    types = table.reveal().schema
    return tuple(n for n in table.columns if n not in (schema or ()) and looks_at_cells(types.field(n).type))


def guessed_as(name: str, keys: Mapping[str, Any], table: PrivateTable) -> Column:
    """The column `name` of `table` with what was guessed of it."""
    arrow = table.reveal().schema.field(name).type
    return _with_dtype(Column(name=name, dtype=type_name(arrow), **keys), arrow, table)


def _unknown(name: str, names: Iterable[str]) -> str:
    hint = suggestion(name, names) or ". Delete it from the schema, or correct its name."
    return f"The table has no column {name!r}{hint}"


def _decimal(table: PrivateTable) -> str:
    return table.style.decimal if table.style else "."


def _unusual_style(table: PrivateTable) -> CsvStyle | None:
    """The look of the file that the table comes from; None for the usual one, which needs no words."""
    return None if table.style == CsvStyle() else table.style


def _any_looked_at(table: PrivateTable, names: Iterable[str]) -> bool:
    schema = table.reveal().schema
    return any(looks_at_cells(schema.field(name).type) for name in names)


def _guesses(table: PrivateTable, names: Iterable[str], *, looks: bool = True) -> tuple[Column, ...]:
    rows, decimal = table.reveal(), _decimal(table)
    if not looks:  # a type is seen in a column without rows, too
        rows = rows.slice(0, 0)
    with ThreadPoolExecutor() as pool:  # Arrow lets go of Python's lock
        guesses = tuple(pool.map(lambda name: guess(name, rows[name], decimal=decimal), names))
    return tuple(_with_dtype(column, rows.schema.field(column.name).type, table) for column in guesses)


def _with_dtype(column: Column, arrow: pa.DataType, table: PrivateTable) -> Column:
    """The column with its type in the table. Numbers that a typed table holds as text are to be text again."""
    if column.dtype:
        return column
    is_typed_text = is_text(arrow) and table.style is None and column.is_ranged
    return column.replace(dtype="string" if is_typed_text else type_name(arrow))


def _peek(column: Column, array: pa.ChunkedArray, decimal: str) -> Column:
    look = _peek_range if column.is_ranged else _peek_levels
    seen = look(column, plain(array), decimal)
    return column.replace(**seen, peeked=tuple(seen))


def _peek_levels(column: Column, array: pa.Array, decimal: str) -> dict[str, Any]:
    if column.kind == "boolean":
        state = cells.parse(column, array, decimal=decimal).state
        return {"nullable": bool((state == cells.MISSING).any())}
    levels = texts(array).unique().drop_null()
    seen = {"levels": tuple(levels.sort().to_pylist())} if 0 < len(levels) <= MOST_LEVELS else {}
    return {"nullable": array.null_count > 0, **seen}


def _peek_range(column: Column, array: pa.Array, decimal: str) -> dict[str, Any]:
    value, state = cells.parse(column, array, decimal=decimal)
    unread = array.filter(pa.array(state == cells.MISSING))
    special = _special(unread, len(array) - array.null_count)
    named = pc.sum(pc.is_in(unread, pa.array(special, unread.type))).as_py() if special else 0
    return {"nullable": len(unread) > named, **_bounds(column, value[state == cells.VALUE], special)}


def _bounds(column: Column, values: np.ndarray, special: tuple[str, ...]) -> dict[str, Any]:
    # A column with one value has no range that a schema could declare.
    if not len(values) or values.min() == values.max():
        return {}
    try:
        least, most = (_bound(column, bound) for bound in (values.min(), values.max()))
    except OverflowError:  # a year that Python does not know
        return {}
    # A declared range closes `special` too.
    return {"min": least, "max": most, **({"special": special} if special else {})}


def _bound(column: Column, value: Any) -> Any:
    return moment(column, value) if column.kind == "datetime" else value.item()


def _special(unread: pa.Array, present: int) -> tuple[str, ...]:
    """The frequent texts among the cells that are no number or time."""
    if not is_text(unread.type):
        return ()
    counted = unread.drop_null().value_counts()
    frequent = counted.filter(pc.greater_equal(counted.field("counts"), max(LEAST, _SPECIAL * present)))
    most = pc.sort_indices(frequent.field("counts"), sort_keys=[("", "descending")])[:_MOST_SPECIAL]
    return tuple(sorted(frequent.field("values").take(most).to_pylist()))
