"""How constraints are written in schema.toml: sentences and tables, read into entries, and the words to write them."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from twinify_lite.errors import SchemaError
from twinify_lite.schema import Cell

EXAMPLES = (
    '"admitted <= discharged"',
    '"city determines country"',
    "\"if sex == 'male' then pregnancies is missing\"",
    '{ columns = ["city", "country"], allowed = [["Paris", "France"], ["Oslo", "Norway"]] }',
)


class Entry(NamedTuple):
    """One entry of `constraints`: its kind ("order", "determines", "condition" or "combinations") and its fields."""

    kind: str
    fields: tuple[Any, ...]


def read_entry(source: str | Mapping[str, Any]) -> Entry:
    """Read a sentence or a table; what is neither raises a `SchemaError` with examples."""
    if isinstance(source, Mapping):
        return _read_table(source)
    for pattern, read in _SENTENCES.items():
        if isinstance(source, str) and (match := re.fullmatch(pattern, source.strip())):
            return read(*match.groups())
    raise _unreadable(f"{source!r} is not a constraint.")


def quoted(name: str) -> str:
    """The name of a column as it stands in a sentence: in backticks unless it is a plain word."""
    return name if re.fullmatch(r"[^\W\d]\w*", name) else f"`{name.replace('`', '``')}`"


def literal(cell: Cell) -> str:
    """A value as it stands in a sentence: text in quotes, anything else without."""
    if not isinstance(cell, str):
        return cell_text(cell)
    quote = '"' if "'" in cell and '"' not in cell else "'"
    return f"{quote}{cell.replace(quote, quote * 2)}{quote}"


def cell_text(cell: Cell) -> str:
    """A value as it stands in a file: what a level of that value is called."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return cell.isoformat() if isinstance(cell, datetime.date) else str(cell)


def _unquote(text: str) -> str:
    return text[1:-1].replace(text[0] * 2, text[0]) if text[0] in "`'\"" else text


def _unreadable(problem: str) -> SchemaError:
    return SchemaError("\n  ".join([f"{problem} A constraint is written in one of these ways:", *EXAMPLES]))


def _read_table(table: Mapping[str, Any]) -> Entry:
    columns, allowed = table.get("columns"), table.get("allowed")
    if set(table) != {"columns", "allowed"}:
        raise _unreadable("A table of combinations has the keys `columns` and `allowed`.")
    if not isinstance(columns, list | tuple) or len(columns) < 2 or not all(isinstance(name, str) for name in columns):
        raise _unreadable("`columns` is a list of two or more names of columns.")
    rows = isinstance(allowed, list | tuple) and allowed and all(isinstance(row, list | tuple) for row in allowed)
    if not rows or not all(_is_cell(cell) for row in allowed for cell in row):
        raise _unreadable("`allowed` is a list of rows, each a list of texts, numbers, dates or true and false.")
    return Entry("combinations", (columns, allowed))


def _read_condition(given: str, sign: str, value: str, state: str, then: str, outcome: str) -> Entry:
    value, outcome = (None if text is None else _parse_cell(text) for text in (value, outcome))
    fields = (_unquote(given), sign or " ".join(state.split()), value, _unquote(then), outcome)
    return Entry("condition", fields)


def _parse_cell(text: str) -> Cell:
    if text[0] in "'\"":
        return _unquote(text)
    try:
        cell = next((read(text) for pattern, read in _BARE.items() if re.fullmatch(pattern, text)), None)
    except ValueError:
        cell = None
    if not _is_cell(cell):
        raise _unreadable(f"{text} is no number, date, true or false; text stands in quotes, as in '{text}'.")
    return cell


def _is_cell(cell: object) -> bool:
    if isinstance(cell, int | float):
        return math.isfinite(cell) and abs(cell) < 2**63 if isinstance(cell, int) else math.isfinite(cell)
    return isinstance(cell, str | datetime.date)


_NAME = r"(`(?:[^`]|``)+`|[^\W\d]\w*)"
_CELL = r"""('(?:[^']|'')*'|"(?:[^"]|"")*"|[^\s'"`]+)"""
_SENTENCES: dict[str, Callable[..., Entry]] = {
    rf"{_NAME}\s*<=\s*{_NAME}": lambda lower, upper: Entry("order", (_unquote(lower), _unquote(upper))),
    rf"{_NAME}\s*>=\s*{_NAME}": lambda upper, lower: Entry("order", (_unquote(lower), _unquote(upper))),
    rf"{_NAME}\s+determines\s+{_NAME}": lambda of, what: Entry("determines", (_unquote(of), _unquote(what))),
    rf"if\s+{_NAME}(?:\s*(==|!=|<=|>=|<|>)\s*{_CELL}|\s+(is\s+missing|is\s+not\s+missing))"
    rf"\s+then\s+{_NAME}(?:\s*==\s*{_CELL}|\s+is\s+missing)": _read_condition,
}
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
#: How a value without quotes is read: by the first pattern that fits all of it.
_BARE: dict[str, Callable[[str], Cell]] = {
    "true|false": lambda text: text == "true",
    "[+-]?[0-9]+": int,
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?": float,
    _DATE: datetime.date.fromisoformat,
    f"{_DATE}T.+": datetime.datetime.fromisoformat,
}
