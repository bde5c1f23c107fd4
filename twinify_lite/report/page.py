"""One self-contained HTML file, which runs no script and fetches nothing, whatever a column is called."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from twinify_lite.report.markup import Content, Markup, element


@dataclass(frozen=True, kw_only=True)
class Page:
    """What a page says, from top to bottom. `sections` have an id, their place in the contents, and themselves."""

    title: str
    heading: str
    lead: Content
    sections: Mapping[str, tuple[str, Markup]]
    footer: Content
    warnings: tuple[str, ...] = ()
    is_secret: bool = False


def render(page: Page) -> str:
    """The file. Formal guarantee: its policy lets a browser neither run, load nor send anything but its own style."""
    return f"<!DOCTYPE html>\n{element('html', _head(page), _body(page), lang='en')}\n"


@functools.cache
def _style() -> str:
    return resources.files("twinify_lite.report").joinpath("page.css").read_text(encoding="utf-8").strip()


def _policy() -> str:
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _head(page: Page) -> Markup:
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy()),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", page.title),
        element("style", Markup(_style())),
    )


def _body(page: Page) -> Markup:
    warnings = [element("p", warning, class_="warning") for warning in page.warnings]
    links = [element("li", element("a", heading, href=f"#{ident}")) for ident, (heading, _) in page.sections.items()]
    return element(
        "body",
        element("div", warnings, role="note", aria_label="Warning") if warnings else None,
        element("a", "To the contents", href="#main", class_="skip"),
        element("header", element("h1", page.heading), element("p", page.lead, class_="lead")),
        element("nav", element("ul", links), aria_label="Contents"),
        element("main", [made for _, made in page.sections.values()], id="main", tabindex="-1"),
        element("footer", page.footer),
        class_="house" if page.is_secret else None,
    )
