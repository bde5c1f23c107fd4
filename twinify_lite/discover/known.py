"""Values that need not be discovered because everybody knows them: the other members of a list, the other codes.

A value that nobody knows may be shown only if so many rows have it that no single one matters, which takes about six
standard deviations of the noise. A value that is asked for by name may be shown at four, as no row brings it in. So
where a noisy tally has shown members of a public list (`lists.toml`), all others are asked for; where it has shown
codes of one shape, such as E11, so are all others of that shape. What is asked depends on what was shown and on nothing
else.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
import string
import tomllib
from collections.abc import Callable, Collection, Iterator
from importlib import resources

from twinify_lite.schema import Column

# How a list's words may be joined and written.
_JOINERS = (" ", "-", "_", ".", "")
_CASES: tuple[Callable[[str], str], ...] = (str, str.lower, str.upper)
Style = tuple[str, Callable[[str], str]]
# Members of a list are at least half of the texts; of codes this short there are at least so many, as "no" is one too,
# unless the list itself is as short.
_HALF, _SHORT, _ALIKE = 0.5, 3, 3
# A shape may have so many codes.
_CODES = 30_000
# Numbers that stand for no number in many tables.
_STAND_INS = (-1, -9, -99, -999, -9999, 999, 9999, 99999)
_LETTERS = {"9": string.digits, "A": string.ascii_uppercase, "a": string.ascii_lowercase}


def known_beside(shown: Collection[str]) -> list[str]:
    """What else a column may hold in which the texts `shown` were found, in alphabetical order."""
    return sorted({*_of_lists(shown), *_of_shape(shown)} - set(shown))


def codes_of(column: Column) -> tuple[int, ...]:
    """Numbers that a column of numbers may hold in place of a number: not asked, unknown."""
    return _STAND_INS if column.is_ranged and column.kind != "datetime" else ()


def _of_lists(shown: Collection[str]) -> Iterator[str]:
    """All members of the lists that `shown` are of, spelled as those are."""
    for members in _lists():
        spelled = [styles for text in shown if (styles := _styles(members.get(_key(text), ""), text))]
        least = _ALIKE if max(map(len, members)) <= _SHORT < len(members) else 1
        if len(spelled) < max(least, _HALF * len(shown)):
            continue
        for (joiner, case), name in itertools.product(_common(spelled), members.values()):
            yield case(joiner.join(name.split()))


def _common(spelled: list[set[Style]]) -> set[Style]:
    """The styles that explain all texts, or if there is none, those that explain any."""
    return set.intersection(*spelled) or set.union(*spelled)


def _styles(name: str, text: str) -> set[Style]:
    """The ways to write `name` that give `text`."""
    return {(joiner, case) for joiner in _JOINERS for case in _CASES if case(joiner.join(name.split())) == text}


def _key(text: str) -> str:
    return re.sub(r"[\s\-_.]", "", text).casefold()


@functools.cache
def _lists() -> list[dict[str, str]]:
    """Every list, its members by their letters alone."""
    text = resources.files(__package__).joinpath("lists.toml").read_text("utf-8")
    split = ([name.strip() for name in members.split(";")] for members in tomllib.loads(text).values())
    return [{_key(name): " ".join(name.split()) for name in names} for names in split]


def _of_shape(shown: Collection[str]) -> Iterator[str]:
    """All codes of a shape that has a digit and is that of several of `shown`.

    If those are too many, then all that have the characters in which these agree, as ICD-1 to ICD-9 have four.
    """
    shapes: dict[str, list[str]] = {}
    for text in shown:
        shapes.setdefault(_shape(text), []).append(text)
    for shape, alike in shapes.items():
        if len(alike) < _ALIKE or "9" not in shape:
            continue
        free = [_LETTERS.get(kind, kind) for kind in shape]
        agreed = [set(place) for place in zip(*alike, strict=True)]
        fixed = [min(place) if len(place) == 1 else any_ for place, any_ in zip(agreed, free, strict=True)]
        choices = next((one for one in (free, fixed) if math.prod(map(len, one)) <= _CODES), ())
        yield from map("".join, itertools.product(*choices) if choices else ())


def _shape(text: str) -> str:
    """Digits as 9, letters as A or a, the rest as it is."""
    return re.sub(r"[a-z]", "a", re.sub(r"[A-Z]", "A", re.sub(r"[0-9]", "9", text)))
