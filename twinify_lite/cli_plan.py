"""The plan of a fit in lines for people: what can be set, what follows, and the noise that it leads to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

SUPPOSED, DOUBTS, _NOISE = "rows (supposed)", "doubts", "noise of "
_SPENT = ("epsilon", "delta")
# Settings that have a flag of their own, or follow from the others and the schema.
_FOLLOWING = ("model", "target", "columns", "choice", "pairs", "noise_multiplier", "clearness")


def plan_lines(plan: Mapping[str, Any]) -> list[str]:
    """What `dry_run` returns, in groups, numbers to four digits; without its doubts, which are no part of the plan."""
    noise = {name.removeprefix(_NOISE): value for name, value in plan.items() if name.startswith(_NOISE) and value}
    following = {name: plan[name] for name in _FOLLOWING if plan.get(name) is not None}
    known = {"rows", SUPPOSED, DOUBTS, *_SPENT, *_FOLLOWING}
    rows = f"For {plan.get(SUPPOSED)} rows, which are supposed: --set rows=N supposes others, in a dry run."
    others = {name: value for name, value in plan.items() if name not in known and not name.startswith(_NOISE)}
    groups = {
        "Set by rules; override with --set NAME=VALUE:": others,
        "Following from these, --model, --target and the schema:": following,
        "Noise of each release, beside the 1 that a whole row adds:": noise,
        "Spent in all, at most:": {name: plan[name] for name in _SPENT if name in plan},
    }
    width = max((len(name) for group in groups.values() for name in group), default=0)
    lines = [line for title, group in groups.items() if group for line in _group(title, group, width)]
    return [rows, *lines] if SUPPOSED in plan else lines


def _group(title: str, group: Mapping[str, Any], width: int) -> Iterator[str]:
    yield title
    for name, value in group.items():
        yield f"  {name:<{width}}  {value:.4g}" if isinstance(value, float) else f"  {name:<{width}}  {value}"
