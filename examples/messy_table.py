"""A messy table comes in, and comes back: files, private discovery, encoding, on data that this example makes.

A made-up hospital writes a CSV file with dates, codes, missing cells, costs that are mostly zero, free text and a key
for every row. Nothing is declared. `discover` finds what it can with a tenth of epsilon = 1; `encode` gives arrays for
a model, and `decode` gives back a table that looks like the first one.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import twinify_lite as tw


def make_table(rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """People who do not exist."""
    age = rng.integers(0, 100, rows)
    admitted = np.datetime64("2015-01-01") + rng.integers(0, 3000, rows)
    cost = np.where(rng.random(rows) < 0.7, 0, rng.lognormal(7, 1, rows)).round(2)
    return pd.DataFrame(
        {
            "patient": [f"P{number:06d}" for number in rng.permutation(rows)],
            "age": age,
            "sex": rng.choice(["female", "male"], rows),
            "admitted": admitted.astype(str),
            "discharged": (admitted + rng.geometric(0.2, rows)).astype(str),
            "diagnosis": [f"ICD-{code}" for code in np.minimum(rng.geometric(0.03, rows), 225)],
            "income": np.where(age < 15, "N", rng.integers(0, 90_000, rows).astype(str)),
            "cost": cost,
            "sodium": np.where(rng.random(rows) < 0.46, None, rng.normal(140, 3, rows).round(1)),
            "note": [f"seen at {minute}" for minute in rng.permutation(rows)],
        }
    )


def compare(people: pd.DataFrame, schema: tw.Schema) -> pd.DataFrame:
    """What was found beside what is there, and the share of cells that it covers."""
    lines = []
    for column in schema.modelled:
        cells = people[column.name].dropna()
        if column.is_levelled:
            lines.append(
                (column.name, f"{cells.nunique()} levels", f"{len(column.levels)}", cells.isin(column.levels).mean())
            )
            continue
        beside = cells.astype(str).isin(map(str, column.special))
        values = cells[~beside] if column.kind == "datetime" else pd.to_numeric(cells[~beside])
        low, high = (str(bound) if column.kind == "datetime" else bound for bound in (column.min, column.max))
        covered = (values.between(low, high).sum() + beside.sum()) / len(cells)
        lines.append((column.name, f"{values.min()} to {values.max()}", f"{low} to {high}", covered))
    return pd.DataFrame(lines, columns=["column", "there", "found", "cells covered"]).round(4)


DECLARED = """
constraints = ["admitted <= discharged", "if age < 15 then income == 'N'"]

[columns.patient]
kind = "identifier"
sample = "surrogate"
pattern = "P{:06d}"
"""


def main(rows: int = 50_000) -> tw.Ledger:
    """Write, read, discover, encode, decode, and show what is public of it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hospital.csv"
        people = make_table(rows, np.random.default_rng(0))
        tw.write_table(people, path)
        table = tw.read_table(path)
        print(table)

        ledger = tw.Ledger(epsilon=1.0, delta=1e-6)
        discovery = tw.discover(table, tw.Schema.from_toml(DECLARED), ledger=ledger)
        print(f"\nRows, with noise: {discovery.rows}")
        print(discovery.schema.to_toml().partition("\n\n")[2])
        print("\n".join(discovery.notes))
        print("\nHow close it came (people who do not exist may be looked at):")
        print(compare(people, discovery.schema).to_string(index=False))
        print(f"\n{ledger.statement()}")

        arrays = tw.encode(discovery.schema, table, view="discrete")
        print("\nArrays:", ", ".join(f"{name} {array.dtype}" for name, array in arrays.items()))
        # Levels that a model would draw; here they are shuffled, so that no row of the table comes out.
        rng = np.random.default_rng(1)
        shuffled = {name: rng.permutation(array) for name, array in arrays.items()}
        twin = tw.decode(discovery.schema, shuffled, view="discrete", rng=rng)
        tw.write_table(twin, Path(folder) / "shuffled.csv")
        print("Columns that come back:", ", ".join(twin.column_names))
    return ledger


if __name__ == "__main__":
    main()
