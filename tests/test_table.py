"""Tables: read as they stand, never shown, written whole or not at all, and read back equal."""

import copy
import csv
import datetime
import decimal
import gzip
import io
import os
import pickle
import stat
import subprocess
import sys
import threading
import uuid
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from twinify_lite.errors import TableError
from twinify_lite.table import CsvStyle, PrivateTable, read_table, replacing, write_table
from twinify_lite.table.csv_notes import with_decimals, with_style
from twinify_lite.table.csv_reading import guess_separator
from twinify_lite.table.csv_style import SEPARATORS

CANARY = "CANARY_7f3a"
PEOPLE = pa.table({"name": [CANARY, "b", None], "age": [40, None, 42], "income": [1.5, 2.0, None]})


def texts(path, **options):
    """The cells of a file, as they stand."""
    return read_table(path, **options).reveal().to_pydict()


def from_bytes(tmp_path, data, name="a.csv", **options):
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return read_table(path, **options)


# What a PrivateTable shows


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


# CSV files that are odd and legal


def test_cells_stay_the_texts_that_they_are(tmp_path):
    data = 'id,code,mark,flag\n007,NA,N,true\n+1,nan,"",FALSE\n1e3,null, x ,\n'
    rows = from_bytes(tmp_path, data).reveal()
    assert rows.to_pydict() == {
        "id": ["007", "+1", "1e3"],
        "code": ["NA", "nan", "null"],
        "mark": ["N", None, " x "],
        "flag": ["true", "FALSE", None],
    }
    assert set(rows.schema.types) == {pa.string()}


LEGAL = {
    "CRLF": b"a,b\r\n1,2\r\n3,4\r\n",
    "old Mac line ends": b"a,b\r1,2\r3,4\r",
    "blank lines at the end": b"a,b\n1,2\n3,4\n\n\r\n\n",
    "blank lines between": b"\n\na,b\n\n1,2\n\r\n3,4\n",
    "no line end at the end": b"a,b\n1,2\n3,4",
    "byte order mark": b"\xef\xbb\xbfa,b\n1,2\n3,4\n",
    "byte order mark and quotes": b'\xef\xbb\xbf"a","b"\r\n"1","2"\r\n"3","4"\r\n',
    "Excel's separator": b"sep=;\r\na;b\r\n1;2\r\n3;4\r\n",
    "Excel's separator after a byte order mark": b"\xef\xbb\xbfsep=\t\na\tb\n1\t2\n3\t4\n",
    "semicolons": b"a;b\n1;2\n3;4\n",
    "tabs": b"a\tb\n1\t2\n3\t4\n",
    "bars": b"a|b\n1|2\n3|4\n",
    "gzip": gzip.compress(b"a,b\n1,2\n3,4\n"),
    "gzip of two members": gzip.compress(b"a,b\n1,2\n") + gzip.compress(b"3,4\n"),
}


@pytest.mark.parametrize("case", LEGAL)
@pytest.mark.parametrize("name", ["a.csv", "a.txt", "a.data", "a.csv.gz", "noextension"])
def test_odd_and_legal_files_are_read(case, name, tmp_path):
    assert from_bytes(tmp_path, LEGAL[case], name).reveal().to_pydict() == {"a": ["1", "3"], "b": ["2", "4"]}


def test_quotes_line_ends_and_separators_inside_cells(tmp_path):
    data = 'a,"b, ""c""\nd",e\n"x\r\ny","1,2","say ""hi"""\nin"side, "s" ,"q"z\n'
    assert from_bytes(tmp_path, data).reveal().to_pydict() == {
        "a": ["x\r\ny", 'in"side'],
        'b, "c"\nd': ["1,2", ' "s" '],
        "e": ['say "hi"', "qz"],
    }


def test_spaces_after_separators_belong_to_the_cells_and_names(tmp_path):
    assert from_bytes(tmp_path, "a, b\n1, 2\n").reveal().to_pydict() == {"a": ["1"], " b": [" 2"]}


def test_ten_thousand_columns(tmp_path):
    names = [f"column_{i}" for i in range(10_000)]
    data = ",".join(names) + "\n" + ",".join(map(str, range(10_000))) + "\n"
    table = from_bytes(tmp_path, data)
    assert table.columns == tuple(names)
    assert table.reveal()["column_9999"].to_pylist() == ["9999"]


@pytest.mark.parametrize("size", [1 << 20, 3 << 20, 15 << 20])
def test_a_long_cell_is_read(size, tmp_path):
    table = from_bytes(tmp_path, b"a,b\n1," + b"x" * size + b'\n2,"y\ny"\n')
    assert table.reveal()["b"].to_pylist() == ["x" * size, "y\ny"]


def test_a_long_cell_is_read_from_stdin_too(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"a,b\n1," + b"x" * (5 << 20) + b"\n2,y\n")))
    assert read_table("-").reveal()["b"].to_pylist() == ["x" * (5 << 20), "y"]


def test_a_long_quoted_cell_of_many_lines_is_read(tmp_path):
    cell = "some text\n" * 500_000
    assert from_bytes(tmp_path, f'a,b\n1,"{cell}"\n').reveal()["b"].to_pylist() == [cell]


def test_quoted_line_ends_on_the_edge_of_a_block_are_read(tmp_path):
    rows = [f'{i},"x\n{"y" * (i % 97)}\r\nz"' for i in range(50_000)]
    column = from_bytes(tmp_path, "a,b\n" + "\n".join(rows)).reveal()["b"].to_pylist()
    assert column == [f"x\n{'y' * (i % 97)}\r\nz" for i in range(50_000)]


def test_a_byte_order_mark_inside_the_table_stays(tmp_path):
    assert from_bytes(tmp_path, "a,b\n\ufeff1,2\n").reveal()["a"].to_pylist() == ["\ufeff1"]


@pytest.mark.parametrize(
    ("encoding", "letters"), [("latin-1", "é\x80ÿ"), ("cp1252", "é€”"), ("ISO-8859-1", "ü"), ("UTF8", "ł€")]
)
def test_encodings_by_name(encoding, letters, tmp_path):
    table = from_bytes(tmp_path, f"naïve,b\n{letters},2\n".encode(encoding), encoding=encoding)
    assert table.reveal().to_pydict() == {"naïve": [letters], "b": ["2"]}
    assert table.style.encoding in ("utf-8", "latin-1", "cp1252")


def test_a_byte_order_mark_outdoes_the_encoding(tmp_path):
    table = from_bytes(tmp_path, "\ufeffa,b\né,2\n".encode(), encoding="latin-1")
    assert table.reveal()["a"].to_pylist() == ["é"]
    assert table.style.encoding == "utf-8"


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("a;b;c\n1,5;2,5;3,5\n", ";"),
        ("first, last;age;weight\nJane, Doe;4;1,5\n", ";"),
        ('"a;b",c\n"1;2;3",4\n', ","),
        ("a,b\n1;2,3\n", ","),
        ("a|b,c\n1|2,3|4\n5|6,7\n", ","),
        ("a\tb c, d\n1\t2\n", "\t"),
        ("a\n1\n2\n", ","),
        ("note\nhello; world\nnone\n", ","),
        ("note\nhello, world\nnone\n", ";"),
        ('"a,b"\n"1,2"\n', ","),
        ('a;",\n,"\n;\n', ";"),  # by commas, the quote of the second row is never closed
        ('a\t";b"\n\t;\n', "\t"),  # by semicolons, a quote stands amid a name
    ],
)
def test_the_separator_is_guessed_from_the_header_and_the_first_rows(text, separator):
    assert guess_separator(text.encode(), whole=True) == separator


def test_a_column_of_decimal_commas_is_one_column(tmp_path):
    table = from_bytes(tmp_path, "x\n1,5\n2,5\n", decimal=",")
    assert table.reveal().to_pydict() == {"x": ["1,5", "2,5"]}


@pytest.mark.parametrize("separator", ["\t", "tab", "\\t"])
def test_a_given_separator_is_not_guessed(separator, tmp_path):
    table = from_bytes(tmp_path, "a,b\tc\n1,2\t3\n", separator=separator)
    assert table.columns == ("a,b", "c")
    assert table.style.separator == "\t"


def test_the_separator_that_excel_names_is_used_unless_another_is_given(tmp_path):
    data = "SEP=|\na;b|c\n1;2|3\n"
    table = from_bytes(tmp_path, data)
    assert table.style.separator == "|"
    assert table.reveal().to_pydict() == {"a;b": ["1;2"], "c": ["3"]}
    assert from_bytes(tmp_path, data, separator=";").columns == ("a", "b|c")


def test_a_column_that_is_called_like_excels_separator_is_read_back(tmp_path):
    for name in ("sep=;", "sep=", "sep=:"):
        table = pa.table({name: ["1", "2"]})
        write_table(table, tmp_path / "a.csv")
        assert read_table(tmp_path / "a.csv").reveal().equals(table)


def test_a_tsv_file_has_tabs_whatever_its_header_looks_like(tmp_path):
    assert from_bytes(tmp_path, "a,b\n1,2\n", "a.tsv").columns == ("a,b",)


def test_a_header_that_begins_like_parquet_is_still_csv(tmp_path):
    assert from_bytes(tmp_path, "PAR1,PARENT\n1,2\n", "noextension").columns == ("PAR1", "PARENT")


# Other sources


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
        read_table(pd.DataFrame({"a": [Silent(), Silent()]}))
    assert caught.value.__context__ is None


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
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "Columns 1 and 2 have 'a'"),
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


# Writing


def test_a_csv_file_is_quoted_only_where_needed(tmp_path):
    table = pa.table(
        {
            "text": ["plain", "a,b", 'say "hi"', "two\nlines", None, ""],
            "x;y": [1.5, 2.0, None, 1e20, -0.25, 1e-7],
            "when": pa.array([0, None, 2, 3, 4, 5], pa.date32()),
            "yes": [True, False, None, True, True, True],
            "kind": pa.array(["u", "v", None, "u", "u", "u"]).dictionary_encode(),
        }
    )
    write_table(table, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_bytes().decode() == (
        'text,"x;y",when,yes,kind\nplain,1.5,1970-01-01,true,u\n"a,b",2,,false,v\n"say ""hi""",,1970-01-03,,\n'
        '"two\nlines",1e+20,1970-01-04,true,u\n,-0.25,1970-01-05,true,u\n,1e-7,1970-01-06,true,u\n'
    )


def test_decimal_commas_separators_and_encodings_are_written_by_style(tmp_path):
    table = pa.table({"é": ["a;b", "1.5"], "x": [1.5, None], "d": [decimal.Decimal("2.50"), None]})
    write_table(table, tmp_path / "a.csv", style=CsvStyle(";", ",", "latin-1"))
    assert (tmp_path / "a.csv").read_bytes() == '"é";x;d\n"a;b";1,5;2,50\n1.5;;\n'.encode("latin-1")
    write_table(table, tmp_path / "b.csv", style=CsvStyle(",", ","))
    assert texts(tmp_path / "b.csv") == {"é": ["a;b", "1.5"], "x": ["1,5", None], "d": ["2,50", None]}


def test_a_private_table_is_written_in_the_style_that_it_was_read_in(tmp_path):
    data = b"a;b\n1,5;x\n"
    write_table(from_bytes(tmp_path, data, decimal=","), tmp_path / "b.csv")
    assert (tmp_path / "b.csv").read_bytes() == data
    write_table(from_bytes(tmp_path, data, decimal=","), tmp_path / "b.tsv")
    assert (tmp_path / "b.tsv").read_bytes() == b"a\tb\n1,5\tx\n"


def test_a_missing_cell_of_an_only_column_is_no_blank_line(tmp_path):
    write_table(pa.table({"a": ["x", None, "", "y"]}), tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == 'a\nx\n""\n""\ny\n'
    assert texts(tmp_path / "a.csv") == {"a": ["x", None, None, "y"]}


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet", "a.feather"])
@pytest.mark.parametrize("kind", ["tables", "batches", "frames"])
def test_chunks_are_written_one_after_the_other(name, kind, tmp_path):
    table = pa.table({"a": [f"v{i}" for i in range(100)], "c": pa.array([f"k{i % 7}" for i in range(100)])})
    chunks = (
        table.slice(i, 10).set_column(1, "c", table["c"].slice(i, 10).dictionary_encode()) for i in range(0, 100, 10)
    )
    if kind == "batches":
        chunks = (chunk.combine_chunks().to_batches()[0] for chunk in chunks)
    if kind == "frames":
        chunks = (chunk.to_pandas() for chunk in chunks)
    write_table(chunks, tmp_path / name)
    assert texts(tmp_path / name) == table.to_pydict()


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.feather"])
def test_the_memory_of_a_stream_does_not_grow_with_its_chunks(name, tmp_path):
    numbers = np.random.default_rng(0).normal(size=20_000)

    def peak(count):
        before, held = pa.total_allocated_bytes(), []

        def chunks():
            for _ in range(count):
                held.append(pa.total_allocated_bytes() - before)
                yield pa.table({"a": numbers})

        write_table(chunks(), tmp_path / name)
        return max(held)

    few, many = peak(10), peak(60)
    assert many < few + 5 * numbers.nbytes
    assert os.path.getsize(tmp_path / name) > 50 * numbers.nbytes


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet", "a.feather"])
def test_an_error_midway_leaves_the_old_file_and_nothing_beside_it(name, tmp_path):
    (tmp_path / name).write_bytes(b"old")

    def chunks():
        yield PEOPLE
        yield PEOPLE
        raise RuntimeError("midway")

    with pytest.raises(RuntimeError, match="midway"):
        write_table(chunks(), tmp_path / name)
    assert (tmp_path / name).read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("format", ["csv", "parquet", "feather"])
def test_an_error_midway_does_not_make_stdout_look_whole(format, monkeypatch):
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=out))

    def chunks():
        yield PEOPLE
        raise RuntimeError("midway")

    with pytest.raises(RuntimeError, match="midway"):
        write_table(chunks(), "-", format=format)
    monkeypatch.undo()
    assert not out.getvalue().endswith((b"PAR1", b"ARROW1"))
    assert out.getvalue()


def test_a_file_cannot_be_written_over_its_own_rows_halfway(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n")
    write_table(read_table(path), path)
    assert path.read_text() == "a,b\n1,2\n"


@pytest.mark.parametrize(
    ("table", "name", "options", "message"),
    [
        (PEOPLE, "a.xlsx", {}, "--format csv"),
        (PEOPLE, "a.parquet.gz", {}, "Leave out the .gz"),
        (PEOPLE, "a.csv", {"format": "xls"}, "format must be one of"),
        (PEOPLE, "nowhere/a.csv", {}, "no folder"),
        (PEOPLE, ".", {"format": "csv"}, "is a folder"),
        (PEOPLE, "a.csv", {"style": CsvStyle(encoding="latin-1"), "extra": "ł"}, "latin-1 lacks"),
        (PEOPLE, "a.csv", {"extra": "\0"}, "NUL"),
        (iter([]), "a.csv", {}, "nothing to write"),
        (iter([PEOPLE, PEOPLE.drop_columns(["age"])]), "a.csv", {}, "different columns"),
        (iter([pa.table({"a": [1]}), pa.table({"a": [CANARY]})]), "a.csv", {}, "different types"),
        (pa.table({"a": [[1]]}), "a.csv", {}, "'a' is of type list"),
        (pa.table({"a,": [1], "": [1]}), "a.csv", {}, "no name"),
        (5, "a.csv", {}, "not a int"),
    ],
)
def test_what_cannot_be_written_says_why_and_leaves_nothing(table, name, options, message, tmp_path):
    extra = options.get("extra")
    if extra:
        table = PEOPLE.append_column("extra", pa.array([extra] * 3))
    with pytest.raises(TableError, match=message) as caught:
        write_table(table, tmp_path / name, **{key: value for key, value in options.items() if key != "extra"})
    assert CANARY not in str(caught.value)
    assert caught.value.__context__ is None
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_a_table_error(monkeypatch, tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    with pytest.raises(TableError, match="disk is full"):
        write_table(pa.table({"a": ["x" * 100_000] * 100}), "/dev/full", format="csv")


def test_equal_tables_give_equal_gzip_files(tmp_path):
    for name in ("a.csv.gz", "b.csv.gz"):
        write_table(PEOPLE, tmp_path / name)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()


# replacing


def test_replacing_writes_whole_files_and_respects_the_umask(tmp_path):
    old = os.umask(0o027)
    try:
        with replacing(tmp_path / "a") as file:
            file.write(b"new")
            assert not (tmp_path / "a").exists()
    finally:
        os.umask(old)
    assert (tmp_path / "a").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_a_replaced_file_keeps_its_permissions_and_its_link(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "real").chmod(0o604)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with replacing(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "real").stat().st_mode) == 0o604


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, ValueError])
def test_replacing_leaves_the_old_file_on_any_error(error, tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(error), replacing(tmp_path / "a") as file:  # noqa: PT012
        file.write(b"half")
        raise error
    assert (tmp_path / "a").read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="needs /dev/null")
def test_a_device_is_written_to_and_not_replaced():
    write_table(PEOPLE, "/dev/null", format="csv")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


# Whatever is written is read back

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


# The look of a CSV file, as `decode` notes it


def noted(table, **decimals):
    return with_style(with_decimals(table, decimals), CsvStyle(";", ",", "latin-1"))


LOOK = pa.table({"é": ["ü", "a;b", None], "x": [36.0, None, -12.5], "y": pa.array([0.1, 2.0, None], pa.float32())})
LOOKS = '"é";x;y\nü;36,0;0,10\n"a;b";;2,00\n;-12,5;\n'.encode("latin-1")


def test_a_noted_look_is_written_without_being_asked_for(tmp_path):
    write_table(noted(LOOK, x=1, y=2), tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_bytes() == LOOKS
    write_table(noted(LOOK, x=1, y=2), tmp_path / "a.tsv")
    assert (tmp_path / "a.tsv").read_bytes() == LOOKS.replace(b'"a;b"', b"a\0b").replace(b";", b"\t").replace(
        b"\0", b";"
    )


def test_a_style_that_is_given_outdoes_the_noted_one_and_the_decimals_stay(tmp_path):
    write_table(noted(LOOK, x=1), tmp_path / "a.csv", style=CsvStyle("|"))
    assert (tmp_path / "a.csv").read_text(encoding="utf-8") == '"é"|x|y\nü|36.0|0.1\na;b||2\n|-12.5|\n'


@pytest.mark.parametrize("kind", ["tables", "batches", "one batch"])
def test_the_first_chunk_tells_the_look_of_all(kind, tmp_path):
    first, *others = (LOOK.slice(place, 1) for place in range(3))
    chunks = [noted(first, x=1, y=2), *others]
    if kind == "batches":
        chunks = [chunk.combine_chunks().to_batches()[0] for chunk in chunks]
    write_table(noted(LOOK, x=1, y=2).to_batches()[0] if kind == "one batch" else iter(chunks), tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_bytes() == LOOKS


@pytest.mark.parametrize("name", ["a.parquet", "a.feather"])
@pytest.mark.parametrize("wrap", [lambda table: table, lambda table: iter([table, table])])
def test_no_other_format_carries_the_look_on(name, wrap, tmp_path):
    write_table(wrap(noted(LOOK, x=1, y=2)), tmp_path / name)
    data = (tmp_path / name).read_bytes()
    assert b"twinify_lite" not in data
    schema = pq.read_schema(tmp_path / name) if "parquet" in name else pa.ipc.open_file(tmp_path / name).schema
    assert schema.remove_metadata().equals(LOOK.schema)


def test_a_private_table_of_one_with_a_look_is_like_any_other(tmp_path):
    table = read_table(noted(LOOK, x=1, y=2))
    assert table.style is None
    assert table.types == PrivateTable(LOOK).types
    assert table.reveal().to_pydict() == LOOK.to_pydict()
    write_table(table, tmp_path / "a.parquet")
    assert b"twinify_lite" not in (tmp_path / "a.parquet").read_bytes()


@pytest.mark.parametrize(
    "note", [b"", b"{", b"[1]", b'{"separator": "x"}', b'{"other": 1}', b'{"separator": []}', b"\xff"]
)
def test_notes_that_are_not_ours_are_left_alone(note, tmp_path):
    field = pa.field("x", pa.float64(), metadata={b"twinify_lite.decimals": note, b"unit": b"m"})
    table = pa.table([[1.5, 2.0]], schema=pa.schema([field], {b"twinify_lite.csv": note}))
    write_table(table, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == "x\n1.5\n2\n"
    write_table(table, tmp_path / "a.parquet")
    assert pq.read_schema(tmp_path / "a.parquet").field("x").metadata[b"unit"] == b"m"
