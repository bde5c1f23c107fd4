"""What the user should know of a discovery: what was not found, and what to declare. It names columns, never values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from twinify_lite.discover.bounds import bounds
from twinify_lite.discover.findings import Look
from twinify_lite.schema import Column
from twinify_lite.schema.constraints import Constraint

#: The level of all values that are too rare to be found.
OTHER = "other"


def notes(looks: Sequence[Look], columns: Sequence[Column], dropped: Sequence[Constraint]) -> list[str]:
    """One sentence or two for each thing that the user may want to change."""
    pairs = list(zip(looks, columns, strict=True))
    lost = [look for look, column in pairs if not column.is_modelled]
    empty = [look.column.name for look in lost if look.missing]
    unfound = [look.column.name for look in lost if not look.missing]
    others = [column.name for look, column in pairs if column.other == OTHER != look.column.other]
    narrow = [look.column.name for look, column in pairs if column.is_ranged and bounds(look).is_narrow]
    said = [
        (empty, "Left out, because nothing but missing cells was found in them; declare `levels`, or `min` and `max`"),
        (
            unfound,
            "Left out, because no value or range in them is frequent enough to be found with this budget and number of "
            "rows. Declare `levels`, or `min` and `max`, or a date's `format`; where every row has a value of its own, "
            '`kind = "identifier"`, with `sample = "surrogate"` to have values made up; or raise epsilon',
        ),
        (narrow, "Only one number was frequent enough to be found in them; declare `min` and `max` to keep the others"),
        (others, f"With a level {OTHER!r} for values too rare to be found; declare `levels` to keep them"),
    ]
    listed = [f"{reason} ({len(names)}): {_names(names)}." for names, reason in said if names]
    ignored = [f"Ignored, because it does not fit what was found: {constraint}." for constraint in dropped]
    if len(lost) == len(columns) and columns:
        listed.insert(0, "No open column could be discovered. The table is small for this epsilon.")
    return [*listed, *ignored]


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
