"""Made-up scores, as large and as hostile as wanted: what the tests of the report share."""

import dataclasses
import itertools

import numpy as np
import pandas as pd

import twinify_lite as tw
from twinify_lite.score.result import CellScore, ColumnScore, Figure, PairScore, PairTable, PatternScore, Score

HOSTILE = (
    "<img src=x onerror=\"window.hurt=1;document.title='hurt'\">",
    '"><script>window.hurt=1</script>',
    "</style><script>window.hurt=1</script>",
    "</title><script>window.hurt=1</script>",
    "fish & chips &lt;b&gt;",
    "turned \u202eround\u202c and \u2066isolated\u2069",
    "bell \x07 escape \x1b[31m null \x00 line\nbreak",
    "x" * 5000,
    "\u200b",
    "   ",
    "' onload='window.hurt=1",
    "javascript:window.hurt=1",
    "שלום עולם",
    "列の名前がとても長い場合にどう見えるか",
)

SCHEMA = tw.Schema.from_toml(
    """
rows = 500
constraints = ["if age < 18 then smoker == 'no'"]
[columns.age]
kind = "integer"
min = 0
max = 99
nullable = true
[columns.smoker]
kind = "category"
levels = ["no", "</style><script>window.hurt=1</script>"]
nullable = false
[columns.cost]
kind = "number"
min = 0.0
max = 10.0
decimals = 2
special = ["none"]
nullable = false
[columns."<b>seen</b>"]
kind = "datetime"
min = 2020-01-01
max = 2020-12-31
nullable = false
"""
)

KINDS = ("integer", "category", "number", "ordinal", "datetime", "boolean")


def column(name="age", labels=("a", "b", "c"), real=(50, 30, 20), synthetic=(80, 100, 20), kind="category", **more):
    return ColumnScore(
        **{
            "name": name,
            "kind": kind,
            "labels": tuple(labels),
            "real": tuple(real),
            "synthetic": tuple(synthetic),
            "apart": int(labels[-1] == "missing"),
            "tvd": 0.1,
            "sampled": 0.11,
            "heldout": 0.01,
            "missing": (0.0, 0.0),
            **more,
        }
    )


def many_columns(names, levels, rng):
    for number, name in enumerate(names):
        kind = KINDS[number % len(KINDS)]
        size = 2 if kind == "boolean" else levels
        shares = rng.dirichlet(np.full(size, 0.8))
        real, synthetic = rng.multinomial(20_000, shares), rng.multinomial(10_000, rng.dirichlet(1 + 300 * shares))
        labels = [_label(kind, place) for place in range(size - 1)] + ["missing"]
        real, synthetic = tuple(real.tolist()), tuple(synthetic.tolist())
        missing = (real[-1] / 20_000, synthetic[-1] / 10_000)
        tvd = 0.5 * sum(abs(r / 20_000 - s / 10_000) for r, s in zip(real, synthetic, strict=True))
        yield column(name, labels, real, synthetic, kind, tvd=tvd, sampled=1.1 * tvd, heldout=0.008, missing=missing)


def _label(kind, place):
    if kind in ("integer", "number", "datetime"):
        return f"{5 * place} to {5 * place + 5}"
    return ("level", "a longer level", "a level with a name that is quite long indeed")[place % 3] + f" {place}"


def figures():
    sides = ("whole", "synthetic", "heldout", "independent")
    rows = [
        ("tvd_1way", "1-way distance", "Marginals", "lower", (0.0064, 0.0081, 0.0066, 0.0068)),
        ("tvd_2way", "2-way distance", "Marginals", "lower", (0.0260, 0.0284, 0.0149, 0.0969)),
        ("tvd_3way", "3-way distance", "Marginals", "lower", (0.0508, 0.0571, 0.0288, 0.1999)),
        ("correlation", "rank correlations", "Dependence", "lower", (0.021, 0.023, 0.009, 0.14)),
        ("auc", "AUC of a classifier", "Learning", "higher", (0.906, 0.899, 0.927, 0.5)),
        ("detection", "detection AUC", "Learning", "lower", (0.61, 0.62, 0.5, 0.93)),
        ("quality", "sdmetrics quality", "Quality", "higher", (0.986, 0.984, 0.994, 0.91)),
        ("nearest", "nearest real row", "Closeness", "neither", (0.11, 0.12, 0.10, 0.31)),
        ("copies", "exact copies", "Closeness", "neither", (0.0, 0.0, 0.001, None)),
    ]
    for key, name, group, better, values in rows:
        what = "Mean over all of them, from 0 (equal) to 1 (disjoint)."
        what += " Not a privacy proof." if group == "Closeness" else ""
        filled = dict(zip(sides, values, strict=True))
        yield Figure(key=key, name=name, group=group, better=better, what=what, **filled)


def pair_score(columns, tvd):
    return PairScore(columns=columns, tvd=tvd, sampled=1.1 * tvd, heldout=0.01)


def joint(first, second, size=5):
    labels = tuple(tuple(f"{name[:12]} {place}" for place in range(size)) for name in (first, second))
    real = np.random.default_rng(0).dirichlet(np.full(size * size, 0.4)).reshape(size, size)
    shares = tuple(tuple(tuple(line) for line in table.tolist()) for table in (real, 0.6 * real + 0.4 / size**2))
    return PairTable(columns=(first, second), labels=labels, real=shares[0], synthetic=shares[1], tvd=0.2)


def score(names=("age", "sex", "ward"), levels=6, **more):
    rng = np.random.default_rng(0)
    made = tuple(many_columns(names, levels, rng))
    places = list(itertools.combinations(dict.fromkeys(names), 2))
    pairs = [pair_score(pair, float(rng.beta(1, 12))) for pair in places]
    worst = sorted(pairs, key=lambda pair: -pair.tvd)[:6]
    cells = [
        CellScore(columns=pair.columns, levels=("level 1", "level 2"), real=0.1 / (n + 1), synthetic=0.05 / (n + 1))
        for n, pair in enumerate(worst)
    ]
    return Score(
        **{
            "rows": {"real": 20_000, "synthetic": 10_000, "held-out": 10_000, "reference": 10_000, "compared": 10_000},
            "is_split": True,
            "target": names[-1],
            "figures": tuple(figures()),
            "columns": made,
            "pairs": tuple(pairs),
            "tables": tuple(joint(*pair.columns) for pair in worst),
            "cells": tuple(cells),
            "patterns": (
                PatternScore(columns=(), real=0.8, synthetic=0.79),
                PatternScore(columns=tuple(names[:2]), real=0.2, synthetic=0.21),
            ),
            "versions": {"twinify-lite": "0.1.0", "numpy": "2.0"},
            "notes": ("Columns of names were left out.",),
            **more,
        }
    )


def wide(columns=30, levels=40):
    """A score of many columns with many levels, some with long names."""
    names = [f"column {n}" if n % 4 else f"the {n}th column, which has a rather long name" for n in range(columns)]
    return score(names, levels)


def with_name(name):
    """A score in which `name` stands wherever a column or a level can."""
    plain = score(["age", "sex"])
    return dataclasses.replace(
        plain,
        columns=(column(name, labels=(name, "b", "c")), *plain.columns),
        pairs=(dataclasses.replace(plain.pairs[0], columns=(name, "sex")), *plain.pairs),
        tables=(dataclasses.replace(joint("a", "b", 2), columns=(name, "b"), labels=((name, "a"), ("b", name))),),
        cells=(dataclasses.replace(plain.cells[0], columns=(name, "sex"), levels=("a", name)),),
        patterns=(dataclasses.replace(plain.patterns[0], columns=(name,)),),
        target=name,
        notes=(name,),
    )


def people():
    """A table that `SCHEMA` describes."""
    ages = [str(age) if age % 7 else "" for age in range(500)]
    return pd.DataFrame(
        {
            "age": ages,
            "smoker": ["no", "no", "</style><script>window.hurt=1</script>", "no"] * 125,
            "cost": ["1.25", "none", "9.5", "3.00"] * 125,
            "<b>seen</b>": ["2020-02-03", "2020-11-30"] * 250,
        }
    )
