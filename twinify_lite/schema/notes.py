"""What a person should be told about a table beside its draft. Notes name columns, and never show a cell."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from twinify_lite.schema import Schema
from twinify_lite.schema.doubts import decimal_commas
from twinify_lite.schema.draft import MOST_LEVELS
from twinify_lite.table import PrivateTable
from twinify_lite.table.columns import is_number

_HEADLESS = "Some column names are numbers: if the file has no header, add one."


def notes(table: PrivateTable, schema: Schema) -> list[str]:
    """One sentence for each thing that `schema`, a draft for `table`, may have got wrong, with its fix.

    Formal guarantee: without a peek, no single row can flip a note, as none can flip a guess; a note shows no cell.
    """
    if len(table.columns) > 1 and all(map(is_number, table.columns)):
        # Then the names may be the cells of a row, so that no other note may name a column.
        return ["All column names are numbers: if the file has no header, add one."]
    doubts = [_HEADLESS] if any(map(is_number, table.columns)) and table.style is not None else []
    doubts += [*decimal_commas(table, schema, declared=()), *ordered_categoricals(table, schema)]
    return [*doubts, *_many_levels(table, schema)]


def ordered_categoricals(table: PrivateTable, schema: Schema) -> Iterator[str]:
    """A sentence for each column whose type has an order that is lost: its list of categories is no public thing."""
    types = {field.name: field.type for field in table.reveal().schema}
    for column in schema.columns:
        kind = types[column.name]
        if pa.types.is_dictionary(kind) and kind.ordered and column.kind == "category":
            yield (
                f'Column {column.name!r} is an ordered categorical: declare kind = "ordinal", and its levels in order.'
            )


def _many_levels(table: PrivateTable, schema: Schema) -> Iterator[str]:
    for column in schema.columns:
        is_open = column.peeked and column.kind == "category" and column.levels is None
        cells = table.reveal()[column.name]
        if is_open and cells.null_count < len(cells):
            yield (
                f"Column {column.name!r} has more than {MOST_LEVELS} levels, which are left open: declare those that "
                'are public, or kind = "identifier" if it is a name or a key.'
            )
