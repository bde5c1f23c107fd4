"""With noise, DPSVI is exactly the mechanism that was paid for, and gives away nothing else."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from fits import KEY, N, X, Y, leaves_equal, logistic, mean_field, paid_receipt, seeded
from numpyro import param, plate, sample
from numpyro.infer import Trace_ELBO, autoguide
from numpyro.optim import SGD, Adam
from scipy import stats

import twinify_lite as tw
from twinify_lite.errors import BudgetExceeded, ModelError, PrivacyParameterError, ReceiptError


def count_model(xs, N):
    """Every row's gradient with respect to `w` is exactly 1, so the private sum is the number of rows drawn."""
    w = param("w", jnp.float32(0.0))
    with plate("rows", N, xs.shape[0]):
        numpyro.factor("value", w * jnp.ones(xs.shape[0]) + 0 * xs)


def no_guide(xs, N):
    return None


def many_steps(mechanism, relation="add-remove", *, table=40, clip_norm=1.0, keys=400):
    """The move of one SGD step under many independent secret keys, in units of a row's gradient."""
    ledger = tw.Ledger(1e6, 1e-5, relation=relation)
    svi = tw.DPSVI(
        count_model, no_guide, SGD(1.0), Trace_ELBO(), ledger.spend(mechanism, "x"), table, clip_norm=clip_norm
    )
    column = jnp.zeros(table)
    state = svi.init(KEY, column)
    sampler = svi._sampler(column, is_batch=False)
    from twinify_lite import rng
    from twinify_lite.dpsvi import step
    from twinify_lite.receipt import Secrets

    words = jax.random.bits(rng.insecure_key(11), (keys, 2, 8), jnp.uint32)

    @jax.jit
    @jax.vmap
    def one(words):
        secrets = Secrets(*(jax.random.wrap_key_data(w, impl=rng.CHACHA20) for w in words))
        after = step.run_one(svi._training, sampler, secrets, state, (column,), jnp.int32(1))
        return svi.optim.get_params(after.optim_state)["w"]

    return np.asarray(one(words)) / sampler.rows_over_batch / clip_norm * 1.0


def test_poisson_batches_are_binomial_and_the_noise_has_the_paid_for_size():
    mechanism = tw.PoissonGaussian(noise_multiplier=2.0, sampling_rate=0.3, steps=1)
    moves = many_steps(mechanism, table=40, keys=4000)
    clipped = 1 - 1e-4
    expected = 40 * 0.3 * clipped
    variance = 40 * 0.3 * 0.7 + 2.0**2
    assert moves.mean() == pytest.approx(expected, abs=4 * np.sqrt(variance / 4000))
    # A chi-square interval at 4 sigma: halved noise (variance 9.4 instead of 12.4) is far outside.
    assert moves.var() == pytest.approx(variance, rel=4 * np.sqrt(2 / 4000))


@pytest.fixture
def any_epsilon(monkeypatch):
    """Lets fits with next to no noise run, whose epsilon is too large to vouch for."""
    monkeypatch.setattr(tw.Ledger, "_sampling_allowance", lambda *_: math.inf)


@pytest.mark.usefixtures("any_epsilon")
def test_almost_noiseless_poisson_batches_have_binomial_sizes():
    mechanism = tw.PoissonGaussian(noise_multiplier=0.02, sampling_rate=0.25, steps=1)
    sizes = np.rint(many_steps(mechanism, table=12, keys=3000) / (1 - 1e-4)).astype(int)
    counts = np.bincount(sizes, minlength=13)
    expected = stats.binom.pmf(np.arange(13), 12, 0.25) * 3000
    groups = [slice(0, 1), slice(1, 2), slice(2, 3), slice(3, 4), slice(4, 5), slice(5, 6), slice(6, 13)]
    statistic = sum((counts[g].sum() - expected[g].sum()) ** 2 / expected[g].sum() for g in groups)
    assert stats.chi2.sf(statistic, len(groups) - 1) > 1e-4


def test_fixed_size_batches_have_their_size_and_noise():
    mechanism = tw.FixedSizeGaussian(noise_multiplier=0.5, sampling_rate=0.25, steps=1)
    moves = many_steps(mechanism, "substitute", table=40, keys=3000)
    assert moves.mean() == pytest.approx(10 * (1 - 1e-4), abs=4 * 0.5 / np.sqrt(3000))
    assert moves.var() == pytest.approx(0.25, rel=4 * np.sqrt(2 / 3000))


def large_model(xs, N):
    """Two latents that together need the generator's path for many numbers; the rows pull at neither."""
    a = sample("a", dist.Normal(0, 1e9).expand([5000]).to_event(1))
    b = sample("b", dist.Normal(0, 1e9).expand([70, 100]).to_event(2))
    with plate("rows", N, xs.shape[0]):
        sample("x", dist.Normal(0 * (a.sum() + b.sum()), 1.0), obs=xs)


def large_guide(xs, N):
    sample("a", dist.Delta(param("at", jnp.zeros(5000)), event_dim=1))
    sample("b", dist.Delta(param("bt", jnp.zeros((70, 100))), event_dim=2))


def test_every_coordinate_of_a_large_release_has_its_own_noise_of_the_paid_for_size():
    receipt = paid_receipt(noise=3.0, rate=0.5, steps=1)
    svi = tw.DPSVI(large_model, large_guide, SGD(1.0), Trace_ELBO(), receipt, N, clip_norm=2.0)
    params = svi.run(KEY, 1, jnp.zeros(N), progress_bar=False).params
    noise = np.concatenate([np.ravel(params["at"]), np.ravel(params["bt"])]) * 0.5 / 2.0 / 3.0
    assert noise.size > 2**13
    assert noise.std() == pytest.approx(1.0, rel=4.5 / np.sqrt(2 * noise.size) + 2e-3)
    assert stats.kstest(noise, "norm").pvalue > 1e-4
    assert len(np.unique(noise)) > 0.99 * noise.size


def test_rows_and_noise_of_every_step_have_keys_of_their_own():
    from twinify_lite import rng
    from twinify_lite.dpsvi import step
    from twinify_lite.receipt import Secrets

    svi, keys = seeded(), rng.insecure_keys(1, 0, 4)
    svi.init(KEY, X, Y)
    sampler = svi._sampler((X, Y), is_batch=False)

    @jax.jit
    def group(rows, noise, first):
        batch, numbers = step._draw_steps(svi._training, sampler, Secrets(rows, noise), first, 4)
        return batch.first, numbers

    def drawn(rows, noise):
        both = zip(*(group(rows, noise, jnp.int32(first)) for first in (0, 4)), strict=True)
        return [np.concatenate(each) for each in both]

    places, noise = drawn(keys[0], keys[1])
    for each in (places, noise):
        assert len({one.tobytes() for one in each}) == 8
    other_places, same_noise = drawn(keys[2], keys[1])
    same_places, other_noise = drawn(keys[0], keys[3])
    assert np.array_equal(noise, same_noise)
    assert np.array_equal(places, same_places)
    assert not np.any(np.all(noise == other_noise, axis=1))
    assert not np.any(np.all(places == other_places, axis=1))


def test_the_automatic_clip_norm_pays_for_its_count_with_more_gradient_noise():
    from twinify_lite.dpsvi import clip, lattice

    summed = lattice.Summed(coordinates=10, tapped=0, roundings=0)
    share = clip.clip_rule("auto").share
    auto, fixed = (lattice.lattice_for(summed, 3.0, part) for part in (share, 0.0))
    assert auto.limit**2 + auto.count**2 == pytest.approx((auto.law.deviation / 3) ** 2, rel=1e-6)
    assert (auto.count / fixed.limit) ** 2 == pytest.approx(share, rel=1e-3)
    assert fixed.count == 0


@pytest.mark.usefixtures("any_epsilon")
def test_batches_larger_than_a_microbatch_are_not_cut(monkeypatch):
    from twinify_lite.dpsvi import batches

    monkeypatch.setattr(batches, "_LARGEST_MICROBATCH", batches.WIDTH)
    mechanism = tw.PoissonGaussian(noise_multiplier=0.02, sampling_rate=0.5, steps=1)
    sizes = np.rint(many_steps(mechanism, table=100, keys=2000) / (1 - 1e-4))
    assert sizes.mean() == pytest.approx(50, abs=4 * np.sqrt(25 / 2000))  # nor does any have a row too many
    assert sizes.var() == pytest.approx(25, rel=4 * np.sqrt(2 / 2000))
    assert sizes.min() < 2 * batches.WIDTH < sizes.max()


def test_a_run_in_chunks_equals_a_run_in_one_bit_for_bit():
    whole = seeded(steps=40).run(KEY, 40, X, Y, progress_bar=False, chunk_steps=40)
    chunked = seeded(steps=40).run(KEY, 40, X, Y, progress_bar=False, chunk_steps=7)
    assert leaves_equal(whole.params, chunked.params)
    first = seeded(steps=40)
    half = first.run(KEY, 13, X, Y, progress_bar=False)
    rest = first.run(KEY, 27, X, Y, progress_bar=False, init_state=half.state)
    assert leaves_equal(whole.params, rest.params)


def test_seeds_repeat_and_fresh_keys_do_not():
    runs = [seeded(seed=s).run(KEY, 5, X, Y, progress_bar=False).params for s in (3, 3, 4, None, None)]
    assert leaves_equal(runs[0], runs[1])
    for a, b in ((0, 2), (0, 3), (3, 4)):
        assert not leaves_equal(runs[a], runs[b])


def test_initial_values_come_from_made_up_rows_only():
    states = []
    for table in ((X, Y), (1e3 * X + 7, 1 - Y)):
        svi = tw.DPSVI(logistic, autoguide.AutoNormal(logistic), Adam(0.1), Trace_ELBO(), paid_receipt(seed=1), N)
        states.append(svi.init(KEY, *table))
    assert leaves_equal(states[0].optim_state, states[1].optim_state)
    assert states[0].clip_norm == states[1].clip_norm


def test_no_loss_is_released():
    svi = seeded()
    state, loss = svi.update(svi.init(KEY, X, Y), X, Y)
    assert np.isnan(loss)
    assert np.all(np.isnan(svi.run(KEY, 3, X, Y, progress_bar=False, init_state=state).losses))
    with pytest.raises(ReceiptError, match="rows_are_public"):
        svi.evaluate(state, X, Y)
    assert np.isfinite(svi.evaluate(state, X, Y, rows_are_public=True))


def test_a_state_shows_no_key():
    svi = seeded()
    state = svi.run(KEY, 3, X, Y, progress_bar=False).state
    shown = repr(state) + repr(jax.tree.map(lambda x: x, state)) + repr(svi.__dict__)
    held = [
        np.asarray(jax.random.key_data(x) if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else x)
        for x in jax.tree.leaves(state)
    ]
    for key in svi._secrets:
        words = jax.random.key_data(key)
        assert not any(str(word) in shown for word in words.tolist())
        assert not any(np.array_equal(words, x) for x in held)


def test_a_receipt_is_needed_and_serves_once():
    with pytest.raises(ReceiptError, match="approximate_sigma"):
        tw.DPSVI(logistic, mean_field, Adam(0.1), Trace_ELBO(), 1.0, N)
    svi = seeded()
    svi.init(KEY, X, Y)
    with pytest.raises(ReceiptError, match="has been used"):
        svi.init(KEY, X, Y)


def test_a_model_that_is_refused_does_not_use_up_the_receipt():
    receipt = paid_receipt()

    def outside(xs, ys, N):
        sample("ys", dist.Bernoulli(logits=jnp.zeros(len(xs))).to_event(1), obs=ys)

    with pytest.raises(ModelError, match="'ys'"):
        tw.DPSVI(outside, mean_field, Adam(0.1), Trace_ELBO(), receipt, N).init(KEY, X, Y)
    tw.DPSVI(logistic, mean_field, Adam(0.1), Trace_ELBO(), receipt, N).init(KEY, X, Y)


def test_steps_beyond_those_paid_for_are_refused_or_do_nothing():
    svi = seeded(steps=3)
    with pytest.raises(BudgetExceeded, match="3 steps"):
        svi.run(KEY, 4, X, Y, progress_bar=False)
    state = svi.run(KEY, 3, X, Y, progress_bar=False).state
    with pytest.raises(BudgetExceeded):
        svi.update(state, X, Y)
    with pytest.raises(Exception, match="pays for 3 steps"):
        jax.block_until_ready(jax.jit(svi.update)(state, X, Y))


def test_a_state_serves_its_own_receipt_only():
    first, second = seeded(), seeded()
    state = first.init(KEY, X, Y)
    second.init(KEY, X, Y)
    with pytest.raises(ReceiptError, match="another receipt"):
        second.update(state, X, Y)
    late = tw.DPSVI(logistic, mean_field, Adam(0.1), Trace_ELBO(), first.receipt, N)
    with pytest.raises(ReceiptError, match="has been used"):
        late.init(KEY, X, Y)
    with pytest.raises(ModelError, match="init"):
        late.update(state, X, Y)


def personal_draw(x, N):
    """A model whose rows' gradients depend on what the guide draws for each person."""
    w = param("w", jnp.float32(0.0))
    with plate("rows", N, len(x)):
        z = sample("z", dist.Normal(0, 1))
        numpyro.factor("value", w * jnp.sign(z) + 0 * x)


def personal_guide(x, N):
    with plate("rows", N, len(x)):
        sample("z", dist.Normal(0 * x, 1.0))


@pytest.mark.usefixtures("any_epsilon")
def test_what_the_guide_draws_for_a_person_is_secret():
    """With public draws by place, one row more or less would change every other row's gradient in a known way."""
    moves = []
    for _ in range(5):
        receipt = paid_receipt(noise=1e-3, rate=1.0, steps=1)
        svi = tw.DPSVI(personal_draw, personal_guide, SGD(1.0), Trace_ELBO(), receipt, N, clip_norm=1.0)
        state = svi.init(KEY, jnp.zeros(N))
        after, _ = svi.update(state, jnp.zeros(N))
        moves.append(float(svi.get_params(after)["w"]))
    assert len({round(move) for move in moves}) > 1


def test_an_epsilon_too_large_to_vouch_for_is_refused():
    svi = tw.DPSVI(logistic, mean_field, Adam(0.1), Trace_ELBO(), paid_receipt(noise=0.1, rate=1.0), N)
    with pytest.raises(PrivacyParameterError, match="finitely many bits"):
        svi.run(KEY, 50, X, Y, progress_bar=False)


def test_columns_by_keyword_or_from_outside_are_refused_at_every_call():
    svi = seeded()
    state = svi.init(KEY, X, Y)
    with pytest.raises(ModelError, match="'extra' has as many entries as num_obs_total"):
        svi.update(state, X, Y, extra=Y)

    def reads_a_global(xs, N):
        w = sample("w", dist.Normal(0, 1))
        with plate("rows", N, subsample_size=xs.shape[0]):
            sample("y", dist.Normal(jnp.sum(w * Y), 1.0), obs=xs)

    def reads_rows_of_a_global(xs, N):
        w = sample("w", dist.Normal(0, 1))
        with plate("rows", N, subsample_size=xs.shape[0]) as index:
            sample("y", dist.Normal(w + 0 * xs, 1.0), obs=Y[index])

    for model, said in ((reads_a_global, "table outside the function"), (reads_rows_of_a_global, "the whole table")):
        svi = tw.DPSVI(model, autoguide.AutoNormal(model), Adam(0.1), Trace_ELBO(), paid_receipt(), N)
        with pytest.raises(ModelError, match=said):
            svi.init(KEY, X[:, 0])


def test_update_under_scan_equals_update_in_a_loop():
    looped, scanned = seeded(), seeded()
    state = looped.init(KEY, X, Y)
    for _ in range(4):
        state, _ = looped.update(state, X, Y)
    other = scanned.init(KEY, X, Y)
    other, _ = jax.lax.scan(lambda s, _: scanned.update(s, X, Y), other, None, length=4)
    np.testing.assert_allclose(looped.get_params(state)["loc"], scanned.get_params(other)["loc"], rtol=1e-5, atol=1e-6)


def test_a_non_finite_row_cannot_poison_training():
    spoiled = X.at[5].set(jnp.nan).at[6].set(jnp.inf)
    params = seeded(noise=0.5).run(KEY, 50, spoiled, Y, progress_bar=False).params
    for leaf in jax.tree.leaves(params):
        assert np.all(np.isfinite(leaf))


def test_one_row_changes_the_private_sum_by_at_most_the_clip_norm():
    """With tiny noise and all rows, the released sums of neighbouring tables differ by one clipped row."""

    def move(columns):
        receipt = paid_receipt(noise=1e-3, rate=1.0, steps=1, seed=5)
        svi = tw.DPSVI(logistic, mean_field, SGD(1.0), Trace_ELBO(), receipt, N, clip_norm=0.25)
        state = svi.init(KEY, *columns)
        before = svi.optim.get_params(state.optim_state)["loc"]
        return np.asarray(svi.optim.get_params(svi.update(state, *columns)[0].optim_state)["loc"] - before)

    base = move((X, Y))
    for row in (0, 17, 119):
        wild = move((X.at[row].set(1e6), Y))
        # Replacing a row is removing one and adding another.
        assert np.linalg.norm(wild - base) <= 2 * 0.25 + 0.02
        gone = move((jnp.delete(X, row, axis=0), jnp.delete(Y, row)))
        assert np.linalg.norm(gone - base) <= 0.25 + 0.02


@pytest.mark.parametrize("rows", [1, 2, 32, 33])
def test_every_row_of_a_table_of_any_size_is_in_the_sum(rows):
    """The compiler knows how many rows there are where all are taken, and may not leave a loop over them out."""
    receipt = paid_receipt(noise=1e-3, rate=1.0, steps=1, seed=5)
    svi = tw.DPSVI(count_model, no_guide, SGD(1.0), Trace_ELBO(), receipt, N, clip_norm=1.0)
    column = jnp.zeros(rows)
    state = svi.run(KEY, 1, column, progress_bar=False).state
    assert float(svi.get_params(state)["w"]) == pytest.approx(rows, abs=0.05)
