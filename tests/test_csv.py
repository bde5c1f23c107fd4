"""CSV files that are odd and legal."""

import gzip
import io
import sys
from types import SimpleNamespace

import pyarrow as pa
import pytest
from table_files import from_bytes

from twinify_lite.table import read_table, write_table
from twinify_lite.table.csv_reading import guess_separator


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
