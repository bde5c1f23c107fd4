"""Which columns a table may have: how they are named, and what their cells are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence

import pyarrow as pa

from twinify_lite.errors import TableError


def check_columns(schema: pa.Schema, name: str) -> None:
    """Refuse a table without columns, with blank or equal names, or with cells that are no single value."""
    problems = name_problems(schema.names) if len(schema) else ["There are no columns. Give at least one."]
    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if not _is_plain(kind):
            fix = "a number of days or seconds" if pa.types.is_duration(kind) else "text or numbers, one value a cell"
            called = str(kind).split("<")[0].split("[")[0]
            problems.append(f"Column {field.name!r} is of type {called}. Turn it into {fix}, or leave it out.")
    if problems:
        raise TableError("\n".join(f"{name}: {problem}" for problem in problems))


def _is_plain(kind: pa.DataType) -> bool:
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    is_value = pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_null(kind)
    return is_text or (is_value and not pa.types.is_interval(kind) and not pa.types.is_duration(kind))


def name_problems(names: Sequence[str]) -> list[str]:
    """What is wrong with these column names: blank ones by position, and those that occur twice."""
    problems = []
    blank = [number for number, name in enumerate(names, 1) if not name.strip()]
    if blank:
        fix = "Name every column in the header"
        if blank == [1]:
            fix += "; if it is the index that pandas wrote, write the file with `to_csv(index=False)`"
        elif blank == [len(names)]:
            fix += "; if every line ends with a separator, remove it from every line"
        which = f"Column {blank[0]} of {len(names)} has" if len(blank) == 1 else f"Columns {_listed(blank)} have"
        problems.append(f"{which} no name. {fix}.")
    twice = [name for name, times in Counter(names).items() if times > 1 and name.strip()]
    for name in twice[:10]:
        # By their places: in a file without a header, the "names" are the cells of its first row.
        places = _listed([number for number, other in enumerate(names, 1) if other == name])
        problems.append(
            f"Columns {places} have the same name. Rename all but one; if the first line is a row and not a header, "
            "put a header above it."
        )
    return problems


def header_problems(names: Sequence[str], known: Container[str]) -> Iterator[str]:
    """Whether names of a CSV file that nobody declared may be the cells of a first row, which names would give away."""
    places = [place for place, name in enumerate(names, 1) if name not in known and is_number(name)]
    if places:
        which = (
            f"The name of column {places[0]} is a number"
            if len(places) == 1
            else f"The names of columns {_listed(places)} are numbers"
        )
        yield (
            f"{which}. Names are public: if the file has no header, add one, or the cells of its first row are given "
            "away. If they are names, fit with a schema that has them: `twin schema DATA -o schema.toml` drafts one."
        )


def _listed(numbers: Sequence[int]) -> str:
    shown = [str(number) for number in numbers[:10]] + (["..."] if len(numbers) > 10 else [])
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]


def is_number(name: str) -> bool:
    """Whether a name is a number, and so perhaps a cell of the first row."""
    try:
        float(name.replace(",", "."))
    except ValueError:
        return False
    return True
