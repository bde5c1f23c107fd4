"""A yes-or-no column from the others, with an offset for each group: partial pooling of hospitals, schools, regions.

The target is the last boolean or column of two levels, the group the first category. Others: set TARGET and GROUP below
in a copy (`twin new my_model --template hierarchical_logistic_regression`), or fit with
`--set target=NAME --set group=NAME`.
"""

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from twinify_lite.errors import ModelError
from twinify_lite.models import Groups, Linear, choose_target, others

TARGET = ""
GROUP = ""


def model(rows):
    """Columns that predict, each by itself; then the target given them and the group's offset."""
    target = choose_target(rows, is_binary, "a boolean or a column of two levels", default=TARGET)
    group = choose_group(rows, target)
    predictors = others(rows, target)
    columns = {name: column_distribution(rows, name) for name in predictors}
    answer = Linear(rows, target, on=others(rows, target, group), scale=2.0)
    offset = Groups(rows, target, by=group)
    with rows:
        for name, distribution in columns.items():
            numpyro.sample(name, distribution)
        numpyro.sample(target, dist.Bernoulli(logits=answer(rows) + offset(rows)))


def is_binary(column):
    """Whether a column says yes or no."""
    return column.is_levelled and len(column.levels) == 2 and column.other is None


def choose_group(rows, target):
    """The option `group`, or the first category that is not the target."""
    found = [name for name, column in rows.columns.items() if column.is_levelled and name != target]
    first = [name for name in found if rows.columns[name].kind == "category"] or found
    group = rows.option("group", GROUP) or (first[0] if first else "")
    if group not in found:
        raise ModelError("This model needs a category (or an ordinal or boolean) beside the target as its `group`.")
    return rows.pin("group", group)


def column_distribution(rows, name):
    """What a predictor looks like."""
    if rows.columns[name].is_levelled:
        logits = numpyro.sample(f"{name}_logits", dist.Normal(0, 2).expand([rows.levels(name)]).to_event(1))
        return dist.Categorical(logits=logits)
    mean = numpyro.sample(f"{name}_mean", dist.Normal(0, 1))
    sd = numpyro.sample(f"{name}_sd", dist.LogNormal(jnp.log(0.3), 1))
    return dist.Normal(mean, sd)
