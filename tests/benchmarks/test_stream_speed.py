"""What it costs to stream synthetic rows to a file: `pytest -m benchmark -s tests/benchmarks/test_stream_speed.py`."""

import time

import pyarrow as pa
import pytest
from pyarrow import csv

from twinify_lite import demo
from twinify_lite.table import write_table

pytestmark = pytest.mark.benchmark
ROWS = 1_000_000


@pytest.fixture(scope="module")
def twin():
    from twinify_lite.twin import fit

    return fit(demo.hospital(), epsilon=1.0)


def cpu(action):
    start = time.process_time()
    result = action()
    return time.process_time() - start, result


def test_a_million_rows_take_at_most_three_times_what_pyarrow_takes_to_write_them(twin, tmp_path):
    write_table(twin.batches(100_000), tmp_path / "warm.csv")
    ours, _ = cpu(lambda: write_table(twin.batches(ROWS), tmp_path / "ours.csv"))
    sampling, batches = cpu(lambda: list(twin.batches(ROWS)))
    table = pa.concat_tables(batches)
    theirs, _ = cpu(lambda: csv.write_csv(table, tmp_path / "theirs.csv"))
    print(f"\n{ROWS:,} rows of {table.num_columns} columns: sampled {sampling:.2f} s, sampled and written {ours:.2f} s")
    print(f"({ROWS / ours:,.0f} rows a second); pyarrow writes them in {theirs:.2f} s, {ours / theirs:.1f} times less")
    assert ours <= 3 * theirs
