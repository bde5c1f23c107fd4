"""A variational autoencoder: a few hidden numbers for each row, and a neural network that makes the columns of them.

The hidden numbers belong to one person each, so the guide predicts them from the row (an amortised guide). It wants
many rows: tens of thousands at epsilon 1.

Copy and edit it: `twin new my_model --template vae`.
"""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist

from twinify_lite.models import dense

HIDDEN, LATENT = 32, 4
# Weights of a network move in small steps.
options = {"learning_rate": 0.02}


def model(rows):
    """Hidden numbers, then the columns from them."""
    with rows:
        hidden = numpyro.sample("hidden", dist.Normal(0, 1).expand([rows.option("latent", LATENT)]).to_event(1))
        layer = jnp.tanh(dense("decoder", hidden, rows.option("units", HIDDEN)))
        for name, column in rows.columns.items():
            if rows.states(name) > 1:
                numpyro.sample(
                    f"{name}:state", dist.Categorical(logits=dense(f"{name}_state", layer, rows.states(name)))
                )
            if column.is_levelled:
                numpyro.sample(name, dist.Categorical(logits=dense(name, layer, rows.levels(name))))
            else:
                mean, spread = jnp.moveaxis(dense(name, layer, 2), -1, 0)
                numpyro.sample(name, dist.Normal(mean, 0.02 + jax.nn.softplus(spread - 1)))


def guide(rows):
    """What the columns of a row tell of its hidden numbers."""
    latent = rows.option("latent", LATENT)
    with rows:
        layer = jnp.tanh(dense("encoder", rows.features(*rows.columns), rows.option("units", HIDDEN)))
        loc, spread = dense("encoder_loc", layer, latent), dense("encoder_scale", layer, latent)
        numpyro.sample("hidden", dist.Normal(loc, 0.02 + jax.nn.softplus(spread)).to_event(1))
