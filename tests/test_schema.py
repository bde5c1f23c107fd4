"""Schemas: columns in their order, what is wrong with them together, and what was peeked at."""

import re

import pytest
from schema_cases import column

from twinify_lite.errors import SchemaError
from twinify_lite.schema import Schema
from twinify_lite.schema.rules import schema_problems


class Rule:
    """A constraint that finds what it is told to find."""

    names = ()

    def __init__(self, *found):
        self.found = list(found)

    def problems(self, schema):
        return [f"{problem} of {len(schema)}" for problem in self.found]


def test_a_schema_is_a_mapping_from_names_to_columns_in_their_order():
    schema = Schema([column(name="b"), column("constant", name="a"), column("boolean", name="c", nullable=False)])
    assert (list(schema), len(schema), schema["c"].kind, "x" in schema) == (["b", "a", "c"], 3, "boolean", False)
    assert [made.name for made in schema.modelled] == ["b", "c"]
    assert not schema.is_complete
    assert schema.replace_columns([column("constant", name="b")]).is_complete
    assert len({schema, Schema(schema.columns)}) == 1
    with pytest.raises(KeyError):
        schema["x"]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"columns": ()}, "There are no columns"),
        ({"columns": (column(), column(), column(name="b"))}, "Column 'age': there are 2 columns of this name"),
        ({"columns": ("age",)}, "Give it Column(name=..., kind=...) objects"),
        *[({"rows": rows}, "rows must be a whole number above 0") for rows in (0, -1, True, 1.0, "5", 2**63)],
        *[({"accepted": names}, "accepted must be") for names in ("age", (3,), ("age", "age"))],
        ({"accepted": ("b",)}, "accepted names 'b', which is no column"),
        ({"guessed": 1}, "guessed must be true or false"),
        ({"constraints": ["a <= b"]}, "Constraint.parse"),
        ({"style": ";"}, "style must be a CsvStyle, such as CsvStyle(separator=';'), or None"),
        ({"constraints": [Rule("something")]}, "something of 1"),
    ],
)
def test_a_wrong_schema_is_refused_with_the_reason(keys, said):
    with pytest.raises(SchemaError, match=re.escape(said)) as refused:
        Schema(**{"columns": (column(),), **keys})
    assert "\n" not in str(refused.value)


def test_all_problems_of_a_schema_are_told_at_once():
    with pytest.raises(SchemaError) as refused:
        Schema((column(), column()), constraints=[Rule("one", "two"), Rule(), Rule("three")], rows=0)
    assert len(str(refused.value).split("\n")) == 5


def test_a_sound_schema_has_no_problems():
    assert schema_problems(Schema((column(),), constraints=[Rule()], rows=1, guessed=True)) == []


def test_what_was_peeked_at_is_refused_until_it_is_accepted_by_name():
    peeked = column(min=0, max=1, peeked=["min", "max"])
    schema = Schema((peeked, column(name="b", min=0, peeked=["min"]), column(name="c")))
    assert schema.peeked == ("age", "b")
    with pytest.raises(SchemaError) as refused:
        schema.require_public()
    assert str(refused.value) == (
        "Read from the data, so not private: 'age' (min, max), 'b' (min). Delete those lines, declare values from a "
        "code book, or accept them as public by name: --accept COLUMN, or schema.accept(['age', 'b'])."
    )
    accepted = schema.accept(["age"])
    assert (accepted.peeked, accepted["age"].min) == (("b",), 0)
    accepted.accept(["b"]).require_public()
    assert accepted.accepted == ("age",)
    assert accepted.accept(["c", "b"]).accepted == ("age", "b")  # of c nothing was read
    assert schema.accept("age") == accepted
    with pytest.raises(SchemaError, match="There is no column 'x' to accept"):
        schema.accept(["x"])


def test_a_file_that_is_not_there_or_not_text_is_named(tmp_path):
    with pytest.raises(SchemaError, match=r"no file .*schema\.toml"):
        Schema.load(tmp_path / "schema.toml")
    (tmp_path / "schema.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SchemaError, match=r"schema\.toml cannot be read as UTF-8"):
        Schema.load(tmp_path / "schema.toml")


def test_a_saved_schema_loads_as_an_equal_one(tmp_path):
    schema = Schema((column(name="größe 📏", min=0, max=1),))
    schema.save(tmp_path / "schema.toml")
    assert Schema.load(tmp_path / "schema.toml") == schema
