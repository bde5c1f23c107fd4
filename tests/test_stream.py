"""Tables of any length are written batch by batch: few are alive at a time, and the file is whole or not there."""

import gzip
import io
import weakref

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from twinify_lite.auto import Chained
from twinify_lite.auto.chain import Link
from twinify_lite.auto.fine import codes, with_heaps
from twinify_lite.auto.levels import Levels
from twinify_lite.encode import decode
from twinify_lite.schema import Schema
from twinify_lite.table import write_table
from twinify_lite.twin import Twin

BATCHES, ROWS = 40, 5000


class Stream:
    """Batches of made-up rows, which count how many of them are alive."""

    def __init__(self, batches=BATCHES, fail_at=None):
        self.batches, self.fail_at = batches, fail_at
        self.most, self._seen = 0, []

    def __iter__(self):
        rng = np.random.default_rng(0)
        for number in range(self.batches):
            if number == self.fail_at:
                raise RuntimeError("stop")
            self.most = max(self.most, sum(seen() is not None for seen in self._seen))
            yield self._batch(rng)

    def _batch(self, rng):
        numbers = rng.normal(size=ROWS)
        self._seen.append(weakref.ref(numbers))  # Arrow borrows it, so it lives as long as the batch
        return pa.table({"number": numbers, "level": rng.choice(["a", "b"], ROWS)})


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet", "a.feather"])
def test_a_long_table_is_never_held(tmp_path, name):
    stream, before, held = Stream(), pa.total_allocated_bytes(), []

    def watched():
        for batch in stream:
            held.append(pa.total_allocated_bytes() - before)
            yield batch

    write_table(watched(), tmp_path / name)
    assert stream.most <= 2  # the first, which told the look of the file, and the one before
    assert max(held[20:]) <= 1.5 * max(held[2:12]) + 10_000


def test_the_header_comes_once_and_every_row_in_order(tmp_path):
    write_table(iter(Stream(3)), tmp_path / "a.csv")
    write_table(pa.concat_tables(Stream(3)), tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert len(pd.read_csv(tmp_path / "a.csv")) == 3 * ROWS
    write_table(iter(Stream(3)), tmp_path / "a.csv.gz")
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()) == (tmp_path / "a.csv").read_bytes()


def test_a_parquet_file_has_a_group_for_each_batch(tmp_path):
    write_table(iter(Stream(3)), tmp_path / "a.parquet")
    file = pq.ParquetFile(tmp_path / "a.parquet")
    assert (file.num_row_groups, file.metadata.num_rows) == (3, 3 * ROWS)


def test_decoded_batches_keep_the_look_that_the_schema_says(tmp_path):
    schema = Schema.from_toml(
        '[csv]\nseparator = ";"\ndecimal = ","\n[columns.x]\nkind = "number"\nmin = 0\nmax = 10\ndecimals = 2\n'
        'nullable = false\n[columns.y]\nkind = "integer"\nmin = 0\nmax = 2\nnullable = false\n'
    )
    batches = (
        decode(schema, {"x": np.array([place, place]), "y": np.array([-1.0, 1.0])}) for place in (-1.0, 0.0, 1.0)
    )
    write_table(batches, tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == "x;y\n0,00;0\n0,00;2\n5,00;0\n5,00;2\n10,00;0\n10,00;2\n"


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet", "a.feather"])
def test_a_stream_that_breaks_leaves_the_old_file_and_nothing_else(tmp_path, name):
    (tmp_path / name).write_bytes(b"old")
    with pytest.raises(RuntimeError):
        write_table(iter(Stream(fail_at=5)), tmp_path / name)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [(name, b"old")]


def test_a_stream_goes_to_stdout_as_it_comes(monkeypatch):
    class Out:
        buffer = io.BytesIO()

    monkeypatch.setattr("sys.stdout", Out)
    seen = []

    def watched():
        for batch in Stream(4):
            seen.append(len(Out.buffer.getvalue()))
            yield batch

    write_table(watched(), "-")
    assert seen == sorted(seen)
    assert seen[3] > seen[2] > 0


@pytest.fixture(scope="module")
def twin():
    """A twin that nobody fitted, of two columns."""
    schema = Schema.from_toml(
        '[columns.word]\nkind = "category"\nlevels = ["one", "two, or so"]\nnullable = true\n'
        '[columns.age]\nkind = "integer"\nmin = 0\nmax = 99999\nnullable = false\n'
    )
    size = codes(with_heaps(schema)["age"], 8).size
    levels = (
        Levels(np.array([0, 1, 2]), np.ones(3), np.full(3, -1)),
        Levels(np.zeros(size, int), np.full(size, 1 / size), np.zeros(1, int)),
    )
    shares = np.array([0.5, 0.3, 0.2])
    links = (Link(0, (), np.log(shares), (), (), shares), Link(1, (), np.zeros(1), (), (), np.ones(1)))
    return Twin(schema=schema, fitted=Chained(schema, levels, links, {"bins": 8}), statement={}, rows=100)


def test_texts_of_a_stream_may_be_dictionaries_and_the_file_is_the_same(twin, tmp_path):
    for dictionaries in (False, True):
        batches = twin.batches(150_000, seed=1, dictionaries=dictionaries)
        write_table(batches, tmp_path / f"{dictionaries}.csv")
    assert (tmp_path / "True.csv").read_bytes() == (tmp_path / "False.csv").read_bytes()
    found = pd.read_csv(tmp_path / "True.csv")
    assert len(found) == 150_000
    assert (found["word"] == "one").mean() == pytest.approx(0.5, abs=0.01)
    assert found["word"].isna().mean() == pytest.approx(0.2, abs=0.01)


def test_a_long_stream_of_synthetic_rows_is_never_held(twin, tmp_path):
    before, held = pa.total_allocated_bytes(), []

    def watched():
        for batch in twin.batches(20 * 2**16, seed=0, dictionaries=True):
            held.append(pa.total_allocated_bytes() - before)
            yield batch

    write_table(watched(), tmp_path / "a.csv")
    assert len(held) == 20
    assert max(held[10:]) <= 1.5 * max(held[1:6]) + 10_000
