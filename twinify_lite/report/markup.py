"""HTML and SVG from text that nobody trusts: whatever is not `Markup` is escaped, so forgetting is safe."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

#: What may stand in an element: text, `Markup`, nothing, or several of these.
Content = str | None | Iterable["Content"]
_VOID = frozenset({"meta", "rect", "line", "path", "circle", "br"})
_LONGEST = 100


class Markup(str):
    """Text that is HTML already, and is not escaped again."""

    __slots__ = ()


def element(tag: str, /, *content: Content, **attributes: Any) -> Markup:
    """An element. `class_` is its class, `aria_label` its aria-label; of None there is no attribute, True has no value.

    Formal guarantee: no text in `content` or `attributes` ends the element, begins another or adds an attribute.

    >>> element("p", "a < b", class_='"quoted"')
    '<p class="&quot;quoted&quot;">a &lt; b</p>'
    """
    given = "".join(_attribute(name, value) for name, value in attributes.items() if value is not None)
    if tag in _VOID:
        return Markup(f"<{tag}{given}/>")
    return Markup(f"<{tag}{given}>{joined(content)}</{tag}>")


def joined(content: Content) -> Markup:
    """All of it, one after the other, escaped and visible where it is text."""
    if content is None:
        return Markup()
    if isinstance(content, Markup):
        return content
    if isinstance(content, str):
        return Markup(escape(_visible(content), quote=False))
    return Markup("".join(map(joined, content)))


def _attribute(name: str, value: Any) -> str:
    name = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
    return f' {name}="{escape(_visible(text))}"'


def _visible(text: str) -> str:
    """`text` with what does not show, or turns the direction of writing, as its escape."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def shown(text: str, most: int = _LONGEST) -> str:
    """`text` for people: never invisible, and cut where it is long.

    >>> shown("a\\u202eb"), shown("  "), shown("abcdef", 4)
    ('a\\\\u202eb', '(blank)', 'abc…')
    """
    if not text.strip():
        return "(empty)" if not text else "(blank)"
    return _visible(text if len(text) <= most else f"{text[: most - 1]}…")


def name(text: str, most: int = _LONGEST) -> Markup:
    """A name or level from a table, its direction of writing its own."""
    return element("bdi", shown(text, most))
