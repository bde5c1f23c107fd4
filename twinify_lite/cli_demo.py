"""`twin demo`: a made-up hospital, its twin, and the two side by side."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any

import click

from twinify_lite.cli_base import (
    Failure,
    force_option,
    json_option,
    note,
    quiet_option,
    require_free,
    show,
    show_json,
    warn_not_private,
)
from twinify_lite.cli_fit import short_lines
from twinify_lite.cli_progress import Progress

if TYPE_CHECKING:
    from twinify_lite.twin import Twin

SAMPLED = 10_000
TARGET = "readmitted"
DELTA = 1e-6


@click.command()
@click.option("--folder", default="twin-demo", show_default=True, help="Where its files go.")
@click.option("--rows", type=click.IntRange(min=100), help="How many people to make up.  [default: 20000]")
@click.option("--epsilon", type=float, default=1.0, show_default=True, help="The privacy budget.")
@click.option("--seed", type=int, help="For tests: the same twin every time, which is NOT PRIVATE.")
@force_option
@json_option
@quiet_option
def demo(
    folder: str, rows: int | None, epsilon: float, seed: int | None, force: bool, as_json: bool, quiet: bool
) -> None:
    """Make up a hospital, and a twin of it.

    Writes the made-up table, fits a private twin, samples 10,000 rows, scores them, writes a page about it, and shows
    both tables side by side. Takes a minute or two.
    """
    names = ("hospital.csv", "schema.toml", "hospital.twin", "synthetic.csv", "report.html")
    files = [os.path.join(folder, name) for name in names]
    data, schema, target, synthetic, page = files
    _require_budget(epsilon, seed)
    _make(folder)
    require_free(files, force=force)
    with Progress(quiet=quiet) as progress:
        progress("compiling")
        twin = _fitted(rows, data, schema, epsilon=epsilon, seed=seed, progress=progress)
    import pandas as pd

    from twinify_lite.demo import compare
    from twinify_lite.table import write_table

    twin.save(target)
    write_table(twin.batches(SAMPLED), synthetic)
    figures = _scored(data, synthetic, schema, page, twin, quiet=quiet)
    if not twin.is_private:
        warn_not_private(twin.statement.get("why_not"))
    if as_json:
        show_json({"files": files, "rows": twin.rows, "statement": twin.statement, "figures": figures})
        return
    # Both from their files, as anybody would look at them.
    show(compare(pd.read_csv(data), pd.read_csv(synthetic)))
    show("\nThese people do not exist. With real data, only the right column could be shown.\n")
    show("\n".join(short_lines(twin.statement)))
    show(f"\nIn {folder}: {', '.join(names)}.")
    if not quiet:
        note(f"Next: open {page} in a browser; twin explain {target}; twin fit YOUR.csv --epsilon 1")


def _fitted(rows: int | None, data: str, schema: str, *, epsilon: float, seed: int | None, progress: Progress) -> Twin:
    """Write the made-up table and its schema, and fit a twin of them."""
    from twinify_lite.demo import ROWS, SCHEMA, hospital
    from twinify_lite.schema import Schema
    from twinify_lite.table import replacing, write_table
    from twinify_lite.twin import fit

    write_table(hospital(rows or ROWS), data)
    with replacing(schema) as file:
        file.write(SCHEMA.encode())
    declared = Schema.from_toml(SCHEMA)
    return fit(data, epsilon=epsilon, delta=DELTA, schema=declared, insecure_seed=seed, progress=progress)


def _scored(data: str, synthetic: str, schema: str, page: str, twin: Twin, *, quiet: bool) -> dict[str, Any]:
    """Score the rows as anybody would, write the page, and tell the figures that matter most."""
    from twinify_lite.score import score

    with Progress(quiet=quiet) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of packages that the score uses
        found = score(data, synthetic, target=TARGET, schema=schema, progress=progress)
    found.report(page, twin=twin)
    return {key: found.figure(key).whole for key in ("tvd_1way", "tvd_2way", "tvd_3way", "quality", "auc")}


def _require_budget(epsilon: float, seed: int | None) -> None:
    """Say what is wrong with the arguments before a folder is made."""
    from twinify_lite.request import Request

    Request(epsilon=epsilon, delta=DELTA, model=None, relation="add-remove", target=None, options=None, seed=seed)


def _make(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise Failure(
            f"The folder {folder} cannot be made: {os.strerror(error.errno or 0)}. Choose one: --folder."
        ) from None
