"""Shares and distances as shades: seven steps that are the same on every page, so that pages can be compared."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from twinify_lite.report.markup import Markup, element, name, shown
from twinify_lite.report.parts import bare_table, legend, row, scrolling
from twinify_lite.report.svg import drawing, label, rect

if TYPE_CHECKING:
    from twinify_lite.score.result import PairScore, PairTable

BREAKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
MOST_COLUMNS = 40
#: With more columns than this there is no room for numbers in the cells.
_WITH_NUMBERS = 12
_SIDE_BY_SIDE = 6
_NAMES = 170


def shade(value: float) -> str:
    """The class of the shade: the darker, the more.

    >>> shade(0), shade(0.01), shade(1)
    ('q0', 'q1', 'q6')
    """
    return f"q{bisect.bisect_right(BREAKS, value)}"


def scale() -> Markup:
    """What the shades stand for."""
    ends = (0.0, *BREAKS, 1.0)
    return legend(*((f"q{number}", f"{ends[number]:g} to {ends[number + 1]:g}") for number in range(len(ends) - 1)))


def heat_map(columns: Sequence[str], pairs: Sequence[PairScore]) -> Markup:
    """The lower triangle of the distances of all pairs of `columns`."""
    side = 34 if len(columns) <= _WITH_NUMBERS else 20
    places = {column: place for place, column in enumerate(columns)}
    drawn = [pair for pair in pairs if set(pair.columns) <= places.keys()]
    size = (_NAMES + side * (len(columns) - 1) + 8, 20 + side * (len(columns) - 1) + 4)
    worst = max(drawn, key=lambda pair: pair.tvd)
    words = f"{len(drawn)} pairs; the worst, {' and '.join(map(shown, worst.columns))}, at {worst.tvd:.3f}."
    shapes = [_names(columns, side), _cells(places, drawn, side)]
    image = drawing("heat", "Distance of every pair of columns", words, size, shapes)
    return scrolling("Heat map of all pairs of columns", image)


def _names(columns: Sequence[str], side: int) -> Iterator[Markup]:
    """Numbered names at the left, the first in the corner, as it has no row; and numbers above all but the last."""
    for place, column in enumerate(columns):
        y = 20 + side * (place - 1) + side / 2 + 4 if place else 14
        yield label(24, y, str(place + 1), class_="m e")
        yield label(30, y, column, room=_NAMES - 36)
        if place < len(columns) - 1:
            yield label(_NAMES + side * place + side / 2, 14, str(place + 1), class_="m c")


def _cells(places: dict[str, int], pairs: Sequence[PairScore], side: int) -> Iterator[Markup]:
    for pair in pairs:
        left, right = sorted(places[column] for column in pair.columns)
        x, y, kind = _NAMES + side * left, 20 + side * (right - 1), shade(pair.tvd)
        yield rect(x, y, side - 1, side - 1, class_=kind, data_tvd=f"{pair.tvd:.4g}")
        if side > 30:
            ink = "w" if kind in ("q5", "q6") else "k"
            yield label(x + side / 2 - 0.5, y + side / 2 + 4, f"{pair.tvd:.2f}".removeprefix("0"), class_=f"{ink} c")


def joint(pair: PairTable) -> Markup:
    """The joint tables of a pair, real and synthetic, in per cent of all rows; side by side if there is room."""
    sides = [_joint(pair, who, shares) for who, shares in (("Real", pair.real), ("Synthetic", pair.synthetic))]
    return element("div", sides, class_="two" if len(pair.labels[1]) <= _SIDE_BY_SIDE else None)


def _joint(pair: PairTable, who: str, shares: Sequence[Sequence[float]]) -> Markup:
    down, across = pair.columns
    caption = f"{who}: {shown(down, 40)} in rows, {shown(across, 40)} in columns, % of all rows"
    head = element("tr", element("td"), [element("th", name(level, 24), scope="col") for level in pair.labels[1]])
    rows = [
        row([name(level, 24), *(element("td", f"{100 * one:.1f}", class_=shade(one)) for one in line)])
        for level, line in zip(pair.labels[0], shares, strict=True)
    ]
    return bare_table(caption, head, element("tbody", rows), class_="joint")
