"""Every column by itself: the right frequencies and ranges, and nothing between columns.

Copy and edit it: `twin new my_model --template independent`.
"""

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist


def model(rows):
    """A Normal for each number or date, free frequencies for each list of levels."""
    distributions = {name: column_distribution(rows, name) for name in rows.columns}
    with rows:
        for name, distribution in distributions.items():
            numpyro.sample(name, distribution)


def column_distribution(rows, name):
    """What one column looks like. Where it is missing or special is modelled by the package."""
    if rows.columns[name].is_levelled:
        logits = numpyro.sample(f"{name}_logits", dist.Normal(0, 2).expand([rows.levels(name)]).to_event(1))
        return dist.Categorical(logits=logits)
    mean = numpyro.sample(f"{name}_mean", dist.Normal(0, 1))
    sd = numpyro.sample(f"{name}_sd", dist.LogNormal(jnp.log(0.3), 1))
    return dist.Normal(mean, sd)
