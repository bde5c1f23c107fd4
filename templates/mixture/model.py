"""A mixture of kinds of people; within a kind the columns are independent.

The kind is summed out, so the model stays smooth and no latent variable belongs to a person. Columns that are missing
or special are so with a frequency of each kind, which keeps logical missingness.

Copy and edit it: `twin new my_model --template mixture`.
"""

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from twinify_lite.models import Mixture

COMPONENTS = 10


def model(rows):
    """Weights of the kinds, then every column given the kind."""
    kinds = rows.option("components", COMPONENTS)
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.full(kinds, 2.0)))
    states = {name: frequencies(f"{name}_state", kinds, rows.states(name)) for name in rows.columns}
    columns = {name: column_distribution(rows, name, kinds) for name in rows.columns}
    mixture = Mixture(jnp.log(weights))
    with rows:
        for name, distribution in columns.items():
            if states[name] is not None:
                mixture.sample(rows, f"{name}:state", states[name])
            mixture.sample(rows, name, distribution)


def frequencies(name, kinds, levels):
    """Free frequencies of `levels` things in each kind; None where there is only one."""
    if levels < 2:
        return None
    return dist.Categorical(logits=numpyro.sample(f"{name}_logits", normal(0, 2, kinds, levels)))


def column_distribution(rows, name, kinds):
    """What a column looks like within each kind."""
    if rows.columns[name].is_levelled:
        return dist.Categorical(logits=numpyro.sample(f"{name}_logits", normal(0, 2, kinds, rows.levels(name))))
    mean = numpyro.sample(f"{name}_mean", normal(0, 1, kinds))
    sd = numpyro.sample(f"{name}_sd", dist.LogNormal(jnp.log(0.3), 0.7).expand([kinds]).to_event(1))
    return dist.Normal(mean, sd)


def normal(mean, sd, *shape):
    """A prior for an array of this shape."""
    return dist.Normal(mean, sd).expand(shape).to_event(len(shape))


def start(rows):
    """Kinds start apart from each other: from one place they would all follow the same gradient."""
    kinds = rows.option("components", COMPONENTS)
    generator = np.random.default_rng(0)
    values = {"weights": jnp.full(kinds, 1 / kinds)}
    for name, column in rows.columns.items():
        if column.is_levelled:
            values[f"{name}_logits"] = generator.normal(0, 0.5, (kinds, rows.levels(name))).astype(np.float32)
        else:
            values[f"{name}_mean"] = generator.uniform(-0.7, 0.7, kinds).astype(np.float32)
            values[f"{name}_sd"] = jnp.full(kinds, 0.3)
    return values
