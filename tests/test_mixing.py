"""Which rows a density depends on is read off its program: wide networks pass, and whatever mixes rows is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from fits import KEY, vae
from mixing_cases import APART, MIXES, by_guide, by_model, random_network
from numpyro import param, plate, sample
from numpyro.infer import Trace_ELBO
from numpyro.optim import Adam

import twinify_lite as tw
from twinify_lite.dpsvi import mixing, rows
from twinify_lite.dpsvi.row_axis import Kind, Layout, position
from twinify_lite.dpsvi.row_independence import follow
from twinify_lite.errors import ModelError

COLUMNS = jnp.ones((5, 4)), jnp.ones(5)


def check(model, guide, columns=COLUMNS):
    """Both checks, on cells between 0 and 1, or the `ModelError` of the first that refuses."""
    batches = [rows.invent_rows(columns, ["fraction"] * len(columns), 3, seed) for seed in range(3)]
    mixing.refuse_mixing(model, "model", batches, {}, "rows")
    mixing.refuse_mixing(guide, "guide", batches, {}, "rows", frozenset({"z"}))


@pytest.fixture
def read_off(monkeypatch):
    """A world in which nothing is tried on numbers."""
    monkeypatch.setattr(mixing, "_tries", lambda *_: pytest.fail("It was not read off its program."))


SLOW = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(40, 300)]


@pytest.mark.parametrize("seed", [*range(40), *SLOW])
def test_a_random_network_passes_and_its_numbers_are_never_looked_at(read_off, seed):
    check(*random_network(seed))


@pytest.mark.parametrize("columns", [1, 800, 2000, 20_000])
def test_a_scale_that_overflows_at_any_width_is_not_taken_for_mixing(read_off, columns):
    def model(x):
        with plate("rows", 100, len(x)):
            z = sample("z", dist.Normal(0, 1))
            there = dist.Normal(
                z[:, None] * param("c", jnp.zeros(columns)), jnp.exp(x @ param("d", jnp.zeros(columns)))[:, None]
            )
            sample("x", there.to_event(1), obs=x)

    def guide(x):
        with plate("rows", 100, len(x)):
            sample("z", dist.Normal(x @ param("a", jnp.zeros(columns)), jnp.exp(x @ param("b", jnp.zeros(columns)))))

    check(model, guide, (jnp.ones((5, columns)),))


@pytest.mark.parametrize("way", MIXES)
@pytest.mark.parametrize(("make", "site"), [(by_model, "'y'"), (by_guide, "'z' of the guide")])
def test_what_mixes_rows_is_refused_in_a_model_and_in_a_guide(way, make, site):
    with pytest.raises(ModelError, match=f"Site {site} mixes rows"):
        check(*make(MIXES[way]))


@pytest.mark.parametrize("way", APART)
@pytest.mark.parametrize("make", [by_model, by_guide])
def test_what_keeps_rows_apart_in_unusual_ways_passes(way, make):
    check(*make(APART[way]))


# -- guides without a plate: one density for all rows ------------------------------------------------------------------


def bare(density):
    def guide(x, y):
        sample("z", density(x, param("slope", jnp.zeros(4))))

    return by_guide(lambda x: x)[0], guide


def covariance(x, near):
    return jnp.eye(len(x)) + near * jnp.ones((len(x), len(x)))


WHOLE = {
    "each for itself": (lambda x, slope: dist.Normal(x @ slope, 1.0).to_event(1), False),
    "each for itself, above 0": (lambda x, slope: dist.LogNormal(x @ slope, 1.0).to_event(1), False),
    "by the mean": (lambda x, slope: dist.Normal((x - x.mean(0)) @ slope, 1.0).to_event(1), True),
    "correlated": (lambda x, slope: dist.MultivariateNormal(x @ slope, covariance(x, 0.5)), True),
    "by the number of rows": (lambda x, slope: dist.Normal(x @ slope, 1.0 / len(x)).to_event(1), True),
}


@pytest.mark.parametrize(("density", "is_mixed"), WHOLE.values(), ids=WHOLE)
def test_one_density_for_all_rows_must_be_a_sum_over_them(density, is_mixed):
    if not is_mixed:
        return check(*bare(density))
    with pytest.raises(ModelError, match="'z' of the guide mixes rows"):
        check(*bare(density))


# -- what is read off is so ------------------------------------------------------------------------------------------


def layout(transform, *shapes):
    """What is known of `transform` of arrays whose first axis has the rows."""
    three, two = (jax.make_jaxpr(transform)(*(jnp.zeros((number, *shape)) for shape in shapes)) for number in (3, 2))
    given = [Layout(Kind.ALIGNED, int(np.prod(shape))) for shape in shapes]
    (found,) = follow(three, two, given, 3)
    return found


@pytest.mark.parametrize(
    ("transform", "shape", "axis"),
    [
        (lambda x: x.T, (4,), (1, 1)),
        (lambda x: x.reshape(-1), (4,), (0, 4)),
        (lambda x: x.reshape(-1, 2), (4,), (0, 2)),
        (lambda x: jnp.stack([x, x], 1), (4,), (0, 1)),
        (lambda x: jnp.stack([x, x], 0), (4,), (1, 1)),
        (lambda x: x.sum(1), (4,), (0, 1)),
        (lambda x: jnp.einsum("nij,jk->kni", x, jnp.ones((2, 5))), (4, 2), (1, 1)),
        (lambda x: jnp.broadcast_to(x, (7, *x.shape)), (4,), (1, 1)),
    ],
)
def test_the_axis_of_the_rows_is_followed(transform, shape, axis):
    found = layout(transform, shape)
    assert (found.kind, found.placed) == (Kind.ALIGNED, False)
    assert position(jax.eval_shape(transform, jnp.zeros((3, *shape))).shape, found.stride, 3) == axis


@pytest.mark.parametrize("way", {**MIXES, **APART})
def test_no_row_that_another_one_changes_is_read_off_as_apart(way):
    """Whatever is said to be apart is computed, and other rows are put beside each."""
    transform = {**MIXES, **APART}[way]
    three, two = (jax.make_jaxpr(transform)(jnp.zeros((number, 4))) for number in (3, 2))
    try:
        (found,) = follow(three, two, [Layout(Kind.ALIGNED, 4)], 3)
    except mixing.Differs:
        return
    if found.kind is Kind.ALIGNED:
        generator = np.random.default_rng(0)
        x, others = generator.uniform(0, 1, (2, 3, 4)).astype(np.float32)
        owner = np.arange(transform(x).size) // found.stride % 3
        for place in range(3):
            changed = np.where(np.arange(3)[:, None] == place, x, others)
            mine = owner == place
            np.testing.assert_array_equal(np.ravel(transform(changed))[mine], np.ravel(transform(x))[mine])


# -- the paper's autoencoder -------------------------------------------------------------------------------------------


def paper_data(number=2000):
    """Blurred strokes: pictures with 784 dots, each black or white."""
    generator = np.random.default_rng(0)
    centres = generator.uniform(6, 22, (number, 1, 2))
    turned = generator.uniform(0, np.pi, (number, 1))
    grid = np.stack(np.meshgrid(np.arange(28), np.arange(28)), -1).reshape(1, 784, 2) - centres
    across = grid[..., 0] * np.sin(turned) + grid[..., 1] * np.cos(turned)
    return jnp.asarray((np.abs(across) < 2) & (np.linalg.norm(grid, axis=-1) < 9), jnp.float32)


@pytest.mark.parametrize("steps", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_the_papers_autoencoder_passes_and_trains(steps):
    model, guide = vae()
    x = paper_data()
    ledger = tw.Ledger(1e6, 1e-6, insecure_seed=0)
    receipt = ledger.spend(tw.PoissonGaussian(noise_multiplier=0.5, sampling_rate=128 / len(x), steps=steps), "DPSVI")
    svi = tw.DPSVI(model, guide, Adam(1e-3), Trace_ELBO(), receipt, len(x))
    state = svi.init(KEY, x)
    assert sum(leaf.size for leaf in jax.tree.leaves(svi.get_params(state))) == 688_884
    before = svi.evaluate(state, x[:200], rows_are_public=True)
    after = svi.evaluate(
        svi.run(KEY, steps, x, progress_bar=False, init_state=state).state, x[:200], rows_are_public=True
    )
    print(f"{steps} steps: {before / 200:.1f} -> {after / 200:.1f} nats a picture")
    assert after < (0.8 * before if steps == 100 else before)
