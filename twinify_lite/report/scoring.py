"""The page of a score: for those who may see the real rows. It computes nothing from rows."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import TYPE_CHECKING

from twinify_lite.report.columns import cells_section, columns_section, pairs_section
from twinify_lite.report.figures import all_figures, in_short
from twinify_lite.report.guarantee import guarantee_line, not_private, risk_section, statement_section
from twinify_lite.report.markup import Content, Markup, element, name
from twinify_lite.report.page import Page, render
from twinify_lite.report.parts import facts, listed, section
from twinify_lite.statement import uncovered

if TYPE_CHECKING:
    from twinify_lite.score.result import Score
    from twinify_lite.twin import Twin

_WITHOUT = "Nothing is said here of privacy, as it is not known which twin these rows are from. Add it: --twin FILE."
_CLAIMED = (
    "This is the guarantee of the twin that was named for these rows. That they are from it is the claim of whoever "
    "made this page: rows carry no mark of where they are from."
)
_DEFINED = (
    "A distance is the total variation distance of two tables of shares: half the sum of their absolute differences, "
    "from 0 (equal) to 1 (disjoint). Columns are cut into bins from the real rows. The shades of distances and shares "
    "change at 1, 2, 5, 10, 20 and 40 %. Small distances are not a proof of privacy, nor is any other figure computed "
    "from rows."
)


def score_page(score: Score, twin: Twin | None = None) -> str:
    """One self-contained HTML page of a score, with the guarantee and the risk of the `twin` that its rows are from.

    It holds counts of bins and figures, never rows; as they are of the real rows, it begins with the score's warning.
    """
    told = [] if twin is None else [not_private(twin.statement), uncovered(twin.statement)]
    warnings = [score.warning, score.alarm, *told]
    heading = "How faithful the synthetic rows are"
    columns = f"{len(score.columns)} column{'s' * (len(score.columns) != 1)}"
    lead: Content = [f"{score.rows['synthetic']:,} synthetic rows, {columns}. ", *_target(score)]
    page = Page(
        title=f"{score.warning} {heading}",
        heading=heading,
        lead=[lead, None if twin is None else f"The twin that was named for them: {guarantee_line(twin.statement)}"],
        sections=dict(_sections(score, twin)),
        footer=_footer(score),
        warnings=tuple(warning for warning in warnings if warning),
        is_secret=True,
    )
    return render(page)


def _target(score: Score) -> list[Content]:
    return [] if score.target is None else ["To be predicted: ", name(score.target, 60), ". "]


def _sections(score: Score, twin: Twin | None) -> Iterator[tuple[str, tuple[str, Markup]]]:
    made = [
        ("short", "In short", in_short(score)),
        ("figures", "All figures", all_figures(score)),
        ("columns", "Columns", columns_section(score)),
        ("pairs", "Pairs of columns", pairs_section(score)),
        ("cells", "Worst cells", cells_section(score)),
        *_privacy(twin),
        ("notes", "Notes", section("notes", "Notes", listed(score.notes)) if score.notes else None),
    ]
    yield from ((ident, (heading, part)) for ident, heading, part in made if part is not None)


def _privacy(twin: Twin | None) -> list[tuple[str, str, Markup]]:
    if twin is None:
        return [("privacy", "Privacy", section("privacy", "Privacy", element("p", _WITHOUT)))]
    from twinify_lite.risk import risk

    statement = ("privacy", "Privacy statement", statement_section(twin.statement, twin.notes, before=_CLAIMED))
    return [statement, ("risk", "Risk for one person", risk_section(risk(twin.statement)))]


def _footer(score: Score) -> list[Markup]:
    versions = ", ".join(f"{package} {version}" for package, version in score.versions.items())
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    return [element("p", _DEFINED), facts({"made": today, "versions": versions})]
