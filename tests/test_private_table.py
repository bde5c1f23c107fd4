"""What a PrivateTable shows: columns and types."""

import copy
import datetime
import decimal
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from table_files import CANARY, PEOPLE, from_bytes

from twinify_lite.encode import encode
from twinify_lite.errors import TableError
from twinify_lite.schema import Column, Schema
from twinify_lite.table import CsvStyle, PrivateTable


def test_no_way_of_printing_a_table_shows_a_row_or_the_number_of_rows():
    table = PrivateTable(pa.table({"name": [CANARY] * 98765, "a b\n<i>": [1.5] * 98765}))
    shown = [repr(table), str(table), f"{table}", f"{table:>30}", table._repr_html_(), repr([table]), repr(dir(table))]
    for text in shown:
        assert CANARY not in text
        assert "98765" not in text
        assert "98,765" not in text
    assert repr(table).splitlines() == [
        "PrivateTable of 2 columns, rows not shown",
        "  name        string",
        r"  'a b\n<i>'  double",
    ]
    assert "&lt;i&gt;" in table._repr_html_()


def test_a_wide_table_prints_its_first_columns_only():
    table = PrivateTable(pa.table({f"c{i}": [1] for i in range(10_000)}))
    assert len(repr(table).splitlines()) == 52
    assert repr(table).endswith("... and 9950 more")


def test_the_attributes_of_a_table_hold_no_rows():
    table = PrivateTable(PEOPLE)
    assert not hasattr(table, "__dict__")
    held = [getattr(table, slot) for slot in PrivateTable.__slots__ if slot != "__weakref__"]
    assert not any(isinstance(value, pa.Table | pd.DataFrame) for value in held)
    assert CANARY not in repr(held)


@pytest.mark.parametrize(
    "way",
    [
        pickle.dumps,
        copy.copy,
        copy.deepcopy,
        lambda t: t.__getstate__(),
        lambda t: t.__reduce__(),
        lambda t: t.__reduce_ex__(2),
    ],
    ids=["pickle", "copy", "deepcopy", "getstate", "reduce", "reduce_ex"],
)
def test_a_table_is_not_pickled_or_copied(way):
    with pytest.raises(TableError, match=r"read_table\(\)"):
        way(PrivateTable(PEOPLE))


def test_a_table_has_no_length_and_no_iterator_and_equals_itself_only():
    table = PrivateTable(PEOPLE)
    with pytest.raises(TypeError):
        len(table)
    with pytest.raises(TypeError):
        iter(table)
    assert table == table
    assert table != PrivateTable(PEOPLE)
    assert len({table, PrivateTable(PEOPLE)}) == 2


def test_columns_types_and_style_are_public(tmp_path):
    table = PrivateTable(PEOPLE)
    assert table.columns == ("name", "age", "income")
    assert table.types == {"name": "string", "age": "int64", "income": "double"}
    assert table.style is None
    text = from_bytes(tmp_path, "a;b\n1,5;2\n", decimal=",")
    assert text.types == {"a": "text", "b": "text"}
    assert text.style == CsvStyle(";", ",", "utf-8")


def test_a_table_whose_texts_are_none_is_refused_without_them():
    texts = pa.Array.from_buffers(pa.string(), 2, pa.array([b"fine", CANARY.encode() + b"\xff"]).buffers())
    for use in (PrivateTable, lambda table: encode(Schema((Column(name="x", kind="identifier"),)), table)):
        with pytest.raises(TableError, match="not UTF-8") as refused:
            use(pa.table({"x": texts}))
        assert CANARY not in repr(refused.value)
        assert refused.value.__context__ is None


class Broken:
    def __str__(self):
        raise RuntimeError(CANARY)


class BrokenZone(datetime.tzinfo):
    def utcoffset(self, when):
        raise RuntimeError(CANARY)


ODD = [
    decimal.Decimal("sNaN"),
    pd.Series(np.array([2**60], "datetime64[s]")).iloc[0],
    Broken(),
    datetime.datetime(2020, 1, 1, tzinfo=BrokenZone()),
    [1, [2, 3]],
    np.array([1.0, np.nan]),
]
ORDINARY = {
    "times": datetime.datetime(2020, 1, 1),
    "instants": datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
    "numbers": 3,
    "decimals": decimal.Decimal("1.5"),
    "texts": "a",
}


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
@pytest.mark.parametrize("ordinary", ORDINARY)
def test_one_odd_object_changes_no_other_cell_and_refuses_no_table(ordinary, odd):
    cells = [ORDINARY[ordinary]] * 40
    alone = PrivateTable(pd.DataFrame({"x": pd.Series(cells, dtype=object)})).reveal()["x"]
    column = pd.Series([*cells, None], dtype=object)
    column.iat[40] = odd
    together = PrivateTable(pd.DataFrame({"x": column})).reveal()["x"]
    assert together.type == alone.type
    assert together.slice(0, 40).to_pylist() == alone.to_pylist()
