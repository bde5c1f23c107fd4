"""How long a score takes, and in how much memory: run with `pytest -m benchmark -s`."""

import json
import subprocess
import sys

import pytest

MEASURED = """
import json, resource, sys, time
import twinify_lite as tw
began = time.process_time()
score = tw.score("real.parquet", "synthetic.parquet", target="readmitted")
print(json.dumps({
    "seconds": time.process_time() - began,
    "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    "columns": len(score.columns),
    "2-way": score.figure("tvd_2way").whole,
}))
"""


@pytest.mark.benchmark
@pytest.mark.parametrize("rows", [36_000, 1_000_000])
def test_a_score_takes_bounded_time_and_memory(tmp_path, rows):
    import twinify_lite as tw
    from twinify_lite.demo import hospital

    for name, seed in (("real", 0), ("synthetic", 1)):
        table = hospital(rows, seed)
        # As wide as the table of a census: fifteen columns.
        table = table.assign(**{f"{one} again": table[one] for one in ("age", "ward", "nights")})
        tw.write_table(table, tmp_path / f"{name}.parquet")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", MEASURED], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    print(f"\n{rows} x {found['columns']} rows: {found['seconds']:.0f} s of CPU, {found['gigabytes']:.1f} GB")
    assert found["columns"] == 15
    assert found["gigabytes"] < 4
