"""A score that may leave the house: a few figures under a privacy budget of its own, through the ledger.

The synthetic table is public, so kinds, bins, levels and models are taken from it alone. A real row enters only through
sums that it moves by at most 1, whether it is added or takes another's place (`_Sums.sums` has the proof): the number n
of rows; n times the total variation distance of a marginal; and how many rows a model trained on synthetic ones
predicts rightly. All of them are released at once by the Gaussian mechanism, and divided by the noisy n afterwards.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from twinify_lite.accountant import Gaussian
from twinify_lite.errors import TableError
from twinify_lite.quiet import quietly
from twinify_lite.score.coding import Coding, codings
from twinify_lite.score.learning import Predictor, require_target
from twinify_lite.score.marginals import Tables, apart, choose_columns, distance
from twinify_lite.score.reading import REAL, SYNTHETIC, Sheet, read_sheets
from twinify_lite.statement import GUESSED, STYLE, TYPES, accepted_of, uncovered

if TYPE_CHECKING:
    from twinify_lite.release import Part
    from twinify_lite.request import Data
    from twinify_lite.schema import Schema
    from twinify_lite.table import PrivateTable

# Sums are whole numbers of so many steps to a row.
_LATTICE = 1024
# Rows of the synthetic table that shares are simulated from.
_SIMULATED = 200_000
_SURE = 1.96
_NAMES = {1: "single columns", 2: "pairs of columns", 3: "triples of columns"}


@dataclass(frozen=True, kw_only=True)
class NoisyFigure:
    """One figure, within `noise` of the exact one 19 of 20 times.

    `sampling` is what it would be if the real rows were drawn from the synthetic ones, `independent` what independent
    columns would get; None where there is no such thing.
    """

    key: str
    name: str
    value: float
    noise: float
    sampling: float | None = None
    independent: float | None = None


@dataclass(frozen=True, kw_only=True, repr=False)
class PrivateScore:
    """Figures that are differentially private, with their own statement. `print(score)`, or `.to_json()`."""

    rows: float
    rows_noise: float
    synthetic: int
    figures: tuple[NoisyFigure, ...]
    columns: tuple[NoisyFigure, ...]
    statement: Mapping[str, Any]
    left_out: tuple[str, ...] = ()

    @property
    def covered(self) -> str:
        """What covers it: the first line of every output."""
        if self.statement["private"] is not True:
            return f"NOT PRIVATE: {self.statement['why_not']}. It must not leave the house."
        epsilon, delta = float(self.statement["epsilon"]), self.statement["delta"]
        covered = (
            f"({epsilon:g}, {delta:g})-differentially private: this score may leave the house. Its epsilon comes on "
            "top of the twin's own."
        )
        warning = uncovered(self.statement)
        return covered if warning is None else f"{warning} The rest is {covered}"

    def to_json(self) -> dict[str, Any]:
        """Plain data, ready for `json.dumps`."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        fields |= {key: [dataclasses.asdict(figure) for figure in fields[key]] for key in ("figures", "columns")}
        return {"covered": self.covered, **fields, "statement": dict(self.statement)}

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def __repr__(self) -> str:
        return f"PrivateScore of {self.synthetic} synthetic rows, {len(self.columns)} columns"


def private_score(
    real: Data,
    synthetic: Data,
    *,
    epsilon: float,
    delta: float = 1e-6,
    target: str | None = None,
    schema: Schema | str | os.PathLike[str] | None = None,
    relation: Literal["add-remove", "substitute"] = "add-remove",
    accept: str | Iterable[str] = (),
    ledger: Any = None,
    insecure_seed: int | None = None,
) -> PrivateScore:
    """Compare `synthetic` rows with the `real` ones under a budget of its own; `ledger` is the file of all releases.

    `accept` names columns of which the schema says what was read from the data: you take that as public.

    Formal guarantee: given what its statement lists as public, such as the types of the columns, the result is
    (epsilon, delta)-differentially private for one row of `real` under `relation`, whatever `synthetic` is, unless
    `insecure_seed` is given. It says nothing of how `synthetic` was made.
    """
    from twinify_lite.book import as_book
    from twinify_lite.release import opened
    from twinify_lite.request import Request, declared_in, read_as_declared

    budgeted = {"epsilon": epsilon, "delta": delta, "relation": relation}
    book = as_book(ledger)
    request = Request(**budgeted, model=None, target=None, options=None, seed=insecure_seed, book=book)
    declared = declared_in(schema, accept)
    if declared is not None:
        declared.require_public()
    tables = {name: read_as_declared(data, declared) for name, data in ((SYNTHETIC, synthetic), (REAL, real))}
    _require_public_columns(tables[REAL].columns, tables[SYNTHETIC].columns)
    with quietly():
        sheets, left_out = read_sheets(tables, declared, by=SYNTHETIC, judged={SYNTHETIC})
    plan = _Sums.of(sheets[SYNTHETIC], target, left_out.names)
    budget = request.ledger(book)
    for sentence in _taken(tables[REAL], declared):
        budget.treat_as_public(sentence)
    receipt = budget.spend(budget.calibrate(Gaussian(noise_multiplier=1.0)), "score")
    if book is not None and not book.exists:
        book.begin([receipt], **budgeted)
    # Charged before a sum is computed: whatever becomes of that, it was paid for.
    noises = opened(receipt, plan.parts)
    with quietly():
        sums = plan.sums(sheets[REAL])
    released = [float(noise.add(of)) / _LATTICE for noise, of in zip(noises, sums, strict=True)]
    budget.settle()
    deviations = [noise.deviation / _LATTICE for noise in noises]
    return plan.scored(np.array(released), np.array(deviations), budget.statement().to_json())


def _require_public_columns(real: tuple[str, ...], synthetic: tuple[str, ...]) -> None:
    if not {*real} & {*synthetic}:
        raise TableError("The tables have no column in common. Compare tables of one kind.")


def _taken(table: PrivateTable, declared: Schema | None) -> Iterator[str]:
    """What the table tells, itself or by the schema, without being paid for."""
    if declared is not None and declared.guessed:
        yield GUESSED
    yield TYPES if table.style is None else STYLE
    if declared is not None and declared.accepted:
        yield accepted_of(declared.accepted)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Which sums are released: what is said of them is made from the synthetic table alone."""

    synthetic: Sheet
    coded: Mapping[str, Coding]
    sets: Mapping[int, list[tuple[str, ...]]]
    tables: Mapping[str, Tables]  # what real rows are compared with: synthetic rows, independent ones
    predictor: Predictor | None
    left_out: tuple[str, ...] = ()  # names of columns, which are public

    @classmethod
    def of(cls, synthetic: Sheet, target: str | None, left_out: tuple[str, ...] = ()) -> _Sums:
        rng = np.random.default_rng(0)  # public: it draws triples and rows of the synthetic table
        coded = codings(synthetic)
        wanted = require_target(target, synthetic.columns, left_out)
        independent = synthetic.independent(rng, max(synthetic.rows, _SIMULATED))
        tables = {"synthetic": Tables(synthetic, coded), "independent": Tables(independent, coded)}
        predictor = None if wanted is None else Predictor.of(synthetic, wanted, rng)
        return cls(synthetic, coded, choose_columns(list(coded), rng), tables, predictor, left_out)

    @property
    def _compared(self) -> list[tuple[str, int]]:
        """Who is compared with the real rows, and over sets of how many columns."""
        orders = [order for order, sets in self.sets.items() if sets]
        return [("synthetic", order) for order in orders] + [("independent", order) for order in orders if order > 1]

    @property
    def parts(self) -> list[Part]:
        """One for each sum: as `sums` says, also a replaced row moves it by no more than `_LATTICE`. Single columns are
        many, and share the weight of one figure."""
        from twinify_lite.release import Part

        columns = self.sets[1]
        main = [1.0] * (1 + len(self._compared) + (2 if self.predictor else 0))
        weights = [*main, *[1 / math.sqrt(len(columns))] * len(columns)]
        return [Part(bound=_LATTICE, weight=weight, replaced=1) for weight in weights]

    def sums(self, real: Sheet) -> list[int]:
        """The sums themselves, of the real rows, in steps of 1 / `_LATTICE`. Private.

        Formal guarantee: a row that is added, removed or replaced moves each of them by at most `_LATTICE`, exactly.

        Proof, of a marginal: let c be the counts of n real rows in its cells and s those of m synthetic ones. Then n
        times the distance is d / 2m with d = sum of |m c - n s|. A row that is added to cell b moves the term of b by
        at most m - s_b, and those of all other cells by their s, which sum to m - s_b; and d by at most 2m. A row that
        goes from one cell to another moves two terms by at most m each, and no others: 2m again. So d / 2m moves by at
        most 1, and so do means of it over several marginals. They are whole numbers until they are divided, once, and
        rounded down: if x <= y <= x + `_LATTICE`, then floor(x) <= floor(y) <= floor(x) + `_LATTICE`. Of predictions,
        every row adds a whole number of its own from 0 to `_LATTICE`; so two rows differ by no more than that.
        """
        tables = Tables(real, self.coded)
        means = [self._whole_mean(tables, self.tables[by], self.sets[order]) for by, order in self._compared]
        predicted = [] if self.predictor is None else [*self.predictor.rightly(real, steps=_LATTICE)]
        single = [self._whole_mean(tables, self.tables["synthetic"], [columns]) for columns in self.sets[1]]
        return [_LATTICE * real.rows, *means, *predicted, *single]

    @staticmethod
    def _whole_mean(rows: Tables, others: Tables, sets: list[tuple[str, ...]]) -> int:
        """The number of rows times the mean distance over `sets`, in steps, rounded down."""
        return _LATTICE * sum(apart(rows, others, columns) for columns in sets) // (2 * others.rows * len(sets))

    def _mean(self, rows: Tables, others: Tables, order: int) -> float:
        distances = [distance(rows.shares(columns), others.shares(columns)) for columns in self.sets[order]]
        return math.fsum(distances) / len(distances)

    def scored(self, released: np.ndarray, noise: np.ndarray, statement: dict[str, Any]) -> PrivateScore:
        """The figures, by post-processing."""
        rows = max(float(released[0]), 1.0)
        parts = iter(zip(released[1:] / rows, _SURE * noise[1:] / rows, strict=True))
        means = {key: next(parts) for key in self._compared}
        predicted = [] if self.predictor is None else [next(parts), next(parts)]
        simulated = self._simulated(int(min(rows, _SIMULATED)))
        figures = [
            NoisyFigure(
                key=f"tvd_{order}way",
                name=f"distance of {_NAMES[order]}",
                value=_unit(value),
                noise=float(within),
                sampling=simulated[order],
                independent=_unit(means[("independent", order)][0]) if ("independent", order) in means else None,
            )
            for (by, order), (value, within) in means.items()
            if by == "synthetic"
        ]
        if self.predictor:
            (right, within), (baseline, _) = predicted
            figures.append(
                NoisyFigure(
                    key=self.predictor.key,
                    name=f"predicting {self.predictor.target.name}: {self.predictor.what}",
                    value=_unit(right),
                    noise=float(within),
                    independent=_unit(baseline),
                )
            )
        columns = [
            NoisyFigure(key="tvd_1way", name=name, value=_unit(value), noise=float(within))
            for (name,), (value, within) in zip(self.sets[1], parts, strict=True)
        ]
        return PrivateScore(
            rows=rows,
            rows_noise=float(_SURE * noise[0]),
            synthetic=self.synthetic.rows,
            figures=tuple(figures),
            columns=tuple(columns),
            statement=statement,
            left_out=self.left_out,
        )

    def _simulated(self, rows: int) -> dict[int, float]:
        """The distances of so many rows drawn from the synthetic ones, from as many again as there are of these."""
        rng = np.random.default_rng(1)
        places = [rng.integers(0, self.synthetic.rows, size) for size in (rows, self.synthetic.rows)]
        drawn, again = (Tables(self.synthetic.take(place), self.coded) for place in places)
        return {order: self._mean(drawn, again, order) for order, sets in self.sets.items() if sets}


def _unit(value: float) -> float:
    return float(min(max(value, 0.0), 1.0))


def _lines(score: PrivateScore) -> Iterator[str]:
    yield score.covered
    yield ""
    about = f"about {score.rows:.0f} real ones (give or take {score.rows_noise:.0f})"
    yield f"{score.synthetic} synthetic rows against {about}."
    yield ""
    width = max(len(figure.name) for figure in (*score.figures, *score.columns)) + 2
    yield f"{'':<{width}}{'value':>10}{'+/-':>10}{'sampling':>12}{'independent':>13}"
    for figure in score.figures:
        yield _line(figure, width)
    yield "Distances of single columns:"
    yield from (_line(figure, width) for figure in sorted(score.columns, key=lambda figure: -figure.value))
    if any(figure.noise >= figure.value for figure in score.figures):
        yield "Where +/- is as much as the value, noise hides it: it is likely no more than their sum."
    if score.left_out:
        yield f"Not compared: {', '.join(map(repr, score.left_out))}."


def _line(figure: NoisyFigure, width: int) -> str:
    others = (f"{'-' if other is None else f'{other:.4f}'}" for other in (figure.sampling, figure.independent))
    sampling, independent = others
    return f"  {figure.name:<{width - 2}}{figure.value:>10.4f}{figure.noise:>10.4f}{sampling:>12}{independent:>13}"
