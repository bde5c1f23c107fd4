"""The figures of a score: the leading ones in short, and all of them with their floors and ceilings."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from twinify_lite.report.markup import Content, Markup, element
from twinify_lite.report.parts import bare_table, heads, section
from twinify_lite.report.positions import position, verdict

if TYPE_CHECKING:
    from twinify_lite.score.result import Figure, Score

#: Stands where there is no figure.
NOTHING = "\N{EN DASH}"
_LEADING = ("tvd_1way", "tvd_2way", "tvd_3way")
_DIRECTIONS = {"lower": "↓ lower is better", "higher": "↑ higher is better", "neither": "neither way is better"}
_COLUMNS = ("figure", "all rows", "synthetic", "held-out real", "independent columns", "independent to held-out")


def in_short(score: Score) -> Markup:
    """What those who decide read first."""
    cards = [_card(figure, number) for number, figure in enumerate(_leading(score))]
    return section("short", "In short", element("p", _rows(score)), element("div", cards, class_="grid"))


def _rows(score: Score) -> str:
    rows = score.rows
    half = "a random half of the real ones" if score.is_split else "real rows that nothing was fitted to"
    return (
        f"{rows['synthetic']:,} synthetic rows against {rows['real']:,} real ones. Held out are {rows['held-out']:,} "
        f"rows, {half}; beside them, {rows['compared']:,} synthetic rows are compared, so that all are equally many."
    )


def _leading(score: Score) -> list[Figure]:
    """The distances of marginals, then the first figure of every other group that can be better or worse."""
    known = {figure.key: figure for figure in score.figures}
    lead = [known[key] for key in _LEADING if key in known]
    groups = {figure.group for figure in lead}
    for figure in score.figures:
        if figure.group not in groups and figure.better != "neither" and _value(figure) is not None:
            groups.add(figure.group)
            lead.append(figure)
    return lead


def _value(figure: Figure) -> float | None:
    return figure.synthetic if figure.synthetic is not None else figure.whole


def _card(figure: Figure, number: int) -> Markup:
    ends = [("held-out", figure.heldout), ("independent", figure.independent)]
    told = "; ".join(f"{who} {shown_number(value)}" for who, value in ends if value is not None)
    return element(
        "div",
        element("h3", figure.name),
        element("p", shown_number(_value(figure)), class_="figure"),
        element("p", " ".join(filter(None, (verdict(figure), f"({_DIRECTIONS[figure.better]})"))), class_="quiet"),
        position(f"short-{number}", figure, 280),
        element("p", told, class_="quiet") if told else None,
        class_="short",
    )


def all_figures(score: Score) -> Markup:
    """Every figure, by its group, between its floor and its ceiling."""
    numbered = list(enumerate(score.figures))
    bodies = [
        element("tbody", _group(name), [_row(figure, number) for number, figure in members])
        for name, members in groupby(numbered, key=lambda pair: pair[1].group)
    ]
    return section(
        "figures", "All figures", element("p", _READING), bare_table(_CAPTION, heads(_COLUMNS), bodies, class_="wide")
    )


_READING = (
    "Held-out real rows show what sampling alone does: no synthetic table of this size can be expected to do better. "
    "Independent columns are what a table without any dependence between columns would get. The ring in the last "
    "column is the synthetic table, on a line from independent columns (thin mark, left) to held-out rows (thick mark, "
    "right), and left of it where it is worse than independent columns; there is none where the two ends are too near "
    "each other to tell."
)
_CAPTION = "Figures of the synthetic rows, with their floors and ceilings"


def _group(name: str) -> Markup:
    return element("tr", element("th", name, scope="rowgroup", colspan=len(_COLUMNS), class_="group"))


def _row(figure: Figure, number: int) -> Markup:
    what = [figure.name, element("span", _about(figure), class_="what")]
    values = (figure.whole, figure.synthetic, figure.heldout, figure.independent)
    cells: Iterator[Content] = (
        element("td", shown_number(value), class_="now" if place == 1 else None) for place, value in enumerate(values)
    )
    mark = element("td", position(f"figure-{number}", figure) or NOTHING)
    return element("tr", element("th", what, scope="row"), cells, mark, data_key=figure.key)


def _about(figure: Figure) -> str:
    return f"{figure.what} {_DIRECTIONS[figure.better].capitalize()}."


def shown_number(value: float | None) -> str:
    """Four decimals where they say something.

    >>> shown_number(0.02601), shown_number(1234.5), shown_number(None)
    ('0.0260', '1,234', '\N{EN DASH}')
    """
    if value is None:
        return NOTHING
    return f"{value:.4f}" if abs(value) < 10 else f"{value:,.1f}" if abs(value) < 1000 else f"{value:,.0f}"
