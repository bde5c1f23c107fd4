"""`twin sample`: synthetic rows, streamed to a file."""

from __future__ import annotations

import glob
import itertools
import os
import re
import shutil
import stat
from typing import TYPE_CHECKING, Any

import click

from twinify_lite.cli_base import (
    Failure,
    force_option,
    json_option,
    note,
    quiet_option,
    require_free,
    show_json,
    warn_not_private,
    warn_uncovered,
)
from twinify_lite.cli_ledger import policy_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from twinify_lite.policy import Policy
    from twinify_lite.twin import Twin


# Files are larger or smaller than their first rows say, by less than this part.
_CLEARLY = 0.9
_UNITS = {10**3: "kB", 10**6: "MB", 10**9: "GB", 10**12: "TB", 10**15: "PB"}


class Where(click.ParamType):
    """COLUMN=VALUE, or a comparison such as COLUMN>=VALUE."""

    name = "where"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """A pair of the column and its value, which may itself contain a `=`, as in income=<=50K."""
        equal, compared = re.match("(.*?[^<>])=(.*)", str(value), re.S), re.match("([^<>]+)([<>].+)", str(value), re.S)
        if equal:
            return equal[1], equal[2]
        if compared:
            return compared[1].strip(), compared[2]
        return self.fail("write it as COLUMN=VALUE or COLUMN>=VALUE, such as sex=female or 'age>=40'.", param, ctx)


@click.command()
@click.argument("twin", required=False)
@click.option("--n", "rows", type=click.IntRange(min=1), help="How many rows.  [default: the table's noisy row count]")
@click.option("-o", "--output", metavar="FILE", help="The table, or - for stdout.  [default: synthetic.csv]")
@click.option(
    "--format",
    type=click.Choice(["csv", "tsv", "parquet", "feather"]),
    help="Of the table.  [default: by its name]",
)
@click.option(
    "--datasets", type=click.IntRange(1, 10_000), help="Write this many tables, numbered, each of its own draw."
)
@click.option("--seed", type=int, help="The same rows every time. This is safe: sampling spends no privacy.")
@click.option(
    "--where",
    metavar="COLUMN=VALUE",
    type=Where(),
    multiple=True,
    help="Only rows with this value; of numbers and times also 'COLUMN>=VALUE'; empty is missing.",
)
@click.option("--model", metavar="FILE", help="The file of a twin's own model; it must be the one that was fitted.")
@click.option("--trust-model", is_flag=True, help="Run the model code inside the twin. Only for a twin that you trust.")
@policy_option
@force_option
@json_option
@quiet_option
def sample(
    twin: str | None,
    rows: int | None,
    output: str | None,
    format: str | None,
    datasets: int | None,
    seed: int | None,
    where: tuple[tuple[str, str], ...],
    model: str | None,
    trust_model: bool,
    policy: str | None,
    force: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write synthetic rows from TWIN.

    Without TWIN it is the only .twin file in this folder, or the newest. Each of --datasets comes from one draw of the
    model's posterior; without it, rows of the automatic model come from its best estimate.
    """
    targets = _targets(output, format, datasets)
    if targets == ["-"] and as_json:
        raise click.UsageError("The rows go to stdout, and so would the JSON. Give the table a name with -o.")
    source = twin or newest_twin(quiet=quiet)

    from twinify_lite.policy import as_policy
    from twinify_lite.table import write_table
    from twinify_lite.table.formats import target_format
    from twinify_lite.twin import load

    allowed = as_policy(policy)
    loaded = load(source, model=model, trust_model=trust_model)
    if allowed is not None:
        _require_allowed(source, loaded, allowed)
    _require_targets(targets, force=force)
    if not loaded.is_private:
        warn_not_private(loaded.statement.get("why_not"))
    warn_uncovered(loaded.statement)
    first = loaded.fitted.first_draw if datasets else 0
    draws = loaded.fitted.datasets - first
    if len(targets) > draws:
        raise Failure(f"{source} has {draws} draws, one a dataset. Ask for fewer with --datasets.")
    number = rows or loaded.rows
    for dataset, target in enumerate(targets, first):
        is_text = target_format("stdout" if target == "-" else target, format)[0] in ("csv", "tsv")
        how = {"seed": seed, "dataset": dataset, "where": _together(where) or None, "dictionaries": is_text}
        batches = _allowed(loaded.batches(number, **how), allowed)
        left = first + len(targets) - dataset
        write_table(_with_room(batches, number, target, format, tables=left), target, format=format)
    if as_json:
        show_json({"twin": source, "files": targets, "rows": number, "private": loaded.is_private})
    elif targets != ["-"] and not quiet:
        each = " each" if len(targets) > 1 else ""
        note(f"{number} synthetic rows{each} from {source}: {', '.join(targets)}")


def _require_allowed(source: str, twin: Twin, policy: Policy) -> None:
    """Refuse a twin whose statement is not true, or that the policy forbids; also for columns that its code makes."""
    from twinify_lite import artifact
    from twinify_lite.consistency import require_consistent
    from twinify_lite.policy import given_columns
    from twinify_lite.verification import verify

    recomputed = 0.0
    if twin.is_private:
        recomputed = verify(twin.statement).recomputed
        require_consistent(artifact.read_twin(source))
    policy.check_statement(twin.statement, recomputed=recomputed)
    policy.check_columns(given_columns(twin.schema))
    policy.check_columns(next(iter(twin.batches(1))).column_names)


def _allowed(batches: Iterator[pa.Table], policy: Policy | None) -> Iterator[pa.Table]:
    """The batches, each of them only if the policy allows its columns."""
    for batch in batches:
        if policy is not None:
            policy.check_columns(batch.column_names)
        yield batch


def _with_room(
    batches: Iterator[pa.Table], rows: int, target: str, format: str | None, *, tables: int
) -> Iterator[pa.Table]:
    """The batches; refused if there is clearly no room at `target` for `tables` of so many rows, by the first batch."""
    from twinify_lite.table.writing import size_of

    batch = next(batches)
    if batch.num_rows < rows and _is_file(target):
        whole = size_of(batch, target, format=format) / batch.num_rows * rows * tables
        free = shutil.disk_usage(os.path.dirname(os.path.realpath(target))).free
        if _CLEARLY * whole > free:
            what = f"{rows:,} rows" if tables == 1 else f"{tables} tables of {rows:,} rows"
            raise Failure(
                f"{what} take about {_size(whole)}, and only {_size(free)} are free where {target} would be. Ask for "
                f"fewer with --n, {int(rows * free / whole):,} at most, or name another place with -o. {target} was "
                "not written."
            )
    return itertools.chain([batch], batches)


def _is_file(target: str) -> bool:
    """Whether rows go to a file, not to stdout, a pipe or a device."""
    return target != "-" and (not os.path.exists(target) or stat.S_ISREG(os.stat(target).st_mode))


def _size(number: float) -> str:
    """A number of bytes in words.

    >>> _size(5.12e12), _size(640)
    ('5.1 TB', '640 bytes')
    """
    units = [(unit, name) for unit, name in _UNITS.items() if number >= unit]
    return f"{number / units[-1][0]:.1f} {units[-1][1]}" if units else f"{number:.0f} bytes"


def _together(where: tuple[tuple[str, str], ...]) -> dict[str, str | list[str]]:
    """The values that each column must have; a list if they are several."""
    values = {column: [value for name, value in where if name == column] for column, _ in where}
    return {column: found if len(found) > 1 else found[0] for column, found in values.items()}


def _targets(output: str | None, format: str | None, datasets: int | None) -> list[str]:
    """The files to write: one, or several with numbers of the same width before the extension."""
    name = output or f"synthetic.{format or 'csv'}"
    if datasets is None:
        return [name]
    if name == "-":
        raise click.UsageError("Only one table can go to stdout. Leave out --datasets, or name a file with -o.")
    packed = ".gz" if name.endswith(".gz") else ""
    stem, extension = os.path.splitext(name.removesuffix(".gz"))
    width = len(str(datasets))
    return [f"{stem}-{number:0{width}d}{extension}{packed}" for number in range(1, datasets + 1)]


def _require_targets(targets: list[str], *, force: bool) -> None:
    if any(target.endswith(".twin") for target in targets):
        raise Failure("A table is not written over a twin. Name the table with -o, such as synthetic.csv.")
    if targets != ["-"]:
        require_free(targets, force=force)


def newest_twin(*, quiet: bool = False) -> str:
    """The only `.twin` file in this folder, or the newest, which is said then."""
    found = sorted(glob.glob("*.twin"), key=lambda path: (os.path.getmtime(path), path))
    if not found:
        raise Failure("There is no .twin file in this folder. Name one, or make one: twin fit DATA --epsilon E.")
    if len(found) > 1 and not quiet:
        note(f"{len(found)} twins are here; this is the newest, {found[-1]}. Name another one to use it.")
    return found[-1]
