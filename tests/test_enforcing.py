"""What is sampled fulfils the constraints, and changes as little as it can."""

import collections
import datetime

import numpy as np
import pytest
from constraint_cases import (
    COMPARE,
    CONDITIONS,
    NUMERIC,
    PAIRS,
    PLACES,
    SPANS,
    cells_of,
    check_enforced,
    column,
    holds,
    people,
    python_rows,
    tables,
    values_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from twinify_lite.cells import Cells
from twinify_lite.schema import Schema
from twinify_lite.schema.constraints import Combinations, Condition, Constraint, Order
from twinify_lite.schema.enforcing import Enforcer, enforce

DATE, DATETIME = datetime.date, datetime.datetime


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
    assert found == [("Paris", "Italy")] * 3 + [("Oslo", "Norway")] * 2 + [(None, None), (None, "Italy")]


def test_what_may_be_any_value_determines_nothing():
    columns = (
        column("city", "category", levels=("Paris", "Lyon", "Oslo"), other="elsewhere"),
        column("country", "category", levels=("France", "Norway", "Italy"), nullable=False),
    )
    schema = Schema(columns, (Constraint.parse("city determines country"),))
    cities = ["elsewhere"] * 3 + [None] * 3 + ["Lyon"] * 3 + ["Paris"] * 3
    countries = ["France", "Norway", "Italy"] * 3 + ["France", "France", "Italy"]
    found = [(row["city"], row["country"]) for row in check_enforced(schema, table_of(schema, cities, countries))]
    assert found[:6] == list(zip(cities, countries, strict=True))[:6]
    assert found[6:] == [("Lyon", "France")] * 3 + [("Paris", "France")] * 3
    enforcer = Enforcer(schema, {"city": np.array([1])})
    found = python_rows(schema, enforcer.apply(table_of(schema, cities, countries)))
    assert [row["country"] for row in found] == countries[:9] + ["France"] * 3


def table_of(schema, *columns):
    return {one.name: cells_of(one, values) for one, values in zip(schema.columns, columns, strict=True)}


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
