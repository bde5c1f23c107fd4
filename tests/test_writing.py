"""Tables are written whole or not at all, and in the look that they were read in."""

import datetime
import decimal
import io
import os
import stat
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_files import CANARY, PEOPLE, from_bytes, texts

from twinify_lite.errors import TableError
from twinify_lite.table import CsvStyle, PrivateTable, read_table, replacing, write_table
from twinify_lite.table.csv_notes import with_decimals, with_style, with_units


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


TIMES = [datetime.datetime(2022, 4, 12, 5), None]
UNITS = {"day": "2022-04-12", "s": "2022-04-12 05:00:00", "ms": "2022-04-12 05:00:00.000"}


@pytest.mark.parametrize(("unit", "text"), UNITS.items())
def test_times_are_no_finer_than_their_noted_unit(unit, text, tmp_path):
    table = pa.table({"t": pa.array(TIMES, pa.timestamp("ns")), "n": [1, 2]})
    write_table(with_units(table, {"t": unit}), tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == f"t,n\n{text},1\n,2\n"
    write_table(with_units(table, {"t": unit}), tmp_path / "a.parquet")
    assert pq.read_table(tmp_path / "a.parquet").equals(table)
    assert b"twinify_lite" not in (tmp_path / "a.parquet").read_bytes()


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
