"""Everything that is wrong with a column is told at once, and what is sound is accepted."""

import datetime
import math
import re

import pytest
from schema_cases import ALWAYS, DAY, DTYPES, HELSINKI, MIDNIGHT, NOON, UTC, column, problems_of

from twinify_lite.schema import KEYS, KINDS, LEVELLED, RANGED
from twinify_lite.schema.checks import CHECKS, DIRECTIVES
from twinify_lite.schema.rules import column_problems
from twinify_lite.schema.settle import DEFAULTS, zone_info
from twinify_lite.schema.words import SYNONYMS

WRONG = [
    ("integer", {"distribution": "Poison"}, "there is no distribution 'Poison'; did you mean 'Poisson'?"),
    ("integer", {"distribution": 5}, 'distribution must be text such as "Normal"'),
    ("number", {"distribution": "Poisson"}, "distribution 'Poisson' does not fit a column of kind 'number'"),
    ("category", {"distribution": "Normal"}, "does not fit a column of kind 'category'. Use 'Categorical'"),
    ("number", {"distribution": "Gamma", "min": -1, "max": 1}, "distribution 'Gamma' begins at 0, and min lies below"),
    ("integer", {"distribution": "Hurdle"}, "needs another one inside: Hurdle(LogNormal)"),
    ("integer", {"distribution": "Twice(Poisson)"}, "there is no form 'Twice' of a distribution"),
    ("number", {"distribution": "ZeroInflated(Normal)"}, "ZeroInflated(...) takes 'Poisson' or 'NegativeBinomial'"),
    ("number", {"name": ""}, "its name must be text that is not blank"),
    ("number", {"name": " \t"}, "its name must be text that is not blank"),
    ("number", {"name": 5}, "its name must be text that is not blank"),
    ("number", {"name": "a\ud800"}, "its name contains half a character"),
    ("numbr", {}, "there is no kind 'numbr'; did you mean 'number'?"),
    ("float", {}, "there is no kind 'float'; did you mean 'number'?"),
    ("zzz", {}, "there is no kind 'zzz'. The kinds are number, integer,"),
    (None, {}, "there is no kind None"),
    ("category", {"min": 0}, "'min' does not belong to a category; delete it, or set kind to 'number', 'integer' or"),
    ("integer", {"decimals": 0}, "'decimals' does not belong to an integer; delete it, or set kind to 'number'."),
    ("number", {"nullable": "yes"}, "nullable must be true or false"),
    ("number", {"nullable": 1}, "nullable must be true or false"),
    ("number", {"dtype": "complex"}, "dtype must be bool,"),
    ("number", {"dtype": 3}, "dtype must be bool,"),
    ("number", {"peeked": ["kind", "min"]}, "peeked names 'min', which is not set"),
    ("number", {"peeked": ["levels"]}, "peeked names 'levels', which is not a key of this column"),
    ("number", {"peeked": ["mni"]}, "peeked names 'mni', which is not a key of this column; did you mean 'min'?"),
    ("number", {"peeked": ["peeked"]}, "peeked names 'peeked', which is not a key"),
    ("number", {"peeked": ["scale", "scale"]}, "peeked names a key twice"),
    ("number", {"peeked": "min"}, "peeked must be a list"),
    ("number", {"peeked": [1]}, "peeked must be a list"),
    ("number", {"min": 2, "max": 1}, "min is greater than max. Exchange them."),
    ("number", {"min": 1, "max": 1.0}, "min equals max, so every row has the same value. Set kind to 'constant'"),
    ("number", {"min": "low"}, "min must be a number."),
    ("number", {"max": False}, "max must be a number."),
    ("number", {"max": DAY}, "max must be a number."),
    ("number", {"min": math.nan}, "min must be finite"),
    ("number", {"max": math.inf}, "max must be finite"),
    ("number", {"max": 10**30}, "max does not fit into 64 bits. Give it a decimal point"),
    ("number", {"min": -1.7e308, "max": 1.7e308}, "wider than any number"),
    ("integer", {"min": 0.5}, "min must be a whole number, as the kind is integer"),
    ("integer", {"max": 2**63}, "max does not fit into 64 bits. Use kind 'number'."),
    ("number", {"special": "N"}, "special must be a list"),
    ("number", {"special": list(range(10_001))}, "special has more than 10,000 values. Declare"),
    ("number", {"special": [True]}, "every value of special must be a number, or text"),
    ("number", {"special": [DAY]}, "every value of special must be a number, or text"),
    ("number", {"special": [math.inf]}, "every value of special must be finite"),
    ("number", {"special": ["\udfff"]}, "every value of special contains half a character"),
    ("number", {"special": [-1, -1.0]}, "special has a value twice"),
    ("number", {"special": [9, "9"]}, "special has a value twice"),
    ("integer", {"special": [0.5]}, "every value of special must be a whole number"),
    ("number", {"heaps": 3}, "heaps must be a list"),
    ("number", {"heaps": ["N"]}, "every value of heaps must be a number."),
    ("number", {"heaps": [1, 1.0]}, "heaps has a value twice"),
    ("integer", {"heaps": [0.5]}, "every value of heaps must be a whole number"),
    ("number", {"min": 0, "heaps": [-1]}, "heaps has a value outside min and max"),
    ("number", {"max": 5, "heaps": [3, 6]}, "heaps has a value outside min and max"),
    ("number", {"heaps": [3], "special": ["3"]}, "both in heaps and in special"),
    ("number", {"scale": "lgo"}, "scale must be 'linear' or 'log'; did you mean 'log'?"),
    ("number", {"scale": 3}, "scale must be 'linear' or 'log'."),
    ("number", {"scale": "log", "min": 0}, "a log scale needs min > 0"),
    ("integer", {"scale": "log", "max": -1}, "a log scale needs max > 0"),
    ("number", {"decimals": -1}, "decimals must be a whole number from 0 to 15"),
    ("number", {"decimals": 16}, "decimals must be a whole number from 0 to 15"),
    ("number", {"decimals": 2.0}, "decimals must be a whole number from 0 to 15"),
    ("number", {"decimals": True}, "decimals must be a whole number from 0 to 15"),
    ("category", {"levels": []}, "levels is empty"),
    ("category", {"levels": "abc"}, "levels must be a list"),
    ("category", {"levels": ["a", 0.5]}, "every one of levels must be text"),
    ("category", {"levels": ["a", None]}, "every one of levels must be text"),
    ("category", {"levels": ["\ud800"]}, "every one of levels contains half a character"),
    ("category", {"levels": ["a", "1", 1]}, "levels has '1' more than once"),
    ("category", {"other": 0.5}, "other must be text"),
    ("category", {"levels": ["a", "b"], "other": "b"}, "other is 'b', which is one of levels too. Take it out"),
    ("ordinal", {"levels": None}, "an ordinal must declare its levels, because their order cannot be discovered"),
    ("ordinal", {"levels": []}, "levels is empty. List at least one, or use kind 'category'"),
    ("boolean", {"levels": ["yes"]}, "levels of a boolean are two"),
    ("boolean", {"levels": ["a", "b", "c"]}, "levels of a boolean are two"),
    ("boolean", {"levels": [True, False]}, "first what false is called"),
    ("boolean", {"levels": ["Yes", "No"]}, "first what false is called"),
    ("boolean", {"levels": ["a", "a"]}, "levels has 'a' more than once"),
    ("datetime", {"min": 3}, "min must be a date or a time"),
    ("datetime", {"min": "tomorrow"}, "min must be a date or a time"),
    ("datetime", {"max": datetime.time(3)}, "max must be a date or a time"),
    ("datetime", {"heaps": ["x"]}, "every value of heaps must be a date or a time"),
    ("datetime", {"special": [9999]}, "every value of special must be a date or a time"),
    ("datetime", {"min": NOON}, "min must be a date such as 2024-12-31, as the resolution is a day"),
    ("datetime", {"min": NOON.replace(tzinfo=UTC), "resolution": "hour"}, "min has a zone and the column has none"),
    ("datetime", {"min": DAY, "max": "2024-05-05"}, "min is greater than max"),
    ("datetime", {"min": DAY, "max": DAY}, "min equals max"),
    ("datetime", {"max": DAY, "heaps": ["2024-05-07"]}, "heaps has a value outside"),
    ("datetime", {"resolution": "seconds"}, "resolution must be 'day', 'hour', 'minute', 'second', 'millisecond' or"),
    ("datetime", {"resolution": "seconds"}, "did you mean 'second'?"),
    ("datetime", {"format": "YYYY-MM-DD"}, "format has no directive"),
    ("datetime", {"format": "100%%"}, "format has no directive"),
    ("datetime", {"format": "%Y-%Q"}, "format has '%Q', which is none of %Y"),
    ("datetime", {"format": "%Y-%"}, "format has '%', which is none of %Y"),
    ("datetime", {"format": "%Y %F"}, "format has a directive twice"),
    ("datetime", {"format": "%Y\0"}, "NUL"),
    ("datetime", {"format": 3}, "format must be text"),
    ("datetime", {"format": "%d"}, "format has %d, a day, and no month. Add %m"),
    ("datetime", {"format": "%d.%m."}, "and no year. Add %Y"),
    ("datetime", {"format": "%j"}, "and no year. Add %Y"),
    ("datetime", {"zone": "europe/helsinky"}, "no zone 'europe/helsinky'. Use an IANA name such as 'Europe/Helsinki'"),
    ("datetime", {"zone": "Europe"}, "there is no zone 'Europe'"),
    ("datetime", {"zone": "../etc/passwd"}, "there is no zone"),
    ("datetime", {"zone": ""}, "there is no zone ''"),
    ("datetime", {"zone": "+25:00"}, "there is no zone '+25:00'"),
    ("datetime", {"zone": 2}, "there is no zone 2"),
    ("identifier", {"sample": "drop"}, "sample must be 'omit' or 'surrogate'"),
    ("identifier", {"pattern": "P"}, "pattern must contain one {}"),
    ("identifier", {"pattern": "{}{}"}, "pattern must contain one {}"),
    ("identifier", {"pattern": "{{}}"}, "pattern must contain one {}"),
    ("identifier", {"pattern": "{"}, "pattern must contain one {}"),
    ("identifier", {"pattern": "{name}"}, "pattern must contain one {}"),
    ("identifier", {"pattern": "{0.__class__}"}, "pattern must contain one {}"),
    ("identifier", {"pattern": "{!r}"}, "pattern must contain one {}"),
    ("identifier", {"pattern": "{:0999999999d}"}, "pattern must contain one {}"),
    ("identifier", {"pattern": "{:s}"}, "pattern must contain one {}"),
    ("identifier", {"pattern": 3}, "pattern must be text"),
    ("constant", {"value": None}, "a constant needs its value"),
    ("constant", {"value": math.nan}, "value must be finite"),
    ("constant", {"value": 2**63}, "value does not fit into 64 bits"),
    ("constant", {"value": [1]}, "value must be text, a number"),
    ("constant", {"value": datetime.time(3)}, "value must be text, a number"),
    ("constant", {"value": "\ud800"}, "value contains half a character"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "keys", "said"), WRONG, ids=lambda value: repr(value) if isinstance(value, dict) else ""
)
def test_a_wrong_column_is_refused_with_one_sentence_that_says_what_and_how_to_repair_it(kind, keys, said):
    found = problems_of(kind, **keys)
    assert len(found) == 1
    assert found[0].startswith(f"Column {keys.get('name', 'age')!r}: ")
    assert said in found[0]
    assert found[0][-1] in ".?"


def test_every_key_and_every_kind_has_a_wrong_example():
    assert {kind for kind, _, _ in WRONG} >= set(KINDS)
    assert {key for _, keys, _ in WRONG for key in keys} >= set(DEFAULTS)


def test_every_key_but_the_kind_has_a_checker_and_a_default():
    assert set(CHECKS) == set(DEFAULTS) == {key for keys in KEYS.values() for key in keys} - {"kind"}


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_that_a_kind_does_not_have_is_refused_by_name(kind):
    given = {
        "min": 1, "max": 2, "special": ["N"], "heaps": [1], "scale": "log", "decimals": 1, "levels": ["a", "b"],
        "other": "c", "resolution": "hour", "format": "%Y", "zone": "UTC", "sample": "surrogate", "pattern": "P{}",
        "value": 1,
    }  # fmt: skip
    foreign = [key for key in given if key not in KEYS[kind]]
    found = problems_of(kind, **{key: given[key] for key in foreign})
    assert [re.search(r"'(\w+)' does not belong", problem)[1] for problem in found] == foreign


def test_all_problems_of_a_column_are_told_at_once_each_once():
    found = problems_of("integer", nullable="no", min=5, max=1, special=[0.5, 1.5], levels=["a"])
    assert len(found) == 4
    assert len(problems_of("number", dtype="x", min=5, max=1)) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_the_least_that_a_kind_needs_is_enough_and_leaves_open_what_can_be_discovered(kind):
    wanted = {
        "number": ("min", "max", "special", "heaps", "nullable"),
        "category": ("levels", "nullable"),
        "ordinal": ("nullable",),
        "boolean": ("nullable",),
        "identifier": (),
        "constant": (),
    }
    assert column(kind).open == wanted.get(kind, wanted["number"])
    assert column(kind).is_modelled == (kind in RANGED + LEVELLED)


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("number", {"min": 0, "max": 1, "special": [-99, 7.5, "N", "99"]}),
        ("number", {"min": -1e308, "max": 0.5e308, "decimals": 15}),
        ("number", {"min": 5e-324, "scale": "log"}),
        ("number", {"scale": "log", "decimals": 0}),
        ("number", {"min": 0, "max": 10, "heaps": [0, 10]}),
        ("number", {"peeked": ["kind", "scale"]}),
        ("integer", {"min": -(2**63), "max": 2**63 - 1}),
        ("category", {"levels": ["only"]}),
        ("category", {"levels": ["", " "], "other": "x"}),
        ("category", {"other": "rest"}),
        ("boolean", {"levels": ["no", "yes"]}),
        ("boolean", {"levels": ["yes", "ja"]}),
        ("datetime", {**ALWAYS, "zone": "Pacific/Kiritimati"}),
        ("datetime", {**ALWAYS, "zone": "-12:00", "resolution": "microsecond"}),
        ("datetime", {"min": MIDNIGHT, "max": NOON.replace(tzinfo=HELSINKI), "resolution": "hour", "zone": "UTC"}),
        ("identifier", {"pattern": "P{:06d}", "sample": "surrogate"}),
        ("identifier", {"pattern": "{{x}}-{0:x}"}),
        *[("constant", {"value": value}) for value in ("", 0, 1.5, False, DAY, NOON, NOON.replace(tzinfo=HELSINKI))],
        *[("number", {"dtype": dtype}) for dtype in DTYPES],
        *[("datetime", {"dtype": f"timestamp[{unit}]"}) for unit in ("s", "ms", "us", "ns")],
    ],
)  # fmt: skip
def test_what_is_sound_is_accepted_even_at_the_edges(kind, keys):
    assert column_problems(column(kind, **keys)) == []


@pytest.mark.parametrize("word", SYNONYMS)
def test_the_names_that_other_tools_use_lead_to_our_kinds(word):
    assert problems_of(word)[0].endswith(f"did you mean {SYNONYMS[word]!r}?")
    assert SYNONYMS[word] in KINDS


@pytest.mark.parametrize("directive", [*DIRECTIVES, "%F", "%T", "%Y%%"])
def test_every_directive_that_is_accepted_can_be_written_and_read_by_python(directive):
    # A date needs its year, and a day its month.
    whole = {"%Y": "", "%F": "", "%Y%%": "", "%d": "%Y %m "}.get(directive, "%Y ")
    settled = column("datetime", format=whole + directive).format
    text = NOON.replace(tzinfo=UTC).strftime(settled)
    assert datetime.datetime.strptime(text, settled).year == 2024


def test_zones_are_iana_names_or_fixed_offsets():
    assert zone_info("-05:30") == datetime.timezone(-datetime.timedelta(hours=5, minutes=30))
    assert zone_info("Europe/Helsinki") is HELSINKI
    assert all(zone_info(name) is None for name in ("", "Nowhere", "02:00", "+2:00", None, 3))


def test_bounds_of_a_zoned_column_are_compared_as_instants():
    morning = datetime.datetime(2024, 5, 6, 10)  # 07:00 UTC in Helsinki
    eight = datetime.datetime(2024, 5, 6, 8, tzinfo=UTC)
    column("datetime", zone="Europe/Helsinki", resolution="hour", min=morning, max=eight)
    assert "greater" in problems_of("datetime", zone="UTC", resolution="hour", min=morning, max=eight)[0]
    seven = eight.replace(hour=7)
    assert "equals" in problems_of("datetime", zone="Europe/Helsinki", resolution="hour", min=morning, max=seven)[0]
