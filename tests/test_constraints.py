"""How constraints are written, and what is wrong with one."""

import datetime
import tomllib

import pytest
from constraint_cases import COMPARE, CONDITIONS, PEOPLE, PLACES, column, people
from hypothesis import given, settings
from hypothesis import strategies as st

from twinify_lite.errors import SchemaError
from twinify_lite.schema import Schema
from twinify_lite.schema.constraints import Combinations, Condition, Constraint, Determines, Order
from twinify_lite.schema.enforcing import Enforcer
from twinify_lite.schema.sentences import EXAMPLES

DATE, DATETIME = datetime.date, datetime.datetime

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
