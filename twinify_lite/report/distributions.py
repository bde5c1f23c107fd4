"""Histograms of synthetic rows: counts of levels and bins, drawn from a twin and from nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from twinify_lite.cells import VALUE, Cells, write
from twinify_lite.encode import encode, layout
from twinify_lite.report.bars import MISSING

if TYPE_CHECKING:
    from twinify_lite.schema import Column
    from twinify_lite.twin import Twin

ROWS, SEED, BINS = 20_000, 0, 24


class Distribution(NamedTuple):
    """How many synthetic cells of a column have each level or lie in each bin."""

    name: str
    kind: str
    labels: tuple[str, ...]
    counts: tuple[int, ...]


def distributions(twin: Twin, rows: int = ROWS, seed: int = SEED) -> tuple[Distribution, ...]:
    """Of every modelled column, from the same rows for the same seed."""
    plain = [c.replace(heaps=()) if c.is_ranged else c for c in twin.schema.modelled]
    schema = twin.schema.replace_columns(plain)
    counts = {column.name: np.zeros(layout(column, BINS).size, np.int64) for column in plain}
    for batch in twin.batches(rows, seed=seed):
        codes = encode(schema, batch, view="discrete", bins=BINS)
        for name, total in counts.items():
            total += np.bincount(codes[name], minlength=len(total))
    return tuple(Distribution(c.name, c.kind, _labels(c), tuple(counts[c.name].tolist())) for c in plain)


def _labels(column: Column) -> tuple[str, ...]:
    missing = (MISSING,) * bool(column.nullable)
    if column.is_levelled:
        other = () if column.other is None else (column.other,)
        return (*map(str, column.levels), *other, *missing)
    edges = layout(column, BINS).edges
    return (*_ranges(_spelled(column, edges)), *map(str, column.special or ()), *missing)


def _spelled(column: Column, values: np.ndarray) -> list[str]:
    """Values as the column has them; the edge after the last may lie beyond it."""
    cells = Cells(values[:-1], np.full(len(values) - 1, VALUE, np.int16))
    return [*map(str, write(column, cells).to_pylist()), str(column.max)]


def _ranges(edges: Sequence[str]) -> list[str]:
    """From each edge to the next."""
    return [low if low == high else f"{low} to {high}" for low, high in pairwise(edges)]
