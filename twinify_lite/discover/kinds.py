"""The kinds of columns that neither a schema nor a type tells, by noisy votes: each cell votes for its form.

    cells -> forms -> noisy counts -> those clear of the noise -> the rules of `guess` -> kinds

Below the counts, all is post-processing: the rules see as many copies of a form's example as its noisy count says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy.stats import norm

from twinify_lite.cells.moments import TICK
from twinify_lite.cells.parsing import is_text, plain, texts
from twinify_lite.discover.votes import Ballot, Tally
from twinify_lite.receipt import Receipt
from twinify_lite.schema import Schema
from twinify_lite.schema.draft import guessed_as
from twinify_lite.schema.guess import DECIMALS, decimals_of_floats, guess_text, number_of_floats
from twinify_lite.schema.guess_forms import ABROAD, forms_of, text_forms
from twinify_lite.schema.guess_moment import coarsest_of, moment_of_timestamps
from twinify_lite.schema.guess_votes import Poll
from twinify_lite.table import PrivateTable

# The chance that any column shows a form by noise alone; or where the noise is large, any one column.
_FALSE = 0.05


class _Question(NamedTuple):
    """What is asked about one column: the form of every row's cell, which is private, and of how many there are.

    `families` says which forms belong together; `rare` are those that are only shown where many cells have them.
    """

    type: pa.DataType
    forms: np.ndarray
    families: np.ndarray
    rare: np.ndarray


def find_kinds(
    schema: Schema, undecided: Sequence[str], table: PrivateTable, receipt: Receipt, *, delta: float
) -> tuple[Schema, dict[str, bool]]:
    """The schema with kinds for the `undecided` columns, and which of those the noise hides wholly, or all but hides.

    Formal guarantee: the noisy counts are one tally that `receipt` pays for, and one row shows a rare form with
    probability at most `delta`.
    """
    questions = {name: _question(table, name) for name in undecided}
    tally = Tally(receipt, [_ballot(question) for question in questions.values()])
    # A row whose cells are all there has so many votes of a smaller weight.
    spread = len(questions) ** 0.5
    found: dict[str, dict[str, Any]] = {}
    hidden: dict[str, bool] = {}
    for place, (name, question) in enumerate(questions.items()):
        counts, is_sure = _counts(question, tally, place, columns=len(questions), delta=delta / len(questions))
        found[name] = _kind(question.type, np.rint(counts * spread).astype(np.int64))
        hidden |= {} if is_sure else {name: not counts.any()}
    return schema.replace_columns(guessed_as(name, keys, table) for name, keys in found.items()), hidden


def _question(table: PrivateTable, name: str) -> _Question:
    array = table.reveal()[name]
    if is_text(array.type):
        forms = text_forms()
        decimal = table.style.decimal if table.style else "."
        encoded = texts(array).dictionary_encode()
        by_text = np.append(forms_of(encoded.dictionary, decimal), -1)
        places = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return _Question(array.type, by_text[places], forms.families, forms.families == ABROAD)
    array = plain(array)
    number = DECIMALS + 2 if pa.types.is_floating(array.type) else len(TICK)
    form_of = decimals_of_floats if pa.types.is_floating(array.type) else coarsest_of
    forms = np.full(len(array), -1)
    forms[array.is_valid().to_numpy(zero_copy_only=False)] = form_of(array.drop_null())
    return _Question(array.type, forms, np.zeros(number, np.int64), np.zeros(number, bool))


def _ballot(question: _Question) -> Ballot:
    """Each row votes for the form of its cell, if it has one."""
    number = len(question.families)
    return Ballot(question.forms, np.append(np.arange(number), -1), number)


def _counts(question: _Question, tally: Tally, place: int, *, columns: int, delta: float) -> tuple[np.ndarray, bool]:
    """The counts of forms that stand clear of their noise, the others as zero; and whether any surely does."""
    counts, usual = np.zeros(len(question.families)), ~question.rare
    counts[usual], is_sure = _clear(tally.counts(place, usual), tally.scale, question.families[usual], columns)
    if question.rare.any():
        counts[question.rare] = np.maximum(tally.select(place, question.rare, delta=delta), 0)
    return counts, is_sure or bool(counts[question.rare].any())


def _clear(noisy: np.ndarray, noise: float, families: np.ndarray, columns: int) -> tuple[np.ndarray, bool]:
    """Noisy counts, but zero where they may well be noise; and whether noise hardly shows any in all columns together.

    Each family has the same chance of showing a form by noise alone. Where no form stands clear, the one that does so
    best is taken, if the chance of that is small for this column, if not for all of them.
    """
    names, member, sizes = np.unique(families, return_inverse=True, return_counts=True)
    chance = _FALSE / len(names)
    found = _above(noisy, noise, member, sizes, chance / (2 * columns))
    if found.any():
        return found, True
    found = _above(noisy, noise, member, sizes, chance)
    return np.where(found == found.max(), found, 0.0), False


def _above(noisy: np.ndarray, noise: float, member: np.ndarray, sizes: np.ndarray, chance: float) -> np.ndarray:
    """Counts that noise reaches in a family with this chance. The strongest form stands for a family whose sum does."""
    counts = np.where(noisy > noise * norm.isf(chance / sizes[member]), noisy, 0.0)
    for number, size in enumerate(sizes):
        mine = np.flatnonzero(member == number)
        whole = noisy[mine].sum()
        if not counts[mine].any() and whole > noise * np.sqrt(size) * norm.isf(chance):
            counts[mine[noisy[mine].argmax()]] = whole
    return counts


def _kind(arrow: pa.DataType, counts: np.ndarray) -> Mapping[str, Any]:
    """What the rules of `guess` say of so many cells of each form."""
    if pa.types.is_floating(arrow):
        return number_of_floats(counts)
    if pa.types.is_timestamp(arrow):
        return moment_of_timestamps(arrow, counts)
    shown = np.flatnonzero(counts)
    return guess_text(Poll(text_forms().examples.take(pa.array(shown)), counts[shown]), ".")
