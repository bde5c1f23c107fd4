"""`twin fit`: one table, one budget, one twin."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from twinify_lite.cli_base import (
    Failure,
    force_option,
    json_option,
    look_options,
    note,
    quiet_option,
    require_free,
    require_table,
    settings_option,
    shortened,
    show,
    show_json,
    warn_not_private,
)
from twinify_lite.cli_ledger import ledger_option, note_charged, policy_option
from twinify_lite.cli_plan import DOUBTS, SUPPOSED, plan_lines
from twinify_lite.cli_progress import Progress
from twinify_lite.errors import BookRefused, TwinError
from twinify_lite.locking import held

if TYPE_CHECKING:
    from twinify_lite.schema import Schema
    from twinify_lite.twin import Twin

_NO_EPSILON = (
    "Say how much privacy may be spent: --epsilon 1 is a common choice, less is more private. There is no default, as "
    "only the owner of the data can decide it."
)
_FEWEST = 100  # rows that are worth a look, however few the noisy count tells
_LONG = 60  # letters, above which an item does not go into three lines
_SEEDED = "rows and noise come from --seed, so anyone can subtract the noise"


def _epsilon(ctx: click.Context, _param: click.Parameter, value: float | None) -> float:
    if value is None:
        raise click.UsageError(_NO_EPSILON, ctx)
    return value


@click.command()
@click.argument("data")
@click.option("--epsilon", type=float, callback=_epsilon, help="The privacy budget.  [required]")
@click.option("--delta", type=float, default=1e-6, show_default=True, help="Well below one over the number of rows.")
@click.option(
    "--model",
    help="auto, a template's name (`twin templates`) or a .py file.  [default: the schema's distributions, or auto]",
)
@click.option("--schema", metavar="FILE", help="What is public of the table.  [default: found from the budget]")
@click.option("-o", "--output", metavar="FILE", help="The twin.  [default: DATA's name with .twin, in this folder]")
@click.option(
    "--relation",
    type=click.Choice(["add-remove", "substitute"]),
    default="add-remove",
    show_default=True,
    help="Which tables are neighbours: one row more or less, or one row replaced (the row count is public then).",
)
@click.option("--device", type=click.Choice(["auto", "cpu", "gpu"]), default="auto", show_default=True, help="Runs it.")
@click.option(
    "--kinds",
    type=click.Choice(["private", "guess", "declared"]),
    help="Where kinds that the schema does not tell come from: the budget (private), or the cells without noise, which "
    "the statement then says (guess); or refuse such columns (declared).  [default: private; declared models: guess]",
)
@click.option("--target", metavar="COLUMN", help="The column that matters most: it gets more of the budget.")
@click.option("--accept", metavar="COLUMN", multiple=True, help="Take as public what the schema read from this column.")
@settings_option
@ledger_option
@policy_option
@click.option("--resume", is_flag=True, help="Continue an interrupted fit from its checkpoint, without spending again.")
@force_option
@click.option("--seed", type=int, help="For tests and papers: the same twin every time, which is NOT PRIVATE.")
@click.option("--dry-run", is_flag=True, help="Print the plan and its noise. Spends nothing.")
@json_option
@quiet_option
@look_options
def fit(
    data: str,
    output: str | None,
    resume: bool,
    force: bool,
    seed: int | None,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Fit a private twin of the table DATA.

    DATA is a CSV, Parquet or Feather file, or - for stdin. One row is one person. The twin is a file that `twin
    sample` makes synthetic rows from; it may be shared.
    """
    target = output or default_output(data)
    checkpoint, is_new = f"{target}.checkpoint", not os.path.lexists(options["ledger"] or "")
    require_table(data, options["format"])
    declared = _declared(seed=seed, **options)
    if not dry_run:
        _require_target(target, data, force=force)
        _require_checkpoint(checkpoint, resume=resume, force=force)
    arguments = _arguments(data, declared, seed=seed, **options)
    if dry_run:
        _show_plan(arguments, as_json=as_json)
        return
    if seed is not None:
        warn_not_private(_SEEDED)
    twin = _run(arguments, checkpoint, resume=resume, quiet=quiet)
    twin.save(target)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(checkpoint)
    _report(twin, target, model=options["model"], as_json=as_json, quiet=quiet)
    if options["ledger"] is not None and not quiet:
        note_charged(options["ledger"], is_new=is_new)


def default_output(data: str) -> str:
    """The name of the twin of this table, in the folder of the caller."""
    if data == "-":
        raise Failure("A table from stdin has no name. Name the twin: -o FILE.twin.", 2, kind="UsageError")
    name = os.path.basename(data).removesuffix(".gz")
    return f"{os.path.splitext(name)[0]}.twin"


def _declared(
    *, seed: int | None, settings: tuple[tuple[str, Any], ...], schema: str | None, **options: Any
) -> Schema | None:
    """The schema, once nothing is wrong with it, with the budget or with the model: before the table is read."""
    from twinify_lite.book import as_book
    from twinify_lite.policy import as_policy
    from twinify_lite.request import Request, declared_in

    said = {key: options[key] for key in ("epsilon", "delta", "model", "relation", "target", "kinds")}
    shared = {"book": as_book(options["ledger"]), "policy": as_policy(options["policy"])}
    request = Request(**said, **shared, options=dict(settings), seed=seed)
    declared = declared_in(schema)
    request.family(declared)
    return declared


def _require_target(target: str, data: str, *, force: bool) -> None:
    if os.path.abspath(target) == os.path.abspath(data):
        raise Failure(f"{target} is the table itself. Give the twin another name with -o.")
    require_free([target], force=force)


def _require_checkpoint(checkpoint: str, *, resume: bool, force: bool) -> None:
    with held(checkpoint):  # a fit that is at work on it is told of before the table is read
        pass
    there = os.path.lexists(checkpoint)
    if resume and not there:
        raise Failure(f"There is no {checkpoint} to continue from. Start the fit without --resume.")
    if there and not resume and not force:
        raise Failure(
            f"{checkpoint} is there: a fit was interrupted, and what it spent is spent. Continue it with --resume, "
            "which spends nothing more, or begin anew, and spend again, with --force."
        )


def _arguments(
    data: str, declared: Schema | None, *, seed: int | None, settings: tuple[tuple[str, Any], ...], **options: Any
) -> dict[str, Any]:
    """The arguments of `twin.fit`, the table read."""
    from twinify_lite.table import read_table

    look = {key: options.pop(key) for key in ("format", "separator", "decimal", "encoding")}
    table = read_table(data, **look_of(look, declared))
    return {
        "data": table,
        "insecure_seed": seed,
        "options": dict(settings),
        **options,
        "schema": declared,
    }


def look_of(look: dict[str, Any], declared: Schema | None) -> dict[str, Any]:
    """How to read the table: as the flags say, else as the schema says."""
    style = None if declared is None else declared.style
    if style is None:
        return look
    given = click.get_current_context().get_parameter_source
    chosen = {key: getattr(style, key) for key in ("decimal", "encoding") if given(key) is ParameterSource.DEFAULT}
    return look | chosen


def _show_plan(arguments: dict[str, Any], *, as_json: bool) -> None:
    from twinify_lite import twin

    plan = twin.dry_run(**arguments)
    _warn_delta(arguments["delta"], plan.get(SUPPOSED, 0), "supposed")
    for doubt in plan.get(DOUBTS, ()):
        note(doubt, fg="yellow")
    if as_json:
        show_json(plan)
        return
    show("\n".join(plan_lines(plan)))
    note("Nothing was spent.")


def _run(arguments: dict[str, Any], checkpoint: str, *, resume: bool, quiet: bool) -> Twin:
    try:
        with Progress(quiet=quiet) as progress, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nobody has checked the words of other packages for cells
            progress("compiling")
            from twinify_lite import twin

            report = _reporting(progress, arguments["delta"])
            return twin.fit(**arguments, checkpoint=checkpoint, resume=resume, progress=report)
    except BookRefused as error:
        if os.path.lexists(checkpoint):
            error.spent = (
                f"{getattr(error, 'spent', '')} Once there is room, the same command with --resume goes on.".strip()
            )
        raise
    except TwinError:  # going on would end in the same way
        raise
    except BaseException as error:
        _point_to(checkpoint, error)
        raise


def _reporting(progress: Progress, delta: float) -> Callable[..., None]:
    """`progress`, and a warning as soon as so many rows are known that `delta` is too much for them."""
    from twinify_lite.fitting import COUNTED

    def report(phase: str, done: int = 0, total: int = 0) -> None:
        if phase == COUNTED:
            progress.close()
            _warn_delta(delta, total, "noisy")
        else:
            progress(phase, done, total)

    return report


def _point_to(checkpoint: str, error: BaseException) -> None:
    """Have `error` say what it cost, and how to go on if there is something to go on from."""
    spent = getattr(error, "spent", None)
    if os.path.lexists(checkpoint):
        how = "The same command with --resume continues from its checkpoint, and spends nothing more."
        error.spent = f"{spent} {how}" if spent else how
    else:
        error.spent = spent or "Nothing was spent."


def _report(twin: Twin, target: str, *, model: str | None, as_json: bool, quiet: bool) -> None:
    """What is guaranteed, where the twin is, and what to do next."""
    if not quiet:
        for sentence in twin.notes:
            note(shortened(sentence))
    if as_json:
        show_json(
            {"twin": target, "private": twin.is_private, "rows": twin.rows, "notes": list(twin.notes)}
            | {"statement": twin.statement}
        )
        return
    show("\n".join(short_lines(twin.statement)))
    show(f"The twin is {target}.")
    if not quiet:
        own = f" --model {model}" if model and model.endswith(".py") else ""  # a file's code is not run from the twin
        note(f"Next: twin sample {target} --n {max(twin.rows, _FEWEST)}{own}")


def _warn_delta(delta: float, rows: int, known: str) -> None:
    if delta * rows > 1:
        note(
            f"Warning: delta {delta:g} is above one over the {known} number of rows, {rows}: it would allow "
            f"publishing a random person's row. Pass --delta {0.1 / rows:.0e} or less.",
            fg="yellow",
        )


def short_lines(statement: dict[str, Any]) -> list[str]:
    """A privacy statement in short: what has no guarantee, the guarantee, what was spent, what it does not hide."""
    from twinify_lite.statement import uncovered

    warning = uncovered(statement)
    changes = {"add-remove": "adding or removing one row", "substitute": "replacing one row by another"}
    head = (
        f"({float(statement['epsilon']):g}, {statement['delta']:g})-differential privacy under "
        f"{changes[statement['relation']]} ({statement['unit']})."
        if statement["private"]
        else f"NOT PRIVATE: {statement['why_not']}."
    )
    epsilon, delta = float(statement["spent"]["epsilon"]), statement["spent"]["delta"]
    count = sum(len(stage["receipts"]) for stage in statement["stages"])
    return [
        *([] if warning is None else [warning]),
        head,
        f"Spent: epsilon {epsilon:.4g}, delta {delta:.3g} (upper bounds), in {count} releases.",
        f"Public: {_public(statement['public'])}.",
    ]


def _public(items: list[str]) -> str:
    """What a statement does not hide, the long items only counted."""
    short = [item for item in items if len(item) <= _LONG]
    more = [f"{len(items) - len(short)} more, which `twin describe` lists"] if len(short) < len(items) else []
    return "; ".join(short + more)
