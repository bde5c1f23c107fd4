"""`twin explain` and `twin plan`: what a twin's privacy means to a person, and which epsilon to choose."""

from __future__ import annotations

from typing import Any

import click

from twinify_lite.cli_base import json_option, show, show_json, warn_not_private


@click.command()
@click.argument("twin", required=False)
@click.option("--epsilon", type=float, metavar="E", help="Without a twin: explain this epsilon.")
@click.option("--delta", type=float, metavar="D", help="Beside --epsilon.  [default: 1e-6]")
@click.option(
    "--relation",
    type=click.Choice(["add-remove", "substitute"]),
    help="Beside --epsilon: which tables are neighbours.  [default: add-remove]",
)
@json_option
def explain(twin: str | None, epsilon: float | None, delta: float | None, relation: str | None, as_json: bool) -> None:
    """Say what the privacy of TWIN, or an epsilon, means to one person.

    How well anybody can tell whether somebody is in the table, at most, from the whole distribution of the privacy
    loss. The receipts of TWIN are verified first; no model is run.
    """
    if (twin is None) == (epsilon is None):
        raise click.UsageError("Give a twin, or --epsilon E: one of the two.")
    if twin is not None and (delta is not None or relation is not None):
        raise click.UsageError("A twin has its own delta and relation: leave out --delta and --relation.")

    from twinify_lite.risk import risk

    settings = {name: value for name, value in (("delta", delta), ("relation", relation)) if value is not None}
    found = risk(twin, epsilon=epsilon, **settings)
    if as_json and not found.private:  # the sentences begin with it
        warn_not_private(found.why_not)
    if as_json:
        show_json({"twin": twin, **found.to_json(), "sentences": found.sentences()})
    else:
        show(str(found))


class Numbers(click.ParamType):
    """Numbers with commas between them."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[float]:
        """A list of them."""
        try:
            return [float(number) for number in str(value).split(",")]
        except ValueError:
            self.fail("write numbers with commas between them, such as 0.5,1,2,4.", param, ctx)


@click.command()
@click.option("--rows", type=int, required=True, metavar="N", help="About how many rows the table has.")
@click.option("--columns", type=int, required=True, metavar="K", help="How many columns it has.")
@click.option("--epsilon", "epsilons", type=Numbers(), required=True, metavar="E,E,...", help="To choose among.")
@click.option("--delta", type=float, default=1e-6, show_default=True, metavar="D", help="Of every choice.")
@click.option("--model", metavar="NAME|FILE.py", help="One model.  [default: auto, and one that is fitted by DPSVI]")
@click.option("--open", "is_open", is_flag=True, help="Nothing is declared: ranges and levels are found, too. Slower.")
@json_option
def plan(
    rows: int, columns: int, epsilons: list[float], delta: float, model: str | None, is_open: bool, as_json: bool
) -> None:
    """Compare epsilons before there is a table: noise, steps, signal and risk.

    No data is read and nothing is spent. The number of rows that you give is told to nobody.
    """
    from twinify_lite import planning

    found = planning.choices(rows, columns, epsilons, delta=delta, model=model, declared=not is_open)
    if as_json:
        facts = {"rows": rows, "columns": columns, "delta": delta, "declared": not is_open}
        show_json({**facts, "choices": [choice.to_json() for choice in found]})
    else:
        head = f"A table of {rows:,} rows, {columns} column{'s' * (columns > 1)}, at delta {delta:g}."
        show("\n".join([head, "", *planning.lines(found, rows=rows, declared=not is_open)]))
