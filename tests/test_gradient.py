"""Clipping and summing: the fast way equals the plain way, and no row can exceed its norm or poison the others."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.extend.core import jaxprs_in_params

from twinify_lite.dpsvi import ghost
from twinify_lite.dpsvi.gradient import clip, clip_factor, clipped_sum, row_norms
from twinify_lite.dpsvi.row_program import trace_row
from twinify_lite.errors import ModelError

ROWS = 12


def plain_sum(value, shared, rows, mask, clip_norm):
    """The oracle: every row's gradient by `jax.grad`, clipped, masked and added."""
    gradients = jax.vmap(lambda row: clip(jax.grad(value)(shared, row), clip_norm))(rows)
    keep = lambda g: jnp.where(mask.reshape((-1,) + (1,) * (g.ndim - 1)), g, 0)  # noqa: E731
    return jax.tree.map(lambda g: jnp.sum(keep(g), axis=0), gradients)


def assert_trees_close(got, wanted):
    for (path, a), b in zip(jax.tree.leaves_with_path(got), jax.tree.leaves(wanted), strict=True):
        scale = max(1.0, float(jnp.abs(b).max()))
        np.testing.assert_allclose(a, b, atol=2e-5 * scale, err_msg=jax.tree_util.keystr(path))


def normal(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def dense(shared, row):
    x, y, _ = row
    hidden = jnp.tanh(x[None] @ shared["first"] + shared["bias"])[0]
    return -jnp.sum((shared["second"].T @ hidden - y) ** 2)


def tied(shared, row):
    x, y, _ = row
    return jnp.sum(jnp.tanh(x @ shared["first"]) @ shared["first"].T * y[0])


def sequence(shared, row):
    x, y, _ = row
    steps = jnp.outer(y, x)  # several places share one weight
    return jnp.sum(jnp.tanh(steps @ shared["first"]) @ shared["second"])


def embedding(shared, row):
    x, _, level = row
    return jnp.sum(jnp.tanh(shared["table"][level] * x[:3])) + jnp.sum(shared["first"][level] ** 2)


def bag(shared, row):
    x, _, level = row
    return jnp.sum(shared["table"][jnp.stack([level, level, 0 * level])] * x[:3]) ** 2


def mixture(shared, row):
    _, y, level = row
    parts = ghost.log_softmax_lookup(shared["table"].T, level) + jnp.sum(y) * shared["bias"][:3]
    return jax.scipy.special.logsumexp(parts)


def reshaped(shared, row):
    x, _, _ = row
    return jnp.sum(jnp.sin(x @ shared["first"].T.reshape(4, 5).T.reshape(5, 4)))


def scanned(shared, row):
    x, _, _ = row
    return jax.lax.scan(lambda c, _: (jnp.tanh(c @ shared["square"]), None), x, None, length=3)[0].sum()


def constant(shared, row):
    return jnp.sum(row[0]) + 0 * jnp.sum(shared["bias"])


MODELS = [dense, tied, sequence, embedding, bag, mixture, reshaped, scanned, constant]


def made_shared(seed=0):
    return {
        "first": normal(seed, 5, 4),
        "second": normal(seed + 1, 4, 2),
        "bias": normal(seed + 2, 4),
        "table": normal(seed + 3, 6, 3),
        "square": normal(seed + 4, 5, 5),
    }


def made_rows(seed=0):
    levels = jnp.asarray(np.random.default_rng(seed).integers(0, 6, ROWS))
    return normal(seed, ROWS, 5), normal(seed + 9, ROWS, 2), levels


@pytest.mark.parametrize("value", MODELS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("clip_norm", [0.05, 2.0, 1e5])
def test_fast_sum_equals_plain_sum(value, clip_norm):
    shared, rows, mask = made_shared(), made_rows(), jnp.arange(ROWS) < 9
    fast = jax.jit(lambda s, r: clipped_sum(value, s, r, mask=mask, clip_norm=clip_norm))(shared, rows)
    assert_trees_close(fast.gradient, plain_sum(value, shared, rows, mask, clip_norm))
    norms = jax.vmap(lambda row: jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(jax.grad(value)(shared, row)))))(
        rows
    )
    np.testing.assert_allclose(row_norms(value, shared, rows), norms, rtol=1e-4, atol=1e-5)
    assert fast.unclipped == jnp.sum((norms <= clip_norm) & mask)


@settings(max_examples=25, deadline=None)
@given(
    widths=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    places=st.integers(1, 3),
    log_clip=st.floats(-3, 3),
    seed=st.integers(0, 10_000),
)
def test_fast_sum_equals_plain_sum_for_random_networks(widths, places, log_clip, seed):
    sizes = [4, *widths]
    shared = {
        "w": [normal(seed + i, a, b) for i, (a, b) in enumerate(pairwise(sizes))],
        "b": [normal(seed + 50 + i, b) for i, b in enumerate(sizes[1:])],
        "scale": normal(seed + 99, sizes[-1]),
    }

    def value(shared, row):
        hidden = row
        for weight, bias in zip(shared["w"], shared["b"], strict=True):
            hidden = jax.nn.softplus(hidden @ weight + bias)
        return -jnp.sum(jnp.exp(-(shared["scale"] ** 2)) * hidden)

    rows, mask, clip_norm = normal(seed, ROWS, places, 4), jnp.arange(ROWS) % 3 > 0, 10.0**log_clip
    fast = clipped_sum(value, shared, rows, mask=mask, clip_norm=clip_norm).gradient
    assert_trees_close(fast, plain_sum(value, shared, rows, mask, clip_norm))


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf, -jnp.inf, 3e38])
@pytest.mark.parametrize("value", [dense, sequence, embedding, mixture], ids=lambda f: f.__name__)
def test_a_non_finite_row_counts_as_zero_and_poisons_nothing(value, bad):
    shared, (x, y, level) = made_shared(), made_rows()
    spoiled = (x.at[3].set(bad), y.at[3].set(bad), level)
    without = jnp.arange(ROWS) != 3
    got = clipped_sum(value, shared, spoiled, mask=jnp.ones(ROWS, bool), clip_norm=1.0).gradient
    rest = clipped_sum(value, shared, (x, y, level), mask=without, clip_norm=1.0).gradient
    change = jnp.sqrt(
        sum(jnp.sum((a - b) ** 2) for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(rest), strict=True))
    )
    assert change <= 1.0
    for leaf in jax.tree.leaves(got):
        assert jnp.all(jnp.isfinite(leaf))


def test_one_row_moves_the_sum_by_no_more_than_the_clip_norm_and_touches_no_other_row():
    shared, rows = made_shared(), made_rows()
    total = clipped_sum(dense, shared, rows, mask=jnp.ones(ROWS, bool), clip_norm=0.7).gradient
    for row in range(ROWS):
        perturbed = (rows[0].at[row].mul(1000.0), rows[1].at[row].add(1000.0), rows[2])
        moved = clipped_sum(dense, shared, perturbed, mask=jnp.ones(ROWS, bool), clip_norm=0.7).gradient
        without = clipped_sum(dense, shared, rows, mask=jnp.arange(ROWS) != row, clip_norm=0.7).gradient
        distance = lambda a, b: float(  # noqa: E731
            jnp.sqrt(sum(jnp.sum((x - y) ** 2) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)))
        )
        assert distance(total, without) <= 0.7
        assert distance(moved, without) <= 0.7


@given(st.floats(1e-3, 1e3), st.lists(st.floats(width=32), min_size=1, max_size=8))
@settings(max_examples=200, deadline=None)
def test_clip_never_exceeds_its_norm_even_for_nan_and_inf(clip_norm, values):
    clipped = np.asarray(clip({"g": jnp.asarray(values, jnp.float32)}, clip_norm)["g"], np.float64)
    assert np.all(np.isfinite(clipped))
    assert np.linalg.norm(clipped) <= clip_norm


def test_clip_leaves_small_gradients_as_they_are():
    assert clip_factor(jnp.float32(0.5), 1.0) == 1.0
    assert clip_factor(jnp.float32(0.0), 1.0) == 1.0
    assert clip_factor(jnp.float32(4.0), 1.0) == pytest.approx(0.25, rel=1e-3)
    assert clip_factor(jnp.float32(1e9), jnp.inf) == 1.0


def largest_array(jaxpr):
    sizes = [v.aval.size for eqn in jaxpr.eqns for v in eqn.outvars if hasattr(v.aval, "size")]
    inner = [largest_array(sub) for eqn in jaxpr.eqns for sub in jaxprs_in_params(eqn.params)]
    return max([*sizes, *inner, 0])


def test_dense_embedding_and_mixture_gradients_are_never_materialised():
    wide = 300
    shared = {"w": normal(0, wide, wide), "table": normal(1, wide, wide), "mix": normal(2, wide, wide)}

    def value(shared, row):
        x, level = row
        hidden = jnp.tanh(x @ shared["w"]) + shared["table"][level]
        return jnp.sum(hidden) + jax.scipy.special.logsumexp(ghost.log_softmax_lookup(shared["mix"], level))

    rows = (normal(3, 40, wide), jnp.arange(40))
    closed = jax.make_jaxpr(lambda s, r: clipped_sum(value, s, r, mask=jnp.ones(40, bool), clip_norm=1.0))(shared, rows)
    assert largest_array(closed.jaxpr) <= wide * wide
    program = trace_row(lambda shared, _, row: value(shared, row), shared, (), jax.tree.map(lambda x: x[0], rows))
    assert program.numbers_per_row == 3 * wide


def test_half_precision_is_refused_at_the_border_and_measured_in_single_inside():
    rows = normal(0, ROWS, 400)
    tiny = {"w": jnp.full((400, 50), 1e-4, jnp.float32)}

    def value(shared, row):
        return jnp.sum((row.astype(jnp.bfloat16) @ shared["w"].astype(jnp.bfloat16)).astype(jnp.float32)) * 1e-3

    fast = clipped_sum(value, tiny, rows, mask=jnp.ones(ROWS, bool), clip_norm=0.01).gradient
    assert_trees_close(fast, plain_sum(value, tiny, rows, jnp.ones(ROWS, bool), 0.01))
    half = jax.tree.map(lambda x: x.astype(jnp.float16), tiny)
    with pytest.raises(ModelError, match="float32"):
        clipped_sum(value, half, rows, mask=jnp.ones(ROWS, bool), clip_norm=0.01)


ADVERSARIES = {
    "two places that almost cancel": (
        lambda shared, x: jnp.sum(jnp.stack([x, x + 1e-4]) @ shared["w"] * jnp.array([[1e4], [-1e4 + 1]])),
        {"w": jnp.ones((6, 3))},
    ),
    "one slice twice with opposite signs": (
        lambda shared, x: jnp.sum(shared["w"][jnp.array([2, 2])] * jnp.array([[200.0], [-199.0]]) * x[0]),
        {"w": jnp.ones((6, 3))},
    ),
    "indices that are clamped to one slice": (
        lambda shared, x: jnp.sum(jnp.take(shared["w"], jnp.arange(10) + 50, axis=0, mode="clip") * x[0]),
        {"w": jnp.ones((6, 3))},
    ),
    "a component that is almost sure": (
        lambda shared, x: 1e6 * ghost.log_softmax_lookup(shared["w"] * 1.0, jnp.int32(0))[0] * x[0],
        {"w": jnp.asarray([[20.0, 0.0, 0.0], [0.0, 1.0, 2.0]])},
    ),
    "tiny inputs and huge effects": (
        lambda shared, x: jnp.sum(((1e-21 * x) @ shared["w"]) * 1e17),
        {"w": jnp.ones((6, 3))},
    ),
}


@pytest.mark.parametrize("name", ADVERSARIES)
@pytest.mark.parametrize("clip_norm", [1e-6, 1.0])
def test_no_row_contributes_more_than_the_clip_norm_whatever_it_does(name, clip_norm):
    value, shared = ADVERSARIES[name]
    rows = normal(3, ROWS, 6) * jnp.asarray(10.0 ** np.arange(-4, ROWS - 4))[:, None]
    for row in range(ROWS):
        alone = clipped_sum(value, shared, rows, mask=jnp.arange(ROWS) == row, clip_norm=clip_norm).gradient
        assert np.linalg.norm(np.asarray(alone["w"], np.float64)) <= clip_norm


@pytest.mark.parametrize("clip_norm", [1e-6, 1.0])
def test_the_rule_of_a_lookup_holds_where_a_component_is_almost_sure(clip_norm):
    """1 minus its share, which is 0 in single precision, would be the norm of a shorter gradient."""
    shared = {"w": jnp.asarray([[20.0, 0.0, 0.0], [0.0, 1.0, 2.0]])}
    value = lambda shared, _, x: 1e12 * ghost.log_softmax_lookup(shared["w"], jnp.int32(0))[0] * x  # noqa: E731
    assert len(trace_row(value, shared, (), jnp.float32(1)).forward.taps) == 1
    alone = clipped_sum(lambda s, x: value(s, (), x), shared, jnp.ones(1), mask=jnp.ones(1, bool), clip_norm=clip_norm)
    assert 0.99 * clip_norm <= np.linalg.norm(np.asarray(alone.gradient["w"], np.float64)) <= clip_norm


def test_a_function_that_only_shares_a_rules_name_is_not_taken_for_it():
    @jax.jit
    def log_softmax_lookup(logits, level):
        return 100 * jax.nn.log_softmax(logits, axis=-1)[:, level]

    shared = {"w": normal(0, 4, 3)}
    value = lambda shared, x: jnp.sum(log_softmax_lookup(shared["w"], jnp.int32(1))) * x  # noqa: E731
    fast = clipped_sum(value, shared, normal(1, ROWS), mask=jnp.ones(ROWS, bool), clip_norm=0.5).gradient
    assert_trees_close(fast, plain_sum(value, shared, normal(1, ROWS), jnp.ones(ROWS, bool), 0.5))


@pytest.mark.parametrize("fewer", [{"precision": "default"}, {"preferred_element_type": jnp.bfloat16}])
def test_a_product_in_fewer_bits_than_it_has_is_materialised(fewer):
    """The rule's norm is that of a product in all bits."""
    shared = {"w": normal(0, 5, 3)}

    def program(**how):
        value = lambda shared, _, x: jnp.sum(jnp.sin(jnp.dot(x, shared["w"], **how).astype(jnp.float32)))  # noqa: E731
        return trace_row(value, shared, (), normal(1, 5)).forward

    assert program().direct == ()
    assert program(**fewer).direct == (0,)
