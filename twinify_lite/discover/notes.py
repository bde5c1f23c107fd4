"""What the user should know of a discovery: what was not found, and what to declare. It names columns, never values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from twinify_lite.cells import decimals_of
from twinify_lite.discover.bounds import bounds
from twinify_lite.discover.findings import Look
from twinify_lite.schema import Column, Schema
from twinify_lite.schema.constraints import Constraint

#: The level of all values that are too rare to be found.
OTHER = "other"


def notes(looks: Sequence[Look], columns: Sequence[Column], dropped: Sequence[Constraint]) -> list[str]:
    """One sentence or two for each thing that the user may want to change."""
    pairs = list(zip(looks, columns, strict=True))
    lost = [look for look, column in pairs if column.kind == "identifier"]
    nothing = [look.column.name for look, column in pairs if column.kind == "constant"]
    empty = [look.column.name for look in lost if look.missing]
    unfound = [look.column.name for look in lost if not look.missing]
    bare = [look for look, column in pairs if column.levels == () != look.column.levels]
    guessed = [look for look, column in pairs if look.is_guessed and column.is_ranged]
    hidden = [look for look in (*lost, *bare, *guessed) if not look.missing]
    others = [column.name for look, column in pairs if column.other == OTHER != look.column.other and column.levels]
    narrow = [look for look, column in pairs if column.is_ranged and bounds(look).is_narrow]
    single = [look.column.name for look in narrow if look.range is None]
    beyond = [look.column.name for look in narrow if look.range is not None]
    said = [
        (
            "Left out",
            empty,
            "In them missing cells were found, but no level or range: declare `levels`, or `min` and `max`.",
        ),
        (
            "Missing in every row",
            nothing,
            "Nothing but missing cells was found in them; if there are others, declare `levels`, or `min` and `max`.",
        ),
        (
            "Left out",
            unfound,
            "No value or range in them is frequent enough to be found with this budget and number of rows. Declare "
            "`levels`, or `min` and `max`, or a date's `format`; where every row has a value of its own, "
            '`kind = "identifier"`, with `sample = "surrogate"` to have values made up; or raise epsilon.',
        ),
        (
            "Without levels",
            [look.column.name for look in bare],
            f"None is frequent enough to be found with this budget and number of rows: every cell is {OTHER!r}, or "
            "what the schema calls it. Declare `levels`, which costs nothing.",
        ),
        (
            "Guessed ranges",
            [look.column.name for look in guessed],
            "Too few numbers are in them to be found with this budget and number of rows, and the ranges may be wrong "
            "by far. Declare `min` and `max`, which costs nothing.",
        ),
        ("Only single values found", single, "If there are others, declare `min` and `max` to keep them."),
        ("The declared `min` or `max` lies beyond all that was found", beyond, "Correct it, or declare both."),
        (
            f"With a level {OTHER!r}",
            others,
            "For values too rare to be found: declare `levels` to keep them.",
        ),
    ]
    listed = [f"{head} ({len(names)}): {_names(names)}. {rest}" for head, names, rest in said if names]
    listed += _never_missing(pairs)
    if len(hidden) == len(columns):
        listed.insert(0, "No open column could be discovered. The table is small for this epsilon.")
    return [*listed, *ignored_constraints(dropped)]


def ignored_constraints(dropped: Iterable[Constraint]) -> list[str]:
    """The constraints that make no sense with what was found."""
    return [f"Ignored, because it does not fit what was found: {constraint}." for constraint in dropped]


def hidden_kinds(schema: Schema, hidden: Mapping[str, bool]) -> list[str]:
    """The columns of which noise hides what their cells look like, wholly or almost."""
    names = [name for name, is_whole in hidden.items() if is_whole]
    texts = [name for name in names if schema[name].is_levelled]
    others = [name for name in names if name not in texts]
    unsure = [name for name in hidden if name not in names]
    said = (
        ("Kinds that may be wrong", unsure, "Noise all but hides them. Declare `kind`, which costs nothing."),
        ("Kinds hidden by noise", texts, "Their texts are taken as they are. Declare `kind`, which costs nothing."),
        ("Precision hidden by noise", others, "Declare `decimals`, or `resolution`, which costs nothing."),
    )
    return [f"{head} ({len(names)}): {_names(names)}. {rest}" for head, names, rest in said if names]


def unrounded(schema: Schema) -> list[str]:
    """Numbers that the schema gives a range and no decimals, which are not guessed: what is declared stays as it is."""
    names = [
        column.name
        for column in schema.modelled
        if column.kind == "number" and (column.min, column.max) != (None, None) and decimals_of(column) is None
    ]
    if not names:
        return []
    return [f"With all their digits ({len(names)}): {_names(names)}. Declare `decimals` to have these numbers rounded."]


def _never_missing(pairs: Sequence[tuple[Look, Column]]) -> list[str]:
    """The columns in which missing cells were looked for and not found."""
    open_columns = [column for look, column in pairs if look.column.nullable is None and column.is_modelled]
    names = [column.name for column in open_columns if not column.nullable]
    if not names:
        return []
    some = f"({len(names)}): {_names(names)}."
    whose = f"(all {len(names)} columns that do not declare `nullable`)."
    return [
        f"Never missing {whose if 1 < len(names) == len(open_columns) else some} No missing cells were found in them, "
        "and if there are a few, they are lost. Declare `nullable = true` to keep them."
    ]


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))
