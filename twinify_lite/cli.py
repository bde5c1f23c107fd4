"""The command `twin`: each command reads its files, calls one function of the package, and writes what that returns.

Results go to stdout, notes and errors to stderr. No message contains a cell of a table. Whatever is heavy is imported
by the command that needs it, so that `twin --help` is quick.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from typing import Any

import click

from twinify_lite import __version__
from twinify_lite.errors import TwinError

#: Set to anything, this shows the whole of an unexpected error, which may contain cells of the table.
TRACEBACK = "TWIN_TRACEBACK"


class Failure(click.ClickException):
    """`Error: ...` on stderr, and the exit code of the error."""

    def __init__(self, message: str, exit_code: int = 1):
        super().__init__(message)
        self.exit_code = exit_code


class Commands(click.Group):
    """Commands whose errors are sentences, not tracebacks."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. What it raises leaves with a message that was written for people, or without its own."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except TwinError as error:
            failure = Failure(str(error), error.exit_code)
        except KeyboardInterrupt:
            failure = Failure("Interrupted.", 130)
        except Exception as error:
            if os.environ.get(TRACEBACK) or getattr(error, "errno", None) == errno.EPIPE:  # click ends quietly on EPIPE
                raise
            failure = Failure(_unexpected(error))
        # Raised out here, so that it has no __context__.
        raise failure


def _unexpected(error: Exception) -> str:
    """What may be said of an error that nobody foresaw: its own words may quote a cell."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"This should not have happened: {type(error).__name__} at {os.path.basename(where.filename)}:{where.lineno}. "
        f"Its message is not shown, as it could contain cells of the table; set {TRACEBACK}=1 to see it."
    )


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="twin")
def main() -> None:
    """Differentially private synthetic twins of tables."""


@main.command()
@click.argument("data")
@click.option("-o", "--output", metavar="FILE", help="Write the schema to this file instead of stdout.")
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@click.option(
    "--peek", is_flag=True, help="Read ranges, levels and missing cells from the data. These lines are NOT private."
)
@click.option(
    "--format",
    type=click.Choice(["csv", "tsv", "parquet", "feather"]),
    help="Of the table.  [default: by its name or first bytes]",
)
@click.option("--separator", metavar="MARK", help="What separates the cells of a CSV file.  [default: guessed]")
@click.option("--decimal", type=click.Choice([".", ","]), default=".", show_default=True, help="The decimal mark.")
@click.option(
    "--encoding",
    type=click.Choice(["utf-8", "latin-1", "cp1252"]),
    default="utf-8",
    show_default=True,
    help="Of a CSV file.",
)
def schema(data: str, output: str | None, force: bool, peek: bool, **look: Any) -> None:
    """Draft a schema for the table DATA: a CSV, Parquet or Feather file, or - for stdin.

    The draft says of which kind each column is, and leaves the rest open. Correct it, and add what is publicly known:
    all that it leaves open is paid for from the privacy budget later.
    """
    if output is not None and os.path.lexists(output) and not force:
        raise Failure(f"{output} is there already. Choose another name, or replace it with --force.")

    from twinify_lite.schema.draft import draft
    from twinify_lite.schema.notes import notes
    from twinify_lite.table import read_table

    table = read_table(data, **look)
    drafted = draft(table, peek=peek)
    if output is None:
        _write(drafted.to_toml())
    else:
        drafted.save(output)
    if drafted.peeked:
        _note("NOT PRIVATE: this schema contains values read from the data. Do not share it as it is.", fg="red")
        _note("Each such line is marked. Delete it, or replace its values by ones from a code book.")
    for note in notes(table, drafted):
        _note(note)
    where = output or "the schema"
    _note(f"Next: check every kind in {where}, and declare ranges and levels that are public; the rest may stay open.")


def _write(text: str) -> None:
    # Bytes, so that the schema is UTF-8 whatever the terminal speaks; flushed, so that a closed pipe shows here.
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()


def _note(text: str, **style: Any) -> None:
    click.secho(text, err=True, **style)
