"""How near synthetic rows come to real ones: sanity checks that find gross copying, and prove nothing.

A model that memorised rows shows here; a model that leaks what distances do not see does not. Privacy is what the
ledger guarantees.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from twinify_lite.cells import VALUE
from twinify_lite.score.comparing import Comparison, some
from twinify_lite.score.reading import Keys, Sheet
from twinify_lite.score.result import Figure

GROUP = "Closeness to real rows (sanity checks, not a privacy proof)"
# Rows whose nearest is sought, and rows among which.
_ASKED, _AMONG = 1_000, 20_000
# Distances that are held at once.
_CHUNK = 50
# A place that is farther from all others than any range.
_FAR = 1e30
# So large a share of rows, and so many of them, may equal real ones, beside twice as many as of held-out rows.
_COPIED, _FEWEST = 0.01, 5
_MIX = np.uint64(0x9E3779B97F4A7C15)


def closeness(compared: Comparison, rng: np.random.Generator) -> list[Figure]:
    """Distances to the closest real row, copies, and, with rows that were not fitted, whether those are as close."""
    among = some(compared.reference, _AMONG, rng)
    scale = _Scale(compared.real)
    asked = {side: some(other, _ASKED, rng) for side, _, other in compared.pairs() if side != "whole"}
    nearest = {side: scale.nearest(sheet, among) for side, sheet in asked.items()}
    return [
        _figure(
            "dcr",
            "distance to the closest real row, median",
            "Share of the columns' ranges by which rows differ from the nearest of up to "
            f"{_AMONG} real ones. Far below that of held-out rows would be a sign of copying.",
            {side: float(np.median(found)) for side, found in nearest.items()},
        ),
        _figure(
            "copies",
            "rows equal to a real row",
            "Share of rows that equal a real one in every cell. Common rows coincide without any copying, as do "
            "held-out ones.",
            _copies(compared),
        ),
        *_nearer(compared, scale, asked["synthetic"], rng),
    ]


def alarm(copies: Figure, compared: Comparison, keys: Mapping[str, Keys]) -> str | None:
    """That far more synthetic rows, or texts, are real ones than chance makes, if it is so."""
    told = []
    # All real rows may coincide with a row so much oftener than those which held-out rows were compared with.
    more = compared.real.rows / compared.reference.rows
    chance = min(more * max(copies.heldout, copies.independent), 1.0)
    if _is_far_above(copies.whole, chance, compared.whole.rows, compared.heldout.rows):
        told.append(f"{copies.whole:.1%} of the synthetic rows equal a real one in every cell, where {_about(chance)}.")
    for name, key in keys.items():
        copied, chance = key.copied(), key.chance()
        if _is_far_above(copied, chance, compared.whole.rows, compared.heldout.rows):
            told.append(f"{copied:.1%} of the texts of {name!r} are those of real rows, where {_about(chance)}.")
    return f"LOOKS COPIED: {' '.join(told)} Find out where they are from before you release them." if told else None


def _about(chance: float) -> str:
    return f"about {chance:.1%} would be by chance"


def _is_far_above(share: float, chance: float, rows: int, others: int) -> bool:
    """More than twice as many, and by more than a few rows, and than three standard errors of both."""
    error = math.sqrt(chance * (1 - chance) / others + share * (1 - share) / rows)
    return share > 2 * chance + max(_COPIED, 3 * error) and share * rows >= _FEWEST


def _figure(key: str, name: str, what: str, sides: dict[str, float]) -> Figure:
    return Figure(key=key, name=name, group=GROUP, better="neither", what=f"{what} Not a privacy proof.", **sides)


def _nearer(compared: Comparison, scale: _Scale, asked: Sheet, rng: np.random.Generator) -> list[Figure]:
    """Only where the held-out rows were not fitted: the halves of a split are equally near to a twin of both."""
    if compared.is_split:
        return []
    rows = min(compared.reference.rows, compared.heldout.rows, _AMONG)
    fitted = scale.nearest(asked, some(compared.reference, rows, rng))
    unseen = scale.nearest(asked, some(compared.heldout, rows, rng))
    share = float((fitted < unseen).mean() + 0.5 * (fitted == unseen).mean())
    what = "Share of synthetic rows nearer to a fitted row than to a held-out one: 0.5 without any copying."
    return [_figure("nearer", "synthetic rows nearer to fitted rows", what, {"synthetic": share})]


class _Scale:
    """Rows as arrays in which a column's range is 1: levels differ by 0 or 1, and so does what is no number."""

    def __init__(self, real: Sheet):
        self._widths = {c.name: _width(real.number(c.name)) for c in real.columns if c.is_ranged}

    def nearest(self, asked: Sheet, among: Sheet) -> np.ndarray:
        """For each row asked the mean distance over columns to the nearest one among the others."""
        found = np.full(asked.rows, np.inf, np.float32)
        for start in range(0, asked.rows, _CHUNK):
            part = slice(start, min(start + _CHUNK, asked.rows))
            found[part] = self._distances(asked, among, part).min(axis=1)
        return found

    def _distances(self, asked: Sheet, among: Sheet, part: slice) -> np.ndarray:
        total = np.zeros((part.stop - part.start, among.rows), np.float32)
        for column in asked.columns:
            one, other = asked.cells[column.name], among.cells[column.name]
            state = one.state[part, None] != other.state[None, :]
            if column.is_ranged:
                scaled = [self._scaled(column.name, values) for values in (one.value[part], other.value)]
                apart = np.minimum(np.abs(scaled[0][:, None] - scaled[1][None, :]), 1)
                apart *= one.state[part, None] == VALUE
            else:
                apart = one.value[part, None] != other.value[None, :]
                apart &= one.state[part, None] == VALUE
            total += np.where(state, np.float32(1), apart)
        return total / len(asked.columns)

    def _scaled(self, name: str, values: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.clip(values / self._widths[name], -_FAR, _FAR).astype(np.float32)


def _width(values: np.ndarray) -> float:
    values = values[np.isfinite(values)]
    return float(np.ptp(values)) or 1.0 if len(values) else 1.0


def _copies(compared: Comparison) -> dict[str, float]:
    return {
        side: float(np.isin(_fingerprints(other), _fingerprints(reference)).mean())
        for side, reference, other in compared.pairs()
    }


def _fingerprints(sheet: Sheet) -> np.ndarray:
    """64 bits of every row: equal rows have equal ones, and others by a chance of 2^-64."""
    mixed = np.zeros(sheet.rows, np.uint64)
    for column in sheet.columns:
        one = sheet.cells[column.name]
        value = np.where(one.state == VALUE, one.value, 0).astype(np.float64) + 0.0
        mixed = _scrambled(mixed ^ value.view(np.uint64))
        mixed = _scrambled(mixed ^ one.state.astype(np.uint64))
    return mixed


def _scrambled(word: np.ndarray) -> np.ndarray:
    """Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators": the mixer of SplitMix64."""
    word = word + _MIX
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))
