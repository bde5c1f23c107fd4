"""A corpus of files that cannot be read: each is refused with its place and its fix, and no error shows a cell."""

import errno
import gzip
import io
import os
import resource
import subprocess
import sys
import traceback
import zipfile
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from twinify_lite.errors import TableError
from twinify_lite.table import PrivateTable, csv_records, read_table

CANARY, NUMBER = "CANARY_7f3a", "98765.4321"
ROW = f"{CANARY},{NUMBER},x\n"
GOOD = "name,income,group\n" + ROW * 3


def arrow_table(rows=2000):
    return pa.table({"name": [CANARY] * rows, "income": [float(NUMBER)] * rows, "n": list(range(rows))})


def parquet_bytes(table=None):
    sink = io.BytesIO()
    pq.write_table(arrow_table() if table is None else table, sink, compression="none")
    return sink.getvalue()


def feather_bytes():
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, arrow_table().schema) as writer:
        writer.write_table(arrow_table())
    return sink.getvalue()


def zip_bytes():
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("xl/worksheets/sheet1.xml", GOOD)
    return sink.getvalue()


def broken_middle(data):
    """Valid at both ends, nonsense between."""
    return data[:64] + b"\xff" * (len(data) // 8) + data[64 + len(data) // 8 :]


NESTED = pa.table({"name": [CANARY], "visits": [[NUMBER]], "home": [{"street": CANARY}], "photo": [CANARY.encode()]})

#: name: (file name, bytes, words of the error)
CORPUS = {
    "empty": ("a.csv", b"", ["empty", "header"]),
    "empty parquet": ("a.parquet", b"", ["empty"]),
    "only a byte order mark": ("a.csv", b"\xef\xbb\xbf", ["empty"]),
    "only blank lines": ("a.csv", b"\n\r\n\n", ["empty"]),
    "header only": ("a.csv", b"name,income\n", ["no rows", "at least one row"]),
    "header only without a line end": ("a.csv", b"name,income", ["no rows"]),
    "header and blank lines": ("a.csv", b"name,income\n\n\n", ["no rows"]),
    "equal names": ("a.csv", b"name,income,name\n" + ROW.encode(), ["Columns 1 and 3 have the same name", "Rename"]),
    "blank name": ("a.csv", b"name,,group\n" + ROW.encode(), ["Column 2 of 3 has no name"]),
    "blank names of spaces": ("a.csv", b"name, ,\t \n" + ROW.encode(), ["Columns 2 and 3 have no name"]),
    "index of pandas": ("a.csv", b",name,income\n" + ROW.encode(), ["Column 1 of 3", "index=False"]),
    "trailing separators": (
        "a.csv",
        f"name,income,\n{CANARY},{NUMBER},\n".encode(),
        ["Column 3 of 3", "every line ends"],
    ),
    "no header, twice the same cell": ("a.csv", f"{NUMBER},{CANARY},{CANARY}\n".encode() * 2, ["put a header above"]),
    "a cell too many": (
        "a.csv",
        (GOOD + "a,b,c,d\n").encode(),
        ["line 5", "has 4 cells", "header has 3", "--separator"],
    ),
    "a cell too few": ("a.csv", (GOOD + f"{CANARY},{NUMBER}\n" + ROW).encode(), ["line 5", "has 2 cells"]),
    "a line of spaces": ("a.csv", (GOOD + "   \n").encode(), ["line 5", "has 1 cells"]),
    "ragged after quoted line ends": (
        "a.csv",
        f'name,income,group\n"{CANARY}\n\r\nz",{NUMBER},"a\rb"\n{CANARY},{NUMBER}\n'.encode(),
        ["line 6", "has 2 cells"],
    ),
    "ragged after blank lines": ("a.csv", f"\n\nname,income\n\n{CANARY}\n".encode(), ["line 5", "has 1 cells"]),
    "ragged with old Mac line ends": ("a.csv", f"a,b\r{CANARY},1\r{NUMBER}\r".encode(), ["line 3", "has 1 cells"]),
    "header of one cell over rows of two": (
        "a.csv",
        f"name\n{CANARY};{NUMBER}\n".encode() * 1,
        ["line 2", "has 2 cells"],
    ),
    "NUL": ("a.csv", f"name,income\na,1\n{CANARY}\0,{NUMBER}\n".encode(), ["line 3", "NUL"]),
    "NUL in a quoted cell": ("a.csv", f'name,income\n"{CANARY}\n\n\0",{NUMBER}\n'.encode(), ["line 4", "NUL"]),
    "NUL far down": ("a.csv", (GOOD + ROW * 100_000 + f"{CANARY},\0,\n").encode(), ["line 100005", "NUL"]),
    "NUL in the header": ("a.csv", f"name,in\0come\n{CANARY},{NUMBER}\n".encode(), ["line 1", "NUL"]),
    "only NULs": ("a.csv", b"\0" * 100_000, ["line 1", "NUL"]),
    "invalid UTF-8": (
        "a.csv",
        f"name,income\n{CANARY}é,{NUMBER}\n".encode("latin-1"),
        ["line 2", "--encoding latin-1", "--encoding cp1252"],
    ),
    "invalid UTF-8 in the header": ("a.csv", f"naïve,b\n{CANARY},{NUMBER}\n".encode("latin-1"), ["line 1", "latin-1"]),
    "invalid UTF-8 in a quoted cell": (
        "a.csv",
        f'name,income\n"{CANARY}\n\né",{NUMBER}\n'.encode("latin-1"),
        ["line 4", "--encoding latin-1"],
    ),
    "UTF-16": ("a.csv", GOOD.encode("utf-16"), ["UTF-16", "iconv"]),
    "UTF-16 without its mark": ("a.csv", GOOD.encode("utf-16-le"), ["UTF-16", "iconv -f UTF-16LE"]),
    "UTF-16 without its mark, big end first": ("a.csv", GOOD.encode("utf-16-be"), ["UTF-16", "iconv -f UTF-16BE"]),
    "ragged after Excel's separator": (
        "a.csv",
        f"sep=;\r\nname;income\r\na;1\r\n{CANARY};{NUMBER};x\r\n".encode(),
        ["line 4", "has 3 cells", "header has 2"],
    ),
    "only Excel's separator": ("a.csv", b"sep=;\r\n", ["empty"]),
    "unclosed quote in the last column": (
        "a.csv",
        f'name,income\n{CANARY},{NUMBER}\n{CANARY},"{NUMBER}\na,b\n'.encode(),
        ["line 3", "never closed"],
    ),
    "unclosed quote in the first column": (
        "a.csv",
        f'name,income\n"{CANARY},{NUMBER}\na,b\n'.encode(),
        ["line 2", "quote"],
    ),
    "unclosed quote in an only column": (
        "a.csv",
        f'name\na\n"{CANARY}\n{NUMBER}\n'.encode(),
        ["line 3", "never closed"],
    ),
    "unclosed quote at the very end": ("a.csv", f'name,income\n{CANARY},"'.encode(), ["line 2", "never closed"]),
    "unclosed quote over blocks": (
        "a.csv",
        ('name,i,g\na,"b,c\n' + ROW * 100_000).encode(),
        ["line 2", "never closed"],
    ),
    "unclosed quote in the header": (
        "a.csv",
        f'name,"income\n{CANARY},{NUMBER}\n'.encode(),
        ["line 1", "never closed"],
    ),
    "truncated gzip": ("a.csv.gz", gzip.compress((GOOD + ROW * 50_000).encode())[:-20], ["gzip", "cut off"]),
    "gzip cut in its header": ("a.csv.gz", gzip.compress(GOOD.encode())[:6], ["gzip", "cut off"]),
    "gzip with a wrong checksum": ("a.csv.gz", gzip.compress(GOOD.encode())[:-8] + b"\1" * 8, ["gzip", "damaged"]),
    "ragged in gzip": ("a.csv.gz", gzip.compress((GOOD + CANARY).encode()), ["line 5", "has 1 cells"]),
    "truncated Parquet": ("a.parquet", parquet_bytes()[:-100], ["Parquet", "cut off"]),
    "Parquet of four bytes": ("a.parquet", b"PAR1", ["Parquet", "cut off"]),
    "CSV called Parquet": ("a.parquet", GOOD.encode(), ["not a whole Parquet", "--format csv"]),
    "Parquet with a broken middle": ("a.parquet", broken_middle(parquet_bytes()), ["Parquet", "damaged"]),
    "Parquet called CSV": ("a.csv", parquet_bytes(), ["parquet", "--format parquet"]),
    "truncated Feather": ("a.feather", feather_bytes()[:-100], ["Feather", "cut off"]),
    "Feather with a broken middle": ("a.feather", broken_middle(feather_bytes()), ["Feather", "damaged"]),
    "CSV called Feather": ("a.arrow", GOOD.encode(), ["Feather", "--format csv"]),
    "Parquet with nested columns": (
        "a.parquet",
        parquet_bytes(NESTED),
        ["'visits' is of type list", "'home' is of type struct", "'photo' is of type binary", "leave it out"],
    ),
    "Parquet without rows": ("a.parquet", parquet_bytes(arrow_table(0)), ["no rows"]),
    "Excel": ("a.xlsx", zip_bytes(), ["Excel", "as CSV"]),
    "Excel called CSV": ("a.csv", zip_bytes(), ["Excel", "as CSV"]),
    "Excel with a password": ("a.csv", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + GOOD.encode(), ["password", "as CSV"]),
}


def refusal(source, **options):
    """The error of `read_table`, after it was searched for cells together with everything chained to it."""
    with pytest.raises(TableError) as caught:
        read_table(source, **options)
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None
    shown = [str(error), repr(error), repr(vars(error)), "".join(traceback.format_exception(error))]
    for text in shown:
        assert CANARY not in text
        assert NUMBER not in text
        assert NUMBER.split(".")[0] not in text
    return str(error)


def as_stdin(monkeypatch, data):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))


@pytest.mark.parametrize("case", CORPUS)
def test_a_bad_file_is_refused_with_its_name_its_place_and_its_fix(case, tmp_path):
    name, data, words = CORPUS[case]
    path = tmp_path / name
    path.write_bytes(data)
    message = refusal(path)
    assert str(path) in message
    for word in words:
        assert word in message


# Without a name, the first bytes decide.
@pytest.mark.parametrize("case", [case for case in CORPUS if case != "Parquet called CSV"])
def test_the_same_bytes_from_stdin_are_refused_for_the_same_reason(case, monkeypatch):
    name, data, words = CORPUS[case]
    as_stdin(monkeypatch, data)
    extension = name.split(".")[1]
    message = refusal(
        "-", format={"csv": "csv", "parquet": "parquet", "arrow": "feather", "feather": "feather"}.get(extension)
    )
    assert "stdin" in message
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("extension", "format"),
    [
        ("sav", "SPSS"),
        ("dta", "Stata"),
        ("sas7bdat", "SAS"),
        ("json", "JSON"),
        ("jsonl", "JSON"),
        ("xls", "Excel"),
        ("xlsx", "Excel"),
        ("ods", "OpenDocument"),
        ("rds", "R "),
        ("RData", "R "),
        ("zip", "zip"),
        ("json.gz", "JSON"),
    ],
)
def test_a_format_of_other_programs_is_named_before_it_is_read(extension, format, tmp_path):
    path = tmp_path / f"a.{extension}"
    path.write_text(GOOD)
    message = refusal(path)
    assert f" {format}" in message
    assert "xport it as CSV or Parquet" in message
    assert read_table(path, format="csv").columns == ("name", "income", "group")


def test_a_missing_file_is_named(tmp_path):
    message = refusal(tmp_path / "nowhere.csv")
    assert "nowhere.csv" in message
    assert "check the path" in message


def test_a_folder_is_no_table(tmp_path):
    assert "is a folder" in refusal(tmp_path)


def test_a_file_without_permission_says_so(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    path.write_text(GOOD)

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, f"Permission denied, and {CANARY}")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(TableError, match="You have no permission") as caught:
        read_table(path)
    monkeypatch.undo()
    assert CANARY not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_is_really_not_readable_says_so(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(GOOD)
    path.chmod(0)
    assert "permission" in refusal(path)


def test_bytes_that_cp1252_lacks_are_found_by_their_line(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(f"name,income\nfine,1\n{CANARY}\x81,{NUMBER}\n".encode("latin-1"))
    message = refusal(path, encoding="cp1252")
    assert "line 3 is not valid cp1252" in message
    assert "--encoding latin-1" in message


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"separator": ":"}, ["separator", "';' (semicolon)", "(tab)"]),
        ({"separator": ",,"}, ["separator"]),
        ({"decimal": "'"}, ["decimal", "'.' or ','"]),
        ({"encoding": "utf-16"}, ["encoding", "utf-8, latin-1, cp1252"]),
        ({"encoding": "nonsense"}, ["encoding", "latin-1"]),
        ({"format": "xlsx"}, ["format", "csv, tsv, parquet, feather"]),
    ],
)
def test_an_unknown_option_lists_the_known_ones(options, words, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(GOOD)
    message = refusal(path, **options)
    assert all(word in message for word in words)


def test_all_problems_of_a_header_stand_in_one_error(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"a,,a,b,b\n{CANARY},,,,\n")
    message = refusal(path)
    assert len(message.splitlines()) == 3


def test_a_long_line_is_refused_in_bounded_memory_and_at_once(tmp_path, monkeypatch):
    """A stream of 2 GB without a line end: only some megabytes of it may be taken."""
    taken = 0

    class Endless(io.RawIOBase):
        def readable(self):
            return True

        def readinto(self, buffer):
            nonlocal taken
            if taken >= 2 << 30:
                return 0
            data = (GOOD.encode() + CANARY.encode() * len(buffer))[: len(buffer)] if taken == 0 else b"7" * len(buffer)
            buffer[:] = data
            taken += len(data)
            return len(data)

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(Endless())))
    message = refusal("-")
    assert "line 5 is longer than 16 MiB" in message
    assert taken < 64 << 20


LONG_LINE = """
import sys
from twinify_lite.errors import TableError
from twinify_lite.table import read_table

def peak():  # not ru_maxrss, which a child inherits from the process that started it
    status = open("/proc/self/status").read()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024

before = peak()
try:
    read_table(sys.argv[1])
except TableError as error:
    print(error)
print((peak() - before) >> 20)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="measures memory by /proc")
@pytest.mark.parametrize("header", ["a,b\n1,", "", 'a,"b'], ids=["in a row", "in the header", "in a quoted name"])
def test_a_file_of_one_long_line_takes_little_memory(header, tmp_path):
    path = tmp_path / "long.csv"
    with path.open("wb") as file:
        file.write(header.encode())
        for _ in range(200):
            file.write(b"x" * (1 << 20))
    run = subprocess.run([sys.executable, "-c", LONG_LINE, path], capture_output=True, text=True, check=True)
    *message, megabytes = run.stdout.splitlines()
    assert f"line {2 if header.endswith('1,') else 1} is longer than 16 MiB" in "\n".join(message)
    assert int(megabytes) < 160  # and the file has 200


def test_a_sparse_file_of_two_gigabytes_is_refused_at_once(tmp_path):
    path = tmp_path / "sparse.csv"
    with path.open("wb") as file:
        file.write(b"a,b\n1,2\n")
        file.truncate(2 << 30)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    message = refusal(path)
    assert "line 3" in message
    assert "NUL" in message
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - before < 5


def test_the_lines_of_a_quoted_cell_count_however_they_end():
    data = b'a,b\r\n"1\r2\n3\r\n4",x\r\n\r\n5,6\n'
    found = [(record.line, record.last, record.cells) for record in csv_records.records(io.BytesIO(data), ",")]
    assert found == [(1, 1, 2), (2, 5, 2), (7, 7, 2)]


def test_an_error_of_the_constructor_shows_no_cell_either():
    with pytest.raises(TableError, match="'visits' is of type list") as caught:
        PrivateTable(NESTED)
    assert CANARY not in str(caught.value)
    assert caught.value.__context__ is None


def test_every_bad_file_with_rows_holds_the_canary():
    empty = [case for case in CORPUS if "empty" in case or "header" in case or "only" in case or "without rows" in case]
    for case, (name, data, _) in CORPUS.items():
        if case in empty or name.endswith(".gz") or "UTF-16" in case or case == "Parquet of four bytes":
            continue
        assert CANARY.encode() in data, case
