"""An attack on every release of discovery: on neighbouring tables its answers may not differ more than was paid for.

For each pair the best test between the two tables is run thousands of times. If epsilon and delta hold, then P(event |
one table) <= e^epsilon P(event | other) + delta for every event. Exact binomial bounds at confidence 1 - 1e-6 an event
turn the frequencies into a lower bound on epsilon; it may not exceed the claim, and with half the noise it does.
"""

import importlib
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.stats import beta

from twinify_lite import accountant, exact, release
from twinify_lite.accountant import DiscreteLaplace, Gaussian
from twinify_lite.discover import count_rows, discover, findings, ranges, votes
from twinify_lite.ledger import Ledger
from twinify_lite.schema import Column, Schema
from twinify_lite.table import PrivateTable

NOISE, DELTA, RUNS, DOUBT = 1.0, 0.05, 4000, 1e-6
CUTS = np.arange(0.25, 3.5, 0.25)  # in standard deviations of the noise that was paid for
CLAIMED = accountant.epsilon(Gaussian(noise_multiplier=NOISE), delta=DELTA)

SCHEMA = Schema(
    (
        Column(name="c", kind="category"),
        Column(name="x", kind="number"),
        Column(name="d", kind="datetime"),
    )
)
CELLS = {
    "c": ["red", "green", "blue", None],
    "x": ["0", "1.5", "-40", "1e6", "N", None],
    "d": ["1999-01-31", "2020-05-05", "1900-01-01", "soon", None],
}


def at_least(hits, runs):
    """A lower bound on a probability from its frequency, wrong once in a million (Clopper and Pearson 1934)."""
    return beta.ppf(DOUBT, hits, runs - hits + 1) if hits else 0.0


def at_most(hits, runs):
    return beta.isf(DOUBT, hits + 1, runs - hits) if hits < runs else 1.0


def epsilon_shown(likely, unlikely, runs=RUNS, delta=DELTA):
    """The epsilon that these frequencies prove to be exceeded."""
    excess = at_least(likely, runs) - delta
    return math.log(excess / at_most(unlikely, runs)) if excess > 0 else 0.0


def pairs(number):
    """Tiny tables and the row that the neighbour lacks."""
    rng = np.random.default_rng(1)
    for _ in range(number):
        rows = int(rng.integers(1, 7))
        table = pd.DataFrame({name: rng.choice(np.array(cells, object), rows) for name, cells in CELLS.items()})
        yield table.astype("string"), int(rng.integers(rows))


def looks(frame):
    table = PrivateTable(frame)
    return [findings.look_at(column, table) for column in SCHEMA.columns]


RELEASES = {
    "values": findings.value_ballot,
    "rare values": findings.rare_value_ballot,
    "magnitudes": lambda look: look.number_ballot(ranges.magnitudes(look.column), inside=False),
    "closer": lambda look: look.number_ballot(ranges.parts(-50, 12_000), inside=True),
}


def votes_of(frame, row, release):
    """The tallies with and without `row`, over the same items: those of the table that has it."""
    whole = [
        RELEASES[release](look) for look in looks(frame) if release in ("values", "rare values") or look.seeks_range
    ]
    rest = [votes.Ballot(np.delete(b.codes, row), b.item, b.items, b.square) for b in whole]
    return np.concatenate(votes.tally(whole)), np.concatenate(votes.tally(rest))


def attack(with_row, without_row, noise):
    """The best lower bound on epsilon from how often the likelihood ratio speaks for the row, with and without it."""
    moved = np.flatnonzero(with_row != without_row)
    direction = (with_row - without_row)[moved].astype(float)
    direction /= np.linalg.norm(direction)
    along = []
    for sums in (with_row[moved], without_row[moved]):
        noisy = noise.add(np.tile(sums, RUNS)).reshape(RUNS, -1)
        along.append((noisy - without_row[moved] / votes.WEIGHT) @ direction / NOISE)
    hits = [[int((side > cut).sum()) for side in along] for cut in CUTS]
    return max(epsilon_shown(*pair) for pair in hits)


def fresh_noise():
    return votes.Noise.of(Ledger(100.0, 1e-3).spend(Gaussian(noise_multiplier=NOISE), "audit"))


def halve(monkeypatch):
    noised = release._noised
    monkeypatch.setattr(
        release, "_noised", lambda what, sums, bound, scale, bits: noised(what, sums, bound, scale // 2, bits)
    )


def shown_epsilons(release, number):
    bounds = []
    for frame, row in pairs(number):
        with_row, without_row = votes_of(frame, row, release)
        if (with_row != without_row).any():
            bounds.append(attack(with_row, without_row, fresh_noise()))
    return bounds


@pytest.mark.parametrize("release", RELEASES)
def test_no_tally_tells_neighbours_apart_better_than_paid_for(release):
    bounds = shown_epsilons(release, 30)
    assert len(bounds) >= 15
    assert max(bounds) <= CLAIMED


@pytest.mark.parametrize("release", RELEASES)
def test_the_audit_sees_halved_noise(release, monkeypatch):
    halve(monkeypatch)
    bounds = shown_epsilons(release, 15)
    assert min(bounds) > CLAIMED


def counts(rows, epsilon, runs):
    table = PrivateTable(pd.DataFrame({"c": ["a"] * rows}))
    schema = Schema((Column(name="c", kind="category"),))
    return np.array([count_rows(table, schema, Ledger(epsilon), share=1.0) for _ in range(runs)])


def test_the_row_count_tells_neighbours_apart_no_better_than_paid_for(monkeypatch):
    def bound(epsilon, runs=700):
        more, fewer = counts(51, epsilon, runs), counts(50, epsilon, runs)
        return epsilon_shown(int((more > 50).sum()), int((fewer > 50).sum()), runs, delta=0.0)

    assert bound(1.0) <= 1.0
    module = importlib.import_module("twinify_lite.discover")  # the package's own name for it is the function
    monkeypatch.setattr(module, "discrete_laplace", lambda bits, scale: exact.discrete_laplace(bits, scale / 2))
    assert bound(1.0) > 1.0


def test_an_item_of_one_row_is_shown_no_more_often_than_paid_for():
    """A level that only one person has, in a table where nobody else votes for anything rare."""
    chance, runs = 0.02, 400
    shown = 0
    noise = fresh_noise()
    for _ in range(runs):
        look = findings.look_at(SCHEMA["c"], PrivateTable(pd.DataFrame({"c": ["unique"]}, dtype="string")))
        sums = votes.tally([findings.value_ballot(look)])[0]
        look.take(np.append(0.0, noise.select(sums[1:], delta=chance)), noise.scale)
        shown += "unique" in look.frequent
    assert at_least(shown, runs) <= chance


def test_the_row_count_is_paid_for_as_discrete_laplace():
    ledger = Ledger(1.0)
    count_rows(
        PrivateTable(pd.DataFrame({"c": ["a"]})), Schema((Column(name="c", kind="category"),)), ledger, share=0.02
    )
    assert [type(receipt.mechanism) for receipt in ledger.receipts] == [DiscreteLaplace]
    assert ledger.spent == (pytest.approx(0.02), 0)


def released_noise(monkeypatch, run):
    """What real discoveries added to their tallies, in units of what each receipt pays for, by its name."""
    noise = {}
    make, counts, select = votes.Tally.__init__, votes.Tally.counts, votes.Tally.select

    def made(self, receipt, ballots):
        make(self, receipt, ballots)
        self.receipt = receipt

    def record(self, released, ballot, items):
        exact = self._sums[ballot][items] / votes.WEIGHT
        shown = np.isfinite(released)
        added = (released - exact)[shown] / self.receipt.mechanism.noise_multiplier
        noise.setdefault(self.receipt.what, []).extend(added)
        return released

    monkeypatch.setattr(votes.Tally, "__init__", made)

    def counted(self, ballot, items=slice(None)):
        return record(self, counts(self, ballot, items), ballot, items)

    def selected(self, ballot, items, *, delta):
        return record(self, select(self, ballot, items, delta=delta), ballot, items)

    monkeypatch.setattr(votes.Tally, "counts", counted)
    monkeypatch.setattr(votes.Tally, "select", selected)
    # All items above the floor are shown: a threshold would show those with large noise alone.
    monkeypatch.setattr(votes, "norm", SimpleNamespace(isf=lambda delta: -1e9))
    run()
    return {what: np.array(added) for what, added in noise.items()}


def discoveries():
    rng = np.random.default_rng(3)
    years = {f"y{i}": rng.uniform(1950, 2020, 4000) for i in range(4)}
    codes = {f"c{i}": rng.choice(list("abcdefghij"), 4000) for i in range(8)}
    codes["ward"] = rng.choice(["W1", "W2", "W3", "W4"], 4000)  # so that W0 to Z9 are asked for by name
    for seed in range(12):
        discover(pd.DataFrame(years | codes), ledger=Ledger(20.0, 1e-2, insecure_seed=seed), share=0.9)


def p_value_of_variance(added):
    """Two-sided, that `added` are standard Gaussian numbers."""
    below = stats.chi2.cdf(float((added**2).sum()), len(added))
    return 2 * min(below, 1 - below)


def test_every_release_of_a_discovery_has_the_noise_that_its_receipt_pays_for(monkeypatch):
    noise = released_noise(monkeypatch, discoveries)
    assert set(noise) == {"kinds", "values", "rare values", "magnitudes", "closer", "closest"}
    for added in noise.values():
        assert len(added) > 100
        assert p_value_of_variance(added) > 1e-5
        assert p_value_of_variance(added / 2) < 1e-5
    assert len(noise["rare values"]) > 12 * 250
