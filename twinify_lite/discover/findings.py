"""What the noisy tallies of `discover` show: frequent values, missing cells and ranges.

A `Look` holds private cells until it is done; what is kept of it, in its public fields, comes from noisy tallies alone.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from scipy.stats import norm

from twinify_lite import cells
from twinify_lite.discover import ranges
from twinify_lite.discover.known import codes_of, known_beside
from twinify_lite.discover.votes import Ballot, Tally
from twinify_lite.schema import Column
from twinify_lite.table import PrivateTable

if TYPE_CHECKING:
    from twinify_lite.discover import Payment
    from twinify_lite.receipt import Receipt

# A count this many standard deviations above 0 shows that a column has missing cells, or zeros.
_CLEAR = 4.0
# How many values that are asked for by name a column may show by noise alone, on average; and the least that shows one,
# in standard deviations.
_FALSE, _SURE = 0.1, 3.0
# What the first round takes of the chance that one row shows a value: frequent ones are far above any threshold.
_FIRST = 0.1
# A number's frequent values matter less than a category's: half the weight, a quarter of the square.
_SQUARE = {True: 1, False: 4}


@dataclass(eq=False)
class Look:
    """One open column while it is looked at.

    Private: `_codes` number the cells by what they hold, 0 for missing; `_numbers` are the numbers among that, on the
    scale of `Cells.value` and in their order, then come texts, which are NaN there; `_items` are all of them as they
    are, and `known` marks those that are asked for by name, as missing is. Equal numbers are one item however they are
    written. Public: `frequent`, what was found and its noisy tally, whether cells are `missing`, in about how many rows
    at least (`missing_rows`), and the `range`, which `is_guessed` where too few rows voted to show one.
    """

    column: Column
    _codes: np.ndarray = field(repr=False)
    _numbers: np.ndarray = field(repr=False)
    _items: list[str | int | float | None] = field(repr=False)
    _declared: np.ndarray = field(repr=False)
    _found: np.ndarray = field(repr=False)
    known: np.ndarray = field(repr=False)
    frequent: dict[str | int | float, float] = field(default_factory=dict)
    missing: bool = False
    missing_rows: float = 0.0
    range: tuple[float, float] | None = None
    is_skewed: bool = False
    is_guessed: bool = False

    @property
    def frequent_numbers(self) -> list[int | float]:
        """The numbers that were found, the most frequent first."""
        return sorted(
            (item for item in self.frequent if not isinstance(item, str)), key=self.frequent.get, reverse=True
        )

    @property
    def frequent_texts(self) -> list[str]:
        """The texts that were found, in alphabetical order: that of the rows is nobody's business."""
        return sorted(item for item in self.frequent if isinstance(item, str))

    @property
    def seeks_values(self) -> bool:
        """Whether frequent values are open."""
        return bool({"levels", "special", "heaps"} & set(self.column.open))

    @property
    def seeks_range(self) -> bool:
        """Whether a bound is open."""
        return bool({"min", "max"} & set(self.column.open))

    def ballot(self, eligible: np.ndarray) -> Ballot:
        """Votes for the items that are `eligible`."""
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
        # Where frequent values were found, few cells are left to vote, and theirs should count.
        return Ballot(self._codes, bins, grid.bins, square=4 if self.frequent else 1)

    def ask(self, items: Sequence[str | int | float]) -> None:
        """Ask for `items` by name from now on, also for those that no cell holds."""
        places = {item: place for place, item in enumerate(self._items)}
        fresh = [item for item in items if item not in places]
        self._items += fresh
        numbers = [math.nan if isinstance(item, str) else item for item in fresh]
        self._numbers = np.append(self._numbers, numbers).astype(self._numbers.dtype)
        none, all_ = np.zeros(len(fresh), bool), np.ones(len(fresh), bool)
        self._declared, self._found = np.append(self._declared, none), np.append(self._found, none)
        self.known = np.append(self.known, all_)
        self.known[[places[item] for item in items if item in places]] = True

    def take(self, noisy: np.ndarray, noise: float) -> None:
        """Keep what a tally of values shows: that cells are missing, items that were selected, and known ones that are
        clear of the noise."""
        self.missing |= bool(noisy[0] > _CLEAR * noise)
        sure = _CLEAR if self.column.is_ranged else float(norm.isf(_FALSE / np.count_nonzero(self.known)))
        least = noise * max(_SURE, sure)
        shown = (noisy > np.where(self.known, least, -math.inf)) & ~self._found
        for place in np.flatnonzero(shown[1:]) + 1:
            self._found[place] = True
            self.frequent[self.item(place)] = float(noisy[place])

    def take_zero(self, noisy: float) -> None:
        """Keep a zero that the numbers' magnitudes show: a value that everybody knows needs fewer votes to be found."""
        self._found |= self._numbers == 0
        self.frequent[0] = noisy

    def item(self, place: int) -> str | int | float:
        """What stands behind a number in `_codes`."""
        return self._items[place]


def look_at(column: Column, table: PrivateTable) -> Look:
    """Number what the cells of one column hold. What one cell becomes depends on that cell alone."""
    array = table.reveal()[column.name]
    encoded = (cells.plain(array) if column.is_ranged else cells.texts(array)).dictionary_encode()
    decimal = table.style.decimal if table.style else "."
    read = cells.parse(column, encoded.dictionary, decimal=decimal)
    is_number = (read.state == cells.VALUE) & column.is_ranged & _is_in_calendar(column, read.value)
    numbers, places = np.unique(read.value[is_number] + 0, return_inverse=True)  # -0.0 is 0.0
    item = np.empty(len(is_number), np.int64)
    item[is_number] = places
    item[~is_number] = len(numbers) + np.arange(np.count_nonzero(~is_number))
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    texts = cells.texts(encoded.dictionary.filter(pa.array(~is_number)))
    return Look(
        column,
        _codes=np.append(item + 1, 0)[codes],
        _numbers=np.concatenate([[np.nan], numbers, np.full(len(texts), np.nan)]),
        _items=[None, *numbers.tolist(), *texts.to_pylist()],
        _declared=np.concatenate([np.zeros(1 + len(numbers), bool), (read.state > cells.VALUE)[~is_number]]),
        _found=np.zeros(1 + len(numbers) + len(texts), bool),
        known=np.arange(1 + len(numbers) + len(texts)) < 1,
    )


def _is_in_calendar(column: Column, value: np.ndarray) -> np.ndarray | bool:
    """Whether ticks are in years that Python has dates for, in every zone; others are texts."""
    if column.kind != "datetime":
        return True
    first, last = (cells.ticks(column, datetime.date(year, 1, 1)) for year in (2, 9999))
    return (value >= first) & (value < last)


def find_values(looks: list[Look], payment: Payment, *, chance: float) -> None:
    """Find frequent values, then rarer ones, and which columns have missing cells.

    One row shows a new value with probability at most `chance`. Usual codes are asked for from the start, and what is
    known beside the values of the first round in the second.
    """
    chance /= max(1, sum(look.seeks_values for look in looks))
    for look in looks:
        look.ask(codes_of(look.column) if "special" in look.column.open else ())
    _take(looks, Tally(payment["values"], [value_ballot(look) for look in looks]), _FIRST * chance, counts_missing=True)
    for look in looks:
        look.ask(known_beside(look.frequent_texts) if "levels" in look.column.open else ())
    _take(looks, Tally(payment["rare values"], [rare_value_ballot(look) for look in looks]), (1 - _FIRST) * chance)


def _take(looks: list[Look], tally: Tally, chance: float, *, counts_missing: bool = False) -> None:
    # Where values are sought every row votes, so that a vote weighs at most as much as among those columns.
    spread = max(1, sum(_SQUARE[look.column.is_ranged] for look in looks if look.seeks_values))
    for place, look in enumerate(looks):
        noisy = np.empty(len(look.known))
        noisy[look.known] = tally.counts(place, look.known)
        noisy[~look.known] = tally.select(place, ~look.known, delta=chance)
        look.take(noisy, tally.scale)
        if counts_missing and look.missing:
            look.missing_rows = float(noisy[0]) * math.sqrt(spread / _SQUARE[look.column.is_ranged])


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


def find_ranges(looks: list[Look], payment: Payment, *, guess: bool) -> None:
    """Find the magnitudes of open ranges, or guess them, and look closer where those are too coarse.

    With `guess`, guesses are looked at closer too.
    """
    if not looks:
        return
    _find_magnitudes(looks, payment["magnitudes"])
    for what, spare, most in (("closer", 1, 0.6), ("closest", 2, 0.5)):
        wanted = [look for look in looks if look.range and (guess or not look.is_guessed)]
        coarse = [look for look in wanted if ranges.is_coarse(look.column, *look.range)]
        grids = [ranges.parts(*look.range) for look in coarse]
        tally = _tally_numbers(coarse, grids, payment[what], inside=True)
        for place, (look, grid) in enumerate(zip(coarse, grids, strict=True)):
            zoomed = ranges.zoom(grid, tally.counts(place), tally.scale, spare=spare, most=most)
            look.range = look.range if zoomed == look.range else ranges.rounded(look.column, *zoomed)


def _find_magnitudes(looks: list[Look], receipt: Receipt) -> None:
    grids = [ranges.magnitudes(look.column) for look in looks]
    tally = _tally_numbers(looks, grids, receipt, inside=False)
    clear = ranges.clear(sum(grid.bins for grid in grids))
    for place, (look, grid) in enumerate(zip(looks, grids, strict=True)):
        noisy = tally.counts(place)
        if grid.zero is not None and noisy[grid.zero] > _CLEAR * tally.scale:
            look.take_zero(float(noisy[grid.zero]))
        look.range = ranges.hull(grid, noisy, tally.scale, clear=clear)
        look.is_skewed = look.range is not None and ranges.is_skewed(grid, noisy, *look.range)
        look.is_guessed = look.range is None and not look.frequent_numbers
        if look.is_guessed:
            look.range = ranges.likeliest(grid, noisy, tally.scale)


def _tally_numbers(looks: list[Look], grids: list[ranges.Grid], receipt: Receipt, *, inside: bool) -> Tally:
    ballots = [look.number_ballot(grid, inside=inside) for look, grid in zip(looks, grids, strict=True)]
    return Tally(receipt, ballots)
