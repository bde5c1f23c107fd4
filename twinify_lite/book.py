"""One budget over several releases of one table: a ledger file that every fit is charged to before it runs.

    book = Book.create("clinic.ledger", epsilon=3, delta=1e-5)
    tw.fit("clinic.csv", epsilon=1, ledger=book)

How the total is added up is told in `dominating`, what the file looks like in `book_file`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import numbers
import os
from collections.abc import Iterable

from twinify_lite import accountant
from twinify_lite.accountant import ApproximateDP, Mechanism, Relation
from twinify_lite.book_file import Contents, Entry, Limit, Release, now, parse
from twinify_lite.dominating import dominate
from twinify_lite.errors import BookError, BookRefused, BudgetExceeded, PrivacyParameterError, TableError
from twinify_lite.locking import turn
from twinify_lite.receipt import Receipt

#: Of a limit that says nothing else: ten times that of one fit, as many fits share it.
DELTA = 1e-5
# Seconds that a charge waits for others, who need far less than one.
_PATIENCE = 60.0
# How much more than the plan for a supposed number of rows that for the counted one may cost.
_PLANNED = 1.03
# Above this limit the small errors of sampling, times e^epsilon, take much of delta.
_LARGE = 10.0
_SMALLEST_DELTA = 2 * accountant.SMALLEST_DELTA  # of which a part is left for the Gaussians

Charged = Receipt | Mechanism


class Book:
    """The ledger file at `path`, which need not be there yet.

    Formal guarantee: what was granted is in the file, on the disk, before `charge` returns, and never adds up to more
    than the limit; however many processes charge one file at once, and wherever one of them is killed. The limit is one
    for whoever sets it without looking at a twin: raised because of one, it holds for the largest that it could have
    been raised to. It counts fits, not what is done with their files: two copies of a ledger file know nothing of each
    other, two copies of a checkpoint that are both continued are charged once and show two twins, and `locking.turn`
    says where there are no locks.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> book = Book.create(f"{folder.name}/clinic.ledger", epsilon=1.0, delta=1e-5)
    >>> book.charge("0123abcd", 0, [accountant.Gaussian(noise_multiplier=5.0)])
    >>> round(book.total(), 3)
    0.74
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str], *, patience: float = _PATIENCE):
        if not isinstance(path, str | os.PathLike) or not os.fspath(path) or "\0" in str(os.fspath(path)):
            raise TableError('The ledger is the path of a file, such as ledger="data.ledger".')
        self.path = os.fspath(path)
        self._patience = patience

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        epsilon: float,
        delta: float = DELTA,
        relation: Relation | str = Relation.ADD_REMOVE,
    ) -> Book:
        """Begin a ledger file with this limit. One that is there stays, and is refused."""
        book = cls(path)
        limit = _limit(epsilon, delta)
        relation = _relation(relation)
        with turn(book.path, patience=book._patience):
            if book.exists:
                raise BookError(f"{book.path} is there already. Use it, or give the new one another name.")
            book._write(Contents(relation=relation, limits=(limit,)))
        return book

    def begin(self, charged: Iterable[Charged], *, epsilon: float, delta: float, relation: Relation | str) -> None:
        """Begin the file with the limit of one fit of this epsilon and delta, which is about to release `charged`.

        If that costs more here than it states for itself, the limit is what it costs, and a little more: what is about
        to be released is planned before the rows are counted.
        """
        alone = Contents(relation=_relation(relation), limits=(_limit(epsilon, delta),))
        entry = self._entry(alone, "0" * 8, 0, tuple(charged))
        cost = dataclasses.replace(alone, entries=(entry,)).epsilon
        with contextlib.suppress(BookError):  # somebody else began it meanwhile
            Book.create(self.path, epsilon=max(epsilon, _PLANNED * cost), delta=delta, relation=relation)

    @property
    def exists(self) -> bool:
        """Whether there is such a file."""
        return os.path.lexists(self.path)

    def read(self) -> Contents:
        """What the file says now."""
        try:
            with open(self.path, encoding="utf-8") as file:
                text = file.read()
        except FileNotFoundError:
            raise BookError(
                f"There is no ledger file {self.path}. Begin it: twin ledger {self.path} --epsilon 3 --delta 1e-5."
            ) from None
        except OSError as error:
            raise BookError(f"{self.path} cannot be read: {os.strerror(error.errno or 0)}.") from None
        except UnicodeDecodeError:
            text = ""
        self._require_one_name()
        return parse(text, self.path)

    def _require_one_name(self) -> None:
        """Refuse hard links: writing replaces the file under the name that was used, and not under the others."""
        with contextlib.suppress(OSError):
            if os.stat(self.path).st_nlink > 1:
                raise BookError(
                    f"{self.path} has several names (hard links), of which only one would see what is charged. Keep "
                    "one, and use symbolic links instead."
                )

    def total(self) -> float:
        """The epsilon of everything that was charged, at the limit's delta."""
        return self.read().epsilon

    def limit(self, *, epsilon: float | None = None, delta: float | None = None) -> None:
        """Change the limit, which is its owner's decision and is recorded. One below what is spent is refused."""
        with turn(self.path, patience=self._patience):
            found = self.read()
            new = _limit(
                found.limit.epsilon if epsilon is None else epsilon, found.limit.delta if delta is None else delta
            )
            changed = dataclasses.replace(found, limits=(*found.limits, new))
            if not changed.is_within_limit:
                raise BudgetExceeded(
                    f"{self.path} holds releases that cost epsilon {changed.epsilon:.4g} at delta {new.delta:g} "
                    "already, and what is spent stays spent. Set a limit above that."
                )
            self._write(changed)

    def charge(self, run: str, stage: int, charged: Iterable[Charged]) -> None:
        """Pay for a stage of a fit, all of it or nothing, before any of it runs.

        The same stage of the same run is charged once, however often this is called.
        """
        charged = tuple(charged)
        self._entry(self.read(), run, stage, charged)  # what takes long is computed, and kept, before others wait
        with turn(self.path, patience=self._patience):
            found = self.read()
            for entry in found.entries:
                if (entry.run, entry.stage) == (run, stage):
                    self._require_same(entry, charged)
                    return
            entered = self._with(found, self._entry(found, run, stage, charged))
            self._write(entered)

    def require_room(self, charged: Iterable[Charged], *, relation: Relation | str | None = None) -> None:
        """Refuse what would not be granted now. It may still be refused later, if others come first."""
        found = self.read()
        self.require_relation(found, relation)
        self._with(found, self._entry(found, "0" * 8, 0, tuple(charged)))

    def require_relation(self, found: Contents, relation: Relation | str | None) -> None:
        """Refuse a fit whose neighbours are others than those of this budget."""
        if relation is not None and relation != found.relation:
            raise PrivacyParameterError(
                f"{self.path} keeps a budget under the relation '{found.relation}', and this is under '{relation}': "
                f"what they cost cannot be added. Fit with --relation {found.relation}, or use another ledger file."
            )

    def _with(self, found: Contents, entry: Entry) -> Contents:
        """The contents with one entry more, if the limit allows it."""
        entered = dataclasses.replace(found, entries=(*found.entries, entry))
        if not entered.is_within_limit:
            raise BookRefused(self._refusal(found, entered))
        return entered

    def _refusal(self, found: Contents, entered: Contents) -> str:
        limit = found.limit
        if entered.epsilon > limit.epsilon:
            what = f"this would bring that to {entered.epsilon:.4g}. The limit is {limit.epsilon:g}"
            fix = f"ask for a smaller epsilon, or have the owner raise the limit: twin ledger {self.path} --epsilon E"
        else:
            what = f"this would take {entered.slack:.2g} of delta beside the noise, and {entered.slack_limit:.2g} is"
            what += " kept for that"
            fix = f"have the owner raise the limit's delta: twin ledger {self.path} --delta D"
            if any(isinstance(release.mechanism, ApproximateDP) for release in entered.entries[-1].releases):
                fix += ", or fit with a smaller one, or declare ranges and levels, which finding takes delta for"
            if limit.epsilon > _LARGE:
                fix += (
                    f", or lower its epsilon below {_LARGE:g}, above which drawing rows from finitely many bits counts"
                )
        return (
            f"The ledger file {self.path} holds {found.counted}, epsilon {found.epsilon:.4g} at delta {limit.delta:g}, "
            f"and {what}. Nothing was run: {fix}."
        )

    def _entry(self, found: Contents, run: str, stage: int, charged: tuple[Charged, ...]) -> Entry:
        releases: list[Release] = []
        for one in charged:
            self.require_relation(found, one.relation if isinstance(one, Receipt) else None)
            mechanism = one.mechanism if isinstance(one, Receipt) else one
            what = one.what if isinstance(one, Receipt) else type(mechanism).__name__
            cost = dominate(mechanism, found.relation, found.slack_of_sampled(releases))
            releases.append(Release(what=what, mechanism=mechanism, cost=cost))
        return Entry(run=run, stage=stage, when=now(), releases=tuple(releases))

    def _require_same(self, entry: Entry, charged: tuple[Charged, ...]) -> None:
        asked = [one.mechanism if isinstance(one, Receipt) else one for one in charged]
        if asked != [release.mechanism for release in entry.releases]:
            raise BookError(
                f"{self.path} holds other releases for this stage of this fit. Start a new fit, without resuming."
            )

    def _write(self, contents: Contents) -> None:
        """Replace the file, whole, and see to it that it is on the disk, and found there under its name."""
        from twinify_lite.table.writing import replacing

        text = json.dumps(contents.to_json(), indent=1)
        parse(text, self.path)
        with replacing(self.path) as file:
            file.write(f"{text}\n".encode())
        _settle_folder(os.path.dirname(os.path.realpath(self.path)))

    def __repr__(self) -> str:
        return f"Book({self.path!r})"


def as_book(ledger: Book | str | os.PathLike[str] | None) -> Book | None:
    """The book, if only the path of one was given."""
    return ledger if isinstance(ledger, Book | None) else Book(ledger)


def _settle_folder(folder: str) -> None:
    """A renamed file is under its new name for good once its folder is written, where folders can be."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _limit(epsilon: float, delta: float) -> Limit:
    is_number = isinstance(epsilon, numbers.Real) and not isinstance(epsilon, bool)
    if not (is_number and 0 < epsilon < math.inf):
        raise PrivacyParameterError("The limit of a ledger file is a positive epsilon, such as 3.")
    if accountant.check_delta(delta) < _SMALLEST_DELTA:
        raise PrivacyParameterError(
            f"The limit of a ledger file has a delta of at least {_SMALLEST_DELTA:g}, such as 1e-5."
        )
    return Limit(when=now(), epsilon=float(epsilon), delta=accountant.check_delta(delta))


def _relation(relation: Relation | str) -> Relation:
    if relation not in tuple(Relation):
        raise PrivacyParameterError(f"The relation is one of {', '.join(Relation)}.")
    return Relation(relation)
