"""Clusters of numbers: a mixture of normal distributions with a width of its own for each column and cluster.

Which cluster a row belongs to is summed out. Levels, dates and missing cells have their frequencies in each cluster.

Copy and edit it: `twin new my_model --template gaussian_mixture`.
"""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from twinify_lite.errors import ModelError
from twinify_lite.models import Mixture

CLUSTERS = 5


def model(rows):
    """Weights, centres and widths of the clusters, then the columns."""
    clusters = rows.option("clusters", CLUSTERS)
    numbers = [name for name, column in rows.columns.items() if column.is_ranged]
    levelled = [name for name, column in rows.columns.items() if column.is_levelled]
    if not numbers:
        raise ModelError("gaussian_mixture needs a number or a date. Use the template mixture for levels alone.")
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.full(clusters, 2.0)))
    with numpyro.plate("columns", len(numbers), dim=-1), numpyro.plate("clusters", clusters, dim=-2):
        centres = numpyro.sample("centres", dist.Normal(0, 1))
        widths = numpyro.sample("widths", dist.LogNormal(jnp.log(0.2), 0.7))
    logits = {name: numpyro.sample(f"{name}_logits", level_prior(clusters, rows.levels(name))) for name in levelled}
    mixture = Mixture(jnp.log(weights))
    with rows:
        for j, name in enumerate(numbers):
            mixture.sample(rows, name, dist.Normal(centres[:, j], widths[:, j]))
        for name in levelled:
            mixture.sample(rows, name, dist.Categorical(logits=logits[name]))


def level_prior(clusters, levels):
    """Free frequencies of the levels in each cluster."""
    return dist.Normal(0, 2).expand([clusters, levels]).to_event(2)


def start(rows):
    """Centres start apart: from one place they would all follow the same gradient."""
    clusters = rows.option("clusters", CLUSTERS)
    numbers = sum(column.is_ranged for column in rows.columns.values())
    centres = np.random.default_rng(2).uniform(-0.7, 0.7, (clusters, numbers))
    return {
        "weights": jnp.full(clusters, 1 / clusters),
        "centres": centres.astype(np.float32),
        "widths": jnp.full((clusters, numbers), 0.25),
    }
