"""How long a score takes, and in how much memory: run with `pytest -m benchmark -s`."""

import json
import subprocess
import sys

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


def test_a_score_takes_bounded_time_and_memory(tmp_path, is_full):
    for rows in (36_000, 1_000_000) if is_full else (300,):
        found = cost_of_score(tmp_path, rows)
        assert found["columns"] == 15
        assert found["gigabytes"] < 4 or not is_full


def cost_of_score(folder, rows):
    import twinify_lite as tw
    from twinify_lite.demo import hospital

    for name, seed in (("real", 0), ("synthetic", 1)):
        table = hospital(rows, seed)
        # As wide as the table of a census: fifteen columns.
        table = table.assign(**{f"{one} again": table[one] for one in ("age", "ward", "nights")})
        tw.write_table(table, folder / f"{name}.parquet")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", MEASURED], cwd=folder, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    print(f"\n{rows} x {found['columns']} rows: {found['seconds']:.0f} s of CPU, {found['gigabytes']:.1f} GB")
    return found
