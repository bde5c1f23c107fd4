"""Tables from DataFrames, Arrow, Parquet, stdin and pipes."""

import datetime
import decimal
import os
import subprocess
import sys
import threading
import uuid

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from table_files import CANARY, PEOPLE

from twinify_lite.errors import TableError
from twinify_lite.table import PrivateTable, read_table, write_table


def test_a_private_table_is_returned_as_it_is():
    table = PrivateTable(PEOPLE)
    assert read_table(table) is table


@pytest.mark.parametrize("name", ["a.parquet", "a.pq", "a.feather", "a.arrow", "a.PARQUET", "unknown"])
def test_binary_formats_are_read_with_their_types(name, tmp_path):
    path = tmp_path / name
    write_table(PEOPLE, path, format="parquet" if name == "unknown" else None)
    table = read_table(path)
    assert table.reveal().equals(PEOPLE)
    assert table.types["age"] == "int64"
    assert table.style is None


def test_an_arrow_stream_is_read(tmp_path):
    with pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file, pa.ipc.new_stream(file, PEOPLE.schema) as writer:
        writer.write_table(PEOPLE)
    assert read_table(tmp_path / "a.arrow").reveal().equals(PEOPLE)


def test_the_folders_of_a_parquet_file_are_no_columns(tmp_path):
    folder = tmp_path / "year=2020"
    folder.mkdir()
    write_table(PEOPLE, folder / "a.parquet")
    assert read_table(folder / "a.parquet").columns == ("name", "age", "income")


def test_pandas_notes_and_its_unnamed_index_are_left_out_of_parquet(tmp_path):
    frame = pd.DataFrame({"a": [1, 2, 3]}, index=[5, 6, 7])
    frame.to_parquet(tmp_path / "unnamed.parquet")
    frame.rename_axis("key").to_parquet(tmp_path / "named.parquet")
    assert read_table(tmp_path / "unnamed.parquet").columns == ("a",)
    assert read_table(tmp_path / "named.parquet").columns == ("a", "key")
    assert read_table(tmp_path / "named.parquet").reveal().schema.metadata is None


def test_the_index_of_a_frame_is_left_out_unless_it_is_made_a_column():
    frame = pd.DataFrame({"a": [1, 2]}, index=pd.Index(["x", "y"], name="key"))
    assert read_table(frame).columns == ("a",)
    assert read_table(frame.reset_index()).columns == ("key", "a")


def test_a_frame_keeps_its_types():
    frame = pd.DataFrame(
        {
            "i": pd.Series([1, None], dtype="Int64"),
            "f": [1.5, np.nan],
            "t": pd.to_datetime(["2020-01-01", None]),
            "s": pd.Series(["a", None], dtype="string"),
            "c": pd.Categorical(["x", None]),
            "b": [True, False],
            "d": [decimal.Decimal("1.50"), None],
            "z": pd.arrays.SparseArray([0, 3]),
        }
    )
    table = read_table(frame)
    assert table.types["i"] == "int64"
    assert table.types["c"] == "dictionary<string>"
    assert table.types["d"] == "string"
    assert table.types["z"] == "int64"
    assert table.reveal()["f"].to_pylist() == [1.5, None]
    assert table.reveal()["t"].to_pylist() == [datetime.datetime(2020, 1, 1), None]
    assert table.reveal()["c"].to_pylist() == ["x", None]


@pytest.mark.parametrize("strange", [5, "\ud83dSECRET", datetime.date(2020, 1, 1)], ids=repr)
def test_a_categorical_of_objects_is_one_of_texts_whatever_its_categories_are(strange):
    levels = pd.Index(["1", "2", strange], dtype=object)
    for cells in (["1", "2", "1"], ["1", "2", strange]):
        table = read_table(pd.DataFrame({"a": pd.Categorical(pd.Series(cells, dtype=object), categories=levels)}))
        assert table.types == {"a": "dictionary<string>"}
        assert table.reveal()["a"].to_pylist()[:2] == ["1", "2"]


@pytest.mark.parametrize("strange", [pd.Timestamp.min, pd.Timestamp("2024-10-27 01:30:00.000000001")])
def test_a_time_that_cannot_be_rounded_is_read_or_missing_and_raises_nothing(strange):
    cells = [datetime.datetime(2020, 1, 1)] * 5 + [strange]
    read = read_table(pd.DataFrame({"a": pd.Series(cells, dtype=object)})).reveal()["a"]
    assert read.to_pylist()[:5] == cells[:5]


def test_objects_that_cannot_be_written_as_text_are_refused_without_their_words():
    class Silent:
        def __str__(self):
            raise ValueError("CANARY")

    with pytest.raises(TableError, match="column 'a' holds objects") as caught:
        read_table(pd.DataFrame({"a": [Silent(), Silent(), Silent()]}))
    assert caught.value.__context__ is None
    few = read_table(pd.DataFrame({"a": [Silent(), "a", "b", None]})).reveal()["a"]
    assert few.to_pylist() == [None, "a", "b", None]


def test_sparse_objects_are_typed_by_nearly_all_of_them():
    sparse = pd.Series([1, 2, 3, 4, 5, 6, "a"], dtype=pd.SparseDtype(object, None))
    assert read_table(pd.DataFrame({"a": sparse})).types == {"a": "int64"}


MANY = {
    "whole": [1, 2, 3, 4],
    "decimals": [decimal.Decimal("1.5"), decimal.Decimal("2.5")] * 4,
    "floats": [1.0, 2.5, 3.0, 4.0, 5.0],
    "truths": [True, False, True, True],
    "dates": [datetime.date(2020, 1, 1)] * 5,
    "times": [datetime.datetime(2020, 1, 1, 12)] * 5,
    "instants": [pd.Timestamp("2020-01-01 23:30", tz="Europe/Helsinki")] * 5,
    "texts": ["a", "b", "c", "d"],
}
STRANGE = [
    None,
    "N",
    2**70,
    2.5,
    decimal.Decimal("123456.789"),
    datetime.date(1999, 9, 9),
    pd.Timestamp("1999-09-09", tz="Asia/Tokyo"),
    [1],
    b"x",
    object,
]


@pytest.mark.parametrize("kind", MANY)
@pytest.mark.parametrize("strange", STRANGE, ids=str)
@pytest.mark.parametrize("place", [0, -1])
def test_one_object_does_not_change_how_the_others_are_read(kind, strange, place):
    alone = read_table(pd.DataFrame({"a": pd.Series(MANY[kind], dtype=object)})).reveal()["a"]
    cells = [strange, *MANY[kind]] if place == 0 else [*MANY[kind], strange]
    together = read_table(pd.DataFrame({"a": pd.Series(cells, dtype=object)})).reveal()["a"]
    assert together.type == alone.type
    assert (together[1:] if place == 0 else together[:-1]).to_pylist() == alone.to_pylist()


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([1, "a", None], ["1", "a", None]),
        ([True, "x", float("nan")], ["True", "x", None]),
        ([datetime.date(2020, 1, 1), "x", pd.NaT], ["2020-01-01", "x", None]),
        ([2**70, 1, None], [str(2**70), "1", None]),
        ([uuid.UUID(int=5), None], [str(uuid.UUID(int=5)), None]),
        (pd.period_range("2020-01", periods=2, freq="M"), ["2020-01", "2020-02"]),
        (["\ud800", "x"], ["?", "x"]),
    ],
)
def test_cells_that_arrow_has_no_type_for_become_text(cells, expected):
    table = read_table(pd.DataFrame({"a": pd.Series(cells)}))
    assert table.reveal()["a"].to_pylist() == expected
    assert table.types == {"a": "string"}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (pd.DataFrame({1: ["a"]}), r"frame\.columns\.map\(str\)"),
        (pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "c")])), "not text"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "Columns 1 and 2 have the same name"),
        (pd.DataFrame({" ": [1]}), "Column 1 of 1 has no name"),
        (pd.DataFrame({"a": [[1], [2], [3]]}), "'a' is of type list"),
        (pd.DataFrame({"a": [b"x", b"y", b"z"]}), "'a' is of type binary"),
        (pd.DataFrame({"a": pd.to_timedelta([1, 2], "D")}), r"'a' is of type duration.*number of days or seconds"),
        (pa.table({"a": pa.array([1, 2], pa.duration("s")).dictionary_encode()}), "'a' is of type duration"),
        (pd.DataFrame({"a": []}), "no rows"),
        (pd.DataFrame(), "no columns"),
        (pa.table({}), "no columns"),
        ({"a": [1]}, "not a dict"),
        (None, "not a NoneType"),
    ],
)
def test_a_table_in_memory_that_cannot_be_used_says_how_to_repair_it(source, message):
    with pytest.raises(TableError, match=message):
        read_table(source)


def test_reading_a_csv_file_loads_no_pandas(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    program = (
        "import sys; from twinify_lite.table import read_table; read_table(sys.argv[1]); print('pandas' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "a.csv"], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "False"


@pytest.mark.parametrize("format", ["csv", "tsv", "parquet", "feather"])
def test_stdin_and_stdout_pass_every_format(format, tmp_path):
    """A table goes through a pipe, which cannot seek, into a second process, and comes out in the style it had."""
    write_table(PEOPLE, tmp_path / "a.parquet")
    program = (
        "import sys; from twinify_lite.table import read_table, write_table;"
        "write_table(read_table(sys.argv[1], format=sys.argv[2] or None), '-', format=sys.argv[3])"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen([*command, tmp_path / "a.parquet", "", format], stdout=subprocess.PIPE) as first:
        second = subprocess.run(
            [*command, "-", "tsv" if format == "tsv" else "", "csv"],
            stdin=first.stdout,
            capture_output=True,
            check=True,
        )
    expected = f"name,age,income\n{CANARY},40,1.5\nb,,2\n,42,\n"
    assert second.stdout.decode() == (expected.replace(",", "\t") if format == "tsv" else expected)


@pytest.mark.skipif(os.name != "posix", reason="needs named pipes")
def test_a_named_pipe_is_read_and_its_bad_lines_are_found(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    for data, message in [(b"a,b\n1,2\n", None), (b"a,b\n1,2\n3\n", "line 3 has 1 cells")]:
        writer = threading.Thread(target=path.write_bytes, args=[data])
        writer.start()
        if message is None:
            assert read_table(path).reveal().to_pydict() == {"a": ["1"], "b": ["2"]}
        else:
            with pytest.raises(TableError, match=message):
                read_table(path)
        writer.join()
