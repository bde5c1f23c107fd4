"""Whatever is written is read back."""

import csv

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from table_files import texts

from twinify_lite.table import CsvStyle, PrivateTable, read_table, write_table
from twinify_lite.table.csv_style import SEPARATORS

CELLS = st.one_of(
    st.none(),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
    st.text(st.sampled_from(',;\t|"\r\n a1.\ufeffé'), max_size=6),
)
NAMES = CELLS.filter(lambda name: name is not None and name.strip())


@st.composite
def tables(draw):
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    rows = draw(st.integers(1, 5))
    return pa.table(
        {name: pa.array(draw(st.lists(CELLS, min_size=rows, max_size=rows)), pa.string()) for name in names}
    )


def missing_for_empty(table):
    return {name: [cell or None for cell in column] for name, column in table.to_pydict().items()}


ONE_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)


@ONE_FOLDER
@given(table=tables(), separator=st.sampled_from([*SEPARATORS]), name=st.sampled_from(["a.csv", "a.csv.gz", "a.txt"]))
def test_any_texts_written_as_csv_are_read_back_with_the_separator_guessed(table, separator, name, tmp_path):
    write_table(table, tmp_path / name, style=CsvStyle(separator))
    back = read_table(tmp_path / name)
    assert back.reveal().to_pydict() == missing_for_empty(table)
    if len(table.schema) > 1:
        assert back.style.separator == separator


@ONE_FOLDER
@given(table=tables(), name=st.sampled_from(["a.parquet", "a.feather", "a.tsv", "a.tsv.gz"]))
def test_any_texts_written_in_other_formats_are_read_back(table, name, tmp_path):
    write_table(table, tmp_path / name)
    expected = missing_for_empty(table) if "tsv" in name else table.to_pydict()
    assert texts(tmp_path / name) == expected


@ONE_FOLDER
@given(rows=st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=6), end=st.sampled_from(["\n", "\r\n", "\r"]))
def test_what_pythons_csv_writes_is_read_alike(rows, end, tmp_path):
    with (tmp_path / "a.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator=end, quoting=csv.QUOTE_ALL)
        writer.writerow(["a", "b"])
        writer.writerows(rows)
    expected = {name: [row[place] or None for row in rows] for place, name in enumerate("ab")}
    assert texts(tmp_path / "a.csv", separator=",") == expected


def test_typed_columns_survive_parquet_and_feather(tmp_path):
    table = pa.table(
        {
            "i": pa.array([1, None], pa.int16()),
            "u": pa.array([2**64 - 1, None], pa.uint64()),
            "t": pa.array([0, None], pa.timestamp("us", "Europe/Helsinki")),
            "c": pa.DictionaryArray.from_arrays([0, None], ["x"]),
            "n": pa.nulls(2),
            "s": pa.array(["a", None], pa.large_string()),
        }
    )
    for name in ("a.parquet", "a.feather"):
        write_table(table, tmp_path / name)
        assert read_table(tmp_path / name).reveal().to_pydict() == table.to_pydict()
        assert read_table(tmp_path / name).types == PrivateTable(table).types


def test_a_parquet_file_of_pandas_and_one_of_ours_are_read_alike(tmp_path):
    frame = pd.DataFrame({"a": [1, 2], "b": pd.Categorical(["x", "y"])})
    write_table(frame, tmp_path / "ours.parquet")
    frame.to_parquet(tmp_path / "theirs.parquet")
    ours, theirs = read_table(tmp_path / "ours.parquet"), read_table(tmp_path / "theirs.parquet")
    assert ours.reveal().to_pydict() == theirs.reveal().to_pydict()
    assert ours.types == theirs.types
    assert b"pandas" not in (pq.read_schema(tmp_path / "ours.parquet").metadata or {})


@pytest.mark.parametrize(
    ("suffix", "reader"),
    [
        (".csv", "pyarrow.csv.read_csv"),
        (".parquet", "pyarrow.parquet.ParquetFile"),
        (".feather", "pyarrow.ipc.open_file"),
    ],
)
def test_memory_that_runs_out_while_a_file_is_read_is_not_the_files_fault(tmp_path, monkeypatch, suffix, reader):
    path = tmp_path / f"data{suffix}"
    write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), path)
    monkeypatch.setattr(reader, lambda *_, **__: (_ for _ in ()).throw(pa.ArrowMemoryError("malloc of 7 failed")))
    with pytest.raises(MemoryError) as ran_out:
        read_table(path)
    assert (str(ran_out.value), ran_out.value.__context__) == ("", None)
