"""How faithful are synthetic rows? `score` compares them with the real ones, and reads these without any noise.

    tables -> the same columns -> who is compared with whom -> figures, each between floor and ceiling -> Score

Nothing here is covered by epsilon, and every output begins with that. `private` scores under a budget of its own.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np

from twinify_lite.errors import PrivacyParameterError
from twinify_lite.schema.guess import has_decimal_commas
from twinify_lite.score import learning
from twinify_lite.score.coding import codings, picture
from twinify_lite.score.comparing import Comparison
from twinify_lite.score.marginals import Marginals
from twinify_lite.score.marginals import measure as measure_marginals
from twinify_lite.score.reading import HELDOUT, REAL, SYNTHETIC, LeftOut, Sheet, read_sheets
from twinify_lite.score.result import LEARNING, WARNING, ColumnScore, Figure, Score

if TYPE_CHECKING:
    from twinify_lite.request import Data
    from twinify_lite.schema import Schema
    from twinify_lite.table import PrivateTable

__all__ = ["WARNING", "ColumnScore", "Figure", "Score", "score"]

Progress = Callable[[str, int, int], None]

# Above this share of the rows in one bin, bins of equal width say little of a column.
_CROWDED = 0.9
# A share of held-out rows that equal real ones, above which they may not be held out at all.
_SEEN = 0.3


def score(
    real: Data,
    synthetic: Data,
    *,
    holdout: Data | None = None,
    target: str | None = None,
    schema: Schema | str | os.PathLike[str] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Score:
    """Compare `synthetic` rows with the `real` ones that they stand for.

    `holdout` are real rows that nothing was fitted to; without them, a random half of the real rows is held out of the
    comparison. `target` is a column to predict: a model learns it from synthetic rows and is tested on real ones.
    `schema` says of which kind columns are; else it is guessed from the real table. `seed` draws halves, triples of
    columns and rows where these are too many: the same seed gives the same score.

    Not private: it reads the real rows without noise, and so does everything in the result.
    """
    from twinify_lite.fitting import reporting

    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise PrivacyParameterError("seed must be a whole number of 0 or more.")
    report = reporting(progress)
    report("reading", 0, 1)
    rng = np.random.default_rng(seed)
    tables = _tables(real, synthetic, holdout, schema)
    declared = tables.pop("schema")
    sheets, left_out = read_sheets(tables, declared)
    doubts = [*_decimal_commas(tables[REAL], sheets[REAL], left_out, declared or ())]
    del tables
    found = _scored(Comparison.of(sheets, rng), target, left_out, rng, report)
    return dataclasses.replace(found, notes=(*doubts, *found.notes))


def _decimal_commas(table: PrivateTable, real: Sheet, left_out: LeftOut, declared: Container[str]) -> Iterator[str]:
    """A sentence for each guessed column of texts that look like numbers of another notation."""
    keys = [key.column for key in left_out.keys.values()]
    for column in [*(shared.column for shared in real.columns), *keys]:
        is_guessed = column.kind == "category" and column.name not in declared
        if is_guessed and has_decimal_commas(column, table.reveal()[column.name]):
            yield (
                f"Column {column.name!r} looks like numbers with decimal commas, and is taken for texts. Read all "
                'tables with --decimal , (`tw.read_table(path, decimal=",")`).'
            )


def _tables(real: Data, synthetic: Data, holdout: Data | None, schema: object) -> dict:
    """The tables, read, and the schema, loaded."""
    from twinify_lite.request import declared_in, read_as_declared

    declared = declared_in(schema)
    given = {REAL: real, SYNTHETIC: synthetic} | ({} if holdout is None else {HELDOUT: holdout})
    return {name: read_as_declared(data, declared) for name, data in given.items()} | {"schema": declared}


def _scored(
    compared: Comparison, target: str | None, left_out: LeftOut, rng: np.random.Generator, report: Progress
) -> Score:
    from twinify_lite.score import closeness, dependence, quality

    wanted = learning.require_target(target, compared.real.columns, left_out.names)
    coded = codings(compared.real)
    marginals = measure_marginals(compared, coded, rng, report)
    report("correlating", 0, 1)
    missing, patterns = dependence.missingness(compared)
    figures = [*marginals.figures(), *dependence.correlation(compared, rng), *missing]
    report("sdmetrics", 0, 1)
    figures += quality.reports(compared, rng)
    report("learning", 0, 1)
    figures += [] if wanted is None else learning.learning(compared, wanted, rng)
    figures.append(learning.telling_apart(compared, rng))
    report("measuring distances", 0, 1)
    figures += closeness.closeness(compared, rng)
    known = {figure.key: figure for figure in figures}
    return Score(
        rows=_rows(compared),
        is_split=compared.is_split,
        target=target,
        figures=tuple(figures),
        columns=tuple(_columns(compared, marginals)),
        pairs=marginals.pairs(),
        tables=marginals.tables(),
        cells=marginals.cells(),
        patterns=patterns,
        versions={"twinify-lite": version("twinify-lite"), **quality.versions()},
        notes=tuple(_notes(compared, marginals, left_out, target, known)),
        alarm=closeness.alarm(known["copies"], compared, left_out.keys),
    )


def _rows(compared: Comparison) -> dict[str, int]:
    return {
        "real": compared.real.rows,
        "synthetic": compared.whole.rows,
        "held-out": compared.heldout.rows,
        "reference": compared.reference.rows,
        "compared": compared.synthetic.rows,
    }


def _columns(compared: Comparison, marginals: Marginals) -> Iterator[ColumnScore]:
    for column, marginal in zip(compared.real.columns, marginals.orders[1], strict=True):
        drawn = picture(column, compared.real, compared.whole)
        yield ColumnScore(
            name=column.name,
            kind=column.column.kind,
            labels=drawn.labels,
            real=drawn.real,
            synthetic=drawn.synthetic,
            apart=drawn.apart,
            tvd=marginal.distances["whole"],
            sampled=marginal.distances["synthetic"],
            heldout=marginal.distances["heldout"],
            missing=tuple(float(s.is_missing(column.name).mean()) for s in (compared.real, compared.whole)),
        )


def _notes(
    compared: Comparison,
    marginals: Marginals,
    left_out: LeftOut,
    target: str | None,
    figures: Mapping[str, Figure],
) -> Iterator[str]:
    yield from _not_compared(left_out)
    copies = figures["copies"]
    if not compared.is_split and copies.heldout > _SEEN and copies.heldout > 2 * copies.independent:
        yield (
            f"{copies.heldout:.0%} of the held-out rows equal a real one. If they are rows that the twin was fitted "
            "to, they are no floor: hold out others."
        )
    if compared.is_split:
        yield (
            "Held-out rows are a random half of the real ones, which the twin was fitted to as well. Rows that it "
            "never saw (--holdout FILE) make a better floor."
        )
    if target is None:
        yield "No model was trained to predict a column: name one with --target COLUMN."
    elif all(figure.synthetic is None for figure in figures.values() if figure.group == LEARNING):
        yield f"{target!r} cannot be predicted: too few of its cells are there, or no two of its values are frequent."
    else:
        yield from learning.doubts(compared, target)
    ranged = [column.name for column in compared.real.columns if column.is_ranged]
    crowded = [name for name in ranged if marginals.counter.largest_share(name) > _CROWDED]
    if crowded:
        yield (
            f"Nearly all numbers lie in one of the equally wide bins of {', '.join(map(repr, crowded))}: look at the "
            "picture and at sdmetrics' column shapes for these."
        )


def _not_compared(left_out: LeftOut) -> Iterator[str]:
    lost = [name for name, tables in left_out.lacked.items() if SYNTHETIC in tables and REAL not in tables]
    if lost:
        yield f"The synthetic table lacks {_listed(lost)}, and no figure here counts that."
    others = [name for name in left_out.lacked if name not in lost]
    if others:
        yield f"Not compared, as not all tables have them: {_listed(others)}."
    if left_out.unmodelled:
        yield f"Not compared, as they are identifiers or constants in the schema: {_listed(left_out.unmodelled)}."
    if left_out.keys:
        yield (
            f"Not compared, as nearly every cell is a text of its own: {_listed(left_out.keys)}. To compare them all "
            "the same, declare their kind (--schema)."
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
