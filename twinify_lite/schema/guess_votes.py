"""How cells vote on the kind of their column: counts, and thresholds that leave room for a row more or less."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

T = TypeVar("T")
#: The fewest votes that say anything: a column with one or two cells is never more than a category.
LEAST = 3
# Counting equal texts pays if they are few. The first cells tell whether to try: that changes the speed, not the votes.
_HEAD, _FEW = 10_000, 7_500


class Poll(NamedTuple):
    """Texts, each with the number of cells that it stands for. The same text may stand there more than once."""

    texts: pa.Array
    cells: np.ndarray

    @classmethod
    def of(cls, texts: pa.Array) -> Poll:
        """All present cells."""
        texts = texts.drop_null()
        if len(texts) > _HEAD and len(texts[:_HEAD].unique()) <= _FEW:
            counted = texts.value_counts()
            return cls(counted.field("values"), counted.field("counts").to_numpy(zero_copy_only=False))
        return cls.of_each(texts)

    @classmethod
    def of_each(cls, texts: pa.Array) -> Poll:
        """Each text for one cell."""
        return cls(texts, np.ones(len(texts), np.int64))

    @property
    def size(self) -> int:
        """The number of cells."""
        return int(self.cells.sum())

    def votes(self, mask: np.ndarray) -> int:
        """The number of cells under `mask`."""
        return int(self.cells[mask].sum())

    def where(self, mask: np.ndarray) -> Poll:
        """The cells under `mask`."""
        return self if mask.all() else Poll(self.texts.filter(pa.array(mask)), self.cells[mask])

    def matching(self, pattern: str) -> np.ndarray:
        """A mask of the texts that match a regular expression."""
        return flags(pc.match_substring_regex(self.texts, pattern))

    def majority(self, patterns: dict[T, str]) -> T | None:
        """The key of the pattern that more than half of the cells match, if there is one; no text may match two."""
        head = Poll(self.texts[:100], self.cells[:100])
        likely_first = sorted(patterns, key=lambda key: -head.votes(head.matching(patterns[key])))
        return next((key for key in likely_first if 2 * self.votes(self.matching(patterns[key])) > self.size), None)

    def most_frequent(self) -> tuple[str, int]:
        """The most frequent text and its number of cells, ("", 0) if there is none."""
        encoded = self.texts.dictionary_encode()
        if not len(encoded):
            return "", 0
        counts = np.bincount(encoded.indices.to_numpy(zero_copy_only=False), weights=self.cells)
        return encoded.dictionary[int(counts.argmax())].as_py(), int(counts.max())


def flags(array: pa.Array) -> np.ndarray:
    """Arrow's truths as numpy's."""
    return array.to_numpy(zero_copy_only=False)


def nearly_all(votes: int, cells: int) -> bool:
    """Whether at least 19 of 20 cells vote so, or all but one of at least four."""
    strays = cells - votes
    return 20 * strays <= cells or (strays == 1 and cells >= 4)


def mostly(votes: int, cells: int) -> bool:
    """Whether at least 3 of 4 cells vote so."""
    return 4 * votes >= 3 * cells


def carries(poll: Poll, mask: np.ndarray, *, enough: Callable[[int, int], bool] = mostly) -> bool:
    """Whether the cells under `mask` are `LEAST`, a hundredth of all, and `enough`.

    They need be enough only once the most frequent text among the others is set aside: a column that is mostly "N" can
    be one of numbers.
    """
    votes, size = poll.votes(mask), poll.size
    if votes < LEAST or 100 * votes < size:
        return False
    return enough(votes, size) or enough(votes, size - poll.where(~mask).most_frequent()[1])
