"""The command `twin`: each command reads its files, calls one function of the package, and writes what that returns.

Results go to stdout, notes and errors to stderr. No message contains a cell of a table. Whatever is heavy is imported
by the command that needs it, so that `twin --help` is quick.
"""

from __future__ import annotations

from typing import Any

import click

from twinify_lite import __version__
from twinify_lite.cli_base import (
    TRACEBACK,
    Commands,
    Failure,
    force_option,
    json_option,
    look_options,
    note,
    require_free,
    require_table,
    show_json,
    write,
)
from twinify_lite.cli_demo import demo
from twinify_lite.cli_explain import explain, plan
from twinify_lite.cli_fit import fit
from twinify_lite.cli_ledger import ledger
from twinify_lite.cli_models import check, new, templates
from twinify_lite.cli_report import report
from twinify_lite.cli_sample import sample
from twinify_lite.cli_score import score
from twinify_lite.cli_show import describe, verify

__all__ = ["TRACEBACK", "Commands", "Failure", "main"]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="twin")
def main() -> None:
    """Differentially private synthetic twins of tables.

    Begin with `twin demo`, or with a table of your own: twin fit data.csv --epsilon 1, then twin sample.
    """


@main.command()
@click.argument("data")
@click.option("-o", "--output", metavar="FILE", help="Write the schema to this file instead of stdout.")
@force_option
@click.option(
    "--peek", is_flag=True, help="Read ranges, levels and missing cells from the data. These lines are NOT private."
)
@json_option
@look_options
def schema(data: str, output: str | None, force: bool, peek: bool, as_json: bool, **look: Any) -> None:
    """Draft a schema for the table DATA.

    DATA is a CSV, Parquet or Feather file, or - for stdin. The draft says of which kind each column is, and leaves the
    rest open. Correct it, and add what is publicly known: all that it leaves open is paid for from the privacy budget
    later.
    """
    require_table(data, look["format"])
    if output is not None:
        require_free([output], force=force)

    from twinify_lite.schema.draft import draft
    from twinify_lite.schema.notes import notes
    from twinify_lite.table import read_table

    table = read_table(data, **look)
    drafted = draft(table, peek=peek)
    doubts = list(notes(table, drafted))
    if output is not None:
        drafted.save(output)
    if as_json:
        show_json({"file": output, "schema": drafted.to_toml(), "peeked": list(drafted.peeked), "notes": doubts})
    elif output is None:
        write(drafted.to_toml())
    if drafted.peeked:
        note("NOT PRIVATE: this schema contains values read from the data. Do not share it as it is.", fg="red")
        note("Each such line is marked. Delete it, or replace its values by ones from a code book.")
    for doubt in doubts:
        note(doubt)
    where = output or "the schema"
    note(f"Next: check every kind in {where}, and declare ranges and levels that are public; the rest may stay open.")


for command in (demo, fit, sample, score, ledger, describe, verify, report, explain, plan, templates, new, check):
    main.add_command(command)
