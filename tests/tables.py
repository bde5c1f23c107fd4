"""Made-up tables that the tests of reading, discovery and encoding share."""

import numpy as np
import pandas as pd


def hospital(rows: int, seed: int = 0) -> pd.DataFrame:
    """A messy table of text cells, as a CSV gives them: missing is None."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, rows)
    child = age < 15
    days = rng.integers(0, 4000, rows)
    admitted = np.datetime64("2010-03-01") + days
    cost = np.where(rng.random(rows) < 0.7, 0, np.round(rng.lognormal(7, 1.5, rows), 2))
    frame = pd.DataFrame(
        {
            "patient": [f"P{number:07d}" for number in rng.permutation(rows)],
            "age": age,
            "sex": rng.choice(["female", "male"], rows),
            "born": [f"{year}-07-01" for year in 2010 - age],
            "admitted": admitted.astype("datetime64[D]").astype(str),
            "discharged": (admitted + rng.geometric(0.2, rows)).astype("datetime64[D]").astype(str),
            "diagnosis": [f"D{code:03d}" for code in np.minimum(rng.geometric(0.02, rows), 225)],
            "income": np.where(child, "N", rng.integers(0, 90_000, rows).astype(str)),
            "cost": [f"{amount:g}" for amount in cost],
            "sodium": np.round(rng.normal(140, 3, rows), 1),
            "visits": np.where(rng.random(rows) < 0.1, 9999, rng.poisson(3, rows)),
            "note": [f"saw the patient at {minute}" for minute in rng.permutation(rows)],
        }
    ).astype(str)
    frame["ward"] = np.where(rng.random(rows) < 0.46, None, rng.choice(["north", "south", "west"], rows))
    frame["score"] = np.where(rng.random(rows) < 0.46, None, np.round(rng.normal(0, 1e-4, rows), 7).astype(str))
    return frame
