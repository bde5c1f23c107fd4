"""What is guaranteed, where the budget went, and what that means for one person. All of it is public."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from twinify_lite.report.budget import budget_chart, receipts_table
from twinify_lite.report.markup import Markup, element, joined
from twinify_lite.report.parts import details, facts, legend, listed, section
from twinify_lite.report.svg import WIDTH, drawing, label, line, path

if TYPE_CHECKING:
    from twinify_lite.risk import Risk

_CHANGES = {"add-remove": "adding or removing one row", "substitute": "replacing one row by another"}


def not_private(statement: Mapping[str, Any]) -> str | None:
    """The warning over a twin that guarantees nothing."""
    if statement["private"] is True:
        return None
    return f"NOT PRIVATE: {statement.get('why_not') or 'there is no guarantee'}. Do not release it as a private twin."


def guarantee_line(statement: Mapping[str, Any]) -> str:
    """The guarantee in one sentence."""
    if statement["private"] is not True:
        return not_private(statement)
    change = _CHANGES.get(statement["relation"], statement["relation"])
    pair = f"({float(statement['epsilon']):g}, {statement['delta']:g})"
    return f"{pair}-differential privacy under {change}; {statement['unit']}."


def statement_section(statement: Mapping[str, Any], notes: Iterable[str] = (), *, before: str | None = None) -> Markup:
    """The privacy statement, the ledger as a chart, and what is public."""
    spent = statement["spent"]
    told = {
        "guarantee": guarantee_line(statement),
        "spent": f"epsilon {float(spent['epsilon']):.4g}, delta {spent['delta']:.3g} (upper bounds)",
        "composition": statement["composition"],
        "accountant": statement["accountant"],
    }
    notes = list(notes)
    return section(
        "privacy",
        "Privacy statement",
        element("p", before) if before else None,
        facts(told),
        element(
            "div",
            element("div", element("h3", "Where the budget went"), budget_chart(statement)),
            element(
                "div",
                element("h3", "Public"),
                listed(statement["public"]),
                element("h3", "Not public"),
                listed(statement["not_public"]),
            ),
            class_="two",
        ),
        details("Every receipt and its mechanism", receipts_table(statement)),
        [element("h3", "Notes of the fit, as the twin's file has them"), listed(notes)] if notes else None,
    )


def risk_section(found: Risk) -> Markup:
    """What the guarantee means for one person, in words and as a curve."""
    caption = (
        "How many members the best attacker can name, at most, for how many others named wrongly. The dashed line is "
        "what (epsilon, delta) alone would allow; the dotted diagonal is guessing."
    )
    return section(
        "risk",
        "Risk for one person",
        element(
            "div",
            element("div", _told(found.sentences())),
            element("figure", element("figcaption", caption), _key(), trade_off(found)),
            class_="two",
        ),
    )


def _told(sentences: Sequence[str]) -> list[Markup]:
    """Paragraphs, and lists of those that begin with a dash."""
    groups = groupby(sentences, key=lambda sentence: sentence.startswith("- "))
    return [
        listed(s.removeprefix("- ") for s in group) if is_list else joined(element("p", s) for s in group)
        for is_list, group in groups
    ]


def _key() -> Markup:
    return legend(("curve", "this twin"), ("bound", "(epsilon, delta) alone, dashed"))


def trade_off(found: Risk) -> Markup:
    """The bound on true positives by false positives, both from 0 to 1."""
    left, top, side = 46, 24, 240

    def place(false: float, true: float) -> tuple[float, float]:
        return left + side * false, top + side * (1 - true)

    ends = [(0, "0"), (0.5, "50 %"), (1, "100 %")]
    shapes = [
        [line(*place(0, y), *place(1, y), class_="g") for y, _ in ends],
        [label(left - 5, place(0, y)[1] + 4, text, class_="m e") for y, text in ends],
        [label(place(x, 0)[0], top + side + 18, text, class_="m c") for x, text in ends],
        label(left, 12, "members named", class_="m"),
        label(left + side / 2, top + side + 36, "others named wrongly", class_="m c"),
        line(*place(0, 0), *place(1, 1), class_="x", stroke_dasharray="1 4"),
        path(list(found.alone.curve), place, class_="bound"),
        path(list(found.curve), place, class_="curve"),
    ]
    words = (
        f"Members named exceed others named wrongly by at most {100 * found.advantage:.3g} points; by (epsilon, delta) "
        f"alone it would be {100 * found.alone.advantage:.3g}."
    )
    return drawing("risk-curve", "Members named, by others named wrongly", words, (WIDTH, top + side + 44), shapes)
