"""Every sum that reaches a release moves by at most what is paid for, and before the noise nothing else differs.

Runs on neighbouring tables have the same keys and are shown the same releases (`replaying`), so that later stages ask
for the same. What is compared: all exact sums, in whole numbers and fractions; and the trace of what was paid for and
used, of shapes, bounds, deviations and draws, in order. (Idea: auditing by replay, arXiv 2602.17454.)
"""

import itertools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from fits import KEY, mean_field
from neighbours import HOSTILE
from numpyro import plate, sample
from numpyro.infer import Trace_ELBO
from numpyro.optim import Adam
from replaying import joined_by_one, moved, overdrawn, recorded
from tables import hospital

import twinify_lite as tw
from twinify_lite import release
from twinify_lite.auto import tables
from twinify_lite.discover import votes
from twinify_lite.dpsvi import batches, gradient, lattice, step
from twinify_lite.dpsvi.batches import Draw
from twinify_lite.schema.draft import fill_by_types

#: Of how many random tables; many, where time does not matter.
MANY = pytest.mark.parametrize("number", [10, pytest.param(150, marks=pytest.mark.slow)])
RELATIONS = pytest.mark.parametrize("relation", ["add-remove", "substitute"])


def both(run, table, neighbour):
    """The tapes of runs on a table and on its neighbour, and whether they return the same."""
    with recorded() as one:
        first = run(table)
    with recorded(given=one) as other:
        second = run(neighbour)
    return one, other, first == second


def replayed(run, table, neighbour):
    """How far each receipt's sums moved, of what it pays for, once nothing else is seen to differ."""
    one, other, same = both(run, table, neighbour)
    assert one.trace == other.trace
    assert len(one.released) == len(other.released)
    assert not overdrawn(one, other)
    assert same
    return {what: float(moved(one, other, what) / paid) ** 0.5 for what, paid in one.paid.items()}


def farthest(found):
    """Of several comparisons, how far each receipt's sums moved at most."""
    return {what: max(one[what] for one in found if what in one) for what in {*itertools.chain(*found)}}


def hostile_row(frame, rng):
    return pd.DataFrame({name: [str(rng.choice([*HOSTILE.values()]))] for name in frame})


def neighbour_of(frame, relation, rng):
    """One row more or less, or another one in its place: a hostile one, or one like the others."""
    place = int(rng.integers(len(frame)))
    new = hostile_row(frame, rng) if rng.random() < 0.7 else frame.iloc[[int(rng.integers(len(frame)))]]
    if relation == "add-remove" and rng.random() < 0.5 and len(frame) > 1:
        return frame.drop(index=place).reset_index(drop=True)
    rest = frame if relation == "add-remove" else frame.drop(index=place)
    return pd.concat([rest[:place], new, rest[place:]], ignore_index=True)


def pairs(number, relation, rows=(1, 2, 3, 20, 60)):
    """Random tables of some columns, and their neighbours of the same types, which the statement discloses."""
    rng = np.random.default_rng(number)
    made = 0
    while made < number:
        frame = hospital(int(rng.choice(rows)), seed=int(rng.integers(10**6)))
        frame = frame[sorted(rng.choice(frame.columns, 5, replace=False))]
        other = neighbour_of(frame, relation, rng)
        if len({fill_by_types(None, tw.read_table(one))[0].to_toml() for one in (frame, other)}) == 1:
            made += 1
            yield frame, other


# -- counts and votes --------------------------------------------------------------------------------------------------

SETTINGS = {"epsilon": 3.0, "delta": 1e-3, "options": {"particles": 256}}
COMPLETE = """
columns.age = {kind = "integer", min = 0, max = 99, nullable = true}
columns.sex = {kind = "category", levels = ["female"], other = "other", nullable = false}
columns.ward = {kind = "category", levels = ["north", "south"], nullable = true}
columns.score = {kind = "number", min = -0.001, max = 0.001, nullable = true}
columns.visits = {kind = "integer", min = 0, max = 20, special = [9999], nullable = false}
"""


def fitted(relation, **more):
    def run(frame):
        twin = tw.fit(frame, relation=relation, **SETTINGS, **more)
        meta, arrays, texts = twin.fitted.parts()
        kept = {name: array.tobytes() for name, array in arrays.items()}
        return meta, kept, texts, twin.rows, twin.notes, twin.schema.to_toml(), twin.statement

    return run


@RELATIONS
@MANY
def test_no_sum_of_a_fit_moves_by_more_than_is_paid_for_where_all_is_open(relation, number):
    found = farthest([replayed(fitted(relation), *pair) for pair in pairs(number, relation)])
    assert {"kinds", "values", "rare values", "magnitudes", "closer", "closest", "single columns"} <= {*found}
    assert found["values"] > 0.99  # the bound is reached, so what is watched is what is released
    assert found["rare values"] > 0.99


@RELATIONS
@MANY
def test_no_sum_of_a_fit_moves_by_more_than_is_paid_for_where_all_is_declared(relation, number):
    rng, found = np.random.default_rng(0), []
    schema = tw.Schema.from_toml(COMPLETE)
    for seed in range(number // 2):
        frame = hospital(int(rng.choice([2, 40, 200])), seed=seed)[[*schema]]
        other = neighbour_of(frame, relation, rng)
        found.append(replayed(fitted(relation, schema=schema, target="age"), frame, other))
    found = farthest(found)
    assert {"single columns", "choice of pairs", "pairs"} <= {*found}
    assert min(found["choice of pairs"], found["pairs"]) > 0.8


@RELATIONS
@MANY
def test_no_tally_of_discovery_moves_by_more_than_is_paid_for(relation, number):
    def run(frame):
        ledger = tw.Ledger(20.0, 1e-3, relation=relation)
        found = tw.discover(frame, ledger=ledger, share=1.0)
        return found.schema.to_toml(), found.rows, found.notes, str(ledger.statement())

    found = farthest([replayed(run, *pair) for pair in pairs(2 * number, relation, rows=(1, 3, 60, 500))])
    assert min(found["values"], found["rare values"]) > 0.99
    assert found.get("row count", 1.0) == 1.0


@RELATIONS
@MANY
@pytest.mark.parametrize("target", [None, "sex", "age"])
def test_no_sum_of_a_private_score_moves_by_more_than_is_paid_for(relation, target, number):
    schema = tw.Schema.from_toml(COMPLETE)
    synthetic = hospital(80, seed=5)[[*schema]]

    def run(frame):
        score = tw.private_score(frame, synthetic, epsilon=1.0, schema=schema, target=target, relation=relation)
        return score.to_json()

    rng, found = np.random.default_rng(1), []
    for seed in range(number // 2):
        frame = hospital(int(rng.choice([1, 2, 60])), seed=seed)[[*schema]]
        found.append(replayed(run, frame, neighbour_of(frame, relation, rng)))
    # Sums of distances never all move by a whole row at once.
    assert 0.05 < farthest(found)["score"] < 1


# -- DPSVI -------------------------------------------------------------------------------------------------------------

ROWS = 40
ODD = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e38, -3e38, 1e-40, 1.0, -7.5]


def regression(xs, ys, N):
    w = sample("w", dist.Normal(0, 4).expand([3]).to_event(1))
    with plate("batch", N, xs.shape[0]):
        sample("ys", dist.Normal(xs @ w, 1.0), obs=ys)


def columns(rows, seed=0):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.normal(size=(rows, 3)), jnp.float32), jnp.asarray(rng.normal(size=rows), jnp.float32)


def with_row(table, place, row):
    xs, ys = table
    return xs.at[place].set(row[:3]), ys.at[place].set(row[3])


def svi_of(mechanism, relation="add-remove"):
    receipt = tw.Ledger(1e4, 1e-3, relation=relation).spend(mechanism, "DPSVI")
    return tw.DPSVI(regression, mean_field, Adam(0.05), Trace_ELBO(), receipt, ROWS)


def trained(mechanism, relation="add-remove"):
    def run(table):
        svi = svi_of(mechanism, relation)
        result = svi.run(KEY, mechanism.steps, *table, progress_bar=False)
        leaves = jax.tree.leaves((result.params, result.state.clip_norm))
        return [np.asarray(leaf).tobytes() for leaf in leaves]

    return run


def joins(mechanism, row):
    """Compare trainings on a table and on the same one with `row` at its end."""
    table = with_row(columns(ROWS + 1), ROWS, row)
    run = trained(mechanism)
    with joined_by_one(ROWS, place=5):
        return replayed(run, jax.tree.map(lambda column: column[:ROWS], table), table)


POISSON = tw.PoissonGaussian(noise_multiplier=2.0, sampling_rate=0.5, steps=4)
FIXED = tw.FixedSizeGaussian(noise_multiplier=2.0, sampling_rate=0.5, steps=4)


def test_a_row_that_joins_a_poisson_batch_moves_its_sum_by_at_most_what_is_paid_for():
    assert joins(POISSON, [1.0, -3.0, 2.0, 1e4])["DPSVI"] > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("rate", [0.5, 1.0])
def test_so_does_a_row_of_odd_numbers_at_any_rate(odd, rate):
    mechanism = tw.PoissonGaussian(noise_multiplier=2.0, sampling_rate=rate, steps=4)
    assert joins(mechanism, [odd, 1.0, -odd, 1.0])["DPSVI"] <= 1


def test_a_row_that_is_replaced_moves_the_sum_of_a_batch_of_fixed_size_by_at_most_what_is_paid_for():
    table = columns(ROWS)
    run = trained(FIXED, "substitute")
    found = replayed(run, with_row(table, 3, [1.0, 1.0, 1.0, 50.0]), with_row(table, 3, [1.0, 1.0, 1.0, -50.0]))
    assert 0.9 < found["DPSVI"] <= 1


def summing(is_one_microbatch):
    """The private sum over the first `count` rows of a table in this order: compiled once."""
    svi = svi_of(POISSON)
    params = svi.optim.get_params(svi.init(KEY, *columns(ROWS)).optim_state)
    training = svi._ready()
    width = 64 if is_one_microbatch else 32
    sampler = batches.Sampler(ROWS + 1, ROWS + 1, None, width, 1.0, in_order=True, is_size_public=is_one_microbatch)
    shared, public = step.draw_shared(training, params, KEY)

    @jax.jit
    def run(table, count, clip_norm):
        first = jnp.minimum(jnp.arange(width), ROWS)
        batch = Draw(jnp.zeros((32, 2), jnp.uint32), count, first, KEY)
        return step._private_sum(training, clip_norm, shared, public, sampler, table, batch)

    def sums(table, count, clip_norm):
        total = run(table, jnp.int32(count), jnp.float32(clip_norm))
        words = jax.tree.leaves((total.words, total.count), is_leaf=lambda node: isinstance(node, lattice.Words))
        return np.concatenate([np.ravel((np.int64(word.high) << 16) + np.int64(word.low)) for word in words])

    return training.lattice, sums


@pytest.fixture(scope="module", params=[True, False], ids=["one microbatch", "several"])
def summed(request):
    return summing(request.param)


def paid_for(on):
    return (Fraction(on.law.deviation) / Fraction(POISSON.noise_multiplier)) ** 2


def moved_by(sums, table, new, place, clip_norm):
    """The square of how far the sums move where a row takes a place, and who had it moves to the end."""
    without = sums(table, ROWS, clip_norm)
    joined = jax.tree.map(lambda column: column.at[ROWS].set(column[place]), table)
    return sum(int(d) ** 2 for d in sums(with_row(joined, place, new), ROWS + 1, clip_norm) - without)


@pytest.mark.parametrize("clip_norm", [1e-3, 1.0, 1e6])
def test_one_row_masked_in_moves_the_sum_by_at_most_what_is_paid_for_whatever_it_holds(summed, clip_norm):
    on, sums = summed
    rng, squares = np.random.default_rng(0), []
    for seed in range(60):
        table = columns(ROWS + 1, seed)
        for place in rng.integers(0, ROWS, 3):  # hostile rows stand in both tables, too
            table = with_row(table, int(place), rng.choice(ODD, 4))
        new = rng.choice(ODD, 4) if seed % 2 else 100 * rng.normal(size=4)
        squares.append(moved_by(sums, table, new, int(rng.integers(ROWS + 1)), clip_norm))
    assert max(squares) <= paid_for(on)
    assert max(squares) > 0.9 * paid_for(on) or clip_norm > 1  # no row has so long a gradient


# -- what is planted ---------------------------------------------------------------------------------------------------


def counting_twice(one_way):
    return lambda codes, size: 2 * one_way(codes, size)


def half_as_steep(scales):
    return lambda *of: [scale._replace(steps=scale.steps // 2) for scale in scales(*of)]


def heavier(weights):
    return lambda square, most: 1.01 * weights(square, most)


OVERDRAWN = {
    "rows that count twice": (tables, "one_way", counting_twice, "single columns"),
    "half of the noise": (release, "scales", half_as_steep, "single columns"),
    "votes that weigh more": (votes, "_weights", heavier, "rare values"),
}


@pytest.mark.parametrize("plant", OVERDRAWN)
def test_a_sum_that_moves_by_more_than_is_paid_for_is_seen(plant, monkeypatch):
    place, name, wrong, what = OVERDRAWN[plant]
    monkeypatch.setattr(place, name, wrong(getattr(place, name)))
    frame = hospital(40)[["age", "sex", "ward"]]
    one, other, _ = both(fitted("add-remove"), frame, frame[1:])
    assert what in overdrawn(one, other)


def test_a_draw_more_that_hangs_on_rows_is_seen(monkeypatch):
    noised = release._noised

    def drawing(what, sums, bound, deviation, bits):
        noisy = noised(what, sums, bound, deviation, bits)
        bits.take(int(sums.sum() // bound) % 2)
        return noisy

    monkeypatch.setattr(release, "_noised", drawing)
    schema = tw.Schema.from_toml(COMPLETE)
    frame = hospital(40)[[*schema]]
    one, other, same = both(fitted("add-remove", schema=schema), frame, frame[1:])
    assert same
    assert not overdrawn(one, other)
    assert one.trace != other.trace


def test_a_gradient_that_is_not_clipped_is_seen(monkeypatch):
    monkeypatch.setattr(gradient, "clip_factor", lambda norm, _: jnp.ones_like(norm))
    on, sums = summing(True)
    assert moved_by(sums, columns(ROWS + 1), [1.0, 1.0, 1.0, 50.0], 3, 1.0) > paid_for(on)
