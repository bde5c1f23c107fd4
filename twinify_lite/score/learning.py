"""What a model learns: trained on synthetic rows and tested on real ones, and trained to tell the two apart."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Container, Iterator
from typing import Any

import numpy as np

from twinify_lite.errors import SchemaError
from twinify_lite.schema.words import suggestion
from twinify_lite.score.comparing import Comparison, some
from twinify_lite.score.reading import Shared, Sheet
from twinify_lite.score.result import LEARNING, Figure

#: Rows that a model is trained or tested on, at most.
ROWS = 50_000
# Levels that a tree may treat as such; the others, rarer ones, are missing to it.
_LEVELS = 250
# Rows of the rarer class, or with a target at all, below which nothing is learnt.
_FEWEST = 10
# Held-out rows of the rarest class, or with a target at all, below which figures are mostly chance.
_CERTAIN = 30
_APART = "Telling apart"
_CODE = "a model trained on synthetic rows and tested on held-out real ones; under held-out: trained on real rows."


def require_target(
    target: str | None, columns: tuple[Shared, ...], left_out: Container[str] = frozenset()
) -> Shared | None:
    """The column to predict, if it is one of those that are compared."""
    if target is None:
        return None
    if not isinstance(target, str):
        raise SchemaError("The target is the name of one column.")
    named = {column.name: column for column in columns}
    if target in left_out:
        raise SchemaError(
            f"The target {target!r} is not compared: it is not in all tables, is not modelled, or its texts hardly "
            "ever repeat. Add it to the tables, declare its kind in the schema (--schema), or name another column."
        )
    if target not in named:
        hint = suggestion(target, named) or ". Name one that all tables have."
        raise SchemaError(f"There is no column {target!r} to be the target{hint}")
    return named[target]


def learning(compared: Comparison, target: Shared, rng: np.random.Generator) -> list[Figure]:
    """Classification of levels, regression of numbers; nothing where the real rows are too few to test on."""
    test = some(compared.heldout, ROWS, rng)
    classes = _classes(target, compared.real)
    trained = {
        "whole": compared.whole,
        "synthetic": compared.synthetic,
        "heldout": some(compared.reference, compared.synthetic.rows, rng),
        "independent": compared.independent,
    }
    measure = _regression if classes is None else _classification
    sides = {side: measure(some(sheet, ROWS, rng), test, target, classes) for side, sheet in trained.items()}
    names = _REGRESSION if classes is None else _CLASSIFICATION
    return [
        Figure(
            key=key,
            name=name.format(target=target.name),
            group=LEARNING,
            better=better,
            what=f"{what}: {_CODE}",
            **{side: found.get(key) for side, found in sides.items()},
        )
        for key, (name, better, what) in names.items()
    ]


def doubts(compared: Comparison, target: str) -> Iterator[str]:
    """A sentence where so few held-out rows have a value that what is said of predicting it is mostly chance."""
    column = next(column for column in compared.real.columns if column.name == target)
    classes, tested = _classes(column, compared.real), compared.heldout.number(target)
    fewest = np.isfinite(tested).sum() if classes is None else min((tested == value).sum() for value in classes)
    if fewest < _CERTAIN:
        which = "have a value" if classes is None else "have the rarest value"
        yield f"Only {fewest} of the held-out rows {which} of {target!r}: how well it is predicted is mostly chance."


_CLASSIFICATION = {
    "auc": (
        "predicting {target}: AUC",
        "higher",
        "Area under the ROC curve (each class against the rest) of",
    ),
    "accuracy": ("predicting {target}: accuracy", "higher", "Share of rows predicted rightly by"),
}
_REGRESSION = {
    "r2": ("predicting {target}: R2", "higher", "Share of the variance explained by"),
    "mae": ("predicting {target}: mean absolute error", "lower", "Mean absolute error, in the target's own units, of"),
}


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """One thread and no warnings for the trees: their threads wait actively, and on a busy machine for minutes."""
    from threadpoolctl import threadpool_limits

    with warnings.catch_warnings(), threadpool_limits(limits=1, user_api="openmp"):
        warnings.simplefilter("ignore")
        yield


def _classes(target: Shared, real: Sheet) -> np.ndarray | None:
    """The classes that are frequent enough in the real rows; None for numbers, unless these are only two."""
    values = real.number(target.name)
    seen, counts = np.unique(values[np.isfinite(values)], return_counts=True)
    if target.is_ranged and len(seen) != 2:
        return None
    return seen[counts >= _FEWEST]


def _classification(train: Sheet, test: Sheet, target: Shared, classes: np.ndarray) -> dict[str, float | None]:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    known = _known(train, target, classes)
    asked = _known(test, target, classes)
    learnt, real = train.number(target.name)[known], test.number(target.name)[asked]
    if len(np.unique(real)) < 2:
        return {}
    if len(np.unique(learnt)) < 2:  # it says the same of everybody
        guess = learnt[0] if len(learnt) else np.nan
        return {"auc": 0.5, "accuracy": float((real == guess).mean())}
    features = _Features(train.take(np.flatnonzero(known)), without=target)
    model = HistGradientBoostingClassifier(random_state=0, categorical_features=features.categorical)
    with _quietly():
        model.fit(features.of_training, learnt)
        chances = model.predict_proba(features.of(test.take(np.flatnonzero(asked))))
    ranked, sizes = [], []
    for value in np.unique(real):
        place = np.flatnonzero(model.classes_ == value)
        ranked.append(roc_auc_score(real == value, chances[:, place[0]]) if len(place) else 0.5)
        sizes.append((real == value).sum())
    accuracy = (model.classes_[chances.argmax(axis=1)] == real).mean()
    return {"auc": float(np.average(ranked, weights=sizes)), "accuracy": float(accuracy)}


def _known(sheet: Sheet, target: Shared, classes: np.ndarray) -> np.ndarray:
    return np.isin(sheet.number(target.name), classes)


def _regression(train: Sheet, test: Sheet, target: Shared, _classes: None) -> dict[str, float | None]:
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.metrics import mean_absolute_error, r2_score

    known, asked = (np.isfinite(sheet.number(target.name)) for sheet in (train, test))
    if min(known.sum(), asked.sum()) < _FEWEST:
        return {}
    features = _Features(train.take(np.flatnonzero(known)), without=target)
    model = HistGradientBoostingRegressor(random_state=0, categorical_features=features.categorical)
    real = test.number(target.name)[asked]
    with _quietly():
        model.fit(features.of_training, train.number(target.name)[known])
        guess = model.predict(features.of(test.take(np.flatnonzero(asked))))
        return {"r2": float(r2_score(real, guess)), "mae": float(mean_absolute_error(real, guess))}


class Predictor:
    """A model of one column, trained on synthetic rows, and what is right about its guesses for others."""

    def __init__(self, model: Any, features: _Features, target: Shared, usual: float, width: float | None):
        self._model, self._features, self.target, self._usual, self._width = model, features, target, usual, width
        self.key = "accuracy" if width is None else "closeness"
        self.what = "accuracy" if width is None else "1 less the mean error over the range"

    @classmethod
    def of(cls, train: Sheet, target: Shared, rng: np.random.Generator) -> Predictor:
        """Trained on `train`. The baseline is the commonest class or the median, whatever the row."""
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        train = some(train, ROWS, rng)
        values = train.number(target.name)
        train, values = train.take(np.flatnonzero(np.isfinite(values))), values[np.isfinite(values)]
        if len(values) < _FEWEST:
            raise SchemaError(f"Column {target.name!r} has too few synthetic cells to be the target. Name another one.")
        seen, counts = np.unique(values, return_counts=True)
        is_class = not target.is_ranged or len(seen) <= 2
        features = _Features(train, without=target)
        kind = HistGradientBoostingClassifier if is_class else HistGradientBoostingRegressor
        model = None if len(seen) < 2 else kind(random_state=0, categorical_features=features.categorical or None)
        if model is not None:
            with _quietly():
                model.fit(features.of_training, values)
        usual = float(seen[counts.argmax()] if is_class else np.median(values))
        return cls(model, features, target, usual, None if is_class else float(np.ptp(values)) or 1.0)

    def rightly(self, rows: Sheet, *, steps: int) -> tuple[int, int]:
        """Two sums over `rows`, of the model and of the baseline, in `steps` of what one row adds at most.

        Formal guarantee: each row adds a whole number from 0 to `steps` to each, which depends on no other row.
        """
        real = rows.number(self.target.name)
        guess = np.full(rows.rows, self._usual) if self._model is None else self._predicted(rows)
        return self._right(guess, real, steps), self._right(np.full(rows.rows, self._usual), real, steps)

    def _predicted(self, rows: Sheet) -> np.ndarray:
        with _quietly():
            return self._model.predict(self._features.of(rows))

    def _right(self, guess: np.ndarray, real: np.ndarray, steps: int) -> int:
        if self._width is None:
            return steps * int((guess == real).sum())
        closeness = np.nan_to_num(1 - np.minimum(np.abs(guess - real) / self._width, 1))
        return int(np.rint(steps * closeness).astype(np.int64).sum())


class _Features:
    """The columns as a matrix of floats: numbers as they are, levels by how common they are in training."""

    def __init__(self, train: Sheet, without: Shared | None = None):
        self._columns = [column for column in train.columns if column != without]
        self._places = {c.name: _by_frequency(train, c) for c in self._columns if not c.is_ranged}
        self.categorical = [not column.is_ranged for column in self._columns]
        # Trees refuse a column of which they have seen nothing.
        self._unseen = {c.name for c in self._columns if c.is_ranged and not np.isfinite(train.number(c.name)).any()}
        self.of_training = self.of(train)

    def of(self, sheet: Sheet) -> np.ndarray:
        """One row a row of `sheet`, NaN where a cell is missing."""
        if not self._columns:
            return np.zeros((sheet.rows, 1))
        return np.stack([self._feature(sheet, column) for column in self._columns], axis=1)

    def _feature(self, sheet: Sheet, column: Shared) -> np.ndarray:
        if column.name in self._unseen:
            return np.zeros(sheet.rows)
        if column.is_ranged:
            return sheet.number(column.name)
        place = self._places[column.name][sheet.cells[column.name].value]
        return np.where(sheet.is_missing(column.name), np.nan, place)


def _by_frequency(train: Sheet, column: Shared) -> np.ndarray:
    """For each code its place among the commonest levels, NaN beyond these."""
    present = train.cells[column.name].value[~train.is_missing(column.name)]
    counts = np.bincount(present, minlength=max(len(column.levels), 1))
    places = np.full(len(counts), np.nan)
    order = np.argsort(-counts, kind="stable")[:_LEVELS]
    places[order] = np.arange(len(order))
    places[counts == 0] = np.nan
    return places


def telling_apart(compared: Comparison, rng: np.random.Generator) -> Figure:
    """A classifier two-sample test: how well real rows and others can be told apart (0.5 is not at all)."""
    sides: dict[str, Any] = {}
    for side, reference, other in compared.pairs():
        if side != "whole":
            rows = min(reference.rows, other.rows, ROWS // 2)
            sides[side] = _auc_apart(some(reference, rows, rng), some(other, rows, rng), rng)
    return Figure(
        key="c2st",
        name="classifier two-sample test: AUC",
        group=_APART,
        better="lower",
        what="How well a classifier tells these rows from real ones (AUC on other rows, or 1 less it): 0.5 is chance.",
        **sides,
    )


def _auc_apart(real: Sheet, other: Sheet, rng: np.random.Generator) -> float:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    features = _Features(real)
    rows = np.concatenate([features.of(real), features.of(other)])
    is_other = np.repeat([0, 1], [real.rows, other.rows])
    half = rng.permutation(len(rows)) % 2
    scores = np.zeros(len(rows))
    for fold in (0, 1):
        model = HistGradientBoostingClassifier(
            random_state=0, categorical_features=features.categorical or None, max_iter=60
        )
        with _quietly():
            model.fit(rows[half != fold], is_other[half != fold])
            scores[half == fold] = model.predict_proba(rows[half == fold])[:, 1]
    auc = float(np.mean([roc_auc_score(is_other[half == fold], scores[half == fold]) for fold in (0, 1)]))
    # Who is always wrong tells them apart as well; copies of rows that were trained on bring that about.
    return max(auc, 1 - auc)
