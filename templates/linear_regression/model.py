"""A number from all the other columns: linear regression, and the others as `independent` has them.

The target is the last number or integer. Another one: set TARGET below in a copy
(`twin new my_model --template linear_regression`), or fit with `--set target=NAME`.
"""

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from twinify_lite.models import Linear, choose_target, others

TARGET = ""


def model(rows):
    """Columns that predict, each by itself; then the target given them."""
    target = choose_target(rows, is_number, "a number or an integer", default=TARGET)
    predictors = others(rows, target)
    columns = {name: column_distribution(rows, name) for name in predictors}
    line = Linear(rows, target, on=predictors)
    noise = numpyro.sample(f"{target}_sd", dist.LogNormal(jnp.log(0.3), 1))
    with rows:
        for name, distribution in columns.items():
            numpyro.sample(name, distribution)
        numpyro.sample(target, dist.Normal(line(rows), noise))


def is_number(column):
    """Whether a column can be the target."""
    return column.kind in ("number", "integer")


def column_distribution(rows, name):
    """What a predictor looks like."""
    if rows.columns[name].is_levelled:
        logits = numpyro.sample(f"{name}_logits", dist.Normal(0, 2).expand([rows.levels(name)]).to_event(1))
        return dist.Categorical(logits=logits)
    mean = numpyro.sample(f"{name}_mean", dist.Normal(0, 1))
    sd = numpyro.sample(f"{name}_sd", dist.LogNormal(jnp.log(0.3), 1))
    return dist.Normal(mean, sd)
