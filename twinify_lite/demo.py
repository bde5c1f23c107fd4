"""A made-up hospital, to try everything on: mixed kinds, missing cells, dates, heaps, zeros and a target.

Nobody in it exists, so its rows may be looked at, and compared with those of its twin. With real data that comparison
would itself be a release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

ROWS = 20_000
#: A ward's share of the patients, their mean age and its sd, their nights, and how often sodium is not measured.
WARDS = {
    "children": (0.12, 7, 4, 2.5, 0.70),
    "maternity": (0.14, 31, 5, 3.0, 0.55),
    "surgery": (0.24, 52, 18, 4.5, 0.10),
    "heart": (0.20, 68, 11, 5.5, 0.02),
    "cancer": (0.13, 63, 13, 7.0, 0.05),
    "lungs": (0.10, 60, 16, 6.0, 0.08),
    "mind": (0.07, 41, 14, 15.0, 0.40),
}
#: The commonest diagnoses of a ward, the first being the most frequent.
DIAGNOSES = {
    "children": ("asthma", "fever", "fracture"),
    "maternity": ("delivery", "caesarean", "observation"),
    "surgery": ("hernia", "fracture", "appendix", "gallstones"),
    "heart": ("infarction", "heart failure", "arrhythmia"),
    "cancer": ("colon", "lung", "skin", "leukaemia"),
    "lungs": ("COPD", "pneumonia", "asthma"),
    "mind": ("depression", "psychosis", "addiction"),
}

SCHEMA = """\
# What is public of the made-up hospital. All that is not said here is found from the privacy budget.
constraints = ["referred <= admitted", "if age < 15 then smoker == 'not applicable'"]

[columns.age]
kind = "integer"
min = 0
max = 100
nullable = false

[columns.sex]
kind = "category"
levels = ["female", "male"]
nullable = false

[columns.readmitted]
kind = "boolean"
levels = ["no", "yes"]
nullable = false
"""


def hospital(rows: int = ROWS, seed: int = 0) -> pd.DataFrame:
    """A table of `rows` patients who do not exist; the same for the same seed."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(seed)
    shares, ages, spreads, nights, unmeasured = np.array(list(WARDS.values())).T
    ward = rng.choice(len(WARDS), rows, p=shares)
    age = _ages(rng, ward, ages, spreads)
    women = np.array([0.5, 1.0, 0.5, 0.4, 0.55, 0.45, 0.5])
    sex = np.where(rng.random(rows) < women[ward], "female", "male")
    admitted = np.datetime64("2023-01-01") + rng.integers(0, 365, rows)
    stay = np.minimum(rng.geometric(1 / (nights[ward] * (0.7 + age / 150))), 120)
    smokes = rng.random(rows) < 0.15 + 0.35 * (ward == 5) + 0.15 * (ward == 3)
    again = _logistic(-2.6 + 0.015 * age + 0.8 * smokes + 0.06 * np.minimum(stay, 20) + 0.7 * (ward == 4))
    sodium = rng.normal(140 - 1.5 * (ward == 3), 3, rows).round(1)
    return pd.DataFrame(
        {
            "age": age,
            "sex": sex,
            "ward": np.array(list(WARDS))[ward],
            "diagnosis": _diagnoses(rng, ward),
            "referred": (admitted - rng.exponential(30, rows).astype(int) * (rng.random(rows) < 0.7)).astype(str),
            "admitted": admitted.astype(str),
            "nights": stay,
            "sodium": np.where(rng.random(rows) < unmeasured[ward], np.nan, sodium),
            "systolic": _heaped(rng, 105 + 0.5 * age + 8 * (ward == 3) + rng.normal(0, 14, rows)),
            "cost": np.where(rng.random(rows) < 0.55, 0, stay * rng.lognormal(5.0, 0.8, rows)).round(2),
            "smoker": np.where(age < 15, "not applicable", np.where(smokes, "yes", "no")),
            "readmitted": np.where(rng.random(rows) < again, "yes", "no"),
        }
    )


def _ages(rng: np.random.Generator, ward: np.ndarray, mean: np.ndarray, spread: np.ndarray) -> np.ndarray:
    ages = rng.normal(mean[ward], spread[ward]).round().astype(int)
    oldest = (ward == 0) * 17 + (ward == 1) * 48 + (ward > 1) * 100
    youngest = (ward == 1) * 17 + (ward > 1) * 16
    return ages.clip(youngest, oldest)


def _diagnoses(rng: np.random.Generator, ward: np.ndarray) -> np.ndarray:
    import numpy as np

    places = rng.geometric(0.5, len(ward)) - 1
    lists = list(DIAGNOSES.values())
    return np.array([lists[w][place % len(lists[w])] for w, place in zip(ward, places, strict=True)])


def _heaped(rng: np.random.Generator, pressure: np.ndarray) -> np.ndarray:
    """Blood pressures as people write them down: half of them end in 0."""
    import numpy as np

    exact = pressure.round().clip(70, 240).astype(int)
    return np.where(rng.random(len(exact)) < 0.45, 10 * np.round(exact / 10).astype(int), exact)


def _logistic(value: np.ndarray) -> np.ndarray:
    import numpy as np

    return 1 / (1 + np.exp(-value))


# -- what to look at ---------------------------------------------------------------------------------------------------

#: Whom a question is about, and its answer for them.
_QUESTIONS: dict[str, tuple[Callable[[pd.DataFrame], pd.Series], Callable[[pd.DataFrame], float]]] = {
    "mean age": (lambda t: t["age"].notna(), lambda t: t["age"].mean()),
    "mean age on the children's ward": (lambda t: t["ward"] == "children", lambda t: t["age"].mean()),
    "share of women in maternity": (lambda t: t["ward"] == "maternity", lambda t: (t["sex"] == "female").mean()),
    "mean nights, heart": (lambda t: t["ward"] == "heart", lambda t: t["nights"].mean()),
    "mean nights, mind": (lambda t: t["ward"] == "mind", lambda t: t["nights"].mean()),
    "sodium not measured, children": (lambda t: t["ward"] == "children", lambda t: t["sodium"].isna().mean()),
    "sodium not measured, heart": (lambda t: t["ward"] == "heart", lambda t: t["sodium"].isna().mean()),
    "blood pressures that end in 0": (lambda t: t["systolic"].notna(), lambda t: (t["systolic"] % 10 == 0).mean()),
    "costs that are 0": (lambda t: t["cost"].notna(), lambda t: (t["cost"] == 0).mean()),
    "median of the other costs": (lambda t: t["cost"] > 0, lambda t: t["cost"].median()),
    "readmitted, smokers": (lambda t: t["smoker"] == "yes", lambda t: (t["readmitted"] == "yes").mean()),
    "readmitted, others": (lambda t: t["smoker"] == "no", lambda t: (t["readmitted"] == "yes").mean()),
    "children who smoke": (lambda t: t["age"] < 15, lambda t: (t["smoker"] != "not applicable").sum()),
    "admitted before referred": (
        lambda t: t["admitted"].notna(),
        lambda t: (t["admitted"].astype(str) < t["referred"].astype(str)).sum(),
    ),
}
_EXPECT = (
    "The fewer rows a figure is of, the more noise hides of it: then the twin draws the group towards all the others."
)


def compare(people: pd.DataFrame, twin: pd.DataFrame) -> str:
    """A few figures of two tables side by side, as text. Only for people who do not exist."""
    return "\n".join([*_lines(people, twin), _EXPECT])


def _lines(people: pd.DataFrame, twin: pd.DataFrame) -> Iterator[str]:
    width = max(map(len, _QUESTIONS))
    yield f"{'':<{width}} {'of rows':>10} {'made up':>10} {'twin':>10}"
    for question, (about, answer) in _QUESTIONS.items():
        real, drawn = people[about(people)], twin[about(twin)]
        yield f"{question:<{width}} {len(real):>10} {answer(real):>10.4g} {answer(drawn):>10.4g}"
