"""The page of a certificate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from twinify_lite import __version__
from twinify_lite.report.bars import Bars, bars
from twinify_lite.report.certifying import NOT_PROMISED, PROMISED
from twinify_lite.report.columns import MOST_CHARTS, MOST_LISTED, counts_table
from twinify_lite.report.guarantee import guarantee_line, risk_section, statement_section
from twinify_lite.report.markup import Content, Markup, element, name, shown
from twinify_lite.report.page import Page, render
from twinify_lite.report.parts import details, facts, listed, section, table, text_cell

if TYPE_CHECKING:
    from twinify_lite.report.certifying import Certificate
    from twinify_lite.report.distributions import Distribution
    from twinify_lite.schema import Column, Schema

_SHORT, _LEVELS = 400, 40
_LEAD = (
    "What this page has from real rows was paid for from the budget, or is listed as public below. It may be published "
    "as the twin may be."
)
_READ = " (read from the data, not covered by epsilon)"


def certificate_page(given: Certificate) -> str:
    """One self-contained HTML page, as public as the twin: it tells what was paid for, or is listed as public."""
    page = Page(
        title=f"Release certificate of {shown(given.file)}",
        heading="Release certificate of a private twin",
        lead=[guarantee_line(given.statement), f" {_LEAD}"],
        warnings=() if given.warning is None else (given.warning,),
        sections={ident: (heading, made) for ident, heading, made in _sections(given)},
        footer=element("p", f"twinify_lite {__version__}, {given.made.isoformat()}. Check it: ", _check(given)),
    )
    return render(page)


def _check(given: Certificate) -> Markup:
    return element("code", f"twin verify {shown(given.file)}")


def _sections(given: Certificate) -> Iterator[tuple[str, str, Markup]]:
    yield "verified", "What was verified", _verified(given)
    yield "privacy", "Privacy statement", statement_section(given.statement, given.notes)
    yield "risk", "Risk for one person", risk_section(given.risk)
    yield "promises", "What is promised, and what is not", _promises()
    yield "model", "Model", section("model", "Model", facts(dict(_model_facts(given.model))))
    yield "schema", "Schema", _schema(given)
    yield "columns", "Synthetic distributions", _columns(given)


def _verified(given: Certificate) -> Markup:
    holds, recomputed, *by_whom = str(given.verification).splitlines()
    return section(
        "verified",
        "What was verified",
        element("p", element("span", holds, class_="ok"), f" {recomputed}"),
        listed(line.strip() for line in by_whom),
        facts(
            {
                "file": element("code", shown(given.file)),
                "SHA-256": element("code", given.sha256),
                "rows": f"about {given.rows:,} (a noisy count, or a public one)",
                **({"policy": given.policy} if given.policy else {}),
                "check it": [_check(given), " recomputes all of this from the file."],
            }
        ),
    )


def _promises() -> Markup:
    return section(
        "promises",
        "What is promised, and what is not",
        element(
            "div",
            element("div", element("h3", "Promised"), listed(PROMISED)),
            element("div", element("h3", "Not promised"), listed(NOT_PROMISED)),
            class_="two",
        ),
    )


def _model_facts(model: Mapping[str, Any]) -> Iterator[tuple[str, Content]]:
    for key, value in model.items():
        text = _plain(value)
        yield (
            shown(key),
            shown(text, 20_000) if len(text) <= _SHORT else details("Show", element("p", shown(text, 20_000))),
        )


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(item)}" for key, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(_plain, value)) or "none"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _schema(given: Certificate) -> Markup:
    rows = [
        [
            name(column.name, 60),
            text_cell(column.kind),
            text_cell([_values(column), _READ if column.name in given.schema.accepted else None]),
            text_cell("yes" if column.nullable else "no"),
        ]
        for column in given.schema.columns[:MOST_LISTED]
    ]
    head = ["column", "kind", "values", "may be missing"]
    return section(
        "schema",
        "Schema",
        element("p", _origin(given.schema)),
        table("The columns of the twin", head, rows, words=4),
        [element("h3", "Constraints"), listed(str(one).strip('"') for one in given.schema.constraints)]
        if given.schema.constraints
        else None,
    )


def _origin(schema: Schema) -> str:
    """Where what the schema says comes from."""
    but = ", or were read from the data where that is said" if schema.accepted else ""
    kinds = " Kinds, decimals and formats were guessed from the cells, and count as public." if schema.guessed else ""
    return f"Ranges and levels are declared as public, or were found from the privacy budget{but}.{kinds}"


def _values(column: Column) -> Content:
    if column.is_levelled:
        levels = [*column.levels, *([] if column.other is None else [column.other])]
        shown_ones = [[", " if n else "", name(level, 40)] for n, level in enumerate(levels[:_LEVELS])]
        return [*shown_ones, f" and {len(levels) - _LEVELS:,} more" if len(levels) > _LEVELS else ""]
    if column.is_ranged:
        special = [[", ", name(str(one), 40)] for one in (column.special or ())[:_LEVELS]]
        return [shown(f"{column.min} to {column.max}"), *special]
    if column.kind == "identifier":
        return "left out" if column.sample == "omit" else "made up anew"
    return "one value"


def _columns(given: Certificate) -> Markup:
    from twinify_lite.report.distributions import ROWS, SEED

    if given.distributions is None:
        return section("columns", "Synthetic distributions", element("p", f"None are shown. {given.why_none}"))
    drawn = given.distributions[:MOST_CHARTS]
    left = f" Drawn are the first {len(drawn)} of {len(given.distributions)} columns." * (
        len(drawn) < len(given.distributions)
    )
    text = f"Shares of cells among {ROWS:,} rows sampled from the twin with seed {SEED}.{left}"
    cards = [_card(one, number) for number, one in enumerate(drawn)]
    return section("columns", "Synthetic distributions", element("p", text), element("div", cards, class_="grid"))


def _card(one: Distribution, number: int) -> Markup:
    given = Bars(
        ident=f"column-{number}",
        title=f"{shown(one.name, 60)}: synthetic rows",
        kind=one.kind,
        labels=one.labels,
        counts=(one.counts,),
        names=("synthetic",),
        apart=one.apart,
    )
    return element(
        "div",
        element("h3", name(one.name, 60)),
        element("p", one.kind, class_="quiet"),
        element("figure", bars(given)),
        details("Counts", counts_table(given)),
        class_="card",
    )
