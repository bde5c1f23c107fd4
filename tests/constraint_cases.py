"""Rows read one by one in plain Python, and schemas and cells to enforce constraints on."""

import datetime
import operator

import numpy as np
from hypothesis import strategies as st

from twinify_lite.cells import MISSING, VALUE, Cells, rounded
from twinify_lite.schema import Column, Schema
from twinify_lite.schema.constraints import Combinations, Constraint, Determines, Order
from twinify_lite.schema.enforcing import enforce

DATE, DATETIME = datetime.date, datetime.datetime

SPANS = {name: datetime.timedelta(**{f"{name}s": 1}) for name in ("day", "hour", "minute", "second")}
COMPARE = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}

# -- the slow reading -------------------------------------------------------------------------------------------------


class Special(str):
    """A special value that is a word, which is not comparable with the others."""


def midnight(value):
    """A date as the moment at which it begins; anything else as it is."""
    return DATETIME(value.year, value.month, value.day) if type(value) is DATE else value


def python_special(special):
    """A special value as a person would read it: words are no numbers, and numbers are."""
    return Special(special) if isinstance(special, str) else midnight(special)


def python_cell(column, value, state):
    """One cell as a person would read it: None is missing."""
    if state != VALUE:
        return None if state == MISSING else python_special(column.special[state - 1])
    if column.is_levelled:
        return [*column.levels, column.other][value]
    if column.kind == "datetime":
        return DATETIME(1970, 1, 1) + int(value) * SPANS[column.resolution]
    if column.kind == "integer" or column.decimals is None:
        return value
    return float(rounded(column, np.array(value)))  # as `cells.write` does; Python's round(2.15, 1) is 2.1


def python_rows(schema, cells):
    columns = [
        [python_cell(schema[name], *pair) for pair in zip(c.value.tolist(), c.state.tolist(), strict=True)]
        for name, c in cells.items()
    ]
    return [dict(zip(cells, row, strict=True)) for row in zip(*columns, strict=True)]


def compares(column, cell, sign, value):
    if cell is None:
        return False
    value = midnight(value)
    if isinstance(value, bool):
        value = column.levels[value]
    if sign in ("==", "!="):
        special = isinstance(cell, Special) and cell in (column.special or ())
        same = str(cell) == value if special else cell == value
        return same == (sign == "==")
    if isinstance(cell, Special) or (column.is_levelled and cell == column.other):
        return False
    if column.is_levelled:
        cell, value = column.levels.index(cell), column.levels.index(value)
    return getattr(operator, COMPARE[sign])(cell, value)


def row_holds(schema, constraint, row):
    """Whether a constraint on single rows holds in this one."""
    if isinstance(constraint, Order):
        lower, upper = row[constraint.lower], row[constraint.upper]
        return any(cell is None or isinstance(cell, Special) for cell in (lower, upper)) or lower <= upper
    if isinstance(constraint, Combinations):
        cells = tuple(row[name] for name in constraint.columns)
        return None in cells or tuple(map(str, cells)) in {tuple(map(str, allowed)) for allowed in constraint.allowed}
    given, then = row[constraint.given], row[constraint.then]
    if "missing" in constraint.operator:
        fulfilled = (given is None) == (constraint.operator == "is missing")
    else:
        fulfilled = compares(schema[constraint.given], given, constraint.operator, constraint.value)
    if constraint.outcome is None:
        return not fulfilled or then is None
    return not fulfilled or compares(schema[constraint.then], then, "==", constraint.outcome)


def holds(schema, rows):
    """Whether every constraint of the schema holds in all rows."""
    for constraint in schema.constraints:
        if isinstance(constraint, Determines):
            bound = [row for row in rows if row[constraint.of] not in (None, schema[constraint.of].other)]
            pairs = {(row[constraint.of], row[constraint.what]) for row in bound}
            if len(pairs) > len({row[constraint.of] for row in bound}):
                return False
        elif not all(row_holds(schema, constraint, row) for row in rows):
            return False
    return True


def in_range(column, cell):
    if cell is None or isinstance(cell, Special) or not column.is_ranged:
        return True
    low, high = map(midnight, (column.min, column.max))
    inside = (low is None or low <= cell) and (high is None or cell <= high)
    return inside or cell in map(python_special, column.special or ())


def is_spelled_as_special(column, cells):
    """Whether every number that equals a special value is that special value."""
    if not column.special:
        return True
    numbers = [python_special(special) for special in column.special if not isinstance(special, str)]
    read = [python_cell(column, *pair) for pair in zip(cells.value.tolist(), cells.state.tolist(), strict=True)]
    return not any(state == VALUE and cell in numbers for cell, state in zip(read, cells.state.tolist(), strict=True))


def same(left, right):
    return all((left[n].value == right[n].value).all() and (left[n].state == right[n].state).all() for n in left)


def check_enforced(schema, cells):
    """All promises of `enforce` at once."""
    before, copies = python_rows(schema, cells), {n: Cells(c.value.copy(), c.state.copy()) for n, c in cells.items()}
    after = enforce(schema, cells)
    rows = python_rows(schema, after)
    assert same(cells, copies)
    assert holds(schema, rows)
    assert same(enforce(schema, after), after)
    assert all(after[n].value.dtype == c.value.dtype and after[n].state.dtype == np.int16 for n, c in cells.items())
    assert all(in_range(schema[name], cell) for row in rows for name, cell in row.items())
    assert all(is_spelled_as_special(schema[name], column) for name, column in after.items())
    if not any(isinstance(constraint, Determines) for constraint in schema.constraints):
        for old, new in zip(before, rows, strict=True):
            assert old == new or not all(row_holds(schema, constraint, old) for constraint in schema.constraints)
    return rows


# -- schemas and cells ------------------------------------------------------------------------------------------------


def column(name, kind, **keys):
    return Column(name=name, kind=kind, **keys)


def cells_of(col, values):
    """Cells from Python values: None is missing, a special value is one, a level is its text."""
    value, state = [], []
    for item in values:
        special = (col.special or ()).index(item) + 1 if item in (col.special or ()) and item is not None else VALUE
        state.append(MISSING if item is None else special)
        if state[-1] != VALUE:
            value.append(0)
        elif col.is_levelled:
            value.append([*col.levels, col.other].index(item))
        else:
            value.append(item)
    return Cells(np.array(value, np.float64 if col.kind == "number" else np.int64), np.array(state, np.int16))


def values_of(col):
    """A strategy for the raw values of a column."""
    if col.is_levelled:
        drawn = st.sampled_from([*col.levels, *([] if col.other is None else [col.other])])
    elif col.kind == "datetime":
        bounds = [
            None if b is None else (DATETIME(b.year, b.month, b.day) - DATETIME(1970, 1, 1)) for b in (col.min, col.max)
        ]
        low, high = (
            default if b is None else b // SPANS[col.resolution] for b, default in zip(bounds, (-60, 60), strict=True)
        )
        drawn = st.integers(low, high)
    else:
        low, high = col.min if col.min is not None else -9, col.max if col.max is not None else 9
        drawn = (
            st.integers(low, high)
            if col.kind == "integer"
            else st.integers(low * 100, high * 100).map(lambda v: v / 100)
        )
    rest = [None] * (col.nullable is not False) + list(col.special or ())
    return st.one_of(drawn, drawn, st.sampled_from(rest)) if rest else drawn


@st.composite
def tables(draw, schema, max_rows=12):
    rows = draw(st.lists(st.tuples(*map(values_of, schema.columns)), max_size=max_rows))
    return {c.name: cells_of(c, [row[i] for row in rows]) for i, c in enumerate(schema.columns)}


NUMERIC = [
    {"kind": "integer"},
    {"kind": "integer", "min": -3, "max": 4, "special": (99,)},
    {"kind": "integer", "min": 2, "max": 20},
    {"kind": "number"},
    {"kind": "number", "min": -2, "max": 3},
    {"kind": "number", "min": -5, "max": 5, "decimals": 1},
    {"kind": "number", "min": 0, "max": 5, "decimals": 0},
    {"kind": "integer", "min": 2, "max": 9, "special": (0,)},
    {"kind": "integer", "min": -6, "max": 9, "special": (0, "N", -9, 99)},
    {"kind": "number", "min": 1, "max": 7, "special": (0, "N", 2.5)},
    {"kind": "number", "min": 0, "max": 6, "decimals": 0, "special": (0.5, -1)},
]
TIMES = [
    {"kind": "datetime"},
    {"kind": "datetime", "min": DATE(1970, 1, 1), "max": DATE(1970, 1, 20)},
    {"kind": "datetime", "resolution": "hour"},
    {"kind": "datetime", "resolution": "hour", "min": DATETIME(1969, 12, 30), "max": DATETIME(1970, 1, 2)},
    {"kind": "datetime", "resolution": "minute"},
    {"kind": "datetime", "min": DATE(1970, 1, 3), "max": DATE(1970, 1, 9), "special": (DATE(1970, 1, 1), "never")},
    {
        "kind": "datetime",
        "resolution": "hour",
        "min": DATETIME(1970, 1, 1),
        "max": DATETIME(1970, 1, 4),
        "special": (DATETIME(1969, 12, 31, 5), DATETIME(1970, 1, 8)),
    },
]
PAIRS = st.one_of(*(st.tuples(st.sampled_from(kinds), st.sampled_from(kinds)) for kinds in (NUMERIC, TIMES)))

PEOPLE = (
    column("sex", "category", levels=("female", "male"), other="else"),
    column("age", "integer", min=0, max=99),
    column("income", "number", min=0, max=9, special=("N", "?")),
    column("pregnancies", "integer", min=0, max=5),
    column("city", "category", levels=("Paris", "Lyon", "Oslo", "Rome")),
    column("country", "category", levels=("France", "Norway", "Italy")),
    column("grade", "ordinal", levels=("low", "middle", "high"), other="none"),
    column("smokes", "boolean", levels=("no", "yes")),
    column("admitted", "datetime", min=DATE(2020, 1, 1), max=DATE(2020, 3, 1)),
    column("discharged", "datetime", resolution="hour", min=DATETIME(2020, 1, 5), max=DATETIME(2020, 4, 1)),
)
PLACES = {
    "columns": ["city", "country"],
    "allowed": [["Paris", "France"], ["Lyon", "France"], ["Oslo", "Norway"]],
}
CONDITIONS = [
    "if sex == 'male' then pregnancies is missing",
    "if sex != 'male' then pregnancies == 1",
    "if age < 15 then income == 'N'",
    "if age >= 15.5 then income == 2",
    "if income == 'N' then city == 'Oslo'",
    "if income != 'N' then smokes == true",
    "if income > 4 then grade == 'none'",
    "if grade <= 'middle' then smokes == false",
    "if grade > 'low' then admitted == 2020-01-31",
    "if admitted < 2020-02-01T12:00 then discharged == 2020-02-01T13:00:00",
    "if discharged >= 2020-02-01 then sex == 'else'",
    "if smokes == 'yes' then age == 7",
    "if city is missing then country is missing",
    "if country is not missing then city == 'Rome'",
    "if age is missing then age == 50",
]


def people(*sources):
    return Schema(PEOPLE, tuple(Constraint.parse(source) for source in sources))
