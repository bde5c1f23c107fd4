"""The families of `distribution` lines, each by a `loc` and a `scale` of its own meaning.

They are NumPyro's distributions. Where the density is written out, it is the same one in fewer operations: a special
function stands in the program that is compiled once for each place that calls it, and so does every check of an
argument, which is left out because latents are inside their supports by construction.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.special import gammaln
from jaxtyping import Array
from numpyro.distributions import Distribution

_FREEDOM = 4.0
_STUDENT = math.lgamma((_FREEDOM + 1) / 2) - math.lgamma(_FREEDOM / 2) - math.log(_FREEDOM * math.pi) / 2


class Categorical(dist.CategoricalLogits):
    """By its logits. The gradient of the density is products: the scatter of an index takes far longer on a CPU."""

    def __init__(self, logits: Array):
        super().__init__(logits, validate_args=False)

    def log_prob(self, value: Array) -> Array:
        """The log-probability of each code."""
        chosen = jnp.expand_dims(jnp.asarray(value), -1) == jnp.arange(self.logits.shape[-1])
        return jnp.sum(jnp.where(chosen, jax.nn.log_softmax(self.logits, axis=-1), 0.0), axis=-1)


class StudentT(dist.StudentT):
    """With four degrees of freedom, by which few far values move `loc` and `scale` little."""

    def __init__(self, loc: Array, scale: Array):
        super().__init__(_FREEDOM, loc, scale, validate_args=False)

    def log_prob(self, value: Array) -> Array:
        """The log-density."""
        apart = (value - self.loc) / self.scale
        return _STUDENT - jnp.log(self.scale) - (_FREEDOM + 1) / 2 * jnp.log1p(jnp.square(apart) / _FREEDOM)


class Gamma(dist.Gamma):
    """By the logarithm of its mean and by its shape, which say more apart than shape and rate do."""

    def __init__(self, loc: Array, scale: Array):
        super().__init__(scale, scale / jnp.exp(jnp.clip(loc, -20.0, 5.0)), validate_args=False)

    def log_prob(self, value: Array) -> Array:
        """The log-density."""
        shape, rate = self.concentration, self.rate
        return shape * jnp.log(rate) - gammaln(shape) + (shape - 1) * jnp.log(value) - rate * value


class Beta(dist.Beta):
    """By the logit of its mean and by how closely it holds to it."""

    def __init__(self, loc: Array, scale: Array):
        mean = jnp.clip(jax.nn.sigmoid(loc), 1e-4, 1 - 1e-4)
        super().__init__(mean * scale, (1 - mean) * scale, validate_args=False)

    def log_prob(self, value: Array) -> Array:
        """The log-density."""
        first, second = self.concentration1, self.concentration0
        above, below = gammaln(first + second), jnp.sum(gammaln(jnp.stack([first, second])), axis=0)
        return above - below + (first - 1) * jnp.log(value) + (second - 1) * jnp.log1p(-value)


class Poisson(dist.Poisson):
    """By the logarithm of its rate."""

    def __init__(self, loc: Array):
        self.loc = loc
        super().__init__(jnp.exp(loc), validate_args=False)

    def log_prob(self, value: Array) -> Array:
        """The log-probability."""
        return value * self.loc - self.rate - gammaln(value + 1.0)


class NegativeBinomial(dist.NegativeBinomial2):
    """By the logarithm of its mean and by its concentration: the smaller, the wider."""

    def __init__(self, loc: Array, scale: Array):
        self.loc, self.scale = loc, scale
        super().__init__(jnp.exp(loc), scale, validate_args=False)

    def log_prob(self, value: Array) -> Array:
        """The log-probability."""
        total = jnp.logaddexp(self.loc, jnp.log(self.scale))
        ways = gammaln(value + self.scale) - gammaln(self.scale) - gammaln(value + 1.0)
        return ways + self.scale * (jnp.log(self.scale) - total) + value * (self.loc - total)


class Ordinal(Categorical):
    """A level is what a logistic number around `loc` falls into between two cutpoints, in rising order."""

    def __init__(self, loc: Array, cutpoints: Array):
        # sigmoid(b) - sigmoid(a) is sigmoid(b) sigmoid(-a) (1 - exp(a - b)), which no rounding makes 0.
        below = jax.nn.log_sigmoid(cutpoints - loc[..., None])
        above = jax.nn.log_sigmoid(loc[..., None] - cutpoints)
        end = jnp.zeros((*below.shape[:-1], 1))
        between = jnp.log(-jnp.expm1(-jnp.diff(cutpoints, axis=-1)))
        widths = jnp.concatenate([end, between, end], axis=-1) if cutpoints.shape[-1] else end
        super().__init__(jnp.concatenate([below, end], axis=-1) + jnp.concatenate([end, above], axis=-1) + widths)


class Family(NamedTuple):
    """A distribution and the priors of its latents: of `loc` the middle and the sd, of `scale` the median.

    None stands for a latent that the family has not.
    """

    make: Callable[..., Distribution]
    loc: tuple[float, float] | None = (0.0, 1.0)
    scale: float | None = None


def _plain(make: Callable[..., Distribution]) -> Callable[..., Distribution]:
    return lambda *parameters: make(*parameters, validate_args=False)


def _bounded(loc: Array, scale: Array) -> Distribution:
    return dist.TruncatedNormal(loc, scale, low=-1.0, high=1.0, validate_args=False)


def _exponential(loc: Array) -> Distribution:
    return dist.Exponential(jnp.exp(-jnp.clip(loc, -20.0, 5.0)), validate_args=False)


_POSITIVE = (-1.5, 1.5)
FAMILIES: dict[str, Family] = {
    "Normal": Family(_plain(dist.Normal), scale=0.3),
    "TruncatedNormal": Family(_bounded, scale=0.3),
    "StudentT": Family(StudentT, scale=0.3),
    "Laplace": Family(_plain(dist.Laplace), scale=0.3),
    "Beta": Family(Beta, (0.0, 1.5), 5.0),
    "LogNormal": Family(_plain(dist.LogNormal), _POSITIVE, 0.7),
    "Gamma": Family(Gamma, _POSITIVE, 2.0),
    "Exponential": Family(_exponential, _POSITIVE),
    "Poisson": Family(Poisson, (0.0, 1.5)),
    "NegativeBinomial": Family(NegativeBinomial, (0.0, 1.5), 2.0),
    "Bernoulli": Family(lambda loc: dist.Bernoulli(logits=loc, validate_args=False), (0.0, 2.0)),
    "Categorical": Family(Categorical, None),
    "Ordinal": Family(Ordinal, (0.0, 1.5)),
}
#: Families of counts, whose `loc` is around the logarithm of a tenth of the column's `max`.
COUNTS = ("Poisson", "NegativeBinomial")
