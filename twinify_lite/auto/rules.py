"""What the automatic model does with a budget: rules that read only public things and the noisy row count."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from twinify_lite.encode import Cuts
from twinify_lite.errors import ModelError
from twinify_lite.schema import Schema

# Rows over the noise of a pair's cell: below the first nothing can be seen in pairs; at the second they are as fine as
# the model makes use of, so fewer pairs would not be worth more.
_BLIND, SHARP = 10.0, 300.0
# Of the budget (in parts of 1 / noise^2): for single columns, at least and at most; of the rest, for choosing pairs.
_SINGLE, _CHOICE = (0.25, 0.5), 0.3
# The noise of a single column's count should not exceed this share of the rows.
_FAINT = 0.006
# Powers of two: bins of a long range, and rows that are simulated to fit the chain on, at least and at most.
_BINS, _PARTICLES = (4, 10), (14, 16)
# And the finest part of a long range, beside zero.
_FINEST = 14
# Simulated rows should be so many times the square of rows over a pair's noise; columns times rows have a limit.
_FINE, _ROOM = 0.06, 2**22


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All choices of a fit. `single`, `choice` and `pairs` are parts of 1 / noise^2 and sum to 1."""

    columns: int
    rows: int
    single: float
    choice: float
    pairs: float
    measured_pairs: int
    bins: int
    halvings: int
    target: str | None
    target_weight: float
    particles: int

    @property
    def chooses(self) -> bool:
        """Whether pairs are chosen among all."""
        return self.choice > 0

    @property
    def cuts(self) -> Cuts:
        """Of a long range."""
        return Cuts(self.bins, self.halvings)

    def to_json(self) -> dict[str, Any]:
        """For `--dry-run` and the artifact."""
        return asdict(self)


def settle(
    schema: Schema, rows: int, noise_multiplier: float, *, target: str | None, options: Mapping[str, Any]
) -> Settings:
    """The settings for a table of about `rows` rows, if all of the budget in one release has `noise_multiplier`."""
    problems = [problem for name, value in options.items() for problem in _problems(name, value)]
    if problems:
        raise ModelError("\n".join(problems))
    columns = len(schema.modelled)
    possible = columns * (columns - 1) // 2
    single = float(options.get("single", _single(rows, noise_multiplier, columns)))
    left = 1 - single if possible else 0.0
    affordable = _affordable(rows, noise_multiplier / math.sqrt(max(1e-9, left * (1 - _CHOICE))), columns)
    measured = min(int(options.get("measured_pairs", affordable)), possible) if left else 0
    left = left if measured else 0.0
    choice = _CHOICE * left if measured < possible else 0.0
    single = 1 - left
    bins = int(options.get("bins", _bins(rows, noise_multiplier * math.sqrt(columns / single))))
    return Settings(
        columns=columns,
        rows=rows,
        single=single,
        choice=choice,
        pairs=left - choice,
        measured_pairs=measured,
        bins=bins,
        halvings=max(0, _FINEST - int(math.log2(bins))),
        target=target,
        target_weight=float(options.get("target_weight", 2.0 if target is not None else 1.0)),
        particles=int(options.get("particles", _particles(rows, noise_multiplier, columns, left - choice, measured))),
    )


def _single(rows: int, noise_multiplier: float, columns: int) -> float:
    """The part of single columns: a little, more where their own counts are faint, all where pairs cannot be seen."""
    if columns < 2 or rows / (noise_multiplier * math.sqrt(columns - 1)) < _BLIND:
        return 1.0
    return min(_SINGLE[1], max(_SINGLE[0], (noise_multiplier * math.sqrt(columns) / (_FAINT * rows)) ** 2))


def _bins(rows: int, noise: float) -> int:
    """Bins of a long range before any are merged: few enough that rows spread over all of them would show."""
    return 2 ** min(_BINS[1], max(_BINS[0], int(math.log2(max(1.0, rows / noise / 8)))))


def _particles(rows: int, noise_multiplier: float, columns: int, part: float, pairs: int) -> int:
    """Simulated rows: more where the pairs are so sharp that chance among the simulated rows would hide it."""
    noise = noise_multiplier * math.sqrt(pairs / part) if part else math.inf
    wanted = min(_FINE * (rows / noise) ** 2, _ROOM / columns)
    return 2 ** min(_PARTICLES[1], max(_PARTICLES[0], int(math.log2(max(1.0, wanted)))))


def _affordable(rows: int, noise_multiplier: float, columns: int) -> int:
    """How many pairs can be measured sharply; at least two for every column."""
    return max(2 * (columns - 1), int((rows / noise_multiplier / SHARP) ** 2))


#: What a user may set, and the least and the most that makes sense.
_SETTABLE = {
    "single": (1e-6, 1.0),
    "measured_pairs": (0, 10**6),
    "bins": (2, 2**12),
    "target_weight": (1e-3, 1e3),
    "particles": (256, 2**20),
}


def _problems(name: str, value: Any) -> Iterator[str]:
    if name not in _SETTABLE:
        yield f"The automatic model has no setting {name!r}. It has {', '.join(sorted(_SETTABLE))}."
        return
    least, most = _SETTABLE[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        yield f"The setting {name!r} must be a number from {least:g} to {most:g}."
