"""Drawings that say in words what they show. All of their geometry is in attributes; colours are the page's classes."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Callable
from typing import Any

from twinify_lite.report.markup import Content, Markup, element, shown

#: As wide as a phone shows without scrolling or shrinking.
WIDTH = 328
_NARROW, _BROAD = frozenset("iIjlftr.,:;'|!()[]/- "), frozenset("mwMW@%…—")


def drawing(ident: str, title: str, words: str, size: tuple[float, float], *shapes: Content, **more: Any) -> Markup:
    """An SVG image of `size`, named by its title and described by `words`, with an id that no other may have."""
    width, height = size
    return element(
        "svg",
        element("title", title, id=f"{ident}-t"),
        element("desc", words, id=f"{ident}-d"),
        shapes,
        role="img",
        width=width,
        height=height,
        viewBox=f"0 0 {width:g} {height:g}",
        aria_labelledby=f"{ident}-t {ident}-d",
        **more,
    )


def rect(x: float, y: float, width: float, height: float, **more: Any) -> Markup:
    """A rectangle."""
    return element("rect", x=x, y=y, width=float(width), height=float(height), **more)


def line(x1: float, y1: float, x2: float, y2: float, **more: Any) -> Markup:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, **more)


def label(x: float, y: float, text: str, *, room: float | None = None, **more: Any) -> Markup:
    """Text on its baseline, cut where it is wider than `room`."""
    return element("text", fitting(text, room) if room is not None else text, x=x, y=y, **more)


def fitting(text: str, room: float) -> str:
    """As much of `text` as fits into `room` pixels of 12 px letters, by a guess that is rather too wide.

    >>> fitting("diagnosis", 300), fitting("diagnosis of the ward", 60)
    ('diagnosis', 'diagnos…')
    """
    text = shown(text)
    if sum(map(_width, text)) <= room:
        return text
    ends = itertools.accumulate(map(_width, text), initial=_width("…"))
    return f"{text[: sum(end <= room for end in ends) - 1].rstrip()}…"


def _width(char: str) -> float:
    if unicodedata.east_asian_width(char) in "WF":
        return 12.5
    if char in _BROAD:
        return 11
    if char in _NARROW:
        return 4.2
    return 8.2 if char.isupper() else 6.8


def path(
    points: list[tuple[float, float]], place: Callable[[float, float], tuple[float, float]], **more: Any
) -> Markup:
    """Straight lines through `points`, each put where `place` says."""
    steps = (f"{'L' if number else 'M'}{x:.1f} {y:.1f}" for number, (x, y) in enumerate(place(*p) for p in points))
    return element("path", d="".join(steps), **more)
