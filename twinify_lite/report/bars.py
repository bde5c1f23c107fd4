"""Counts as bars, of one table or of two side by side: levels in rows with their names, ranges as a histogram.

Bars of the first of two tables are filled, those of the second outlined: no colour is needed to tell them apart. Tables
of different sizes are compared by shares, so a bar is as long as its count over all counts of its table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from twinify_lite.report.markup import Markup, element, shown
from twinify_lite.report.svg import WIDTH, drawing, label, line, rect

MISSING = "missing"
MOST_ROWS = 10
MOST_BINS = 60
_ROW, _TOP = 22, 20
_NAMES, _LENGTH = 116, 122
_PLOT, _LEFT = 150, 46
_ORDERED = ("number", "integer", "datetime")


@dataclass(frozen=True, kw_only=True)
class Bars:
    """Counts of one column: a label a bin or level, and of one or two tables as many counts.

    The last `apart` of them lie on no axis: special values, and missing cells.
    """

    ident: str
    title: str
    kind: str
    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    names: tuple[str, ...] = ("real", "synthetic")
    apart: int = 0

    @property
    def shares(self) -> tuple[tuple[float, ...], ...]:
        """The counts of each table over their sum."""
        return tuple(tuple(count / max(sum(counts), 1) for count in counts) for counts in self.counts)

    @property
    def is_histogram(self) -> bool:
        """Whether the labels are many and in order: then they stand side by side and share one axis."""
        return self.kind in _ORDERED or (self.kind == "ordinal" and len(self.labels) > MOST_ROWS)

    def only(self, places: Sequence[int], rest: str | None = None) -> Bars:
        """The bars at `places`, and under the label `rest` all the others together."""
        kept = set(places)
        labels = tuple(self.labels[place] for place in places)
        counts = tuple(tuple(one[place] for place in places) for one in self.counts)
        if rest is not None:
            others = [sum(n for place, n in enumerate(one) if place not in kept) for one in self.counts]
            labels, counts = (*labels, rest), tuple((*one, n) for one, n in zip(counts, others, strict=True))
        return replace(self, labels=labels, counts=counts)


def bars(given: Bars) -> Markup:
    """The drawing. Formal guarantee: the bars of one table are to each other as their counts, to half a pixel."""
    return _histogram(_merged(given)) if given.is_histogram else _rows(_largest(given))


def _largest(given: Bars) -> Bars:
    """The levels that matter most, in their order; the rest as one."""
    if len(given.labels) <= MOST_ROWS + 1:
        return given
    by_share = sorted(range(len(given.labels)), key=lambda place: -max(shares[place] for shares in given.shares))
    kept = sorted(by_share[:MOST_ROWS])
    return given.only(kept, f"{len(given.labels) - len(kept)} others")


def _merged(given: Bars) -> Bars:
    """Bins put together until they are few enough to be seen; what lies on no axis stays by itself."""
    while len(given.labels) - given.apart > MOST_BINS:
        last = len(given.labels) - given.apart
        pairs = [tuple(range(start, min(start + 2, last))) for start in range(0, last, 2)]
        pairs += [(place,) for place in range(last, len(given.labels))]
        labels = tuple(given.labels[pair[0]] for pair in pairs)
        counts = tuple(tuple(sum(one[place] for place in pair) for pair in pairs) for one in given.counts)
        given = replace(given, labels=labels, counts=counts)
    return given


def words(given: Bars) -> str:
    """The essential of the bars in a sentence: the largest, in per cent of each table."""
    if not given.labels:
        return "There is nothing to show."
    order = sorted(range(len(given.labels)), key=lambda place: -given.shares[0][place])[:3]
    told = [
        f"{shown(given.labels[place], 40)} "
        + ", ".join(f"{percent(one[place])} {who}" for one, who in zip(given.shares, given.names, strict=True))
        for place in order
    ]
    return f"{len(given.labels)} bars; the largest: {'; '.join(told)}."


def percent(share: float) -> str:
    """A share as text, short, and never 0 where there is something.

    >>> percent(0.1234), percent(0.00001), percent(0.0)
    ('12.3 %', '<0.1 %', '0 %')
    """
    if 0 < share < 0.0005:
        return "<0.1 %"
    return f"{100 * share:.1f} %" if share else "0 %"


def _rows(given: Bars) -> Markup:
    height = _TOP + _ROW * len(given.labels) + 4
    return drawing(given.ident, given.title, words(given), (WIDTH, height), _head(given), _row_shapes(given))


def _head(given: Bars) -> Iterator[Markup]:
    for column, who in enumerate(given.names):
        x = WIDTH - 46 * (len(given.names) - 1 - column)
        yield label(x, 12, {"synthetic": "synth."}.get(who, who), class_="m e")


def _row_shapes(given: Bars) -> Iterator[Markup]:
    most = max((share for shares in given.shares for share in shares), default=0) or 1
    thick = 8 if len(given.counts) > 1 else 12
    for row, text in enumerate(given.labels):
        y = _TOP + _ROW * row
        shapes = [label(0, y + 14, text, room=_NAMES - 8)]
        for which, (counts, shares) in enumerate(zip(given.counts, given.shares, strict=True)):
            top = y + 2 + which * (thick + 1)
            kind = _class(given, which)
            shapes.append(rect(_NAMES, top, _LENGTH * shares[row] / most, thick, class_=kind, data_n=counts[row]))
            x = WIDTH - 46 * (len(given.names) - 1 - which)
            shapes.append(label(x, y + 14, _bare(shares[row]), class_="e"))
        yield element("g", shapes)


def _bare(share: float) -> str:
    return percent(share).removesuffix(" %")


def _class(given: Bars, which: int) -> str:
    return ("r", "s")[which] if len(given.counts) > 1 else "a"


def _histogram(given: Bars) -> Markup:
    most = max((share for shares in given.shares for share in shares), default=0) or 1
    height = _PLOT + 40
    shapes = [_axis(most), _bins(given, most), _ticks(given)]
    return drawing(given.ident, given.title, words(given), (WIDTH, height), shapes)


def _place(given: Bars, place: int) -> tuple[float, float]:
    """Where a bin begins and how wide it is; what lies on no axis stands apart."""
    gap = 12 if given.apart else 0
    width = (WIDTH - _LEFT - gap) / len(given.labels)
    return _LEFT + place * width + (gap if place >= len(given.labels) - given.apart else 0), width


def _bins(given: Bars, most: float) -> Iterator[Markup]:
    for place, text in enumerate(given.labels):
        x, width = _place(given, place)
        shapes = []
        for which, (counts, shares) in enumerate(zip(given.counts, given.shares, strict=True)):
            high = (_PLOT - 10) * shares[place] / most
            inset = min(1.5, width / 6) if which else min(0.5, width / 10)
            shapes.append(
                rect(
                    x + inset,
                    _PLOT - high,
                    max(width - 2 * inset, 0.5),
                    high,
                    class_=_class(given, which),
                    data_n=counts[place],
                )
            )
        told = ", ".join(f"{percent(one[place])} {who}" for one, who in zip(given.shares, given.names, strict=True))
        yield element("g", element("title", f"{shown(text, 40)}: {told}"), shapes)


def _axis(most: float) -> list[Markup]:
    return [
        line(_LEFT, _PLOT, WIDTH, _PLOT, class_="x"),
        line(_LEFT, 10, WIDTH, 10, class_="g"),
        label(_LEFT - 4, 14, percent(most), class_="m e"),
        label(_LEFT - 4, _PLOT, "0", class_="m e"),
    ]


def _ticks(given: Bars) -> Iterator[Markup]:
    """The ends of the axis, and below them what stands apart."""
    last = len(given.labels) - 1 - given.apart
    if last >= 0:
        yield label(_LEFT, _PLOT + 16, given.labels[0].partition(" to ")[0], room=130, class_="m")
    if last > 0:
        x, width = _place(given, last)
        yield label(x + width, _PLOT + 16, given.labels[last].rpartition(" to ")[2], room=130, class_="m e")
    if given.apart:
        texts = ", ".join(shown(text, 20) for text in given.labels[last + 1 :])
        yield label(WIDTH, _PLOT + 34, f"apart: {texts}", room=WIDTH - _LEFT, class_="m e")
