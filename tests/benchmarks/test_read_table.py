"""What it costs to read a CSV file: `pytest -m benchmark -s tests/benchmarks/test_read_table.py`."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from twinify_lite.table import read_table, write_table


@pytest.fixture(scope="module")
def path(tmp_path_factory, is_full):
    """A million rows of fifteen columns: numbers, levels, dates and truth values."""
    rng = np.random.default_rng(0)
    rows = 1_000_000 if is_full else 1000

    def level(number):
        return pa.array([f"level-{i}" for i in range(number)]).take(pa.array(rng.integers(0, number, rows)))

    columns = {
        "age": rng.integers(0, 100, rows),
        "weight": rng.integers(10_000, 1_000_000, rows),
        "income": np.round(rng.lognormal(8, 2, rows), 2),
        "score": rng.normal(size=rows),
        **{f"level{number}": level(number) for number in (2, 5, 9, 16, 42, 225)},
        "hours": rng.integers(1, 99, rows),
        "gain": rng.integers(0, 99_999, rows) * (rng.random(rows) < 0.1),
        "date": (np.datetime64("1950-01-01") + rng.integers(0, 20_000, rows)).astype("datetime64[D]"),
        "smoker": rng.random(rows) < 0.3,
        "change": np.round(rng.normal(size=rows), 3),
    }
    path = tmp_path_factory.mktemp("benchmark") / "million.csv"
    write_table(pa.table(columns), path)
    return path


def cpu_seconds(runs, repeats=9):
    """Median CPU time over all threads of several programs in turn, so that a noisy machine is noisy for all."""
    taken = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            start = time.process_time()
            run()
            taken[name].append(time.process_time() - start)
    return {name: float(np.median(seconds)) for name, seconds in taken.items()}


def test_reading_costs_at_most_one_and_a_half_times_arrows_own_reader(path, is_full):
    seconds = cpu_seconds({"read_table": lambda: read_table(path), "pyarrow": lambda: csv.read_csv(path)})
    ratio = seconds["read_table"] / seconds["pyarrow"]
    print(f"\nread_table {seconds['read_table']:.3f} s CPU, pyarrow {seconds['pyarrow']:.3f} s, ratio {ratio:.2f}")
    assert ratio <= 1.5 or not is_full


MEMORY = """
import sys
import pyarrow as pa
from twinify_lite.table import read_table

def peak():  # not ru_maxrss, which a child inherits from the process that started it
    status = open("/proc/self/status").read()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024

before = peak()
table = read_table(sys.argv[1])
print(table.reveal().nbytes, pa.default_memory_pool().max_memory(), peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux tells a process its peak there.")
@pytest.mark.parametrize("source", ["path", "stdin"])
def test_reading_takes_less_than_three_times_the_memory_of_the_table(source, path, is_full):
    with path.open("rb") as file:
        command = [sys.executable, "-c", MEMORY, str(path) if source == "path" else "-"]
        run = subprocess.run(command, stdin=file, capture_output=True, text=True, check=True)
    size, pool, resident = map(int, run.stdout.split())
    times = f"Arrow's peak {pool / size:.2f} times, resident {resident / size:.2f} times"
    print(f"\n{source}: table {size / 1e6:.0f} MB, {times}")
    assert pool < 3 * size or not is_full
    assert resident < 3 * size or not is_full
