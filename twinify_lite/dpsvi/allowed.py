"""What the program of one row may do: JAX's own operations on that row, and nothing that is batched in ways of its own.

A primitive of somebody else's has a batching rule of its own, which sees all rows at once; a callback hands cells to
Python; a foreign call does anything. So the list is a closed one, and by identity: a name proves nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

import jax
import jax.numpy as jnp
from jax.extend import core
from jax.extend.core import primitives
from jaxtyping import Array

from twinify_lite import rng
from twinify_lite.dpsvi.lookup import lookup_p
from twinify_lite.errors import ModelError

# Across devices or named axes, with a state of their own, or with one key for a whole batch.
_REFUSED = {
    "all_gather_p",
    "all_to_all_p",
    "axis_index_p",
    "infeed_p",
    "outfeed_p",
    "pmax_p",
    "pmin_p",
    "ppermute_p",
    "psum_p",
    "psum_scatter_p",
    "ragged_all_to_all_p",
    "rng_bit_generator_p",
    "rng_uniform_p",
}


def _listed() -> set[core.Primitive]:
    """The operations that JAX lists by name."""
    found = {name: one for module in (primitives, jax.lax, jax.lax.linalg) for name, one in vars(module).items()}
    return {one for name, one in found.items() if isinstance(one, core.Primitive) and name not in _REFUSED}


def _unlisted(words: Array) -> tuple[Array, Array]:
    """A program of those that it does not."""
    keys = jax.random.wrap_key_data(words, impl="threefry2x32")
    return jax.random.key_data(keys), jax.lax.platform_dependent(cpu=lambda: words, default=lambda: words + 1)


@functools.cache
def _known() -> tuple[frozenset[core.Primitive], frozenset]:
    """The operations and the types of random keys that are known."""
    traced = jax.make_jaxpr(_unlisted)(jax.ShapeDtypeStruct((2,), jnp.uint32))
    unlisted = {eqn.primitive for eqn in _all_equations(traced.jaxpr)}
    keys = (lambda: jax.random.key(0, impl="threefry2x32"), lambda: jax.random.key(0, impl=rng.CHACHA20))
    return frozenset(_listed() | unlisted | {lookup_p}), frozenset(jax.eval_shape(key).dtype for key in keys)


def refuse_strangers(program: core.Jaxpr, which: str) -> None:
    """Refuse a traced program that does anything but JAX's own operations on what it is given.

    Formal guarantee: in what passes, no equation anywhere calls Python, prints, has an effect, or is batched by a rule
    that is not JAX's own; random keys are those whose batches are one stream a key.
    """
    if program.effects or any(_talks(eqn) for eqn in _all_equations(program)):
        raise ModelError(
            f"The {which} calls back to Python or prints (jax.debug, pure_callback, io_callback), and what it is given "
            "there are people's cells, which nobody paid for. Remove the call."
        )
    operations, keys = _known()
    for eqn in _all_equations(program):
        if eqn.primitive not in operations:
            raise ModelError(
                f"The {which} uses the operation '{eqn.primitive.name}', which is not one of JAX's own or may see "
                "several rows at once (custom_vmap, a foreign call, a kernel). Write that part with jax.numpy."
            )
        if any(jnp.issubdtype(_dtype(var), jax.dtypes.prng_key) and _dtype(var) not in keys for var in eqn.outvars):
            raise ModelError(
                f"The {which} makes random keys of another kind than JAX's default. Use the key that NumPyro gives "
                '(numpyro.prng_key()), or jax.random.key(seed, impl="threefry2x32").'
            )


def looks_around(program: core.Jaxpr) -> bool:
    """Whether a row's bits in a batch may change with the rows next to it.

    JAX iterates an incomplete beta function until all of its results have converged, and those that have go on changing
    meanwhile. Its other operations either take as many rounds for every row, or leave alone what has converged.
    """
    return any(eqn.primitive is primitives.regularized_incomplete_beta_p for eqn in _all_equations(program))


def _dtype(var: core.Var) -> object:
    return getattr(var.aval, "dtype", jnp.dtype(bool))


def _talks(eqn: core.JaxprEqn) -> bool:
    return bool(eqn.effects) or "callback" in eqn.primitive.name or eqn.primitive.name == "debug_print"


def _all_equations(program: core.Jaxpr) -> Iterator[core.JaxprEqn]:
    """The equations of a program and of all programs inside it."""
    for eqn in program.eqns:
        yield eqn
        for inner in core.jaxprs_in_params(eqn.params):
            yield from _all_equations(inner)
