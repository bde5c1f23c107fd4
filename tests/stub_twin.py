"""A stand-in for `twinify_lite.twin`, for tests of the command line: one level is drawn for every cell, at random."""

import json
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from twinify_lite import DiscreteLaplace, Gaussian, Ledger, artifact
from twinify_lite.errors import BudgetExceeded, ModelError
from twinify_lite.fitting import COUNTED
from twinify_lite.schema import Schema
from twinify_lite.statement import STYLE

SCHEMA = '[columns.age]\nkind = "integer"\nmin = 0\nmax = 9\nnullable = false\n'
SCHEMA += '[columns."s\\u001b[31mex"]\nkind = "category"\nlevels = ["f", "m"]\nnullable = false\n'
CALLS = []


@dataclass(frozen=True)
class Twin:
    statement: dict
    rows: int = 1000
    notes: tuple = ("Column 'note' was left out.",)
    fitted: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(datasets=21, first_draw=1))
    schema: Schema = field(default_factory=lambda: Schema.from_toml(SCHEMA))
    is_own = True  # its rows have a column that the schema has not

    @property
    def is_private(self):
        return self.statement["private"]

    def describe(self):
        return "\n".join(["A stub of columns:", *self.schema])

    def batches(self, n, *, seed=None, dataset=0, where=None, batch=2**10, dictionaries=False):
        CALLS.append({"n": n, "seed": seed, "dataset": dataset, "where": where})
        rng = np.random.default_rng([seed or 0, dataset])
        for start in range(0, n, batch):
            rows = min(batch, n - start)
            yield pa.table({"age": rng.integers(0, 10, rows), "sex": rng.choice(["f", "m"], rows)})

    def save(self, path):
        artifact.write(
            path,
            {
                "twin.json": artifact.json_bytes({"rows": self.rows, "fitted": "auto"}),
                "schema.toml": self.schema.to_toml().encode(),
                "statement.json": artifact.json_bytes(self.statement),
                "fitted.json": artifact.json_bytes(
                    {"settings": {"single": 1.0, "choice": 0.0, "pairs": 0.0, "rows": self.rows}, "links": []}
                ),
            },
        )


def fit(data, *, epsilon, delta=1e-6, insecure_seed=None, relation="add-remove", progress=None, **options):
    CALLS.append({"data": data, "epsilon": epsilon, "delta": delta, **options})
    asked = options.get("options") or {}
    if asked.get("fail") == "budget":
        raise BudgetExceeded("Nothing is left.")
    if asked.get("fail") == "late":
        error = ModelError("The fit went wrong.")
        error.spent = "Epsilon 0.3 of 1 was spent before, and is gone."
        raise error
    if asked.get("fail") == "interrupt":
        raise KeyboardInterrupt
    ledger = Ledger(epsilon, delta, relation=relation, insecure_seed=insecure_seed)
    ledger.treat_as_public(STYLE)
    ledger.spend(DiscreteLaplace(scale=50 / epsilon), "row count").redeem(DiscreteLaplace)
    rows = asked.get("rows", 1000)
    progress(COUNTED, rows, rows)
    ledger.spend(ledger.calibrate(Gaussian(noise_multiplier=1.0)), "single columns")
    progress("compiling", 0, 1)
    progress("fitting", 10, 10)
    return Twin(json.loads(json.dumps(ledger.statement().to_json())), rows=rows)


def dry_run(data, **options):
    CALLS.append({"data": data, **options})
    asked = options["options"]
    supposed = {"rows (supposed)": asked["rows"]} if "rows" in asked else {}
    return {**supposed, "sampling_rate": 0.01, "steps": options["options"].get("steps", 100)}


def load(path, *, model=None, trust_model=False):
    CALLS.append({"model": model, "trust_model": trust_model})
    members = artifact.read(path)
    return Twin(
        artifact.json_from_bytes(members["statement.json"]),
        rows=artifact.json_from_bytes(members["twin.json"])["rows"],
        schema=Schema.from_toml(members["schema.toml"].decode()),
    )
