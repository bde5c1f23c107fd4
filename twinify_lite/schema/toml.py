"""schema.toml: a `Schema` as text for people to read and to edit. `parse(render(schema)) == schema`."""

from __future__ import annotations

import dataclasses
import datetime
import re
import tomllib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from twinify_lite.errors import SchemaError, TableError
from twinify_lite.schema import KEYS, KINDS, Column, Schema
from twinify_lite.schema.settle import implied, keys_of
from twinify_lite.schema.words import either, misplaced, nearest_kind, suggestion, unknown_kind

if TYPE_CHECKING:
    from twinify_lite.schema.constraints import Constraint
    from twinify_lite.table import CsvStyle

TOP = ("rows", "guessed", "accepted", "constraints", "csv", "columns")
WIDTH = 120
# How alike a word must be to a key of another kind to be taken for it.
_SURE = 0.75
_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}

_HEADER = """\
# The schema of a table: what may be known of it without looking at the data.
# What stands here is taken as public and costs nothing: take it from a code book, not from the cells.
# What is left out is estimated from the privacy budget.
#
# A column has one of these kinds, each with keys of its own:
{kinds}
#
# and of every kind: nullable (may a cell be missing) and dtype (its type in the table, left out for text).
#   special     values beside the range with a meaning of their own, such as -1 or "unknown"
#   heaps       values in the range that stand out, such as 0 or 40
#   other       the level for every text that is not in levels
#   distribution a model without Python, such as "Normal", "ZeroInflated(Poisson)" or "Hurdle(LogNormal)"
#   sample      "omit" the column from the twin, or write a "surrogate" by its pattern, such as "P{{:06d}}"
"""
_PEEKED = "read from the data: not private"
_ACCEPT = "read from the data: delete this line to accept these as public"
_ACCEPTED = "what stands below of these columns was read from the data and accepted as public"
_GUESSED = "the kinds below were guessed from the cells, and count as public"

# -- reading ----------------------------------------------------------------------------------------------------------


def parse(text: str) -> Schema:
    """The schema that `text` says, its columns in the order of the text.

    One `SchemaError` lists all problems, a line each; only a constraint on a column with problems is judged later.
    """
    document = _document(text)
    problems = [_unknown_top(key, value) for key, value in document.items() if key not in TOP]
    columns = _columns(document.get("columns", {}), problems)
    constraints = _constraints(document.get("constraints", []), problems)
    style = _style(document.get("csv"), problems)
    try:
        schema = Schema(
            columns=tuple(column or _stand_in(name) for name, column in columns.items()),
            constraints=tuple(constraint for constraint in constraints if _is_judgeable(constraint, columns)),
            rows=document.get("rows"),
            guessed=document.get("guessed", False),
            style=style,
            accepted=document.get("accepted", ()),
        )
    except SchemaError as error:
        problems.append(str(error))
    if problems:
        raise SchemaError.listing(problems)
    return schema


def _document(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))  # Windows' Notepad puts a mark there
    except (ValueError, RecursionError) as error:  # also what int() says of a number with thousands of digits
        raise SchemaError(f"The schema is not valid TOML: {error}. Correct it there.") from None


def _unknown_top(key: str, value: Any) -> str:
    if isinstance(value, dict) and not suggestion(key, TOP):
        return f"There is no table [{_key(key)}]. If it is a column, write [columns.{_key(key)}]."
    return f"There is no key {key!r} at the top" + (suggestion(key, TOP) or f". The keys are {', '.join(TOP)}.")


def _columns(tables: Any, problems: list[str]) -> dict[str, Column | None]:
    """The columns by name, None for one that has problems."""
    if not isinstance(tables, dict):
        problems.append("columns must be tables: write [columns.NAME] for each, with kind = ... below it.")
        return {"columns": None}
    return {name: _column(name, table, problems) for name, table in tables.items()}


def _column(name: str, table: Any, problems: list[str]) -> Column | None:
    if not isinstance(table, dict):
        problems.append(f"Column {name!r}: it must be a table: write [columns.{_key(name)}], with kind = ... below it.")
        return None
    before = len(problems)
    kind = _kind(name, table, problems)
    problems += [f"Column {name!r}: {problem}" for problem in _key_problems(name, kind, table)]
    if kind is not None:
        known = {key: value for key, value in table.items() if key in KEYS[kind]}
        try:
            column = Column(name=name, **{**known, "kind": kind})
        except SchemaError as error:
            problems.append(str(error))
    return column if len(problems) == before else None


def _kind(name: str, table: dict[str, Any], problems: list[str]) -> str | None:
    """The column's kind, or the one that was probably meant, so that the other keys can be checked too."""
    kind = table.get("kind")
    if keys_of(kind):
        return kind
    missing = f"it has no kind. Add kind = ..., one of {', '.join(KINDS)}."
    problems.append(f"Column {name!r}: {missing if kind is None else unknown_kind(kind)}")
    return None if kind is None else nearest_kind(kind)


def _key_problems(name: str, kind: str | None, table: dict[str, Any]) -> Iterator[str]:
    every = tuple(dict.fromkeys(key for keys in KEYS.values() for key in keys))
    own = keys_of(kind) or every
    for key, value in table.items():
        near = suggestion(key, own) or suggestion(key, every, least=_SURE)
        if key in every:
            if key not in own:
                yield misplaced(kind, key)
        elif isinstance(value, dict) and not near:
            quoted = _text(f"{name}.{key}")
            yield f"there is no table {key!r} in it. If its name has a dot, quote it: [columns.{quoted}]."
        else:
            yield f"there is no key {key!r}" + (near or f". The keys are {', '.join(own)}.")


def _constraints(items: Any, problems: list[str]) -> list[Constraint]:
    if not isinstance(items, list):
        problems.append('constraints must be a list, such as ["admitted <= discharged"].')
        return []
    parsed = []
    for item in items:
        from twinify_lite.schema.constraints import Constraint

        try:
            parsed.append(Constraint.parse(item))
        except SchemaError as error:
            problems.append(str(error))
    return parsed


def _style(table: Any, problems: list[str]) -> CsvStyle | None:
    """The look of a CSV file; None if there is none, or one with problems."""
    if table is None:
        return None
    from twinify_lite.table.csv_style import CsvStyle

    found = list(_style_problems(table))
    problems += found
    return None if found else CsvStyle(**table)


def _style_problems(table: Any) -> Iterator[str]:
    from twinify_lite.table.csv_style import DECIMALS, ENCODINGS, SEPARATORS, CsvStyle

    choices = {"separator": tuple(SEPARATORS), "decimal": DECIMALS, "encoding": ENCODINGS}
    if not isinstance(table, dict):
        yield "csv must be a table: write [csv], with separator, decimal and encoding below it."
        return
    for key, value in table.items():
        if key not in choices:
            yield f"[csv]: there is no key {key!r}" + (
                suggestion(key, choices) or f". The keys are {', '.join(choices)}."
            )
            continue
        try:
            CsvStyle(**{key: value if isinstance(value, str) else ""})
        except TableError:
            yield f"[csv]: {key} must be {either(choices[key])}{suggestion(value, choices[key]) or '.'}"


def _is_judgeable(constraint: Constraint, columns: dict[str, Column | None]) -> bool:
    """Whether all its columns are sound or not there at all: of one with problems, it is not known what it allows."""
    return (not columns or any(columns.values())) and all(columns.get(name, True) for name in constraint.named)


def _stand_in(name: str) -> Column:
    """A column in the place of one that has problems, so that what is left of the schema can be checked."""
    return Column(name=name if name.strip() else "?", kind="identifier")


# -- writing ----------------------------------------------------------------------------------------------------------


def render(schema: Schema) -> str:
    """The text of `schema`, with comments: what `parse` reads back as an equal schema, and renders to the same text."""
    look = [] if schema.style is None else [_look(schema.style)]
    blocks = [_header(), _top(schema), *look, *(_block(column) for column in schema.columns)]
    return "\n".join(blocks)


def _header() -> str:
    own = {
        kind: ", ".join(key for key in keys if key not in (*_shared(), "distribution")) for kind, keys in KEYS.items()
    }
    return _HEADER.format(kinds="\n".join(f"#   {kind:<11} {KINDS[kind]} ({own[kind]})" for kind in KINDS))


def _shared() -> set[str]:
    return set.intersection(*map(set, KEYS.values()))


def _top(schema: Schema) -> str:
    lines = ["# rows = ...  (only if the number of rows is public)" if schema.rows is None else f"rows = {schema.rows}"]
    if schema.guessed:
        lines.append(f"guessed = true  # {_GUESSED}")
    if schema.accepted:
        lines.append(f"{_assignment('accepted', schema.accepted)}  # {_ACCEPTED}")
    constraints = [constraint.to_toml() for constraint in schema.constraints]
    example = '# constraints = ["admitted <= discharged"]  (what holds between columns in every row)'
    lines.append(_spread("constraints", constraints) if constraints else example)
    return "\n".join(lines) + "\n"


def _look(style: CsvStyle) -> str:
    lines = (_assignment(key, value) for key, value in dataclasses.asdict(style).items())
    return "\n".join(["[csv]", *lines]) + "\n"


def _block(column: Column) -> str:
    lines = [f"[columns.{_key(column.name)}]", *_lines(column)]
    if column.open:
        left = ", ".join(
            f"{key} = {'[...]' if key in ('special', 'heaps', 'levels') else '...'}" for key in _open(column)
        )
        lines.append(f"# left out, so estimated from the privacy budget: {left}")
    return "\n".join(lines) + "\n"


def _open(column: Column) -> list[str]:
    return [key for key in KEYS[column.kind] if key in column.open]


def _lines(column: Column) -> Iterator[str]:
    for key in KEYS[column.kind]:
        value = getattr(column, key)
        if key == "kind" or key in column.peeked or value != implied(column, key):
            comment = _ACCEPT if key == "peeked" else _PEEKED if key in column.peeked else ""
            yield _assignment(key, value) + (f"  # {comment}" if comment else "")


def _assignment(key: str, value: Any) -> str:
    line = f"{key} = {_value(value)}"
    return _spread(key, value) if isinstance(value, tuple) and len(line) > WIDTH else line


def _spread(key: str, items: Iterable[Any]) -> str:
    """A list over several lines, an item each."""
    return "\n".join([f"{key} = [", *(f"    {_value(item)}," for item in items), "]"])


def _value(value: Any) -> str:
    """A TOML value that reads back as the same value of the same type."""
    for kinds, write in _WRITERS.items():
        if isinstance(value, kinds):
            return write(value)
    raise TypeError(f"TOML has no {type(value).__name__}.")


def _text(value: str) -> str:
    """A basic string. What does not show (controls, marks of direction, odd spaces) is escaped, so that it does."""
    return '"' + "".join(_ESCAPES.get(char) or (char if char.isprintable() else _code(char)) for char in value) + '"'


def _code(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) < 0x10000 else f"\\U{ord(char):08x}"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _array(items: Iterable[Any]) -> str:
    return "[" + ", ".join(map(_value, items)) + "]"


def _table(table: dict[str, Any]) -> str:
    return "{ " + ", ".join(f"{_key(key)} = {_value(value)}" for key, value in table.items()) + " }"


#: From Python's types to TOML's, the narrower first: a bool is an int to Python, and a datetime a date.
_WRITERS: dict[Any, Any] = {
    bool: lambda value: str(value).lower(),
    int: int.__repr__,
    float: float.__repr__,
    str: _text,
    (datetime.datetime, datetime.date): lambda value: value.isoformat(),
    (list, tuple): _array,
    dict: _table,
}
