"""What the holder of a table should look at before a fit: doubts about kinds, read from the cells without noise.

They are for whoever may see the rows. Nothing that is released may hang on them: a fit neither refuses nor tells any of
this, whatever the cells are.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinify_lite import cells
from twinify_lite.schema import Column, Schema
from twinify_lite.schema.guess import guess, has_decimal_commas
from twinify_lite.schema.guess_votes import LEAST
from twinify_lite.table import PrivateTable

#: How each doubt ends.
UNSHARED = "This was read from the rows without noise: do not share it."
_WANTED = {
    "number": "numbers",
    "integer": "whole numbers",
    "datetime": "dates or times in the declared format",
    "category": "among the declared levels",
    "ordinal": "among the declared levels",
    "boolean": "true or false",
}


def doubts(table: PrivateTable, schema: Schema, declared: Container[str]) -> list[str]:
    """One sentence for each column of `schema` whose kind its cells speak against; those of `declared` are declared."""
    return [*decimal_commas(table, schema, declared), *misfits(table, schema, declared)]


def decimal_commas(table: PrivateTable, schema: Schema, declared: Container[str]) -> Iterator[str]:
    """A sentence for each guessed column of words that look like numbers with decimal commas."""
    if table.style is None or table.style.decimal == ",":
        return
    for name in schema:
        array = table.reveal()[name]
        if name not in declared and has_decimal_commas(guess(name, array), array):
            yield (
                f'Column {name!r} looks like numbers with decimal commas: add --decimal , (`decimal=","`), or '
                f"declare its kind in the schema. {UNSHARED}"
            )


def misfits(table: PrivateTable, schema: Schema, declared: Container[str]) -> Iterator[str]:
    """A sentence for each declared column that most of its cells, and at least three, do not fit."""
    decimal = table.style.decimal if table.style else "."
    for column in schema.modelled:
        if column.name in declared and "levels" not in column.open:
            array = _without_its_word(column, cells.plain(table.reveal()[column.name]), decimal)
            if _fits_badly(column, array, decimal):
                yield (
                    f"Column {column.name!r}: most of its cells are not {_WANTED[column.kind]}. Correct `kind`, "
                    f"`levels` or `format` of this column in the schema. {UNSHARED}"
                )


def _fits_badly(column: Column, array: pa.Array, decimal: str) -> bool:
    read = int((cells.parse(column, array, decimal=decimal).state != cells.MISSING).sum())
    present = int(cells.says_something(column, array).sum())
    return 2 * read < present and present - read >= LEAST


def _without_its_word(column: Column, array: pa.Array, decimal: str) -> pa.Array:
    """The cells but for the most frequent text that is no number or time, a structural "N": it may be special."""
    if column.special is not None or not column.is_ranged:
        return array
    unread = cells.parse(column, array, decimal=decimal).state == cells.MISSING
    texts = cells.texts(array)
    words = texts.filter(pa.array(unread)).drop_null().value_counts()
    if not len(words):
        return array
    word = words.field("values")[int(np.argmax(words.field("counts").to_numpy()))]
    return array.filter(pc.fill_null(pc.not_equal(texts, word), True))
