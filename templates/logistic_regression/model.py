"""A yes-or-no column from all the others: logistic regression, and the others as `independent` has them.

The target is the last boolean, or the last column with two levels. Another one: set TARGET below in a copy
(`twin new my_model --template logistic_regression`), or fit with `--set target=NAME`.
"""

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from twinify_lite.models import Linear, choose_target, others

TARGET = ""


def model(rows):
    """Columns that predict, each by itself; then the target given them."""
    target = choose_target(rows, is_binary, "a boolean or a column of two levels", default=TARGET)
    predictors = others(rows, target)
    columns = {name: column_distribution(rows, name) for name in predictors}
    answer = Linear(rows, target, on=predictors, scale=2.0)
    with rows:
        for name, distribution in columns.items():
            numpyro.sample(name, distribution)
        numpyro.sample(target, dist.Bernoulli(logits=answer(rows)))


def is_binary(column):
    """Whether a column says yes or no."""
    return column.is_levelled and len(column.levels) == 2 and column.other is None


def column_distribution(rows, name):
    """What a predictor looks like."""
    if rows.columns[name].is_levelled:
        logits = numpyro.sample(f"{name}_logits", dist.Normal(0, 2).expand([rows.levels(name)]).to_event(1))
        return dist.Categorical(logits=logits)
    mean = numpyro.sample(f"{name}_mean", dist.Normal(0, 1))
    sd = numpyro.sample(f"{name}_sd", dist.LogNormal(jnp.log(0.3), 1))
    return dist.Normal(mean, sd)
