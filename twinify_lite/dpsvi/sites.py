"""The sites of a NumPyro model or guide, run on rows: with numbers, or with shapes only."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree
from numpyro import handlers
from numpyro.distributions import biject_to
from numpyro.primitives import Messenger

Trace = Mapping[str, dict[str, Any]]


class PlatesInOrder(Messenger):
    """Every plate takes its first places: rows are chosen by our own sampler, and NumPyro's need not run."""

    def process_message(self, msg: dict[str, Any]) -> None:
        """Fill in the indices of a plate that would draw them."""
        if msg["type"] == "plate" and msg["value"] is None:
            msg["value"] = jnp.arange(msg["args"][1])


def run(
    fn: Callable,
    key: Array,
    values: Mapping[str, Any],
    rows: PyTree,
    kwargs: Mapping[str, Any],
    unconstrained: Mapping[str, Array] | None = None,
) -> Trace:
    """Trace `fn` with `values` at its sites, plates and parameters; `unconstrained` ones are mapped to supports."""
    latents = {} if unconstrained is None else unconstrained

    def constrain(site: dict[str, Any]) -> Array | None:
        is_latent = site["type"] == "sample" and not site["is_observed"] and site["name"] in latents
        return biject_to(site["fn"].support)(latents[site["name"]]) if is_latent else None

    seeded = handlers.seed(PlatesInOrder(fn), key)
    fixed = handlers.substitute(handlers.substitute(seeded, data=dict(values)), substitute_fn=constrain)
    with warnings.catch_warnings():
        # The row plate is given its indices here, whatever subsample size the model asks for.
        warnings.filterwarnings("ignore", message="subsample_size does not match", category=UserWarning)
        return handlers.trace(fixed).get_trace(*rows, **kwargs)


def sketch(fn: Callable, values: Mapping[str, Any], rows: PyTree, kwargs: Mapping[str, Any]) -> Trace:
    """The sites of `fn` with shapes but no numbers: nothing is computed."""
    found: dict[str, dict[str, Any]] = {}
    jax.eval_shape(lambda rows: found.update(run(fn, jax.random.key(0), values, rows, kwargs)), rows)
    return found


def log_prob(site: dict[str, Any]) -> Array:
    """Log density at each place of a sample site, scaled as the model asks."""
    value, hints = site["value"], site["intermediates"]
    result = site["fn"].log_prob(value, hints) if hints else site["fn"].log_prob(value)
    return result if site["scale"] is None else site["scale"] * result


def samples(trace: Trace) -> dict[str, dict[str, Any]]:
    """The sample sites of a trace."""
    return {name: site for name, site in trace.items() if site["type"] == "sample"}


def plates_of(site: dict[str, Any]) -> set[str]:
    """The names of the plates around a site."""
    return {frame.name for frame in site.get("cond_indep_stack", ())}


def plate_scale(trace: Trace, plate: str) -> float:
    """The factor by which the plate multiplies densities: its size over the number of rows it was given."""
    if plate not in trace:
        return 1.0
    return trace[plate]["args"][0] / trace[plate]["value"].shape[0]
