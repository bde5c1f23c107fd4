"""Who is compared with whom: all rows, and equally many synthetic, held-out and independent ones against the same.

Distances between samples shrink with their sizes, so a figure is put between floor and ceiling only at equal sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from twinify_lite.score.reading import HELDOUT, REAL, SYNTHETIC, Sheet

#: The four columns of a table of figures, by the fields of `Figure`.
SIDES = ("whole", "synthetic", "heldout", "independent")


@dataclass(frozen=True, eq=False)
class Comparison:
    """All real and synthetic rows; the `reference`, and as many rows of each of three that are compared with it."""

    real: Sheet
    whole: Sheet
    reference: Sheet
    synthetic: Sheet
    heldout: Sheet
    independent: Sheet
    is_split: bool

    @classmethod
    def of(cls, sheets: dict[str, Sheet], rng: np.random.Generator) -> Comparison:
        """Held-out rows are those of their own table, or else a random half of the real ones."""
        real, synthetic, heldout = sheets[REAL], sheets[SYNTHETIC], sheets.get(HELDOUT)
        is_split, reference = heldout is None, real
        if heldout is None:
            order = rng.permutation(real.rows)
            reference, heldout = real.take(order[: -(real.rows // 2)]), real.take(order[-(real.rows // 2) :])
        rows = min(synthetic.rows, heldout.rows, reference.rows)
        return cls(
            real=real,
            whole=synthetic,
            reference=reference,
            synthetic=some(synthetic, rows, rng),
            heldout=some(heldout, rows, rng),
            independent=reference.independent(rng, rows),
            is_split=is_split,
        )

    def pairs(self) -> Iterator[tuple[str, Sheet, Sheet]]:
        """The sides, each with what it is compared with and its own rows."""
        yield "whole", self.real, self.whole
        for side in SIDES[1:]:
            yield side, self.reference, getattr(self, side)

    def limited(self, rows: int, rng: np.random.Generator) -> Comparison:
        """The same with at most so many rows of each, drawn at random."""
        sheets = {name: some(getattr(self, name), rows, rng) for name in ("real", "reference", *SIDES)}
        return Comparison(**sheets, is_split=self.is_split)


def some(sheet: Sheet, rows: int, rng: np.random.Generator) -> Sheet:
    """So many rows of a table at random, in their order; all of them if they are no more."""
    if sheet.rows <= rows:
        return sheet
    return sheet.take(np.sort(rng.choice(sheet.rows, rows, replace=False)))
