"""What every page is put together from: sections, tables that scroll by themselves, facts, lists and legends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from twinify_lite.report.markup import Content, Markup, element, shown
from twinify_lite.report.svg import rect

_LONGEST = 2000


def section(ident: str, heading: str, *content: Content) -> Markup:
    """A part of the page, which its list of contents names."""
    return element("section", element("h2", heading, id=ident), content, aria_labelledby=ident)


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[Content]], *, words: int = 1) -> Markup:
    """A table of numbers after so many columns of `words`, the first of which names its row.

    It scrolls by itself where the page is narrow.
    """
    return bare_table(caption, heads(head, words), element("tbody", map(row, rows)))


def heads(texts: Sequence[str], words: int = 1) -> Markup:
    """The first row of a table."""
    cells = [element("th", text, scope="col", class_="t" if n < words else None) for n, text in enumerate(texts)]
    return element("tr", cells)


def bare_table(caption: str, head: Markup, *bodies: Content, **more: str) -> Markup:
    """A table whose rows are made already."""
    whole = element("table", element("caption", caption), element("thead", head), bodies, **more)
    return scrolling(caption, whole)


def scrolling(what: str, *content: Content) -> Markup:
    """A region that scrolls sideways by itself, also with the keys."""
    return element("div", content, class_="scroll", role="region", aria_label=what, tabindex=0)


def row(cells: Sequence[Content], **more: str) -> Markup:
    """A row of a table. A cell that is made already stays as it is."""
    first, *others = cells
    return element("tr", element("th", first, scope="row"), map(_cell, others), **more)


def _cell(content: Content) -> Markup:
    made = isinstance(content, Markup) and content.startswith("<td")
    return content if made else element("td", content)


def text_cell(content: Content) -> Markup:
    """A cell of words, which stand at the left."""
    return element("td", content, class_="t")


def facts(pairs: Mapping[str, Content]) -> Markup:
    """Names and what they stand for."""
    return element("dl", [(element("dt", name), element("dd", value)) for name, value in pairs.items()], class_="facts")


def listed(items: Iterable[str]) -> Markup:
    """A list of sentences, each cut where it is longer than anybody reads."""
    return element("ul", [element("li", shown(item, _LONGEST)) for item in items])


def details(summary: str, *content: Content) -> Markup:
    """What is long, folded away."""
    return element("details", element("summary", summary), content)


def legend(*entries: tuple[str, str]) -> Markup:
    """What the classes of marks stand for."""
    marks = [
        element("li", element("svg", rect(1, 1, 16, 10, class_=kind), width=18, height=12, aria_hidden="true"), text)
        for kind, text in entries
    ]
    return element("ul", marks, class_="legend", aria_label="Legend")
