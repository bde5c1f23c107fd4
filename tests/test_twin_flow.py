"""Nothing of the rows reaches a twin but through releases: other rows with the same releases, the same twin."""

import numpy as np
import pandas as pd
import pytest

import twinify_lite as tw
from twinify_lite import fitting
from twinify_lite.accountant import Gaussian
from twinify_lite.auto import tables
from twinify_lite.request import Request
from twinify_lite.statement import GUESSED, STYLE

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
    monkeypatch.setattr(fitting, "count_rows", lambda *_, **__: rows)
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


def test_what_is_guessed_of_the_table_before_preprocess_is_in_the_statement(tmp_path):
    """A schema that declares everything is one of the processed table; the raw one was still guessed from."""
    (tmp_path / "mine.py").write_text(
        "import numpyro\nimport numpyro.distributions as dist\n"
        "def preprocess(frame):\n    return frame[['age']]\n"
        "def model(rows):\n    with rows:\n        numpyro.sample('age', dist.Normal(0, 1))\n"
    )
    people(0, 60, 90).to_csv(tmp_path / "data.csv", index=False)
    declared = tw.Schema((tw.Column(name="age", kind="integer", min=0, max=5000, nullable=True, special=(), heaps=()),))
    own = str(tmp_path / "mine.py")
    request = Request(epsilon=1.0, delta=1e-6, model=own, relation="add-remove", target=None, options=None)
    taken = request.prepare(str(tmp_path / "data.csv"), declared, ()).taken
    assert {GUESSED, STYLE} <= set(taken)
    assert any("preprocess of mine.py" in sentence for sentence in taken)
