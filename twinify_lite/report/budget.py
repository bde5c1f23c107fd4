"""Where the privacy budget went: a bar for every receipt, every stage and the whole."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from twinify_lite.report.markup import Markup, element
from twinify_lite.report.parts import table, text_cell
from twinify_lite.report.svg import WIDTH, drawing, label, line, rect

CAPTION = (
    "A receipt's bar is what it would cost alone, at the delta of its stage. Receipts of one stage are composed, and "
    "cost less together than their sum; stages are added. The marks at the right are the budget. All figures are "
    "upper bounds."
)
MOST_BARS = 60
_ROW = 38


class Entry(NamedTuple):
    """One bar."""

    text: str
    epsilon: float
    kind: str


def entries(statement: Mapping[str, Any]) -> Iterator[Entry]:
    """The receipts of each stage, the stage, and in the end all of it."""
    for number, stage in enumerate(statement["stages"], start=1):
        for receipt in stage["receipts"]:
            yield Entry(receipt["what"], float(receipt["epsilon"]), "a")
        yield Entry(f"stage {number}, composed", float(stage["epsilon"]), "r")
    yield Entry("in total", float(statement["spent"]["epsilon"]), "r")


def budget_chart(statement: Mapping[str, Any]) -> Markup:
    """The drawing, with the budget as a line across it."""
    shown = list(entries(statement))
    shown = [*shown[: MOST_BARS - 1], shown[-1]] if len(shown) > MOST_BARS else shown
    limit = float(statement["epsilon"])
    most = max(filter(math.isfinite, [limit, *(entry.epsilon for entry in shown)]), default=1.0) or 1.0
    height = _ROW * len(shown) + 22
    words = f"{shown[-1].epsilon:.4g} of {limit:g} spent. " + "; ".join(f"{e.text} {e.epsilon:.3g}" for e in shown[:-1])
    shapes = [_bar(entry, number, most) for number, entry in enumerate(shown)]
    if math.isfinite(limit):
        x = (WIDTH - 2) * limit / most
        shapes += [line(x, _ROW * n + 18, x, _ROW * n + 34, class_="x") for n in range(len(shown))]
        shapes.append(label(WIDTH, height - 4, f"| budget: epsilon {limit:g}", class_="m e"))
    image = drawing("budget", "Where the budget went, in epsilon", words, (WIDTH, height), shapes)
    return element("figure", element("figcaption", CAPTION), image)


def _bar(entry: Entry, number: int, most: float) -> Markup:
    y = _ROW * number
    long = (WIDTH - 2) * min(entry.epsilon, most) / most
    value = f"{entry.epsilon:.4g}" if math.isfinite(entry.epsilon) else "no limit"
    return element(
        "g",
        label(0, y + 14, entry.text, room=240, class_=None if entry.kind == "a" else "now"),
        label(WIDTH, y + 14, value, class_="e"),
        rect(0, y + 20, long, 11, class_=entry.kind, data_epsilon=f"{entry.epsilon:.6g}"),
    )


def receipts_table(statement: Mapping[str, Any]) -> Markup:
    """Every receipt with its mechanism."""
    rows = [
        [
            receipt["what"],
            text_cell(mechanism(receipt["mechanism"])),
            str(number),
            f"{float(receipt['epsilon']):.4g}",
            f"{receipt['delta']:.3g}",
        ]
        for number, stage in enumerate(statement["stages"], start=1)
        for receipt in stage["receipts"][:MOST_BARS]
    ]
    return table("Receipts", ["release", "mechanism", "stage", "epsilon alone", "at delta"], rows, words=2)


def mechanism(fields: Mapping[str, Any]) -> str:
    """A mechanism with its parameters, in a line."""
    told = ", ".join(f"{key.replace('_', ' ')} {_short(value)}" for key, value in fields.items() if key != "mechanism")
    return f"{fields['mechanism']}: {told}" if told else str(fields["mechanism"])


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
