"""The words of a schema, and what was probably meant by a word that is none of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from twinify_lite.schema import KEYS, KINDS

#: What other tools call our kinds.
SYNONYMS = {
    **dict.fromkeys(("float", "real", "double", "numeric", "continuous", "decimal"), "number"),
    **dict.fromkeys(("int", "whole", "count"), "integer"),
    **dict.fromkeys(("str", "string", "text", "enum", "factor", "nominal", "object"), "category"),
    **dict.fromkeys(("date", "time", "timestamp"), "datetime"),
    **dict.fromkeys(("bool", "binary", "logical", "flag"), "boolean"),
    **dict.fromkeys(("id", "key", "name", "uuid"), "identifier"),
}


def suggestion(word: object, words: Iterable[str], *, least: float = 0.6) -> str:
    """The end of a sentence about a misspelt word, with the one that was probably meant; empty if none is near.

    `least` is how alike they must be, from 0 to 1.
    """
    close = difflib.get_close_matches(str(word).lower(), list(words), n=1, cutoff=least)
    return f"; did you mean {close[0]!r}?" if close else ""


def nearest_kind(word: object) -> str | None:
    """The kind that was probably meant by `word`."""
    word = str(word).lower()
    close = difflib.get_close_matches(word, KINDS, n=1)
    return SYNONYMS.get(word) or (close[0] if close else None)


def unknown_kind(kind: object) -> str:
    """The sentence about a kind that there is not."""
    near = nearest_kind(kind)
    return f"there is no kind {kind!r}" + (
        f"; did you mean {near!r}?" if near else f". The kinds are {', '.join(KINDS)}."
    )


def misplaced(kind: str, key: str) -> str:
    """The sentence about a key of another kind."""
    kinds = [other for other, keys in KEYS.items() if key in keys]
    article = "an" if kind[0] in "aeiou" else "a"
    return f"{key!r} does not belong to {article} {kind}; delete it, or set kind to {either(kinds)}."


def either(words: Iterable[str]) -> str:
    """'a', 'b' or 'c'."""
    *most, last = map(repr, words)
    return f"{', '.join(most)} or {last}" if most else last
