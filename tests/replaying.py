"""The same randomness on a table and its neighbour: what one run releases is kept, and given again to another run.

    with recorded() as one:                 every exact sum, every draw, and what was paid for and used, in order
        twin.fit(table)
    with recorded(given=one) as other:      the same keys, and whatever is released is what `one` released
        twin.fit(neighbour)

All that may differ between the runs is the exact sums, by as much as was paid for (`overdrawn`). Whatever else differs
hangs on exact rows: an entry of `trace`, and anything that the run returns, says or writes.

A run that releases another number of sums ends with an assertion, and so with another outcome.

Values that nobody knows beforehand are shown where they have enough votes. Which of them a table holds is private, so
their sums are kept by name, and how many of them get noise is not in the trace.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib
import itertools
import secrets
from collections import defaultdict
from fractions import Fraction
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback

from twinify_lite import fitting, release
from twinify_lite.accountant import DiscreteLaplace, FixedSizeGaussian
from twinify_lite.discover import findings, votes
from twinify_lite.dpsvi import batches, binomial, clip, feistel
from twinify_lite.ledger import Ledger

discover = importlib.import_module("twinify_lite.discover")  # the package's own name for it is the function

# Added to the noise of the row count, so that the exact count follows from a result that is never below 1.
_FAR = 2**40


@dataclasses.dataclass(frozen=True, eq=False)
class Exact:
    """Sums before their noise, in whole steps, of which `deviation` are one standard deviation. Those of private items
    have their names. `step` tells apart what a receipt of several steps releases."""

    values: np.ndarray
    deviation: Fraction
    names: tuple | None = None
    step: int = 0

    def minus(self, other: Exact) -> list[int]:
        """How far each sum is from its counterpart; what a table does not hold, it holds 0 times."""
        if self.names is None:
            return [int(a) - int(b) for a, b in zip(self.values.ravel(), other.values.ravel(), strict=True)]
        mine, theirs = (dict(zip(one.names, one.values.tolist(), strict=True)) for one in (self, other))
        return [mine.get(name, 0) - theirs.get(name, 0) for name in {**mine, **theirs}]


@dataclasses.dataclass(eq=False)
class Tape:
    """What one run did. `sums` are the exact ones by receipt, `paid` how far those may move, squared and over their
    noise, and `released` what left, in order."""

    trace: list = dataclasses.field(default_factory=list)
    sums: dict = dataclasses.field(default_factory=lambda: defaultdict(list))
    paid: dict = dataclasses.field(default_factory=dict)
    released: list = dataclasses.field(default_factory=list)


def moved(one: Tape, other: Tape, what: str) -> Fraction:
    """The square of how far all sums of a receipt moved together, over their noise, exactly; of steps, the farthest."""
    squares = defaultdict(Fraction)
    for a, b in zip(one.sums[what], other.sums[what], strict=True):
        assert (a.deviation, a.step) == (b.deviation, b.step)
        squares[a.step] += sum(d * d for d in a.minus(b)) / a.deviation**2
    return max(squares.values(), default=Fraction(0))


def overdrawn(one: Tape, other: Tape) -> dict[str, float]:
    """The receipts whose sums moved by more than they pay for, and how many times that."""
    found = {what: float(moved(one, other, what) / paid) ** 0.5 for what, paid in one.paid.items()}
    return {what: times for what, times in found.items() if moved(one, other, what) > one.paid[what]}


@contextlib.contextmanager
def recorded(given: Tape | None = None):
    """Record a run. With `given`, the run is shown what that one released, in the place of its own releases."""
    recorder = _Recorder(given)
    with contextlib.ExitStack() as stack:
        for target, name, hook in recorder.hooks():
            stack.enter_context(patch.object(target, name, hook))
        yield recorder.tape


class _Recorder:
    def __init__(self, given: Tape | None):
        self.tape = Tape()
        self._given = given
        self._keys = itertools.count()
        self._streams: list = []
        self._selected: set[int] = set()  # streams that were drawn from as often as there are private items
        self._looks: dict[int, tuple] = {}
        self._of_tally: dict[int, tuple] = {}
        self._naming: tuple | None = None
        self._is_selecting = False
        self._row_noise = 0

    def hooks(self):
        yield secrets, "token_bytes", self._token_bytes
        yield Ledger, "spend", self._method(Ledger.spend, self._spent)
        yield Ledger, "_redeem", self._method(Ledger._redeem, self._redeemed)
        for module in (fitting, discover):
            yield module, "count_rows", self._counter(discover.count_rows)
        yield discover, "discrete_laplace", self._laplace(discover.discrete_laplace)
        yield release, "_noised", self._noiser(release._noised)
        yield findings.Look, "ballot", self._method(findings.Look.ballot, self._balloted)
        yield votes.Tally, "__init__", self._method(votes.Tally.__init__, self._tallied)
        yield votes.Tally, "counts", self._teller(votes.Tally.counts, self._counted)
        yield votes.Tally, "select", self._teller(votes.Tally.select, self._chosen)
        yield clip, "add_noise", self._stepper(clip.add_noise)

    @staticmethod
    def _method(method, after):
        def hooked(self, *arguments, **named):
            result = method(self, *arguments, **named)
            after(self, result, *arguments)
            return result

        return hooked

    def _release(self, noisy):
        """Keep what leaves; in a run that is shown what another one released, return that in its place."""
        place = len(self.tape.released)
        if self._given is not None:
            assert place < len(self._given.released), "the neighbour's run releases more"
            before = self._given.released[place]
            if not isinstance(noisy, dict):
                assert np.shape(before) == np.shape(noisy), "the neighbour's run releases another number of sums"
            noisy = before
        self.tape.released.append(noisy)
        return noisy

    # -- keys and receipts

    def _token_bytes(self, nbytes=32):
        number = next(self._keys)
        self.tape.trace.append(("key", nbytes))
        return hashlib.shake_256(f"key {number}".encode()).digest(nbytes or 32)

    def _spent(self, _ledger, _receipt, mechanism, what):
        self.tape.trace.append(("spent", what, mechanism))

    def _redeemed(self, _ledger, _keys, receipt, _kind):
        mechanism = receipt.mechanism
        self.tape.trace.append(("redeemed", receipt.what, mechanism))
        if isinstance(mechanism, DiscreteLaplace):
            self.tape.paid[receipt.what] = Fraction(1, 1) / Fraction(mechanism.scale) ** 2
        elif hasattr(mechanism, "noise_multiplier"):
            farthest = 2 if isinstance(mechanism, FixedSizeGaussian) else 1
            self.tape.paid[receipt.what] = farthest**2 / Fraction(mechanism.noise_multiplier) ** 2

    # -- the row count

    def _laplace(self, draw):
        def drawn(bits, scale):
            self._row_noise = draw(bits, scale)
            self.tape.trace.append(("laplace", scale, self._row_noise))
            return self._row_noise + _FAR

        return drawn

    def _counter(self, count):
        def counted(table, schema, ledger, *, share):
            self._row_noise = None
            rows = count(table, schema, ledger, share=share)
            if self._row_noise is None:  # declared, or public: it must be the same
                self.tape.trace.append(("rows", rows))
                return rows
            scale = Fraction(ledger.receipts[-1].mechanism.scale)
            exact = rows - _FAR - self._row_noise
            self.tape.sums["row count"].append(Exact(np.array([exact]), scale))
            return self._release(max(1, exact + self._row_noise))

        return counted

    # -- sums of counts, votes and scores

    def _noiser(self, noised):
        def hooked(what, sums, bound, deviation, bits):
            noisy = noised(what, sums, bound, deviation, bits)
            stream = self._stream(bits)
            if self._is_selecting:
                self._selected.add(stream)
                return noisy
            self.tape.sums[what].append(Exact(sums.copy(), Fraction(deviation), self._naming))
            drawn = None if stream in self._selected else _digest(noisy - sums)
            self.tape.trace.append(("noised", what, sums.shape, bound, deviation, stream, drawn))
            if self._naming is None:
                return self._release(noisy)
            by_name = self._release(dict(zip(self._naming, noisy.tolist(), strict=True)))
            return np.array([by_name[name] for name in self._naming], np.int64)

        return hooked

    def _stream(self, bits):
        place = next((i for i, one in enumerate(self._streams) if one is bits), len(self._streams))
        self._streams += [bits] * (place == len(self._streams))
        return place

    def _balloted(self, look, ballot, _eligible):
        self._looks[id(ballot)] = ballot, look

    def _tallied(self, tally, _none, receipt, ballots):
        looks = [self._looks.get(id(ballot), (None, None))[1] for ballot in ballots]
        self._of_tally[id(tally)] = tally, looks, receipt.what

    def _teller(self, tell, how):
        def told(tally, ballot, items=slice(None), **named):
            _, looks, what = self._of_tally[id(tally)]
            return how(lambda: tell(tally, ballot, items, **named), tally, looks[ballot], what, ballot, items)

        return told

    def _counted(self, tell, _tally, look, what, ballot, items):
        """Items that everybody knows: by name, as their places among private ones differ."""
        self._naming = None if look is None else _names(look, items)
        self.tape.trace.append(("asked", what, ballot, frozenset(self._naming or ())))
        try:
            return tell()
        finally:
            self._naming = None

    def _chosen(self, tell, tally, look, what, ballot, items):
        """Items that nobody knows: those that the run before was shown, and no others."""
        names, sums = _names(look, items), tally._sums[ballot][items].copy()
        scale = tally._noise._of_votes.scale
        self.tape.sums[what].append(Exact(sums * scale.fine, Fraction(scale.steps), names))
        self.tape.trace.append(("selected", what, ballot))
        self._is_selecting = True
        try:
            noisy = tell()
        finally:
            self._is_selecting = False
        shown = {name: votes for name, votes in zip(names, noisy.tolist(), strict=True) if np.isfinite(votes)}
        shown = self._release(shown)
        assert shown.keys() <= {*names}, "one row alone showed a value"
        return np.array([shown.get(name, -np.inf) for name in names])

    # -- DPSVI

    def _stepper(self, add_noise):
        def hooked(total, drawn, on):
            noisy = add_noise(total, drawn, on)
            leaves, tree = jax.tree.flatten(noisy)
            words = [(word.high, word.low) for word in jax.tree.leaves(total.words, is_leaf=_is_word)]
            seen = [*words, (total.count.high, total.count.low)], total.unit, drawn
            shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), leaves)

            def kept(seen, leaves):
                return self._stepped(on, *jax.tree.map(np.asarray, (seen, leaves)))

            return tree.unflatten(io_callback(kept, shapes, seen, leaves, ordered=True))

        return hooked

    def _stepped(self, on, seen, leaves):
        words, unit, drawn = seen
        sums = np.concatenate([_whole(*word).ravel() for word in words])
        number = len(self.tape.sums["DPSVI"])
        self.tape.sums["DPSVI"].append(Exact(sums, Fraction(on.law.deviation), step=number))
        shapes = [leaf.shape for leaf in leaves]
        self.tape.trace.append(("step", number, shapes, float(unit), on, _digest(drawn)))
        place = len(self.tape.released)
        if self._given is not None:
            leaves = self._given.released[place]
        self.tape.released.append(leaves)
        return leaves


def _names(look, items) -> tuple:
    if look is None:  # forms of cells: their list is public
        return tuple(np.flatnonzero(items).tolist())
    return tuple(item for item, is_in in zip(look._items, items, strict=True) if is_in)


def _is_word(node) -> bool:
    return hasattr(node, "high")


def _whole(high, low) -> np.ndarray:
    """The integer of two words, of 48 bits with a sign."""
    return (high.astype(np.int64) << 16) + low


def _digest(numbers) -> str:
    return hashlib.sha256(np.ascontiguousarray(numbers).tobytes()).hexdigest()[:16]


@contextlib.contextmanager
def joined_by_one(rows: int, place: int):
    """Couple the batches of a table of `rows` + 1 rows to those of the table without its last row, as the theory does.

    The same people come, at the same places; and the last row joins at some place, whose person moves to the end.
    """
    drawn, placed = batches.draw, batches.places

    def is_joined(sampler):
        return sampler.rows == rows + 1 and not sampler.in_order

    def places(sampler, round_keys, count, start):
        if not is_joined(sampler):
            return placed(sampler, round_keys, count, start)
        at = start + jnp.arange(sampler.microbatch, dtype=jnp.int32)
        index, mask = placed(sampler._replace(rows=rows), round_keys, count, start)
        joins = jnp.int32(place) % count
        moves = feistel.permute(round_keys, jnp.minimum(joins, rows - 1)[None], rows)[0]
        return jnp.where(at == joins, rows, jnp.where(at == count - 1, moves, index)), mask

    def draw(sampler, key):
        if not is_joined(sampler):
            return drawn(sampler, key)
        table = None if sampler.table is None else binomial.binomial_table(rows, 1 / sampler.rows_over_batch)
        without = drawn(sampler._replace(rows=rows, size=rows, table=table), key)
        count = without.count + 1
        first, _ = places(sampler, without.round_keys, count, 0)
        return without._replace(count=count, first=first)

    with patch.object(batches, "places", places), patch.object(batches, "draw", draw):
        yield
