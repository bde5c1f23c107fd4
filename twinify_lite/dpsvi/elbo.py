"""The evidence lower bound, split where the data meet the parameters.

ELBO(psi) = E_theta [ G(theta, psi) + sum_i l(theta, phi; row_i) ],  theta = g(psi, noise): the sites outside the
row plate (prior, entropy, anchors) make G, which no person enters; a person enters only through l. So the
privatised quantity is the gradient of l with respect to (theta, phi) in unconstrained space, and the rest is exact
calculus on public values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree
from numpyro.distributions import biject_to, kl_divergence
from numpyro.infer import ELBO, Trace_ELBO, TraceMeanField_ELBO

from twinify_lite.dpsvi import jaxprs
from twinify_lite.dpsvi.allowed import refuse_strangers
from twinify_lite.dpsvi.rows import Structure
from twinify_lite.dpsvi.sites import Trace, log_prob, plate_scale, run, samples
from twinify_lite.errors import ModelError

Site = dict[str, Any]
Params = dict[str, PyTree]


def _by_sampling(model_site: Site | None, guide_site: Site | None) -> Array:
    plus = 0.0 if model_site is None else log_prob(model_site)
    minus = 0.0 if guide_site is None else log_prob(guide_site)
    return jnp.sum(plus) - jnp.sum(minus)


def _by_divergence(model_site: Site | None, guide_site: Site | None) -> Array:
    """The exact divergence of two distributions where it is known."""
    if model_site is None or guide_site is None or model_site["is_observed"]:
        return _by_sampling(model_site, guide_site)
    try:
        divergence = kl_divergence(guide_site["fn"], model_site["fn"])
    except NotImplementedError:
        return _by_sampling(model_site, guide_site)
    scale = 1.0 if guide_site["scale"] is None else guide_site["scale"]
    return -jnp.sum(scale * divergence)


TERMS: dict[type[ELBO], Callable[[Site | None, Site | None], Array]] = {
    Trace_ELBO: _by_sampling,
    TraceMeanField_ELBO: _by_divergence,
}


@dataclass(frozen=True, kw_only=True)
class SplitELBO:
    """A model and guide as two pure functions: `draw` (public) and `row` (one person)."""

    model: Callable
    guide: Callable
    structure: Structure
    term: Callable[[Site | None, Site | None], Array]
    kwargs: Mapping[str, Any]

    def draw(self, params: Params, key: Array) -> tuple[dict[str, Array], Float[Array, ""]]:
        """One draw of the global latents in unconstrained space, and the global part of the ELBO there."""
        key_guide, key_model = jax.random.split(key)
        fixed = {**params, self.structure.plate: jnp.arange(1)}
        made_up = self.structure.made_up
        guide_sites = self._outside(run(self.guide, key_guide, fixed, made_up, self.kwargs))
        drawn = {name: site["value"] for name, site in guide_sites.items() if name in self.structure.latents}
        model_sites = self._outside(run(self.model, key_model, {**fixed, **drawn}, made_up, self.kwargs))
        # A latent that the guide leaves out is drawn from the model given the others: its two terms cancel.
        kept = {n: s for n, s in model_sites.items() if s["is_observed"] or n in guide_sites}
        latents = {n: model_sites[n] for n in sorted(self.structure.latents)}
        unconstrained = {n: biject_to(s["fn"].support).inv(s["value"]) for n, s in latents.items()}
        return unconstrained, _total(self.term, kept, guide_sites)

    def row(self, latents: dict[str, Array], params: Params, key: Array, row: PyTree) -> Float[Array, ""]:
        """One person's share of the ELBO."""
        alone = jax.tree.map(lambda column: column[None], row)
        structure = self.structure
        fixed = {**params, structure.plate: jnp.arange(1)}
        key_guide, key_model = jax.random.split(key)
        guide_sites: dict[str, Site] = {}
        if structure.local & structure.guided:
            guide_sites = self._guide_row(latents, fixed, key_guide, alone)
        local = {name: site["value"] for name, site in guide_sites.items()}
        trace = run(self.model, key_model, {**fixed, **local}, alone, self.kwargs, latents)
        kept = {
            name: _rescale(site, plate_scale(trace, structure.plate))
            for name, site in samples(trace).items()
            if structure.in_plate(site) and (site["is_observed"] or name in guide_sites)
        }
        return _total(self.term, kept, guide_sites)

    def _guide_row(self, latents: dict[str, Array], fixed: Params, key: Array, alone: PyTree) -> dict[str, Site]:
        """The guide's sites for one person, given the global latents."""
        structure = self.structure
        model_sites = run(self.model, key, fixed, alone, self.kwargs, latents)
        values = {name: model_sites[name]["value"] for name in structure.latents}
        trace = run(self.guide, key, {**fixed, **values}, alone, self.kwargs)
        scale = plate_scale(trace, structure.plate)
        return {
            name: _rescale(site, scale) if structure.in_plate(site) else site
            for name, site in samples(trace).items()
            if name in structure.local
        }

    def _outside(self, trace: Trace) -> dict[str, Site]:
        structure = self.structure
        return {
            name: site
            for name, site in samples(trace).items()
            if not structure.in_plate(site) and name not in structure.local
        }


def _total(term: Callable, model_sites: dict[str, Site], guide_sites: dict[str, Site]) -> Float[Array, ""]:
    names = list(dict.fromkeys([*model_sites, *guide_sites]))
    return sum((term(model_sites.get(n), guide_sites.get(n)) for n in names), start=jnp.zeros(()))


def _rescale(site: Site, plate_scale: float) -> Site:
    """Undo the row plate's own scaling: a person counts once."""
    scale = 1.0 if site["scale"] is None else site["scale"]
    return {**site, "scale": scale / plate_scale}


class PersonsUse(NamedTuple):
    """What a person's sites depend on: global latents that parameters move, those that none moves, and parameters."""

    latents: frozenset[str]
    fixed: frozenset[str]
    params: tuple[bool, ...]


def what_persons_use(split: SplitELBO, constrain: Callable, params: PyTree) -> PersonsUse:
    """The global latents and the parameter arrays (a decoder, an amortised guide) that a person's sites depend on.

    A latent that the guide draws from a fixed distribution has a gradient that reaches no parameter. In the clipped
    vector it would only crowd out the rest, so it is told apart; so is what enters through `stop_gradient`.
    """
    key = jax.random.key(0)
    row = jax.tree.map(lambda column: column[0], split.structure.made_up)

    def draw(params: PyTree) -> dict[str, Array]:
        return split.draw(constrain(params), key)[0]

    def value(latents: dict[str, Array], params: PyTree) -> Array:
        return split.row(latents, constrain(params), key, row)

    latents = jax.eval_shape(draw, params)
    closed = jax.make_jaxpr(value)(latents, params)
    # A known structure was found with other public keywords.
    refuse_strangers(closed.jaxpr, "model or guide")
    number = len(closed.jaxpr.invars)
    used = [jaxprs.dependence(closed, [i == j for j in range(number)])[0] for i in range(number)]
    (moved,) = jaxprs.gradients(value, latents, params)
    driven = [any(reached) for reached in jaxprs.gradients(draw, params)]
    names = sorted(latents)
    clipped = frozenset(name for name, *both in zip(names, moved, driven, strict=False) if all(both))
    fixed = frozenset(name for name, flag in zip(names, used, strict=False) if flag) - clipped
    chosen = tuple(moved[len(latents) :])
    if fixed and not clipped and not any(chosen):
        raise ModelError(
            "No parameter would learn from the rows: every latent that the rows depend on has a fixed distribution in "
            "the guide. Give the guide parameters for it: numpyro.param(...), or an automatic guide."
        )
    return PersonsUse(clipped, fixed, chosen)
