"""A score in words: aligned lines, the warning first."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from twinify_lite.score.result import CellScore, ColumnScore, Figure, PairScore, Score

_HEAD = ("all rows", "synthetic", "held-out", "independent")
_BETTER = {"lower": "lower is better", "higher": "higher is better", "neither": ""}
_SHOWN = 5


def lines(score: Score) -> Iterator[str]:
    """The whole score for a terminal."""
    yield score.warning
    if score.alarm is not None:
        yield score.alarm
    yield ""
    yield from _rows(score)
    yield ""
    yield from _figures(score.figures)
    yield ""
    yield from _worst(score)
    if score.notes:
        yield ""
        yield from score.notes
    yield ""
    yield "; ".join(f"{name} {which}" for name, which in score.versions.items()) + "."


def _rows(score: Score) -> Iterator[str]:
    rows = score.rows
    held = f"{rows['compared']} of a half of the real rows" if score.is_split else f"{rows['compared']} of your own"
    columns = f"{len(score.columns)} column{'s' * (len(score.columns) != 1)}"
    yield f"all rows     {rows['synthetic']} synthetic rows against {rows['real']} real ones, {columns}"
    yield f"synthetic    {rows['compared']} of them against {rows['reference']} real ones, as are the next two"
    yield f"held-out     {held}: what sampling alone does"
    yield (
        "independent  each column of these real ones drawn by itself: what a twin without any dependence would get, "
        "with single columns as near as can be"
    )


def _figures(figures: Sequence[Figure]) -> Iterator[str]:
    names = [f"  {figure.name}" for figure in figures]
    width = min(max(map(len, names)), 56)
    yield f"{'':<{width}}" + "".join(f"{title:>13}" for title in _HEAD)
    for group, members in itertools.groupby(figures, key=lambda figure: figure.group):
        yield group
        for figure in members:
            values = (figure.whole, figure.synthetic, figure.heldout, figure.independent)
            better = _BETTER[figure.better]
            yield f"  {figure.name:<{width - 2}}{''.join(map(_value, values))}" + (f"   {better}" if better else "")


def _value(value: float | None) -> str:
    return f"{'-' if value is None else number(value):>13}"


def number(value: float) -> str:
    """A figure to four decimals; a large one, such as an error in its own units, to five digits."""
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.5g}"


def _worst(score: Score) -> Iterator[str]:
    yield "Worst columns (all rows; synthetic and held-out at equal sizes):"
    for column in sorted(score.columns, key=lambda column: -column.tvd)[:_SHOWN]:
        yield f"{_distances(column)}  {column.name}"
    if score.pairs:
        yield "Worst pairs:"
        for pair in score.pairs[:_SHOWN]:
            yield f"{_distances(pair)}  {' and '.join(pair.columns)}"
    yield "Worst cells (real share, synthetic share):"
    for cell in score.cells:
        yield f"  {cell.real:7.2%} {cell.synthetic:7.2%}  {_cell(cell)}"


def _distances(one: ColumnScore | PairScore) -> str:
    return f"  {one.tvd:.4f} ({one.sampled:.4f} {one.heldout:.4f})"


def _cell(cell: CellScore) -> str:
    return ", ".join(f"{name} = {level}" for name, level in zip(cell.columns, cell.levels, strict=True))
