"""A Bayesian network: each column from those that you say it depends on.

State the graph in a copy (`twin new my_model --template bayesian_network`): PARENTS maps a column to the columns that
it depends on; a column that is not in it depends on none. While PARENTS is empty, each depends on the two before it.
"""

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from twinify_lite.errors import ModelError
from twinify_lite.models import Linear, Missing

PARENTS = {
    # "income": ["age", "education"],
}


def model(rows):
    """Columns in an order in which parents come first."""
    graph = parents_of(rows)
    order = parents_first(graph)
    absent = {name: Missing(rows, name, on=graph[name]) for name in order}
    columns = {name: conditional(rows, name, graph[name]) for name in order}
    with rows:
        for name in order:
            absent[name].sample(rows)
            numpyro.sample(name, columns[name](rows))


def parents_of(rows):
    """The graph, every column in it."""
    names = list(rows.columns)
    if not PARENTS:
        return {name: names[max(0, i - 2) : i] for i, name in enumerate(names)}
    strangers = sorted({name for child in PARENTS for name in [child, *PARENTS[child]]} - set(names))
    if strangers:
        raise ModelError(f"PARENTS names {strangers}, which are no columns. The columns are {names}.")
    return {name: list(PARENTS.get(name, [])) for name in names}


def parents_first(graph):
    """The columns in an order in which each comes after its parents."""
    order = []
    while len(order) < len(graph):
        ready = [name for name in graph if name not in order and set(graph[name]) <= set(order)]
        if not ready:
            raise ModelError(f"PARENTS has a cycle among {sorted(set(graph) - set(order))}. Take one arrow away.")
        order += ready
    return order


def conditional(rows, name, parents):
    """How a column depends on its parents: a regression, of logits or of a mean."""
    if rows.columns[name].is_levelled:
        logits = Linear(rows, name, on=parents, outputs=rows.levels(name), scale=2.0)
        return lambda rows: dist.Categorical(logits=logits(rows))
    mean = Linear(rows, name, on=parents)
    sd = numpyro.sample(f"{name}_sd", dist.LogNormal(jnp.log(0.3), 1))
    return lambda rows: dist.Normal(mean(rows), sd)
