"""Columns and pairs of a score: bars, the heat map, joint tables of the worst pairs, the worst cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from twinify_lite.report.bars import MISSING, Bars, bars, percent
from twinify_lite.report.heat import MOST_COLUMNS, heat_map, joint, scale
from twinify_lite.report.markup import Content, Markup, element, name, shown
from twinify_lite.report.parts import details, legend, section, table, text_cell

if TYPE_CHECKING:
    from twinify_lite.score.result import CellScore, ColumnScore, PairScore, Score

#: More columns than these are in the table only: the page stays small enough to be sent.
MOST_CHARTS = 60
MOST_LISTED = 1000
_WORST_PAIRS, _OPEN_PAIRS, _MOST_TABLES = 15, 3, 12
_MOST_LEVELS = 60
_MOST_CELLS = 40
# Distances of all rows; and of as many synthetic and held-out rows, which can be compared with each other.
_DISTANCES = ("distance, all rows", "at equal sizes", "held-out")


def columns_section(score: Score) -> Markup:
    """Every column, real against synthetic, the worst first."""
    worst = sorted(score.columns, key=lambda column: -column.tvd)
    drawn = worst[:MOST_CHARTS]
    left = f" Drawn are the worst {MOST_CHARTS} of {len(worst)}; the table lists the others." * (
        len(worst) > len(drawn)
    )
    text = f"Shares of cells, the column that differs most first.{left}"
    cards = [card(column, number) for number, column in enumerate(drawn)]
    return section(
        "columns",
        "Columns",
        element("p", text),
        legend(("r", "real: filled"), ("s", "synthetic: outlined")),
        element("div", cards, class_="grid"),
        details(f"All {len(worst)} columns in one table", _index(worst)),
    )


def card(column: ColumnScore, number: int) -> Markup:
    """One column: its distance, its bars and their counts."""
    given = Bars(
        ident=f"column-{number}",
        title=f"{shown(column.name, 60)}: real against synthetic",
        kind=column.kind,
        labels=column.labels,
        counts=(column.real, column.synthetic),
        apart=column.apart,
    )
    equal = f"at equal sizes {column.sampled:.4f}, held-out {column.heldout:.4f}"
    told = f"{column.kind}; distance {column.tvd:.4f}, {equal}{_missing(column)}"
    return element(
        "div",
        element("h3", name(column.name, 60)),
        element("p", told, class_="quiet"),
        element("figure", bars(given)),
        details("Counts", counts_table(given)),
        class_="card",
    )


def _missing(column: ColumnScore) -> str:
    if not any(column.missing):
        return ""
    return "; missing {} real, {} synthetic".format(*map(percent, column.missing))


def counts_table(given: Bars) -> Markup:
    """The counts behind the bars; of very many levels the largest."""
    order = sorted(range(len(given.labels)), key=lambda place: -max(one[place] for one in given.counts))
    kept = sorted(order[:_MOST_LEVELS])
    rows = [[name(given.labels[place], 40), *(f"{one[place]:,}" for one in given.counts)] for place in kept]
    beyond = len(given.labels) - len(kept)
    return element(
        "div",
        table(f"Counts of {given.title}", ["level", *given.names], rows),
        element("p", f"And {beyond:,} smaller ones.", class_="quiet") if beyond else None,
    )


def _index(columns: Sequence[ColumnScore]) -> Markup:
    head = ["column", "kind", *_DISTANCES, "missing, real", "missing, synthetic"]
    rows = [
        [name(c.name, 60), text_cell(c.kind), *_distances(c), *map(percent, c.missing)] for c in columns[:MOST_LISTED]
    ]
    return table("Total variation distance of every column, the largest first", head, rows, words=2)


def _distances(one: ColumnScore | PairScore) -> list[str]:
    return [f"{distance:.4f}" for distance in (one.tvd, one.sampled, one.heldout)]


def pairs_section(score: Score) -> Markup | None:
    """Every pair of columns as a shade, and the worst of them cell by cell."""
    if not score.pairs:
        return None
    worst = sorted(score.pairs, key=lambda pair: -pair.tvd)
    chosen = _chosen(score)
    beyond = f", the {len(chosen)} columns with the worst pairs" if len(chosen) < len(score.columns) else ""
    head = ["first column", "second column", *_DISTANCES]
    rows = [[name(p.columns[0], 60), text_cell(name(p.columns[1], 60)), *_distances(p)] for p in worst[:_WORST_PAIRS]]
    caption = f"Total variation distance of the joint table of every two columns{beyond}: 0 is equal, 1 is disjoint."
    return section(
        "pairs",
        "Pairs of columns",
        element("figure", element("figcaption", caption), scale(), heat_map(chosen, score.pairs)),
        table(f"The worst {len(rows)} of {len(worst)} pairs", head, rows, words=2),
        [_drilled(pair, number < _OPEN_PAIRS) for number, pair in enumerate(score.tables[:_MOST_TABLES])],
    )


def _chosen(score: Score) -> list[str]:
    """The columns of the heat map in their order: all, or those of the worst pairs."""
    order = [column.name for column in score.columns]
    if len(order) <= MOST_COLUMNS:
        return order
    chosen: dict[str, None] = {}
    for pair in sorted(score.pairs, key=lambda pair: -pair.tvd):
        chosen |= dict.fromkeys(pair.columns)
        if len(chosen) >= MOST_COLUMNS:
            break
    kept = set(list(chosen)[:MOST_COLUMNS])
    return [column for column in order if column in kept]


def _drilled(pair: Content, is_open: bool) -> Markup:
    heading = [name(pair.columns[0], 60), " and ", name(pair.columns[1], 60)]
    made = [element("p", f"Distance {pair.tvd:.4f} between these tables.", class_="quiet"), joint(pair)]
    if is_open:
        return element("div", element("h3", heading), made)
    return element("details", element("summary", heading), made)


def cells_section(score: Score) -> Markup | None:
    """The cells and patterns of missing cells that differ most."""
    if not score.cells and not score.patterns:
        return None
    return section("cells", "Worst cells", _cells(score.cells), _patterns(score))


def _cells(cells: Sequence[CellScore]) -> Markup | None:
    if not cells:
        return None
    rows = [
        [_levels(cell), percent(cell.real), percent(cell.synthetic), _points(cell.real, cell.synthetic)]
        for cell in cells[:_MOST_CELLS]
    ]
    caption = "Combinations of levels whose share of all rows differs most"
    return table(caption, ["cell", "real", "synthetic", "difference"], rows)


def _levels(cell: CellScore) -> Content:
    pairs = zip(cell.columns, cell.levels, strict=True)
    parts = [[", " if n else "", name(column, 40), " = ", name(level, 40)] for n, (column, level) in enumerate(pairs)]
    return [*parts]


def _points(real: float, synthetic: float) -> str:
    return f"{100 * (synthetic - real):+.2f} points"


def _patterns(score: Score) -> Markup | None:
    if not score.patterns:
        return None
    rows = [
        [_together(one.columns), percent(one.real), percent(one.synthetic), _points(one.real, one.synthetic)]
        for one in score.patterns[:_MOST_CELLS]
    ]
    caption = "Which columns are missing together, in which share of all rows"
    return table(caption, [MISSING, "real", "synthetic", "difference"], rows)


def _together(columns: Sequence[str]) -> Content:
    if not columns:
        return "none"
    shown_ones = [[", " if n else "", name(column, 40)] for n, column in enumerate(columns[:12])]
    return [*shown_ones, f" and {len(columns) - 12} more" if len(columns) > 12 else ""]
