"""Where a figure of synthetic rows stands between independent columns and held-out real rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from twinify_lite.report.markup import Markup, element
from twinify_lite.report.svg import drawing, line

if TYPE_CHECKING:
    from twinify_lite.score.result import Figure

#: So near to the edges of its drawing may the ring stand, where the figure lies beyond the two ends.
_EDGE = 6.0
#: If the two ends are nearer than this share of the larger, a place between them says nothing. Distances are near 0.
_APART = {"lower": 0.25, "higher": 0.05}
_SMALL = 132


def place(figure: Figure) -> float | None:
    """0 at independent columns, 1 at held-out real rows; None where the two are too near to tell."""
    ends = (figure.independent, figure.heldout)
    told = [value for value in (*ends, figure.synthetic) if value is not None and math.isfinite(value)]
    if len(told) < 3 or figure.better == "neither":
        return None
    apart = figure.heldout - figure.independent
    right = apart < 0 if figure.better == "lower" else apart > 0
    if not right or abs(apart) < _APART[figure.better] * max(map(abs, ends)):
        return None
    return (figure.synthetic - figure.independent) / apart


def verdict(figure: Figure) -> str:
    """The figure in words for those who decide."""
    where = place(figure)
    if where is None:
        return _beside_heldout(figure)
    if where >= 0.99:
        return "As good as held-out real rows."
    if where <= 0.05:
        return "No better than independent columns."
    return f"{100 * where:.0f} % of the way from independent columns to held-out real rows."


def _beside_heldout(figure: Figure) -> str:
    if figure.better == "neither" or figure.synthetic is None or not figure.heldout:
        return ""
    ratio = figure.synthetic / figure.heldout
    if (ratio <= 1.05 and figure.better == "lower") or (ratio >= 0.99 and figure.better == "higher"):
        return "As good as held-out real rows."
    return f"{ratio:.2g} times that of held-out real rows."


def position(ident: str, figure: Figure, width: int = _SMALL) -> Markup | None:
    """The place on a line: independent columns at the left, held-out real rows at the right, better to the right."""
    where = place(figure)
    if where is None:
        return None
    low, span, middle = 14.0, width - 28.0, 10.0
    x = min(max(low + span * where, _EDGE), width - _EDGE)
    shapes = [
        line(low, middle, low + span, middle, class_="x"),
        line(low, middle - 6, low, middle + 6, class_="x"),
        line(low + span, middle - 6, low + span, middle + 6, class_="h"),
        element("circle", cx=x, cy=middle, r=4.5, class_="p", data_place=where),
    ]
    return drawing(ident, verdict(figure), "Independent columns left, held-out real rows right.", (width, 20), shapes)
