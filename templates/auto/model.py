"""The idea of the automatic model as a NumPyro program: each column from all that stand before it.

`--model auto` cuts columns into levels and fits such a chain to noisy tables of counts, which is faster and closer
than gradients. A copy of this file (`twin new my_model --template auto`) is fitted by DPSVI like any other model: a
start for a chain of your own.
"""

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from twinify_lite.models import Linear, Missing


def model(rows):
    """A regression for each column, on all columns before it."""
    names = list(rows.columns)
    before = {name: names[:place] for place, name in enumerate(names)}
    absent = {name: Missing(rows, name, on=before[name]) for name in names}
    columns = {name: given(rows, name, before[name]) for name in names}
    with rows:
        for name in names:
            absent[name].sample(rows)
            numpyro.sample(name, columns[name](rows))


def given(rows, name, before):
    """The distribution of a column given those before it: of its levels, or of a number."""
    if rows.columns[name].is_levelled:
        logits = Linear(rows, name, on=before, outputs=rows.levels(name))
        return lambda rows: dist.Categorical(logits=logits(rows))
    mean = Linear(rows, name, on=before)
    sd = numpyro.sample(f"{name}_sd", dist.LogNormal(jnp.log(0.3), 1))
    return lambda rows: dist.Normal(mean(rows), sd)
