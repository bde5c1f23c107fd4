"""`twin report`: the release certificate of a twin, as a page and as JSON. It is as public as the twin."""

from __future__ import annotations

import os

import click

from twinify_lite.cli_base import (
    force_option,
    json_option,
    note,
    quiet_option,
    require_free,
    require_page,
    show_json,
    warn_uncovered,
)
from twinify_lite.cli_sample import newest_twin


@click.command()
@click.argument("twin", required=False)
@click.option("-o", "--output", metavar="FILE", help="The page.  [default: TWIN's name with .report.html]")
@click.option("--policy", metavar="FILE", help="Refuse a twin that does not keep to this policy.toml.")
@click.option("--model", metavar="FILE", help="The file of a twin's own model; it must be the one that was fitted.")
@click.option("--trust-model", is_flag=True, help="Run the model code inside the twin. Only for a twin that you trust.")
@force_option
@json_option
@quiet_option
def report(
    twin: str | None,
    output: str | None,
    policy: str | None,
    model: str | None,
    trust_model: bool,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Certify TWIN for its release: a page, and beside it the same as JSON.

    The twin is verified first, as by `twin verify`, and refused if its statement does not hold or it is not private.
    The page tells what was recomputed, where the budget went, what that means for one person, and how synthetic rows
    are distributed. What it has from real rows was paid for, or is listed as public, so it may be published as the twin
    may be.
    """
    source = twin or newest_twin(quiet=quiet)
    stem = os.path.splitext(source)[0] if source.endswith(".twin") else source
    page, data = _names(output or f"{stem}.report.html")
    require_free([page, data], force=force)

    from twinify_lite.report import certificate

    certified = certificate(source, model=model, trust_model=trust_model, policy=policy)
    certified.save(page)
    warn_uncovered(certified.statement)
    if certified.why_none is not None:
        note(f"Without distributions of synthetic rows. {certified.why_none}")
    if as_json:
        show_json(certified.to_json())
    elif not quiet:
        note(f"Certified {source}: {page} and {data}.")


def _names(page: str) -> tuple[str, str]:
    from twinify_lite.report.certifying import names

    require_page(page, "-o")
    return names(page)
