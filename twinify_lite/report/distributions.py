"""Histograms of synthetic rows: counts of levels and bins, drawn from a twin and from nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from twinify_lite.cells import VALUE, Cells, write
from twinify_lite.encode import encode, layout
from twinify_lite.report.bars import MISSING
from twinify_lite.schema import Schema

if TYPE_CHECKING:
    from twinify_lite.schema import Column
    from twinify_lite.twin import Twin

ROWS, SEED, BINS = 20_000, 0, 24


class Distribution(NamedTuple):
    """How many synthetic cells of a column have each level or lie in each bin; the last `apart` lie on no axis."""

    name: str
    kind: str
    labels: tuple[str, ...]
    counts: tuple[int, ...]
    apart: int = 0


def distributions(twin: Twin, rows: int = ROWS, seed: int = SEED) -> tuple[Distribution, ...]:
    """Of every modelled column, from the same rows for the same seed."""
    plain = [c.replace(heaps=()) if c.is_ranged else c for c in twin.schema.modelled]
    schema = Schema(plain)
    counts = {column.name: np.zeros(layout(column, BINS).size, np.int64) for column in plain}
    for batch in twin.batches(rows, seed=seed):
        modelled = batch.select([name for name in batch.column_names if name in counts])
        codes = encode(schema, modelled, view="discrete", bins=BINS)
        for name, total in counts.items():
            total += np.bincount(codes[name], minlength=len(total))
    return tuple(Distribution(c.name, c.kind, _labels(c), tuple(counts[c.name].tolist()), _apart(c)) for c in plain)


def _apart(column: Column) -> int:
    return bool(column.nullable) + (len(column.special or ()) if column.is_ranged else 0)


def _labels(column: Column) -> tuple[str, ...]:
    missing = (MISSING,) * bool(column.nullable)
    if column.is_levelled:
        other = () if column.other is None else (column.other,)
        return (*map(str, column.levels), *other, *missing)
    return (*_ranges(column, layout(column, BINS).edges), *map(str, column.special or ()), *missing)


def _ranges(column: Column, edges: np.ndarray) -> list[str]:
    """Each bin from its first value to its last or, where values lie as close as one likes, to the next bin."""
    lows, highs = _spelled(column, edges[:-1]), _spelled(column, edges[1:-1] - (column.kind == "integer"))
    pairs = zip(lows, [*highs, str(column.max)], strict=True)
    return [low if low == high else f"{low} to {high}" for low, high in pairs]


def _spelled(column: Column, values: np.ndarray) -> list[str]:
    """Values as the column has them."""
    return [str(text) for text in write(column, Cells(values, np.full(len(values), VALUE, np.int16))).to_pylist()]
