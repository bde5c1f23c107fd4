"""Distributions for columns: bounded and heavy-tailed numbers, zeros that stand out, ordered answers, mixtures."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import logsumexp
from jaxtyping import Array
from numpyro.distributions import CategoricalLogits, CategoricalProbs, Distribution, constraints

from twinify_lite.models.rows import Rows


def bounded(loc: Array | float, scale: Array | float) -> Distribution:
    """A normal number that cannot leave its range: [-1, 1] stands for `min` to `max`.

    >>> float(bounded(5.0, 1.0).sample(jax.random.key(0), (1000,)).max()) <= 1
    True
    """
    return dist.TruncatedNormal(loc, scale, low=-1.0, high=1.0, validate_args=False)


def heavy_tailed(loc: Array | float, scale: Array | float, df: float = 4.0) -> Distribution:
    """A number with outliers: Student's t, by which few far values move `loc` and `scale` little."""
    return dist.StudentT(df, loc, scale)


def zero_inflated(counts: Distribution, zero: Array | float) -> Distribution:
    """A count that is 0 with probability `zero` beside the zeros that `counts` has of its own.

    >>> round(float(jnp.exp(zero_inflated(dist.Poisson(1.0), 0.5).log_prob(0))), 3)
    0.684
    """
    return dist.ZeroInflatedDistribution(counts, gate=jnp.asarray(zero))


def hurdle(positive: Distribution, zero: Array | float) -> Distribution:
    """A number that is exactly 0 with probability `zero`, and otherwise `positive`: costs, incomes, doses.

    >>> float(jnp.exp(hurdle(dist.LogNormal(0.0, 1.0), 0.25).log_prob(0.0)))
    0.25
    """
    return Hurdle(positive, jnp.asarray(zero))


class Hurdle(Distribution):
    """0 with probability `zero`, else a draw of `base` that is not 0. Of a count, `base` is cut off at 0."""

    arg_constraints = {"zero": constraints.unit_interval}  # noqa: RUF012  (NumPyro's way)
    pytree_data_fields = ("base", "zero")

    def __init__(self, base: Distribution, zero: Array, *, validate_args: bool | None = None):
        self.base, self.zero = base, zero
        shape = jax.lax.broadcast_shapes(base.batch_shape, jnp.shape(zero))
        super().__init__(batch_shape=shape, validate_args=validate_args)

    @property
    def support(self) -> constraints.Constraint:
        """Whole numbers from 0, or numbers from 0."""
        return constraints.nonnegative_integer if self.base.support.is_discrete else constraints.nonnegative

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """Zero or not, then how much."""
        key_zero, key_base = jax.random.split(key)
        shape = sample_shape + self.batch_shape
        is_zero = jax.random.bernoulli(key_zero, jnp.broadcast_to(self.zero, shape))
        value = self.base.expand(self.batch_shape).sample(key_base, sample_shape)
        if self.base.support.is_discrete:
            value = self._not_zero(jax.random.fold_in(key_base, 1), value, sample_shape)
        return jnp.where(is_zero, jnp.zeros_like(value), value)

    def log_prob(self, value: Array) -> Array:
        """The log-probability of zeros, the log-density of the rest."""
        is_zero = value == 0
        inside = jnp.where(is_zero, jnp.ones_like(value), value)  # where `base` has a density
        rest = self.base.log_prob(inside)
        if self.base.support.is_discrete:
            none = self.base.log_prob(jnp.zeros((), inside.dtype))
            rest = rest - jnp.log1p(-jnp.exp(jnp.minimum(none, -1e-6)))
        return jnp.where(is_zero, jnp.log(self.zero), jnp.log1p(-self.zero) + rest)

    def _not_zero(self, key: Array, value: Array, sample_shape: tuple[int, ...]) -> Array:
        """Counts drawn again where they are 0, a few times; what is left of them becomes 1."""

        def again(value: Array, key: Array) -> tuple[Array, None]:
            drawn = self.base.expand(self.batch_shape).sample(key, sample_shape)
            return jnp.where(value == 0, drawn, value), None

        value, _ = jax.lax.scan(again, value, jax.random.split(key, 8))
        return jnp.maximum(value, 1)


def cutpoints(rows: Rows, name: str) -> Array:
    """Thresholds between the levels of an ordinal column: a global latent `name_cutpoints`. Call it outside the plate.

    Sorted by construction: the first is free, each gap is positive.
    """
    levels = len(rows.columns[name].levels) + (rows.columns[name].other is not None)
    if levels < 2:
        return jnp.zeros(0)
    first = numpyro.sample(f"{name}_first_cutpoint", dist.Normal(-1.0, 1.5))
    if levels == 2:
        return first[None]
    gaps = numpyro.sample(f"{name}_gaps", dist.LogNormal(-0.5, 1.0).expand([levels - 2]).to_event(1))
    return jnp.concatenate([first[None], first + jnp.cumsum(gaps)])


def ordinal(predictor: Array, thresholds: Array) -> Distribution:
    """An ordered answer: the higher `predictor`, the higher the level. Missing cells are left to `name:state`."""
    return dist.OrderedLogistic(predictor, thresholds)


class Mixture:
    """Columns that are independent within each of several kinds of people, the kind summed out.

        kinds = Mixture(log_weights)
        with rows:
            kinds.sample(rows, "age", dist.Normal(means, sds))          # one of each component
            kinds.sample(rows, "sex", dist.Categorical(logits=logits))  # components x levels

    Each column is drawn given those before it: `log_weights` becomes what is known of a row's kind so far. So the
    columns' sites multiply up to the mixture of products, and no latent variable belongs to a person.
    """

    def __init__(self, log_weights: Array):
        self.log_weights = jax.nn.log_softmax(log_weights)

    def sample(self, rows: Rows, name: str, component: Distribution) -> Array:
        """Sample column `name` (or `name:state`); `component` has one entry for each kind in its last batch axis."""
        value = numpyro.sample(name, Blend(self.log_weights, component))
        known = component.log_prob(value[..., None])
        if name in rows.columns:  # what is no value says nothing of the kind; its state may
            known = jnp.where(rows.present(name)[..., None], known, 0.0)
        self.log_weights = self.log_weights + known
        return value


class Blend(Distribution):
    """A mixture of the entries in the last batch axis of `component`, weighted by softmax(log_weights)."""

    arg_constraints = {"log_weights": constraints.real_vector}  # noqa: RUF012
    pytree_data_fields = ("component", "log_weights")

    def __init__(self, log_weights: Array, component: Distribution, *, validate_args: bool | None = None):
        self.log_weights, self.component = log_weights, component
        shape = jax.lax.broadcast_shapes(jnp.shape(log_weights), component.batch_shape)[:-1]
        super().__init__(batch_shape=shape, validate_args=validate_args)

    @property
    def support(self) -> constraints.Constraint:
        """That of the components."""
        return self.component.support

    def sample(self, key: Array, sample_shape: tuple[int, ...] = ()) -> Array:
        """A component, then a value of it; levels by their mixed frequencies, which is many times faster."""
        shape = sample_shape + self.batch_shape
        if isinstance(self.component, CategoricalLogits | CategoricalProbs):
            mixed = jnp.einsum("...k,...kl->...l", jax.nn.softmax(self.log_weights), self.component.probs)
            return jax.random.categorical(key, jnp.log(mixed), shape=shape)
        key_kind, key_value = jax.random.split(key)
        kind = jax.random.categorical(key_kind, self.log_weights, shape=shape)
        kinds = jnp.shape(self.log_weights)[-1]
        values = self.component.expand((*shape, kinds)).sample(key_value)
        return jnp.take_along_axis(values, kind[..., None], axis=-1)[..., 0]

    def log_prob(self, value: Array) -> Array:
        """Summed over the components."""
        weights = jax.nn.log_softmax(self.log_weights, axis=-1)
        return logsumexp(weights + self.component.log_prob(jnp.asarray(value)[..., None]), axis=-1)
