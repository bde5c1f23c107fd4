"""Constraints are checked here by a second, slow reading of them: row by row, in plain Python."""

import collections
import datetime
import operator
import tomllib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinify_lite.cells import MISSING, VALUE, Cells, rounded
from twinify_lite.errors import SchemaError
from twinify_lite.schema import Column, Schema
from twinify_lite.schema.constraints import Combinations, Condition, Constraint, Determines, Order
from twinify_lite.schema.enforcing import Enforcer, enforce
from twinify_lite.schema.sentences import EXAMPLES

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
            if len({(row[constraint.of], row[constraint.what]) for row in rows}) > len(
                {row[constraint.of] for row in rows}
            ):
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


# -- what is enforced -------------------------------------------------------------------------------------------------


@given(st.data(), PAIRS)
@settings(deadline=None)
def test_an_order_holds_in_every_row_and_within_both_ranges(data, pair):
    lower, upper = (column(name, **keys) for name, keys in zip("ab", pair, strict=True))
    if Order("a", "b").problems(Schema((lower, upper))):
        return
    schema = Schema((lower, upper), (Order("a", "b"),))
    check_enforced(schema, data.draw(tables(schema)))


@given(st.data(), st.lists(st.sampled_from(NUMERIC), min_size=4, max_size=4), st.permutations(range(3)))
@settings(deadline=None)
def test_a_chain_of_orders_sorts_the_columns_in_whatever_order_it_is_written(data, kinds, places):
    columns = tuple(column(name, **keys) for name, keys in zip("abcd", kinds, strict=True))
    links = [Order("abcd"[place], "abcd"[place + 1]) for place in places]
    schema = Schema(columns, tuple(links))
    check_enforced(schema, data.draw(tables(schema)))


@given(st.data(), PAIRS, st.sampled_from(list(COMPARE)))
@settings(deadline=None)
def test_a_condition_on_a_column_with_special_numbers_holds_in_every_row(data, pair, sign):
    given, then = (column(name, **keys) for name, keys in zip("ab", pair, strict=True))

    def value_of(col):
        drawn = data.draw(values_of(col).filter(lambda value: value is not None))
        is_tick = col.kind == "datetime" and isinstance(drawn, int)
        return DATETIME(1970, 1, 1) + drawn * SPANS[col.resolution] if is_tick else drawn

    condition = Condition("a", sign, value_of(given), "b", value_of(then))
    if not condition.problems(Schema((given, then))):
        schema = Schema((given, then), (condition,))
        check_enforced(schema, data.draw(tables(schema)))


@pytest.mark.parametrize("source", CONDITIONS)
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_a_condition_holds_in_every_row(source, data):
    schema = people(source)
    check_enforced(schema, data.draw(tables(schema)))


@given(st.data())
@settings(deadline=None)
def test_what_is_determined_is_the_same_for_equal_values(data):
    schema = people("city determines country", "pregnancies determines grade")
    check_enforced(schema, data.draw(tables(schema)))


@given(st.data())
@settings(deadline=None)
def test_only_allowed_combinations_remain(data):
    rows = [["Paris", "France", 1], ["Paris", "France", 2], ["Paris", "Norway", 3], ["Oslo", "Norway", 3]]
    schema = people({"columns": ["city", "country", "pregnancies"], "allowed": rows})
    check_enforced(schema, data.draw(tables(schema)))


@given(st.data(), st.permutations(range(6)))
@settings(deadline=None)
def test_compatible_constraints_hold_together_in_any_order(data, places):
    sources = [
        "admitted <= discharged",
        "city determines country",
        "if sex == 'male' then pregnancies is missing",
        "if age < 15 then income == 'N'",
        "if age < 15 then sex == 'female'",
        PLACES,
    ]
    schema = people(*(sources[place] for place in places))
    check_enforced(schema, data.draw(tables(schema)))


def enforce_pair(kinds, lefts, rights):
    columns = [column(name, **keys) for name, keys in zip("ab", kinds, strict=True)]
    cells = {"a": cells_of(columns[0], lefts), "b": cells_of(columns[1], rights)}
    after = enforce(Schema(tuple(columns), (Order("a", "b"),)), cells)
    return after["a"].value.tolist(), after["b"].value.tolist()


def test_an_order_swaps_values_and_clamps_them_to_their_ranges():
    plain, low = {"kind": "integer"}, {"kind": "integer", "min": 0, "max": 5}
    assert enforce_pair([plain, plain], [3, 1], [1, 3]) == ([1, 1], [3, 3])
    assert enforce_pair([low, {"kind": "integer", "min": -9, "max": 1}], [5], [-9]) == ([0], [1])


def test_an_order_changes_one_value_only_where_the_ranges_allow_no_swap():
    plain, low = {"kind": "integer"}, {"kind": "integer", "min": 0, "max": 5}
    assert enforce_pair([plain, low], [9], [2]) == ([2], [2])
    assert enforce_pair([low, plain], [2], [-4]) == ([2], [2])


WAGE = {"kind": "integer", "min": 4, "max": 100_000, "special": (0,)}


def ordered_rows(kinds, lefts, rights, sources=("a <= b",)):
    """What a person reads in the two columns after `enforce`."""
    columns = [column(name, **keys) for name, keys in zip("ab", kinds, strict=True)]
    schema = Schema(tuple(columns), tuple(map(Constraint.parse, sources)))
    cells = {"a": cells_of(columns[0], lefts), "b": cells_of(columns[1], rights)}
    return [tuple(row.values()) for row in check_enforced(schema, cells)]


def test_an_order_swaps_a_special_number_with_a_value_where_both_columns_have_them():
    assert ordered_rows([WAGE, WAGE], [48_716, 0, 0, 7], [0, 0, 5, 9]) == [(0, 48_716), (0, 0), (0, 5), (7, 9)]


def test_an_order_beside_a_special_number_that_the_other_column_lacks_changes_that_cell_alone():
    paid = {"kind": "integer", "min": 4, "max": 100_000}
    assert ordered_rows([paid, WAGE], [50], [0]) == [(50, 50)]
    top = {"kind": "integer", "min": 0, "max": 9, "special": (999,)}
    assert ordered_rows([top, {"kind": "integer", "min": 0, "max": 9}], [999], [3]) == [(3, 3)]
    assert ordered_rows([paid, {**WAGE, "max": 40}], [50], [0]) == [(4, 40)]


def test_an_order_that_only_special_numbers_fulfil_uses_these():
    assert ordered_rows([WAGE, {"kind": "integer", "min": 0, "max": 3}], [7, 0], [2, 1]) == [(0, 2), (0, 1)]
    low = {"kind": "integer", "min": 0, "max": 3, "special": (50,)}
    assert ordered_rows([{"kind": "integer", "min": 4, "max": 60}, low], [7, 55], [2, 2]) == [(7, 50), (4, 50)]


def test_words_and_missing_cells_stay_out_of_an_order():
    words = {"kind": "number", "min": 1, "max": 9, "special": ("N", 0)}
    assert ordered_rows([words, words], ["N", 5, None, 5], [0, "N", 0, 0]) == [("N", 0), (5, "N"), (None, 0), (0, 5)]


def test_an_order_that_meets_a_special_value_inside_the_range_writes_it_as_such():
    inside = {"kind": "integer", "min": 0, "max": 99, "special": (40,)}
    assert ordered_rows([inside, {"kind": "integer", "min": 0, "max": 99}], [60], [40]) == [(40, 60)]


@pytest.mark.parametrize(
    ("sign", "value", "changed"),
    [
        ("<", 5, "11000"),
        ("<=", 5, "11100"),
        (">", 6, "00011"),
        (">=", 999, "00001"),
        ("==", 0, "10000"),
        ("!=", 0, "01111"),
        ("<", 1, "11000"),
        ("!=", 7, "11101"),
    ],
)
def test_a_condition_compares_a_special_number_by_its_number(sign, value, changed):
    hours = {"kind": "integer", "min": 5, "max": 100, "special": (0, "N", -1, 999)}
    wage = {"kind": "integer", "min": 0, "max": 9, "special": ("N",)}
    source = f"if a {sign} {value} then b == 'N'"
    found = ordered_rows([hours, wage], [0, -1, 5, 7, 999], [3] * 5, [source])
    assert "".join("1" if b == "N" else "0" for _, b in found) == changed
    assert ordered_rows([hours, wage], ["N", None], [3, 3], ["if a < 5 then b == 'N'"]) == [("N", 3), (None, 3)]


def test_a_number_as_text_among_the_special_values_is_compared_by_its_number():
    columns = (
        column("a", "number", min=1, max=9, special=("0.00",)),
        column("b", "number", min=1, max=9, special=(0,)),
    )
    cells = {"a": cells_of(columns[0], [5, "0.00"]), "b": cells_of(columns[1], [0, 4])}
    after = enforce(Schema(columns, (Order("a", "b"),)), cells)
    assert after["a"].state.tolist() == [1, 1]
    assert (after["b"].value.tolist(), after["b"].state.tolist()) == ([5, 4], [0, 0])
    condition = Constraint.parse("if a == 0 then b == 3")
    assert enforce(Schema(columns, (condition,)), cells)["b"].value.tolist() == [0, 3]


def test_orders_that_pull_a_column_two_ways_settle():
    columns = (
        column("a", "integer", min=2, max=20),
        column("b", "integer", min=0, max=20, special=(-5,)),
        column("c", "integer", min=-3, max=4, special=(-5,)),
    )
    schema = Schema(columns, (Order("a", "b"), Order("b", "c")))
    cells = {"a": cells_of(columns[0], [20]), "b": cells_of(columns[1], [20]), "c": cells_of(columns[2], [-5])}
    check_enforced(schema, cells)


def test_an_order_holds_even_where_the_values_were_outside_their_ranges():
    plain, high = {"kind": "integer"}, {"kind": "integer", "min": 5, "max": 9}
    assert enforce_pair([high, plain], [2], [1]) == ([5], [5])
    assert enforce_pair([plain, high], [12], [11]) == ([9], [9])
    assert enforce_pair([high, {"kind": "integer", "min": 0, "max": 7}], [9], [3]) == ([5], [7])


def test_a_whole_number_stays_whole_beside_a_number_and_the_order_holds():
    assert enforce_pair([{"kind": "integer"}, {"kind": "number"}], [5], [2.5]) == ([2], [5.0])
    assert enforce_pair([{"kind": "number"}, {"kind": "integer"}], [2.5], [-1]) == ([-1.0], [3])
    assert enforce_pair([{"kind": "number"}, {"kind": "integer"}], [1e300], [0]) == ([0.0], [2**62])


def test_numbers_are_compared_as_they_are_written():
    tenths = {"kind": "number", "decimals": 1}
    assert enforce_pair([tenths, tenths], [0.34], [0.31]) == ([0.34], [0.31])
    whole = {"kind": "number", "decimals": 0}
    assert enforce_pair([whole, tenths], [3.6], [3.7]) == ([3.0], [4.0])
    cents = {"kind": "number", "decimals": 2}
    assert enforce_pair([cents, cents], [0.3], [0.29]) == ([0.29], [0.3])
    assert str(enforce_pair([tenths, whole], [-0.3], [-2.0])[1]) == "[0.0]"


def test_times_of_different_resolution_are_compared_in_time():
    day, hour = {"kind": "datetime"}, {"kind": "datetime", "resolution": "hour"}
    assert enforce_pair([day, hour], [11, 10], [10 * 24 + 15, 10 * 24]) == ([10, 10], [11 * 24, 10 * 24])
    assert enforce_pair([hour, day], [10 * 24 + 9], [10]) == ([10 * 24], [11])
    assert enforce_pair([hour, day], [-9], [-1]) == ([-24], [0])


def test_hours_that_lie_beside_those_of_utc_are_compared_in_time():
    india = {"kind": "datetime", "resolution": "hour", "zone": "Asia/Kolkata"}
    minute = {"kind": "datetime", "resolution": "minute", "zone": "UTC"}
    hours, minutes = enforce_pair([india, minute], [11, 11], [10 * 60 + 29, 10 * 60 + 30])  # hour 11 starts at 10:30
    assert (hours, minutes) == ([10, 11], [10 * 60 + 30, 10 * 60 + 30])
    minutes, hours = enforce_pair([minute, india], [10 * 60 + 31, 10 * 60 + 30], [11, 11])
    assert (minutes, hours) == ([10 * 60 + 30, 10 * 60 + 30], [12, 11])


def test_bounds_between_two_ticks_do_not_break_an_order():
    late = {"kind": "datetime", "resolution": "hour", "min": DATETIME(1970, 1, 1), "max": DATETIME(1970, 1, 1, 10, 30)}
    assert enforce_pair([{"kind": "datetime", "resolution": "minute"}, late], [700], [11]) == ([600], [10])


def test_large_whole_numbers_do_not_pass_through_floating_point():
    big = 2**62
    assert enforce_pair([{"kind": "integer"}] * 2, [big + 1], [big]) == ([big], [big + 1])


def places(schema, cities, countries):
    cells = {"city": cells_of(schema["city"], cities), "country": cells_of(schema["country"], countries)}
    return [tuple(row.values()) for row in python_rows(schema, enforce(schema, cells))]


def test_the_most_frequent_value_is_determined_and_of_ties_the_first():
    schema = people("city determines country")
    found = places(
        schema,
        ["Paris"] * 3 + ["Oslo"] * 2 + [None] * 2,
        ["France", "Italy", "Italy", "Italy", "Norway", None, "Italy"],
    )
    assert found == [("Paris", "Italy")] * 3 + [("Oslo", "Norway")] * 2 + [(None, "Italy")] * 2


def test_a_combination_keeps_its_longest_allowed_prefix():
    found = places(
        people(PLACES), ["Paris", "Oslo", "Lyon", None, "Oslo"], ["Italy", "France", "France", "Italy", None]
    )
    assert found == [("Paris", "France"), ("Oslo", "Norway"), ("Lyon", "France"), (None, "Italy"), ("Oslo", None)]


def test_of_equally_good_combinations_the_one_that_changes_least_is_taken():
    assert places(people(PLACES), ["Rome"] * 2, ["Norway"] * 2) == [("Oslo", "Norway")] * 2


def test_equally_good_combinations_take_turns():
    found = collections.Counter(places(people(PLACES), ["Rome"] * 30, ["Italy"] * 15 + ["France"] * 15))
    assert found == {("Paris", "France"): 12, ("Lyon", "France"): 13, ("Oslo", "Norway"): 5}


def test_special_values_can_be_part_of_a_combination():
    columns = column("n", "integer", min=0, max=9, special=("none",)), column("b", "boolean")
    schema = Schema(columns, (Combinations(("b", "n"), ((True, 3), (False, "none"))),))
    cells = {
        "n": cells_of(columns[0], [3, 3, "none", 5]),
        "b": cells_of(columns[1], ["true", "false", "true", "false"]),
    }
    after = python_rows(schema, enforce(schema, cells))
    assert [row["n"] for row in after] == [3, "none", 3, "none"]


def test_a_missing_cell_fulfils_no_comparison_and_a_special_one_no_order():
    schema = people("if income < 5 then sex == 'male'", "if grade != 'low' then smokes == true")
    cells = {
        "income": cells_of(schema["income"], [None, "N", 7, 3]),
        "sex": cells_of(schema["sex"], ["female"] * 4),
        "grade": cells_of(schema["grade"], [None, "low", "high", "none"]),
        "smokes": cells_of(schema["smokes"], ["no"] * 4),
    }
    rows = python_rows(schema, enforce(schema, cells))
    assert [row["sex"] for row in rows] == ["female"] * 3 + ["male"]
    assert [row["smokes"] for row in rows] == ["no", "no", "yes", "yes"]


def test_other_is_neither_below_nor_above_a_level():
    schema = people("if grade >= 'low' then sex == 'male'")
    cells = {"grade": cells_of(schema["grade"], ["none", "low"]), "sex": cells_of(schema["sex"], ["female"] * 2)}
    assert [row["sex"] for row in python_rows(schema, enforce(schema, cells))] == ["female", "male"]


def test_contradictions_end_and_the_last_condition_wins():
    schema = people("if age > 5 then sex == 'male'", "if age > 7 then sex == 'female'")
    cells = {"age": cells_of(schema["age"], [9, 6]), "sex": cells_of(schema["sex"], ["else", "else"])}
    assert [row["sex"] for row in python_rows(schema, enforce(schema, cells))] == ["female", "male"]


@given(st.data(), st.integers(1, 10))
@settings(deadline=None)
def test_chunks_keep_one_mapping(data, size):
    schema = people("city determines country", "pregnancies determines sex")
    cells = data.draw(tables(schema))
    enforcer, rows = Enforcer(schema), []
    for start in range(0, len(cells["city"].state), size):
        part = slice(start, start + size)
        rows += python_rows(schema, enforcer.apply({n: Cells(c.value[part], c.state[part]) for n, c in cells.items()}))
    assert holds(schema, rows)


def test_the_first_chunk_decides():
    schema = people("city determines country")

    def chunk(cities, countries):
        return {"city": cells_of(schema["city"], cities), "country": cells_of(schema["country"], countries)}

    enforcer = Enforcer(schema)
    enforcer.apply(chunk(["Paris"], ["France"]))
    enforcer.apply(chunk(["Oslo"], ["Norway"]))
    after = python_rows(schema, enforcer.apply(chunk(["Paris", "Paris", "Oslo"], ["Italy", "Italy", "Italy"])))
    assert [row["country"] for row in after] == ["France", "France", "Norway"]


@given(st.data(), st.integers(1, 10))
@settings(deadline=None)
def test_combinations_do_not_depend_on_the_chunks(data, size):
    schema = people(PLACES)
    cells = data.draw(tables(schema))
    enforcer, rows = Enforcer(schema), []
    for start in range(0, len(cells["city"].state), size):
        part = slice(start, start + size)
        rows += python_rows(schema, enforcer.apply({n: Cells(c.value[part], c.state[part]) for n, c in cells.items()}))
    assert rows == python_rows(schema, enforce(schema, cells))


# -- how they are written ---------------------------------------------------------------------------------------------

NAMES = st.text(min_size=1, max_size=8) | st.sampled_from(["if", "then", "date of birth", "a`b", "is", "é"])
VALUES = st.one_of(
    st.text(max_size=8),
    st.integers(-(2**63) + 1, 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.just(datetime.UTC)),
)
OUTCOMES = st.none() | VALUES
ANY = st.one_of(
    st.builds(Order, NAMES, NAMES),
    st.builds(Determines, NAMES, NAMES),
    st.builds(
        Combinations, st.lists(NAMES, min_size=2, max_size=3), st.lists(st.lists(VALUES, max_size=3), min_size=1)
    ),
    st.builds(Condition, NAMES, st.sampled_from(list(COMPARE)), VALUES, NAMES, OUTCOMES),
    st.builds(Condition, NAMES, st.sampled_from(["is missing", "is not missing"]), st.none(), NAMES, OUTCOMES),
)


@given(ANY)
@settings(deadline=None)
def test_what_is_written_is_read_back_equal(constraint):
    assert Constraint.parse(constraint.to_toml()) == constraint


@pytest.mark.parametrize(
    ("source", "constraint"),
    [
        ("admitted <= discharged", Order("admitted", "discharged")),
        ("  discharged>=admitted ", Order("admitted", "discharged")),
        ("`date of birth` <= admitted", Order("date of birth", "admitted")),
        ("city determines country", Determines("city", "country")),
        ("if sex == 'male' then pregnancies is missing", Condition("sex", "==", "male", "pregnancies", None)),
        ("if a  is  not  missing then b == -1.5", Condition("a", "is not missing", None, "b", -1.5)),
        ("if a is missing then b == true", Condition("a", "is missing", None, "b", True)),
        ("if a<=3 then b=='it''s'", Condition("a", "<=", 3, "b", "it's")),
        ('if a != "x" then b == 2020-01-31', Condition("a", "!=", "x", "b", DATE(2020, 1, 31))),
        ("if a > 2020-01-31T08:30 then b == .5", Condition("a", ">", DATETIME(2020, 1, 31, 8, 30), "b", 0.5)),
        (PLACES, Combinations(("city", "country"), (("Paris", "France"), ("Lyon", "France"), ("Oslo", "Norway")))),
    ],
)
def test_each_form_is_read(source, constraint):
    assert Constraint.parse(source) == constraint


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("a = b", "'a = b' is not a constraint"),
        ("a < b", "is not a constraint"),
        ("date of birth <= admitted", "is not a constraint"),
        ("if a then b is missing", "is not a constraint"),
        ("if a == 1 then b != 2", "is not a constraint"),
        ("", "is not a constraint"),
        (3, "3 is not a constraint"),
        ("if sex == male then b is missing", "text stands in quotes, as in 'male'"),
        ("if a == 2020-13-01 then b is missing", "2020-13-01 is no number, date"),
        ("if a == nan then b is missing", "nan is no number"),
        ("if a == 1e999 then b is missing", "1e999 is no number"),
        ("if a == 99999999999999999999 then b is missing", "is no number"),
        ("if a == " + "9" * 5000 + " then b is missing", "is no number"),
        ({"columns": ["a", "b"]}, "keys `columns` and `allowed`"),
        ({"columns": ["a", "b"], "allowed": [[1, 2]], "more": 1}, "keys `columns` and `allowed`"),
        ({"columns": "ab", "allowed": [[1, 2]]}, "`columns` is a list"),
        ({"columns": ["a"], "allowed": [[1]]}, "`columns` is a list"),
        ({"columns": ["a", 1], "allowed": [[1, 2]]}, "`columns` is a list"),
        ({"columns": ["a", "b"], "allowed": []}, "`allowed` is a list"),
        ({"columns": ["a", "b"], "allowed": ["ab"]}, "`allowed` is a list"),
        ({"columns": ["a", "b"], "allowed": [[1, [2]]]}, "`allowed` is a list"),
        ({"columns": ["a", "b"], "allowed": [[1, float("nan")]]}, "`allowed` is a list"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_four_forms_as_examples(source, says):
    with pytest.raises(SchemaError) as error:
        Constraint.parse(source)
    assert says in str(error.value)
    assert all(example in str(error.value) for example in EXAMPLES)


def test_the_examples_in_the_error_are_constraints():
    for constraint in tomllib.loads(f"constraints = [{', '.join(EXAMPLES)}]")["constraints"]:
        Constraint.parse(constraint)


# -- what is a problem ------------------------------------------------------------------------------------------------

WARD = Schema(
    (
        *PEOPLE,
        column("id", "identifier"),
        column("ward", "constant", value="A"),
        column("open", "category"),
        column("weight", "number"),
        column("ratio", "number", min=0, max=1, decimals=2),
        column("born", "datetime", zone="Europe/Oslo", resolution="second"),
        column("sure", "boolean", nullable=False),
        column("tall", "integer", min=200, max=300),
    )
)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("admited <= discharged", "there is no column 'admited'. Did you mean 'admitted'?"),
        ("age <= zzz", "there is no column 'zzz'."),
        ("id determines city", "column 'id' is of kind identifier, which is not modelled"),
        ("if ward == 'A' then age == 3", "column 'ward' is of kind constant, which is not modelled"),
        ("age <= age", "it compares column 'age' with itself"),
        ("age <= admitted", "column 'age' is of kind integer and 'admitted' of kind datetime"),
        ("sex <= city", "An order is between two numbers or between two datetimes"),
        ("born <= admitted", "column 'born' counts instants and 'admitted' wall time, which do not compare"),
        ("tall <= age", "the `min` of column 'tall' is above the `max` of 'age'"),
        ("city determines city", "column 'city' always determines itself"),
        ("city determines weight", "column 'weight' is of kind number. Only levels and whole numbers"),
        ("admitted determines city", "column 'admitted' is of kind datetime. Only levels"),
        ("if sex == 'man' then age == 3", "'man' is not a level of column 'sex', which is of kind category"),
        ("if sex < 'male' then age == 3", "'male' is neither below nor above a value of column 'sex'"),
        ("if grade < 'none' then age == 3", "'none' is not a level of column 'grade'"),
        ("if sex == true then age == 3", "true is not a level of column 'sex'"),
        ("if age < 100 then sex == 'male'", "100 is outside the range of column 'age'"),
        ("if age == 'N' then sex == 'male'", "'N' is neither a value nor special in column 'age'"),
        ("if income < 'N' then sex == 'male'", "'N' is neither a value nor special in column 'income'"),
        ("if weight < 'N' then sex == 'male'", "'N' is neither a value nor special in column 'weight'"),
        ("if age == true then sex == 'male'", "true is neither a value nor special in column 'age'"),
        (
            "if admitted < '2020-01-31' then age == 3",
            "'2020-01-31' is neither a value nor special in column 'admitted'",
        ),
        ("if admitted < 2019-12-31 then age == 3", "2019-12-31 is outside the range of column 'admitted'"),
        ("if sex == 'male' then age == -1", "-1 is outside the range of column 'age'"),
        ("if sex == 'male' then age == 1.5", "1.5 is too fine for column 'age'"),
        ("if sex == 'male' then ratio == 0.125", "0.125 is too fine for column 'ratio'"),
        ("if sex == 'male' then admitted == 2020-01-31T12:00", "is too fine for column 'admitted'"),
        ("if sex == 'male' then sure is missing", "column 'sure' has `nullable = false` and cannot be missing"),
        ({"columns": ["city", "city"], "allowed": [["Paris", "Paris"]]}, "it names a column twice"),
        ({"columns": ["city", "country"], "allowed": [["Paris"]]}, "row 1 of `allowed` has 1 values for 2 columns"),
        (
            {"columns": ["city", "country"], "allowed": [["Paris", "Spain"]]},
            "'Spain' is not a level of column 'country'",
        ),
        ({"columns": ["city", "weight"], "allowed": [["Paris", 1.0]]}, "column 'weight' is of kind number"),
        ({"columns": ["city", "age"], "allowed": [["Paris", 100]]}, "100 is outside the range of column 'age'"),
    ],
)
def test_each_problem_is_told_with_the_constraint(source, says):
    problems = Constraint.parse(source).problems(WARD)
    assert len(problems) == 1
    assert says in problems[0]
    assert problems[0].startswith("Constraint ")


@pytest.mark.parametrize(
    "source",
    [
        *CONDITIONS,
        PLACES,
        "if open == 'anything' then weight == 'N'",
        "if weight < -1e9 then open is missing",
        "if sex == 'male' then ratio == 0.29",
        "open determines age",
    ],
)
def test_what_is_declared_so_or_left_open_is_no_problem(source):
    assert Constraint.parse(source).problems(WARD) == []


def test_all_problems_of_a_constraint_are_told_at_once():
    assert len(Constraint.parse("if sex == 'man' then age == -1").problems(WARD)) == 2


def test_a_schema_with_an_impossible_constraint_is_refused():
    with pytest.raises(SchemaError, match=r"there is no column 'agee'\. Did you mean 'age'"):
        people("agee <= pregnancies").require_constraints()
    with pytest.raises(SchemaError, match=r"there is no column 'agee'"):
        Enforcer(people("agee <= pregnancies"))


def test_a_constraint_names_its_columns_and_the_values_it_speaks_of():
    assert Constraint.parse("a <= b").named == {"a": (), "b": ()}
    assert Constraint.parse("if a < 3 then b == 'x'").named == {"a": (3,), "b": ("x",)}
    assert Constraint.parse("if a is missing then a == 3").named == {"a": (3,)}
    assert Constraint.parse(PLACES).names == ("city", "country")


def test_a_schema_with_constraints_is_written_and_read_back():
    schema = people(*CONDITIONS, PLACES, "city determines country", "admitted <= discharged")
    assert Schema.from_toml(schema.to_toml()) == schema
