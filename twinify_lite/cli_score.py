"""`twin score`: how faithful synthetic rows are, read from the real ones, or under a budget of its own."""

from __future__ import annotations

import os
import sys
import warnings
from typing import TYPE_CHECKING, Any

import click

from twinify_lite.cli_base import (
    Failure,
    force_option,
    json_option,
    look_options,
    note,
    printable,
    quiet_option,
    require_free,
    require_page,
    require_table,
    shortened,
    show,
    show_json,
    warn_of_errors,
    write,
)
from twinify_lite.cli_fit import default_output, look_of
from twinify_lite.cli_ledger import note_charged
from twinify_lite.cli_progress import Progress

if TYPE_CHECKING:
    from twinify_lite.describing import Stated
    from twinify_lite.schema import Schema
    from twinify_lite.score.private import PrivateScore
    from twinify_lite.score.result import Score

_ONLY_PRIVATE = "Only a private score is paid for: pass --private EPSILON with {}."
_NOT_BOTH = "A private score has no {}: leave it out, or leave out --private, and keep the score in the house."


@click.command()
@click.argument("real")
@click.argument("synthetic")
@click.option("--holdout", metavar="FILE", help="Real rows that nothing was fitted to.  [default: half of REAL]")
@click.option("--target", metavar="COLUMN", help="Learn to predict it from synthetic rows, and test that on real ones.")
@click.option("--schema", metavar="FILE", help="Of which kind the columns are.  [default: guessed from REAL]")
@click.option("--report", metavar="FILE", help="Write a page for the browser, such as report.html.")
@click.option("--twin", metavar="FILE", help="For the page: the twin that SYNTHETIC is from, with its guarantee.")
@click.option(
    "--private", "epsilon", type=float, metavar="EPSILON", help="Fewer figures, under this budget; they may leave."
)
@click.option("--delta", type=float, help="Of --private.  [default: 1e-6]")
@click.option("--ledger", metavar="FILE", help="Of --private: the ledger of all releases of this table.")
@click.option(
    "--accept", metavar="COLUMN", multiple=True, help="Of --private: take as public what the schema read from it."
)
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Draws halves and samples.")
@force_option
@json_option
@quiet_option
@look_options
def score(
    real: str,
    synthetic: str,
    holdout: str | None,
    schema: str | None,
    report: str | None,
    twin: str | None,
    epsilon: float | None,
    delta: float | None,
    ledger: str | None,
    accept: tuple[str, ...],
    force: bool,
    as_json: bool,
    quiet: bool,
    target: str | None,
    seed: int,
    **look: Any,
) -> None:
    """Compare the table SYNTHETIC with the table REAL.

    Every figure stands between held-out real rows and independent columns. It is computed from the real rows, is not
    covered by epsilon, and must not leave the house; with --private it is, and may.
    """
    paid = {"ledger": ledger, "delta": delta, "accept": accept or None}
    _require_fitting(epsilon, paid, {"holdout": holdout, "report": report, "twin": twin})
    if twin is not None and report is None:
        raise click.UsageError("A twin is named for the page: pass --report FILE with --twin.")
    given = [path for path in (real, synthetic, holdout) if path is not None]
    _require_tables(given, look["format"])
    if report is not None:
        _require_page_room(report, [*given, schema, twin], force=force)
    stated = None if twin is None else _stated(twin)
    declared = _declared(schema)
    is_new = ledger is not None and not os.path.lexists(ledger)
    if epsilon is None:
        _warn(as_json=as_json)
    with Progress(quiet=quiet) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nobody has checked the words of other packages for cells
        progress("reading")
        tables = _tables(given, declared, look)
        if epsilon is not None:
            budget = {"epsilon": epsilon, "delta": 1e-6 if delta is None else delta, "ledger": ledger}
            found = _private(tables, **budget, target=target, schema=declared, accept=accept)
        else:
            found = _open(tables, holdout, target=target, schema=declared, seed=seed, progress=progress)
    if not as_json:
        _show(found, quiet=quiet)
    if report is not None:
        found.report(report, twin=stated)
        if not quiet:
            _note_page(report, twin, real)
    if as_json:
        show_json(found.to_json())
    if ledger is not None and not quiet:
        note_charged(ledger, is_new=is_new)


def _require_fitting(epsilon: float | None, paid: dict[str, Any], free: dict[str, Any]) -> None:
    """Refuse options that belong to the other kind of score."""
    for name, value in (paid if epsilon is None else free).items():
        if value is not None:
            message = _ONLY_PRIVATE if epsilon is None else _NOT_BOTH
            raise click.UsageError(message.format(f"--{name}"))


def _require_page_room(report: str, others: list[str | None], *, force: bool) -> None:
    """Refuse a page that cannot be written, or in the place of what it is made from, however that is named."""
    require_free([report], force=force, option="--report")
    there = [path for path in others if path is not None and os.path.exists(path)]
    if os.path.exists(report) and any(os.path.samefile(report, path) for path in there):
        raise Failure(f"{report} is one of the files that are read. Choose another name for the page with --report.")
    require_page(report, "--report")


def _stated(path: str) -> Stated:
    """What a twin says of itself; one that cannot stand on a page is refused before a score takes its time."""
    from twinify_lite.describing import stated_in

    return stated_in(path)


def _require_tables(paths: list[str], format: str | None) -> None:
    if paths.count("-") > 1:
        raise click.UsageError("Only one table can come from stdin.")
    for path in paths:
        require_table(path, format)


def _declared(schema: str | None) -> Schema | None:
    from twinify_lite.request import declared_in

    return declared_in(schema)


def _tables(paths: list[str], declared: Schema | None, look: dict[str, Any]) -> list[Any]:
    from twinify_lite.table import read_table

    return [read_table(path, **look_of(look, declared)) for path in paths]


def _open(tables: list[Any], holdout: str | None, **options: Any) -> Score:
    from twinify_lite.score import score as compare

    return compare(*tables[:2], holdout=None if holdout is None else tables[2], **options)


def _private(tables: list[Any], **options: Any) -> PrivateScore:
    from twinify_lite.score.private import private_score

    return private_score(*tables, **options)


def _note_page(report: str, twin: str | None, real: str) -> None:
    if twin is not None:
        note(f"The page is {report}, with the guarantee of {twin}.")
        return
    beside = "FILE" if real == "-" or not os.path.exists(default_output(real)) else default_output(real)
    note(
        f"The page is {report}. Name the twin that the rows are from, and its guarantee is on it, too: --twin {beside}"
    )


def _warn(*, as_json: bool) -> None:
    """Begin with the warning, before all progress; what is refused once the real rows are read begins with it, too."""
    from twinify_lite.score import WARNING

    warn_of_errors(WARNING)
    if not as_json:
        _show_red(WARNING)


def _show_red(line: str) -> None:
    """In red where people see it; nothing steers a file."""
    write(click.style(printable(line), fg="red", bold=True) + "\n") if sys.stdout.isatty() else show(line)


def _show(found: Score | PrivateScore, *, quiet: bool) -> None:
    """What comes after the first line of a score that is not private, which stands there already."""
    lines = str(found).split("\n")
    is_open = hasattr(found, "warning")
    if is_open:
        lines = lines[1:]
    for line in lines:
        is_red = line.startswith(("LOOKS COPIED", "NOT "))
        _show_red(line) if is_red else show(shortened(line))
    if not quiet and is_open:
        note("To show something outside: twin score ... --private EPSILON, or twin report of the twin.")
