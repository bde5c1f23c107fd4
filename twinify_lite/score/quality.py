"""sdmetrics' reports: the one file that knows that package, whose licence is not ours to spread."""

from __future__ import annotations

import contextlib
import io
import math
import warnings
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from twinify_lite.score.coding import GONE
from twinify_lite.score.comparing import Comparison
from twinify_lite.score.reading import Shared, Sheet
from twinify_lite.score.result import Figure

if TYPE_CHECKING:
    import pandas as pd

#: Rows and columns that the reports see of a table, drawn at random: it takes milliseconds for every pair of columns.
ROWS, COLUMNS = 50_000, 40
#: Pairs of real columns below these do not count in its pair trends: sdmetrics 0.32's own thresholds, said explicitly.
CORRELATION, ASSOCIATION = 0.5, 0.3
_GROUP = "sdmetrics"
_FIGURES = {
    "quality": ("quality", "Mean of column shapes and column pair trends."),
    "Column Shapes": ("column shapes", "Mean of 1 less the Kolmogorov-Smirnov or total variation distance of columns."),
    "Column Pair Trends": (
        "column pair trends",
        f"Similarity of pairs whose real correlation is at least {CORRELATION} or association at least {ASSOCIATION}.",
    ),
    "all pairs": ("column pair trends, all pairs", "The same with thresholds of 0: weakly related pairs count too."),
    "Data Validity": ("data validity", "Share of synthetic cells within the real ranges and among the real levels."),
    "Data Structure": ("data structure", "Whether the columns are the same, and of the same types."),
}


def versions() -> dict[str, str]:
    """Which sdmetrics, and its thresholds: other ones give other scores."""
    thresholds = f"thresholds {CORRELATION} (correlation) and {ASSOCIATION} (association)"
    return {"sdmetrics": f"{version('sdmetrics')}, {thresholds}, at most {ROWS} rows and {COLUMNS} columns"}


def reports(compared: Comparison, rng: np.random.Generator) -> list[Figure]:
    """The figures of both reports, on all four sides."""
    limited, columns = compared.limited(ROWS, rng), compared.real.columns
    places = np.sort(rng.permutation(len(columns))[:COLUMNS])
    chosen = tuple(columns[place] for place in places)
    sides = {side: _scores(reference, other, chosen) for side, reference, other in limited.pairs()}
    return [
        Figure(
            key=name.lower().replace(" ", "_"),
            name=title,
            group=_GROUP,
            better="higher",
            what=what,
            **{side: scores.get(name) for side, scores in sides.items()},
        )
        for name, (title, what) in _FIGURES.items()
    ]


def _scores(real: Sheet, other: Sheet, columns: tuple[Shared, ...]) -> dict[str, float | None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sdmetrics.reports.single_table import DiagnosticReport, QualityReport

    frames, metadata = (_frame(real, columns), _frame(other, columns)), _metadata(columns)
    quality = _generated(QualityReport(), CORRELATION, ASSOCIATION, frames, metadata)
    every = _generated(QualityReport(), 0.0, 0.0, frames, metadata)
    found = {**quality, "all pairs": every["Column Pair Trends"]}
    found |= _generated(DiagnosticReport(), None, None, frames, metadata)
    parts = [score for score in (found["Column Shapes"], found["Column Pair Trends"]) if score is not None]
    return {"quality": math.fsum(parts) / len(parts) if parts else None, **found}


def _generated(
    report: Any, correlation: float | None, association: float | None, frames: tuple, metadata: dict
) -> dict[str, float | None]:
    if correlation is not None:
        report.real_correlation_threshold, report.real_association_threshold = correlation, association
    report.num_rows_subsample = None
    # Nobody has checked its warnings for cells, and it may print.
    with warnings.catch_warnings(), np.errstate(all="ignore"), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        report.generate(*frames, metadata, verbose=False)
        properties = report.get_properties()
    pairs = zip(properties["Property"], properties["Score"], strict=True)
    return {name: float(score) if np.isfinite(score) else None for name, score in pairs}


def _frame(sheet: Sheet, chosen: tuple[Shared, ...]) -> pd.DataFrame:
    """The sheet with columns c0, c1, ...: names are the user's, and sdmetrics has rules for them."""
    import pandas as pd

    columns = {}
    for place, column in enumerate(chosen):
        if column.is_ranged:
            columns[f"c{place}"] = sheet.number(column.name)
        else:
            levels = np.array([*column.levels, GONE], dtype=object)
            code = np.where(sheet.is_missing(column.name), len(column.levels), sheet.cells[column.name].value)
            cells = levels[code]
            cells[sheet.is_missing(column.name)] = None
            columns[f"c{place}"] = cells
    return pd.DataFrame(columns)


def _metadata(columns: tuple[Shared, ...]) -> dict[str, Any]:
    kinds = ("numerical" if column.is_ranged else "categorical" for column in columns)
    return {"columns": {f"c{place}": {"sdtype": kind} for place, kind in enumerate(kinds)}}
