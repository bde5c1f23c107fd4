"""What runs before the first step of DPSVI: quickly, and with the same results as op by op."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from fits import KEY, N, X, Y, logistic, seeded
from numpyro import param, sample
from numpyro.infer.autoguide import AutoNormal

from twinify_lite.dpsvi import rows, starting


def compiled_programs(run):
    counted = []
    listen = lambda event, _, **__: counted.append(event) if "backend_compile" in event else None  # noqa: E731
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        run()
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    return len(counted)


def many(xs, ys, N):
    """Latents of many shapes, each of which op by op would be compiled for."""
    for size in range(4, 16):
        sample(f"w{size}", dist.Gamma(jnp.full(size, 2.0), 1.0).to_event(1))
    logistic(xs, ys, N)


def test_init_compiles_few_programs_however_many_shapes_there_are():
    fitted = seeded(guide=mean_field_of_many, model=many)
    together = compiled_programs(lambda: fitted.init(KEY, X, Y))
    assert 0 < together < 40
    assert compiled_programs(lambda: fitted._svi.init(KEY, X, Y, N=N)) > 100


def mean_field_of_many(xs, ys, N):
    for size in range(4, 16):
        loc = param(f"loc{size}", jnp.zeros(size) + 1.5)
        spread = param(f"spread{size}", jnp.full(size, 0.3), constraint=dist.constraints.positive)
        sample(f"w{size}", dist.LogNormal(loc, spread).to_event(1))
    sample("w", dist.Normal(param("loc", jnp.zeros(3)), 1.0).to_event(1))


def test_an_automatic_guide_is_set_up_without_running_its_sites():
    guide, called = AutoNormal(logistic), []
    starting.set_up(guide, lambda guide: called.append(guide) or rows.run(guide, KEY, {}, (X, Y), {"N": N}))
    assert guide.prototype_trace is not None
    starting.set_up(guide, called.append)  # once is enough
    starting.set_up(logistic, called.append)  # and no other guide needs it
    assert len(called) == 1


def test_a_parameter_with_computed_bounds_keeps_them():
    def guide(xs, ys, N):
        top = jnp.sqrt(jnp.float32(4.0))
        spread = param("spread", jnp.ones(3), constraint=dist.constraints.interval(0.0, top))
        sample("w", dist.Normal(0.0, spread).to_event(1))

    fitted = seeded(guide=guide)
    state = fitted.init(KEY, X, Y)
    np.testing.assert_allclose(fitted.get_params(state)["spread"], np.ones(3), rtol=1e-5)
