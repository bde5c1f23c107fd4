"""Correlations among numbers, and cells that are missing together."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable

import numpy as np
from scipy.stats import rankdata

from twinify_lite.score.comparing import Comparison
from twinify_lite.score.reading import Sheet
from twinify_lite.score.result import Figure, PatternScore

# Rows that ranks are made of, and patterns of missing cells that are shown.
_ROWS, _PATTERNS = 100_000, 8
# Rows in which both numbers must be there for their correlation to say anything.
_FEWEST = 10


def correlation(compared: Comparison, rng: np.random.Generator) -> list[Figure]:
    """How far rank correlations of numbers and times are off, on average; nothing where there is no pair of them."""
    names = [column.name for column in compared.real.columns if column.is_ranged]
    if len(names) < 2:
        return []
    limited = compared.limited(_ROWS, rng)
    found: dict[int, np.ndarray] = {}
    sides = {}
    for side, reference, other in limited.pairs():
        for sheet in (reference, other):
            if id(sheet) not in found:
                found[id(sheet)] = _correlations(sheet, names)
        sides[side] = _mean_difference(found[id(reference)], found[id(other)])
    what = f"Mean absolute difference of Spearman's rank correlations, over {len(names)} columns of numbers and times."
    return [Figure(key="correlation", name="rank correlations", group="Dependence", better="lower", what=what, **sides)]


def _correlations(sheet: Sheet, names: list[str]) -> np.ndarray:
    """Of all pairs of columns; those that lack nothing are ranked once."""
    values = [sheet.number(name) for name in names]
    whole = [np.isfinite(value).all() for value in values]
    ranked = [rankdata(value) if is_whole else value for value, is_whole in zip(values, whole, strict=True)]
    return np.array(
        [
            _correlation(ranked[i], ranked[j]) if whole[i] and whole[j] else _spearman(values[i], values[j])
            for i, j in itertools.combinations(range(len(values)), 2)
        ]
    )


def _spearman(one: np.ndarray, other: np.ndarray) -> float:
    """Of the rows that have both; NaN where these are too few."""
    both = np.isfinite(one) & np.isfinite(other)
    return _correlation(rankdata(one[both]), rankdata(other[both])) if both.sum() >= _FEWEST else np.nan


def _correlation(*ranks: np.ndarray) -> float:
    """NaN where one of the two never changes."""
    if any(rank.std() == 0 for rank in ranks):
        return np.nan
    return float(np.corrcoef(*ranks)[0, 1])


def _mean_difference(one: np.ndarray, other: np.ndarray) -> float | None:
    """A correlation that is only in one of them counts as 0 in the other: a constant depends on nothing."""
    known = np.isfinite(one) | np.isfinite(other)
    if not known.any():
        return None
    return float(np.abs(np.nan_to_num(one) - np.nan_to_num(other))[known].mean())


def missingness(compared: Comparison) -> tuple[list[Figure], tuple[PatternScore, ...]]:
    """Shares of missing cells and of patterns of them; nothing where no cell is missing in either table."""
    names = [column.name for column in compared.real.columns]
    gone = [name for name in names if compared.real.is_missing(name).any() or compared.whole.is_missing(name).any()]
    if not gone:
        return [], ()
    cells, patterns = {}, {}
    for side, reference, other in compared.pairs():
        cells[side] = float(np.mean([_missing_apart(reference, other, name) for name in gone]))
        patterns[side] = _distance(_patterns(reference, gone), _patterns(other, gone))
    group = "Missing cells"
    figures = [
        Figure(
            key="missing",
            name="shares of missing cells",
            group=group,
            better="lower",
            what=f"Mean absolute difference of the share of missing cells, over {len(gone)} columns that have some.",
            **cells,
        ),
        Figure(
            key="missing_patterns",
            name="patterns of missing cells",
            group=group,
            better="lower",
            what="Total variation distance of the patterns of which cells of a row are missing together.",
            **patterns,
        ),
    ]
    return figures, _worst_patterns(compared, gone)


def _missing_apart(reference: Sheet, other: Sheet, name: str) -> float:
    return abs(float(reference.is_missing(name).mean() - other.is_missing(name).mean()))


def _patterns(sheet: Sheet, names: list[str]) -> dict[bytes, float]:
    packed = np.packbits(np.stack([sheet.is_missing(name) for name in names], axis=1), axis=1)
    seen, counts = np.unique(packed, axis=0, return_counts=True)
    return {pattern.tobytes(): count / sheet.rows for pattern, count in zip(seen, counts.tolist(), strict=True)}


def _distance(one: dict[bytes, float], other: dict[bytes, float]) -> float:
    return 0.5 * sum(abs(one.get(pattern, 0.0) - other.get(pattern, 0.0)) for pattern in {*one, *other})


def _worst_patterns(compared: Comparison, names: list[str]) -> tuple[PatternScore, ...]:
    """Those whose shares differ most, and among equals the commonest."""
    real, synthetic = (Counter(_patterns(sheet, names)) for sheet in (compared.real, compared.whole))
    worst = sorted({*real, *synthetic}, key=lambda p: (-abs(real[p] - synthetic[p]), -real[p], p))[:_PATTERNS]
    return tuple(
        PatternScore(columns=tuple(_named(pattern, names)), real=real[pattern], synthetic=synthetic[pattern])
        for pattern in worst
    )


def _named(pattern: bytes, names: list[str]) -> Iterable[str]:
    bits = np.unpackbits(np.frombuffer(pattern, np.uint8))[: len(names)]
    return (name for name, bit in zip(names, bits, strict=True) if bit)
