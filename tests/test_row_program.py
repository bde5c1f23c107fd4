"""A row's pass: what is clipped is what is added up, and nobody else's cells reach it."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from twinify_lite import noise
from twinify_lite.dpsvi import lattice
from twinify_lite.dpsvi.gradient import whole_sum
from twinify_lite.dpsvi.lattice import Lattice
from twinify_lite.dpsvi.lookup import log_softmax_lookup
from twinify_lite.dpsvi.row_program import passes, trace_row

WIDTH = 32
CLIP_NORM = 1.0
STEPS = Lattice(50_000.0, 0, noise.LAWS[-1])


def mover(value, shared, public, row):
    """How far the first row's joining moves a sum, in clip norms, for (shared, public, row)."""
    program = trace_row(value, shared, public, row)

    @jax.jit
    def total(shared, public, row, number):
        rows = jax.tree.map(lambda x: jnp.repeat(jnp.asarray(x)[None], WIDTH, axis=0), row)
        mask = jnp.arange(WIDTH) < number
        return whole_sum(program, shared, public, rows, mask=mask, clip_norm=jnp.float32(CLIP_NORM), on=STEPS).gradient

    def moved(shared, public, row):
        before, after = (jax.tree.leaves(total(shared, public, row, number)) for number in (0, 1))
        apart = [np.ravel(y).astype(float) - np.ravel(x) for x, y in zip(before, after, strict=True)]
        return np.linalg.norm(np.concatenate(apart)) / CLIP_NORM

    return moved, 1 + lattice.rounding(program.summed, STEPS.limit) / STEPS.limit


def residual(shared, public, x):
    """Where `slope * x` is rounded the residual is 0, and where it is fused with the subtraction it is the rounding."""
    slope, level, little = public
    product = slope * x
    return shared[0] * (little * product) + shared[1] * (product - level)


def test_the_norm_is_that_of_the_very_bits_that_are_added_up():
    """A compiler that computes a gradient twice may round it in two ways: then 24,366 clip norms were added."""
    x, slope = np.float32(1234567.9), np.float32(765432.1)
    public = jnp.float32(slope), jnp.float32(slope * x), jnp.float32(1e-20)
    assert abs(float(slope) * float(x) - float(np.float32(slope * x))) > 1000
    given = [jnp.float32(0), jnp.float32(0)], public, x
    moved, allowed = mover(residual, *given)
    assert moved(*given) <= allowed


def weighted_lookup(shared, _, row):
    weight, level = row
    return weight * jnp.sum(log_softmax_lookup(shared, level))


def test_a_component_that_is_sure_of_a_level_is_clipped_whatever_a_row_weighs():
    """Shares below 1e-19 have squares that are none: a weight of 1e30 then came to 12,384 clip norms, and one of 1e37
    overflowed on its way to the lattice."""

    def logits(sure):
        return jnp.array([[0.0, -sure, -sure - 1], [1.0, 0.5 - sure, -sure]])

    moved, allowed = mover(weighted_lookup, logits(0.0), (), (jnp.float32(1), jnp.int32(0)))
    for sure, weight in itertools.product((0.0, 20.0, 43.0, 60.0, 80.0, 90.0, 100.0), (1.0, 1e10, 1e25, 1e30, 1e37)):
        for level in range(3):
            assert moved(logits(sure), (), (jnp.float32(weight), jnp.int32(level))) <= allowed


def steep_beta(shared, _, row):
    a, b, x, usual = row
    return shared * 1e12 * (jax.scipy.special.betainc(a, b, x) - usual)


def test_who_else_is_in_a_batch_does_not_reach_a_rows_bits():
    """JAX iterates an incomplete beta function until it has converged for all rows: one turned all others round."""
    x = np.tile(np.float32([0.5, 0.3, 0.1, 0.2]), WIDTH // 4)
    a, b = np.full(WIDTH, 2.5, np.float32), np.full(WIDTH, 1.5, np.float32)
    usual = np.asarray(jax.jit(jax.scipy.special.betainc)(a, b, x))
    a[-1], b[-1], x[-1] = 1e4, 1e4, 0.5  # it takes many more rounds
    rows = jax.tree.map(jnp.asarray, (a, b, x, usual))
    program = trace_row(steep_beta, jnp.float32(1), (), jax.tree.map(lambda x: x[0], rows))
    alike = jax.tree.map(lambda x: x.at[-1].set(x[0]), rows)
    among, without = (jax.jit(lambda rows: passes(program, jnp.float32(1), (), rows)[0])(r) for r in (rows, alike))
    np.testing.assert_array_equal(np.asarray(among.direct[0])[:-1], np.asarray(without.direct[0])[:-1])
