"""A count from all the other columns: Poisson regression, and the others as `independent` has them.

The target is the last integer. Another one: set TARGET below in a copy
(`twin new my_model --template poisson_regression`), or fit with `--set target=NAME`.
"""

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from twinify_lite.models import Linear, choose_target, others

TARGET = ""


def model(rows):
    """Columns that predict, each by itself; then the count given them."""
    target = choose_target(rows, is_count, "an integer", default=TARGET)
    predictors = others(rows, target)
    columns = {name: column_distribution(rows, name) for name in predictors}
    log_rate = Linear(rows, target, on=predictors, scale=2.0)
    with rows:
        for name, distribution in columns.items():
            numpyro.sample(name, distribution)
        # No rate beyond what a count of this range can have: a wild step must not overflow.
        largest = jnp.log(10.0 * max(1, rows.columns[target].max))
        numpyro.sample(target, dist.Poisson(jnp.exp(jnp.minimum(log_rate(rows), largest))))


def is_count(column):
    """Whether a column counts something."""
    return column.kind == "integer"


def column_distribution(rows, name):
    """What a predictor looks like."""
    if rows.columns[name].is_levelled:
        logits = numpyro.sample(f"{name}_logits", dist.Normal(0, 2).expand([rows.levels(name)]).to_event(1))
        return dist.Categorical(logits=logits)
    mean = numpyro.sample(f"{name}_mean", dist.Normal(0, 1))
    sd = numpyro.sample(f"{name}_sd", dist.LogNormal(jnp.log(0.3), 1))
    return dist.Normal(mean, sd)
