"""What the noisy tallies of `discover` show: frequent values, missing cells and ranges.

A `Look` holds private cells until it is done; what is kept of it, in its public fields, comes from noisy tallies alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from twinify_lite import cells
from twinify_lite.discover import ranges
from twinify_lite.discover.votes import Ballot, Noise, tally
from twinify_lite.schema import Column
from twinify_lite.table import PrivateTable

if TYPE_CHECKING:
    from twinify_lite.discover import Payment

# A count this many standard deviations above 0 shows that a column has missing cells.
_CLEAR = 4.0
# A number's frequent values matter less than a category's: half the weight, a quarter of the square.
_SQUARE = {True: 1, False: 4}


@dataclass(eq=False)
class Look:
    """One open column while it is looked at.

    Private: `_codes` number the cells, 0 for missing and i for `_values[i - 1]`; `_numbers` are those values on the
    scale of `Cells.value`, NaN where they are no numbers. Public: `frequent`, the values found and their noisy
    tallies, whether cells are `missing`, and the `range`.
    """

    column: Column
    _codes: np.ndarray = field(repr=False)
    _values: pa.Array = field(repr=False)
    _numbers: np.ndarray = field(repr=False)
    _declared: np.ndarray = field(repr=False)
    _found: np.ndarray = field(repr=False)
    frequent: dict[Any, float] = field(default_factory=dict)
    missing: bool = False
    range: tuple[float, float] | None = None

    @property
    def seeks_values(self) -> bool:
        """Whether frequent values are open."""
        return bool({"levels", "special", "heaps"} & set(self.column.open))

    @property
    def seeks_range(self) -> bool:
        """Whether a bound is open."""
        return bool({"min", "max"} & set(self.column.open))

    def ballot(self, eligible: np.ndarray) -> Ballot:
        """Votes for the values that are `eligible`, by number."""
        item = np.where(eligible, np.arange(len(eligible)), -1)
        return Ballot(self._codes, item, len(item), _SQUARE[self.column.is_ranged])

    def number_ballot(self, grid: ranges.Grid, *, inside: bool) -> Ballot:
        """Votes for the bins of `grid` by numbers that are not frequent; if `inside`, not by those beyond it."""
        votes = np.isfinite(self._numbers) & ~self._found
        if self.column.scale == "log":
            votes &= self._numbers > 0
        if inside:
            votes &= (self._numbers >= grid.edges[0]) & (self._numbers <= grid.edges[-1])
        bins = np.where(votes, grid.place(np.nan_to_num(self._numbers)), -1)
        return Ballot(self._codes, bins, grid.bins)

    def take(self, sums: np.ndarray, noise: Noise, *, delta: float) -> None:
        """Keep what the tally of a value ballot shows: missing cells, and values above the threshold."""
        self.missing |= bool(noise.add(sums[:1])[0] > _CLEAR * noise.scale)
        noisy = noise.select(sums[1:], delta=delta)
        for place in np.flatnonzero(noisy > -math.inf):
            self._found[place + 1] = True
            self.frequent[self._public(place)] = float(noisy[place])

    def _public(self, place: int) -> Any:
        """The value that was found: a number where it is one, otherwise its text."""
        number = self._numbers[place + 1]
        return float(number) if math.isfinite(number) else cells.texts(self._values[place : place + 1])[0].as_py()


def look_at(column: Column, table: PrivateTable) -> Look:
    """Number the cells of one column."""
    encoded = cells.plain(table.reveal()[column.name]).dictionary_encode()
    decimal = table.style.decimal if table.style else "."
    read = cells.parse(column, encoded.dictionary, decimal=decimal)
    is_number = (read.state == cells.VALUE) & column.is_ranged
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False) + 1
    return Look(
        column,
        codes,
        encoded.dictionary,
        np.append(np.nan, np.where(is_number, read.value, np.nan)),
        _declared=np.append(False, read.state > cells.VALUE),
        _found=np.zeros(len(encoded.dictionary) + 1, bool),
    )


def find_values(looks: list[Look], payment: Payment) -> None:
    """Find frequent values, then rarer ones, and which columns have missing cells."""
    delta = payment.claim_selection() / 2 / max(1, sum(look.seeks_values for look in looks))
    for what, ballot in (("values", value_ballot), ("rare values", rare_value_ballot)):
        noise = payment.noise(what)
        for look, sums in zip(looks, tally([ballot(look) for look in looks]), strict=True):
            look.take(sums, noise, delta=delta)


def value_ballot(look: Look) -> Ballot:
    """Votes for every value, and for missing where that is open."""
    return look.ballot(_sought(look))


def rare_value_ballot(look: Look) -> Ballot:
    """Votes for what was not found; of numbers only the texts among them: no twin needs every number by name."""
    eligible = _sought(look) & ~look._found
    if look.column.is_ranged:
        eligible[1:] &= np.isnan(look._numbers[1:])
    return look.ballot(eligible)


def _sought(look: Look) -> np.ndarray:
    eligible = ~look._declared if look.seeks_values else np.zeros(len(look._found), bool)
    eligible[0] = look.column.nullable is None and not look.missing
    return eligible


def find_ranges(looks: list[Look], payment: Payment) -> None:
    """Find the magnitudes of open ranges, and look closer where those are too coarse."""
    if not looks:
        return
    grids = [ranges.magnitudes(look.column) for look in looks]
    _look_closer(looks, grids, payment.noise("magnitudes"), ranges.hull, inside=False)
    for what in ("closer", "closest"):
        coarse = [look for look in looks if look.range and ranges.is_coarse(look.column, *look.range)]
        grids = [ranges.parts(*look.range) for look in coarse]
        _look_closer(coarse, grids, payment.noise(what), ranges.zoom, inside=True)


def _look_closer(
    looks: list[Look], grids: list[ranges.Grid], noise: Noise, conclude: Callable, *, inside: bool
) -> None:
    ballots = [look.number_ballot(grid, inside=inside) for look, grid in zip(looks, grids, strict=True)]
    for look, grid, sums in zip(looks, grids, tally(ballots), strict=True):
        look.range = conclude(grid, noise.add(sums), noise.scale)
