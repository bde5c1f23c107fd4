"""Nothing of the rows reaches a twin but through releases: other rows with the same releases, the same twin."""

import numpy as np
import pandas as pd
import pytest

import twinify_lite as tw
from twinify_lite import twin as fits
from twinify_lite.accountant import Gaussian
from twinify_lite.auto import tables

SCHEMA = """
[columns.age]
kind = "integer"
min = 0
max = 5000
nullable = true
special = []
heaps = []
[columns.pay]
kind = "number"
decimals = 2
min = 0
max = 1000
nullable = true
special = ["N"]
heaps = [0]
[columns.place]
kind = "category"
levels = ["a", "b", "c"]
other = "other"
nullable = true
[columns.day]
kind = "datetime"
min = 2000-01-01
max = 2030-01-01
nullable = true
special = []
heaps = []
"""


def people(seed, rows, age):
    generator = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": generator.integers(0, age, rows).astype(str),
            "pay": generator.normal(age, 10, rows).round(2).astype(str),
            "place": generator.choice(list("abcz"), rows),
            "day": [f"2010-0{1 + row % 9}-11" for row in range(rows)],
        }
    )
    frame.loc[3] = [None, None, None, None]
    frame.loc[4] = ["inf", "x", "", "9999"]
    return frame


@pytest.mark.parametrize("how", [{}, {"target": "place"}, {"options": {"measured_pairs": 2}}])
@pytest.mark.parametrize("rows", [900, 30])
def test_a_twin_is_a_function_of_its_releases(monkeypatch, tmp_path, how, rows):
    released, saved, reported = {}, [], []
    release = tables.release

    def once(receipt, counted, weights):
        if receipt.what not in released:
            released[receipt.what] = release(receipt, counted, weights)
            return released[receipt.what]
        assert [table.shape for table in counted] == [noisy.counts.shape for noisy in released[receipt.what]]
        receipt.redeem(Gaussian)
        return released[receipt.what]

    monkeypatch.setattr(tables, "release", once)
    monkeypatch.setattr(fits, "count_rows", lambda *_, **__: rows)
    for number, frame in enumerate([people(0, 1000, 90), people(5, 37, 700)]):
        calls = []
        twin = tw.fit(
            frame,
            epsilon=1,
            schema=tw.Schema.from_toml(SCHEMA),
            progress=lambda *call, to=calls: to.append(call),
            **how,
        )
        twin.save(tmp_path / f"{number}.twin")
        saved.append((tmp_path / f"{number}.twin").read_bytes())
        reported.append(calls)
    assert saved[0] == saved[1]
    assert reported[0] == reported[1]
