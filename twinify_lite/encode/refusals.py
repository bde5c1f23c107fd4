"""What `encode` and `decode` refuse: schemas, tables and arrays that do not belong together, all problems at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from twinify_lite.errors import SchemaError
from twinify_lite.schema import Column, Schema

#: The kinds of numpy's dtypes in which a ranged column never stands in each view: they tell that it is the other one.
FOREIGN = {"continuous": "iub", "discrete": "fc"}


def refuse(problems: Iterable[str]) -> None:
    """One error for all `problems`, if there are any."""
    found = list(problems)
    if found:
        raise SchemaError.listing(found)


def state_of(column: Column) -> str:
    """The name of the array that tells where a ranged column is missing or special."""
    return f"{column.name}:state"


def schema_problems(schema: Schema) -> Iterator[str]:
    """What makes the schema one that no table can be encoded with."""
    for column in schema.columns:
        if column.open:
            yield (
                f"Column {column.name!r} leaves {', '.join(column.open)} open. Declare it in [columns.{column.name}] "
                "of the schema, or have it estimated from the privacy budget by `discover`."
            )
    yield from ambiguous_names(schema)


def ambiguous_names(schema: Schema) -> Iterator[str]:
    """Columns whose name is that of another one's array."""
    for column in schema.columns:
        if state_of(column) in schema:
            yield (
                f"Column {state_of(column)!r} has the name of the array that tells where {column.name!r} is missing or "
                "special. Rename one of the two columns."
            )


def stranger_problems(schema: Schema, names: list[str]) -> Iterator[str]:
    """Where the columns of the schema and those of a table with these `names` are not the same."""
    for column in schema.columns:
        if names.count(column.name) > 1:
            yield f"The table has {names.count(column.name)} columns {column.name!r}. Give each its own name."
        if column.name not in names:
            close = difflib.get_close_matches(column.name, [name for name in names if name not in schema], n=1)
            hint = f"Did you mean {close[0]!r}?" if close else f"Delete [columns.{column.name}] from the schema."
            yield f"The table has no column {column.name!r}. {hint}"
    for name in names:
        if name not in schema:
            yield (
                f"The schema does not know column {name!r} of the table. Add a block [columns.{name}]; with "
                'kind = "identifier" in it, the column is left out.'
            )


def view_problems(schema: Schema, arrays: Mapping[str, np.ndarray], view: str) -> Iterator[str]:
    """Whether an array of a ranged column is none of this view."""
    ranged = [arrays[column.name] for column in schema.modelled if column.is_ranged and column.name in arrays]
    if any(array.dtype.kind in FOREIGN[view] for array in ranged):
        other = next(name for name in FOREIGN if name != view)
        yield f"These arrays were encoded with view={other!r}; pass the same view to decode."


def lacking_problems(arrays: Mapping[str, np.ndarray], wanted: Iterable[str], rows: int | None) -> Iterator[str]:
    """Whether arrays of these names are not there, or not as long as each other and as `rows`."""
    wanted = list(wanted)
    lacking = [name for name in wanted if name not in arrays]
    for name in lacking:
        yield f"There is no array {name!r} to decode a column from."
    lengths = {len(arrays[name]) for name in wanted if name not in lacking}
    if not wanted and rows is None:
        yield "No column of the schema has an array that tells the number of rows. Tell it: decode(..., rows=...)."
    if not lacking and len(lengths) > 1:
        yield "The arrays to decode differ in length. Give one entry for each row in every one of them."
    elif len(lengths) == 1 and rows is not None and lengths != {rows}:
        yield "The arrays to decode have another length than `rows`. Leave `rows` out."


def code_problems(column: Column, arrays: Mapping[str, np.ndarray], sizes: Mapping[str, int | None]) -> Iterator[str]:
    """Which arrays of the column have codes that are none of as many as `sizes` says, None for places."""
    for name, size in sizes.items():
        codes = arrays[name]
        if size is None or ((codes >= 0) & (codes < size)).all():
            continue
        if name == state_of(column):
            yield (
                f"Column {column.name!r} has states beyond the {size} of its schema. Decode with the schema and the "
                "view that encode had."
            )
        elif column.is_levelled:
            yield (
                f"Column {column.name!r} has codes beyond the {size} of its levels. Decode with the schema that "
                "encode had."
            )
        else:
            yield (
                f"Column {column.name!r} has codes beyond the {size} that its `bins` make. Pass the `bins` that "
                "encode had."
            )
