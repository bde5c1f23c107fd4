"""Keywords may change the program that a row runs through; what was found of it is found again then."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import Trace_ELBO
from numpyro.infer.autoguide import AutoDelta
from numpyro.optim import Adam

from twinify_lite.accountant import PoissonGaussian
from twinify_lite.dpsvi import DPSVI, lattice
from twinify_lite.ledger import Ledger

ROWS = 200


def model(x, N=ROWS, together=False):
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([3, 2]).to_event(2))
    with numpyro.plate("rows", N, subsample_size=x.shape[0]):
        means = x @ weights if together else jnp.sum(x[..., None] * weights**1, axis=-2)
        numpyro.sample("y", dist.Normal(means, 1).to_event(1), obs=x[:, :2])


@pytest.fixture
def svi():
    ledger = Ledger(5.0, 1e-6, insecure_seed=0)
    receipt = ledger.spend(PoissonGaussian(noise_multiplier=1.0, sampling_rate=0.1, steps=4), "DPSVI")
    return DPSVI(model, AutoDelta(model), Adam(0.01), Trace_ELBO(), receipt, ROWS, clip_norm=1.0)


def test_a_keyword_that_has_rows_summed_in_floating_point_has_the_lattice_pay_for_it(svi):
    rows = jnp.asarray(np.random.default_rng(0).normal(size=(ROWS, 3)), jnp.float32)
    state = svi.init(jax.random.key(0), rows)
    before, after = svi._with({}), svi._with({"together": True})
    assert not before.program.summed.tapped
    assert after.program.summed.tapped
    assert after.lattice == lattice.lattice_for(after.program.summed, 1.0, 0.0)
    assert after.lattice.limit < before.lattice.limit
    update = jax.jit(lambda state: svi.update(state, rows, together=True)[0])
    assert int(update(update(state)).step) == 2
