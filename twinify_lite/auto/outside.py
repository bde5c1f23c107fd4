"""Cells that are none of what their column declares: they count nowhere, and are taken to be as the others are.

A schema may leave a spelling out, or say of a column with missing cells that it has none. Counted as any of the values
that are declared, such cells would be people who are not there.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinify_lite.auto.tables import Noisy
from twinify_lite.schema import Schema

# Sums of counts are alike within so many standard deviations on either side; a column lacks rows if its sum is so many
# below those that are; and how few may be left to stand for all.
_ALIKE, _LACKS, _LEAST = 3.0, 4.0, 0.05


def hearing_all(schema: Schema) -> Schema:
    """The schema in which every column can be missing: a cell that fits nothing has a code after all others."""
    return schema.replace_columns(column.replace(nullable=True) for column in schema.modelled)


def parts_inside(counts: Sequence[Noisy]) -> np.ndarray:
    """Of each column, which part of the rows its noisy counts speak of: 1 unless more than noise is lacking."""
    totals = np.array([one.counts.sum() for one in counts])
    spread = np.array([one.noise * np.sqrt(one.counts.size) for one in counts])
    # No column counts more rows than there are, so those that may count as many as any other are the whole ones.
    whole = totals + _ALIKE * spread >= (totals - _ALIKE * spread).max()
    rows = max(1.0, float(np.average(totals[whole], weights=spread[whole] ** -2.0)))
    lacking = totals < rows - _LACKS * spread
    return np.where(lacking, np.clip(totals / rows, _LEAST, 1.0), 1.0)


def made_whole(noisy: Noisy, part: float) -> Noisy:
    """The counts as they would be if all rows were like the `part` of them that was counted."""
    return noisy if part == 1.0 else Noisy(noisy.counts / part, noisy.noise / part)
