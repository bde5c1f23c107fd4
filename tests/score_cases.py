"""People whose columns depend on each other, as often as one likes, and one score of them that several tests read."""

import functools

import numpy as np
import pandas as pd

import twinify_lite as tw


def people(rows=1500, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, rows)
    sex = rng.choice(["female", "male"], rows)
    income = np.round(500 + 40 * age + 300 * rng.normal(size=rows), 2)
    lacks = rng.random(rows) < 0.2
    return pd.DataFrame(
        {
            "age": age,
            "sex": sex,
            "income": np.where(lacks, np.nan, income),
            "pension": np.where(lacks, np.nan, np.round(0.3 * income)),
            "retired": np.where(age + 5 * rng.normal(size=rows) > 65, "yes", "no"),
            "joined": (np.datetime64("2015-01-01") + rng.integers(0, 2000, rows)).astype(str),
        }
    )


def shuffled(table, seed=5):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({name: rng.permutation(table[name].to_numpy()) for name in table})


@functools.lru_cache
def good():
    """The score of other people of the same kind, with people held out."""
    return tw.score(people(seed=0), people(seed=1), holdout=people(seed=2), target="retired")


@functools.lru_cache
def bad():
    """The score of the same cells without any dependence, against halves, with a number as the target."""
    return tw.score(people(seed=0), shuffled(people(seed=1)), target="income")
