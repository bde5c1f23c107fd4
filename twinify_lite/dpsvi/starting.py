"""What runs once, before the first step: it is compiled as a whole and quickly, because it takes no time to run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree
from numpyro.infer import SVI
from numpyro.infer.autoguide import AutoGuide
from numpyro.primitives import Messenger

# XLA's name for what follows its rewriting of the program: the making of machine code.
_QUICK = {"xla_backend_optimization_level": 0}


def jit_once(fn: Callable, **options: Any) -> Callable:
    """`jax.jit` for what runs once or a few times on few rows: it is compiled sooner, and the code is slower."""
    return jax.jit(fn, compiler_options=_QUICK, **options)


class _Begins(Exception):
    """Where a guide that is called for what it does before its first site has done that."""


class _FirstSite(Messenger):
    """Ends a guide at its first parameter or site."""

    def process_message(self, msg: dict[str, Any]) -> None:
        """End the call."""
        if msg["type"] in ("param", "sample"):
            raise _Begins


def set_up(guide: Callable, call: Callable[[Callable], Any]) -> None:
    """Have an automatic guide read its model, as it does when it is called first; its sites need not run for that."""
    if isinstance(guide, AutoGuide) and guide.prototype_trace is None:
        with contextlib.suppress(_Begins):
            call(_FirstSite(guide))


def initial_state(svi: SVI, key: Array, rows: PyTree, init_params: dict | None, kwargs: dict[str, Any]) -> Any:
    """NumPyro's initial state as one program, because op by op each would be compiled by itself."""

    def start(key: Array) -> Any:
        return svi.init(key, *rows, init_params=init_params, **kwargs)

    if traced((key, init_params, kwargs)):
        return start(key)
    state = jit_once(start)(key)
    # The transforms are kept beside the state. Where a parameter's bounds were computed, they must be numbers.
    return start(key) if traced(svi.constrain_fn.args) else state


def parameter_shapes(svi: SVI, rows: PyTree, kwargs: dict[str, Any]) -> PyTree:
    """The shapes of the unconstrained parameters, as `initial_state` would make them."""

    def start(key: Array) -> PyTree:
        return svi.optim.get_params(svi.init(key, *rows, **kwargs).optim_state)

    shapes = jax.eval_shape(start, jax.random.key(0))
    # The transforms are kept beside the state. Where a parameter's bounds were computed, they must be numbers.
    return start(jax.random.key(0)) if traced(svi.constrain_fn.args) else shapes


def moved(params: PyTree) -> PyTree:
    """Unconstrained parameters, a little away from where they start: what is 0 there hides what it will do."""
    leaves, tree = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(0), max(1, len(leaves)))

    def move(leaf: Array, key: Array) -> Array:
        is_real = jnp.issubdtype(jnp.result_type(leaf), jnp.floating)
        return leaf + jax.random.normal(key, jnp.shape(leaf), jnp.result_type(leaf)) / 3 if is_real else leaf

    return tree.unflatten([move(leaf, key) for leaf, key in zip(leaves, keys, strict=False)])


@contextlib.contextmanager
def evaluated() -> Iterator[None]:
    """Compute here and now what follows, also while a program is being traced."""
    # Only then, because this also takes programs apart that are traced in here.
    is_inside = traced(jnp.zeros(()))
    with jax.ensure_compile_time_eval() if is_inside else contextlib.nullcontext():
        yield


def traced(values: PyTree) -> list[Array]:
    """The arrays among `values` that stand for others, in a program that is being traced."""
    return [leaf for leaf in jax.tree.leaves(values) if isinstance(leaf, jax.core.Tracer)]
