"""What the commands of `twin` share: how errors end, how things are said, and the options that several have.

Results go to stdout, notes, progress and errors to stderr; with `--json` a result or an error is one JSON document on
stdout. No message contains a cell of a table, and none can steer a terminal.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import re
import stat
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click

from twinify_lite.errors import TwinError
from twinify_lite.stopping import words

#: Set to anything, this shows the whole of an unexpected error, which may contain cells of the table.
TRACEBACK = "TWIN_TRACEBACK"
_JSON, _WARNING = "twinify_lite.json", "twinify_lite.warning"
_NO_MEMORY = "Memory ran out. Close other programs, use a machine with more memory, or work with fewer rows or columns."
# A name as `repr` quotes it; and how many of a list are shown on the way.
_QUOTED, _NAMES = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", 12


class Failure(click.ClickException):
    """`Error: ...` on stderr, or with `--json` an object on stdout, and the exit code of the error."""

    as_json = False
    warning: str | None = None

    def __init__(self, message: str, exit_code: int = 1, *, kind: str = "TwinError"):
        super().__init__(printable(message))
        self.exit_code, self.kind = exit_code, kind

    def show(self, file: Any = None) -> None:
        """Tell the user."""
        if self.as_json:
            problem = {"type": self.kind, "message": self.message, "exit_code": self.exit_code}
            warned = {} if self.warning is None else {"warning": self.warning}
            write(json.dumps({**warned, "error": problem}) + "\n")
        else:
            if self.warning is not None:
                note(self.warning, fg="red")
            super().show(file)


class Commands(click.Group):
    """Commands whose errors are sentences, not tracebacks."""

    def make_context(self, *names: Any, **settings: Any) -> click.Context:
        """Read the arguments. Ctrl-C and SIGTERM end this as they end a command."""
        try:
            return super().make_context(*names, **settings)
        except KeyboardInterrupt as stop:
            raise _stopped(stop) from None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Look for --json first: what is wrong with the other arguments is told in JSON too."""
        ctx.meta[_JSON] = "--json" in (args[: args.index("--")] if "--" in args else args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. What it raises leaves with a message that was written for people, or without its own."""
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # XLA writes to stderr on its own account
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.Abort):
            raise
        except click.ClickException as error:
            if not ctx.meta[_JSON]:
                raise
            kind = error.kind if isinstance(error, Failure) else type(error).__name__
            failure = Failure(error.format_message(), error.exit_code, kind=kind)
        except TwinError as error:
            failure = Failure(_with_spent(str(error), error), error.exit_code, kind=type(error).__name__)
        except KeyboardInterrupt as stop:
            failure = _stopped(stop)
        except MemoryError as error:
            failure = Failure(_with_spent(_NO_MEMORY, error), kind="MemoryError")
        except Exception as error:
            if os.environ.get(TRACEBACK) or getattr(error, "errno", None) == errno.EPIPE:  # click ends quietly on EPIPE
                raise
            failure = Failure(_with_spent(_unexpected(error), error), kind="Unexpected")
        failure.as_json, failure.warning = ctx.meta[_JSON], ctx.meta.get(_WARNING)
        # Raised out here, so that it has no __context__.
        raise failure


def _stopped(stop: KeyboardInterrupt) -> Failure:
    said, code = words(stop)
    return Failure(_with_spent(said, stop), code, kind=said.rstrip("."))


def _unexpected(error: Exception) -> str:
    """What may be said of an error that nobody foresaw: its own words may quote a cell."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"This should not have happened: {type(error).__name__} at {os.path.basename(where.filename)}:{where.lineno}. "
        f"Its message is not shown, as it could contain cells of the table; set {TRACEBACK}=1 to see it."
    )


def _with_spent(message: str, error: BaseException) -> str:
    """The message, and what of the privacy budget is gone nevertheless."""
    spent = getattr(error, "spent", None)
    return f"{message}\n{spent}" if spent else message


def warn_of_errors(warning: str) -> None:
    """Have every error of this command begin with a warning from now on."""
    click.get_current_context().meta[_WARNING] = warning


# -- saying ------------------------------------------------------------------------------------------------------------


def printable(text: str) -> str:
    """`text` with every character that does not show, or could steer a terminal, as its escape; lines stay lines."""
    return "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text)


def shortened(text: str) -> str:
    """`text` with only the first names of a long list of quoted ones, and how many more there are.

    >>> shortened("Left out (14): " + ", ".join(map(repr, "abcdefghijklmn")) + ".")
    "Left out (14): 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l' and 2 more."
    """

    def cut(match: re.Match[str]) -> str:
        names = re.findall(_QUOTED, match[0])
        return f"{', '.join(names[:_NAMES])} and {len(names) - _NAMES} more"

    return re.sub(f"{_QUOTED}(?:, {_QUOTED}){{{_NAMES},}}", cut, text)


def note(text: str, **style: Any) -> None:
    """Say something beside the result."""
    click.secho(printable(text), err=True, **style)


def warn_not_private(why: str | None) -> None:
    """Say in red that there is no guarantee."""
    note(f"NOT PRIVATE: {why or 'there is no guarantee'}. Do not release this as a private twin.", fg="red")


def warn_uncovered(statement: Mapping[str, Any]) -> None:
    """Say in red what was accepted without noise, if anything was."""
    from twinify_lite.statement import uncovered

    warning = uncovered(statement)
    if warning is not None:
        note(warning, fg="red")


def show(text: str) -> None:
    """Print a result for people."""
    write(printable(text) + "\n")


def show_json(value: Any) -> None:
    """Print a result for machines."""
    write(json.dumps(value, indent=2) + "\n")


def write(text: str) -> None:
    """Print to stdout."""
    # Bytes, so that it is UTF-8 whatever the terminal speaks; flushed, so that a closed pipe shows here.
    sys.stdout.buffer.write(text.encode(errors="backslashreplace"))
    sys.stdout.buffer.flush()


# -- files -------------------------------------------------------------------------------------------------------------


def require_table(data: str, format: str | None = None) -> None:
    """Refuse a file that is not there or is no table by its first bytes; the rest is read later, as is a pipe."""
    from twinify_lite.table.formats import source_format
    from twinify_lite.table.guard import guarded
    from twinify_lite.table.origin import open_origin

    if data == "-" or stat.S_ISFIFO(os.stat(data).st_mode if os.path.exists(data) else 0):
        return
    with open_origin(data) as origin:
        first = guarded(origin.first_bytes, f"{origin.name} cannot be read.")
        source_format(origin.name, first, format)


def require_free(paths: Iterable[str], *, force: bool, option: str = "-o") -> None:
    """Refuse files that are there already, unless `force`, and folders that are not, before anything is done."""
    paths = list(paths)
    there = [path for path in paths if os.path.lexists(path)]
    if there and not force:
        what = "is there already. Choose another name" if len(there) == 1 else "are there already. Choose other names"
        raise Failure(f"{', '.join(there)} {what}, or replace with --force.")
    for folder in dict.fromkeys(os.path.dirname(os.path.realpath(path)) for path in paths):
        if not os.path.isdir(folder):
            raise Failure(f"There is no folder {folder}. Make it first, or choose another name with {option}.")
        if not os.access(folder, os.W_OK):
            raise Failure(f"You may not write to the folder {folder}. Choose another name with {option}.")


def require_page(path: str, option: str) -> None:
    """Refuse a name that no browser takes for a page."""
    if not path.lower().endswith((".html", ".htm")):
        raise Failure(f"{path} is no name of a page. Name it with {option}, such as report.html.")


# -- options -----------------------------------------------------------------------------------------------------------


def options(*decorators: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Several options as one decorator, shown in this order."""
    return lambda command: functools.reduce(lambda made, add: add(made), reversed(decorators), command)


class Setting(click.ParamType):
    """NAME=VALUE, where the value is a number, true, false or text."""

    name = "setting"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        """A pair of the name and its value."""
        name, mark, text = str(value).partition("=")
        if not (name.strip() and mark and text.strip()):
            self.fail("write it as NAME=VALUE, such as steps=2000.", param, ctx)
        with contextlib.suppress(ValueError):
            return name.strip(), json.loads(text)
        return name.strip(), text.strip()


#: How a table is read: the keyword arguments of `read_table`.
look_options = options(
    click.option(
        "--format",
        type=click.Choice(["csv", "tsv", "parquet", "feather"]),
        help="Of the table.  [default: by its name or first bytes]",
    ),
    click.option("--separator", metavar="MARK", help="What separates the cells of a CSV file.  [default: guessed]"),
    click.option("--decimal", type=click.Choice([".", ","]), default=".", show_default=True, help="The decimal mark."),
    click.option(
        "--encoding",
        type=click.Choice(["utf-8", "latin-1", "cp1252"]),
        default="utf-8",
        show_default=True,
        help="Of a CSV file.",
    ),
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the result, or the error, as JSON on stdout.")
quiet_option = click.option("--quiet", is_flag=True, help="No progress and no notes; warnings only.")
settings_option = click.option(
    "--set", "settings", metavar="NAME=VALUE", type=Setting(), multiple=True, help="Override NAME of the plan or model."
)
force_option = click.option("--force", is_flag=True, help="Replace the file if it is there.")
