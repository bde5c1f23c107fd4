"""`twin ledger`: the budget that several fits of one table share, begun, shown, or given another limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from twinify_lite.cli_base import json_option, note, show, show_json

if TYPE_CHECKING:
    from twinify_lite.book_file import Contents, Entry

ledger_option = click.option(
    "--ledger", metavar="FILE", help="Charge this to the budget that all releases of the table share (`twin ledger`)."
)
policy_option = click.option(
    "--policy", metavar="FILE", help="Refuse what this policy.toml forbids: epsilon, delta, relation, columns."
)
# Why the figures of the two differ.
_OTHER_FIGURE = (
    "A release may count for slightly more or less here than it states for itself: each counts as a Gaussian one that "
    "costs at least as much, as those add up also if the next one is chosen after looking at the last twin."
)


@click.command()
@click.argument("file")
@click.option("--epsilon", type=float, help="The limit of all fits together. It begins the file, or changes its limit.")
@click.option("--delta", type=float, help="Of the limit.  [default of a new file: 1e-5]")
@click.option(
    "--relation",
    type=click.Choice(["add-remove", "substitute"]),
    help="Of all fits that are charged to a new file.  [default: add-remove]",
)
@json_option
def ledger(file: str, epsilon: float | None, delta: float | None, relation: str | None, as_json: bool) -> None:
    """Begin, show or limit the ledger FILE, one budget for all releases of one table.

    With --epsilon the file is begun, or gets another limit; without options it is shown. `twin fit --ledger FILE` and
    `twin score --private E --ledger FILE` are charged to it before they run, and refused past the limit. Decide on a
    limit before you look at a twin.
    """
    from twinify_lite.book import Book

    book = Book(file)
    _set(book, epsilon, delta, relation)
    found = book.read()
    if as_json:
        show_json({"file": file, **facts(found), **found.to_json()})
    else:
        show("\n".join(_lines(file, found)))
        note(_OTHER_FIGURE)


def _set(book: Any, epsilon: float | None, delta: float | None, relation: str | None) -> None:
    """Do what the options say, if they say anything."""
    if not book.exists and epsilon is not None:
        given = {} if delta is None else {"delta": delta}
        type(book).create(book.path, epsilon=epsilon, relation=relation or "add-remove", **given)
        return
    if book.exists:
        book.require_relation(book.read(), relation)
        if epsilon is not None or delta is not None:
            book.limit(epsilon=epsilon, delta=delta)


def facts(found: Contents) -> dict[str, Any]:
    """What everything in a ledger file adds up to."""
    return {
        "spent": {"epsilon": found.epsilon, "delta": found.limit.delta, "mu": found.mu, "slack": found.slack},
        "releases": found.runs,
        "largest_fit": found.largest_fit,
    }


def note_charged(file: str, *, is_new: bool) -> None:
    """Say what the ledger file holds after a release, and with which limit it was begun."""
    from twinify_lite.book import Book

    found = Book(file).read()
    limit = found.limit
    if is_new:
        note(
            f"{file} was begun with this release as its limit, epsilon {limit.epsilon:.4g} at delta {limit.delta:g}. "
            f"To set another, beforehand or now: twin ledger {file} --epsilon 3 --delta 1e-5"
        )
    spent = f"epsilon {found.epsilon:.4g} of {limit.epsilon:.4g} is spent at delta {limit.delta:g}"
    note(f"{file}: {spent}, by {found.counted}.")
    note(_OTHER_FIGURE)


def _lines(file: str, found: Contents) -> list[str]:
    limit, spent = found.limit, facts(found)
    words = {"add-remove": "adding or removing one row", "substitute": "replacing one row by another"}
    lines = [
        f"{file}: ({limit.epsilon:g}, {limit.delta:g})-differential privacy at most, under {words[found.relation]}.",
        f"Spent: epsilon {found.epsilon:.4g} at delta {limit.delta:g}, by {found.counted} (an upper bound).",
        f"Left: one more fit of about epsilon {spent['largest_fit']:.3g}, as squares of mu add up and not epsilons, if "
        "its delta leaves room for it:",
        f"  {found.slack:.2g} of {found.slack_limit:.2g} is taken that rare values and drawn rows may take of delta; a "
        f"fit that looks for values takes a tenth of its own.",
    ]
    lines += [f"  {entry.when}  {entry.run[:8]}, stage {entry.stage + 1}: {_entry(entry)}" for entry in found.entries]
    changes = [f"{old.when}: epsilon {old.epsilon:g}, delta {old.delta:g}" for old in found.limits]
    return [*lines, f"Limits: {'; '.join(changes)}."]


def _entry(entry: Entry) -> str:
    return ", ".join(f"{release.what} (mu {release.cost.mu:.3g})" for release in entry.releases)
