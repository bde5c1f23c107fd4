"""The compiled program: its memory, several devices together, and CUDA without having one."""

import os
import subprocess
import sys
import textwrap
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from fits import logistic, mean_field
from jax import export
from numpyro import param, plate, sample
from numpyro.infer import Trace_ELBO
from numpyro.optim import Adam

import twinify_lite as tw
from twinify_lite.auto import drawing, softmax
from twinify_lite.auto.chain import Link
from twinify_lite.dpsvi import step
from twinify_lite.rng import key_from_words


def materialised(xs, ys, N):
    """Every row holds a gradient of 10,000 numbers: the square keeps `w` from the rules that would avoid it."""
    w = sample("w", dist.Normal(0, 1).expand([10_000]).to_event(1))
    with plate("batch", N, xs.shape[0]):
        sample("ys", dist.Normal((w**2).sum() + xs.sum(1), 1), obs=ys)


def materialised_guide(xs, ys, N):
    sample("w", dist.Delta(param("loc", jnp.ones(10_000)), event_dim=1))


@pytest.mark.parametrize(("model", "guide"), [(logistic, mean_field), (materialised, materialised_guide)])
@pytest.mark.parametrize("mechanism", [tw.PoissonGaussian, tw.FixedSizeGaussian])
def test_memory_is_flat_in_the_batch_size(model, guide, mechanism):
    columns = jnp.ones((100_000, 3)), jnp.ones(100_000)

    def memory(batch):
        ledger = tw.Ledger(1e6, 1e-5, relation="add-remove" if mechanism is tw.PoissonGaussian else "substitute")
        receipt = ledger.spend(mechanism(noise_multiplier=9.0, sampling_rate=batch / 100_000, steps=10), "x")
        svi = tw.DPSVI(model, guide, Adam(0.1), Trace_ELBO(), receipt, 100_000, clip_norm=1.0)
        state = svi.init(jax.random.key(0), *columns)
        groups = partial(step.run_groups, svi._training, svi._sampler(columns, is_batch=False), 1)
        train = jax.jit(lambda secrets, columns: groups(secrets, state, columns, jnp.int32(10)).optim_state)
        return train.lower(svi._secrets, columns).compile().memory_analysis().temp_size_in_bytes

    small, large = memory(8_000), memory(80_000)
    assert large == pytest.approx(small, rel=0.01)
    # 80,000 gradients of 10,000 numbers would be 3.2 GB.
    assert large < 32e6


def test_training_lowers_for_cuda():
    xs, ys = jnp.ones((500, 3)), jnp.ones(500)
    ledger = tw.Ledger(1e3, 1e-5)
    receipt = ledger.spend(tw.PoissonGaussian(noise_multiplier=1.0, sampling_rate=0.1, steps=10), "x")
    svi = tw.DPSVI(logistic, mean_field, Adam(0.1), Trace_ELBO(), receipt, 500)
    state = svi.init(jax.random.key(0), xs, ys)
    sampler = svi._sampler((xs, ys), is_batch=False)
    words = jax.tree.map(jax.random.key_data, svi._secrets)

    def train(optim_state, words, xs, ys):
        secrets = jax.tree.map(key_from_words, words)
        start = step.DPSVIState(optim_state, jax.random.key(0), jnp.int32(0), jnp.float32(1.0), owner=0)
        return step.run_groups(svi._training, sampler, 1, secrets, start, (xs, ys), jnp.int32(10)).optim_state

    lowers_for_cuda(train, state.optim_state, words, xs, ys)


def chain_of(sizes):
    """A chain whose last column has effects too far apart for weights: its logits are added."""
    links = []
    for column, size in enumerate(sizes):
        effects = tuple(np.zeros((sizes[parent], size)) for parent in range(column))
        bias = np.linspace(0, 200 if column == len(sizes) - 1 else 1, size)
        links.append(Link(column, tuple(range(column)), bias, effects, effects, np.full(size, 1 / size)))
    return links


def test_drawing_rows_lowers_for_cuda(monkeypatch):
    """All three ways to look a level up, with few levels and with many."""
    monkeypatch.setattr(drawing, "_CELLS", 2000)
    runs = drawing._runs(chain_of((3, 4, drawing._FEW + 1, 3, 5)))
    assert {method for run in runs for method in run.methods} == {"sums", "weights", "logits"}

    def draw(words):
        return drawing._draw(runs, drawing._spread_out(jax.random.wrap_key_data(words), 5, 256))

    levels = lowers_for_cuda(draw, jax.random.key_data(jax.random.key(0)))
    assert [(column.shape, column.dtype) for column in levels] == [((256,), jnp.int32)] * 5


def test_the_fit_of_a_link_lowers_for_cuda():
    rows, features, size = 128, 64, 4
    shapes = (rows, features), (size, size), (features, size), (features, 1), (size,), (rows, size)
    problem = tuple(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes)
    scales = jax.eval_shape(softmax._scales, *problem)
    point = jax.ShapeDtypeStruct((features * size + size,), jnp.float32)
    _, slope = lowers_for_cuda(softmax._value_and_slope, point, scales, problem)
    assert slope.shape == point.shape


def lowers_for_cuda(function, *arguments):
    """What `function` gives there, as shapes."""
    exported = export.export(jax.jit(function), platforms=["cuda"])(*arguments)
    assert exported.platforms == ("cuda",)
    assert len(exported.mlir_module_serialized) > 1000
    return exported.out_avals


def test_rows_sharded_over_four_devices_give_the_same_training():
    """In a process of its own, because the number of host devices is fixed when JAX starts."""
    program = textwrap.dedent(
        """
        import sys
        sys.path.insert(0, sys.argv[1])
        import jax, jax.numpy as jnp, numpy as np
        from numpyro.infer import Trace_ELBO
        from numpyro.optim import Adam
        import twinify_lite as tw
        from fits import logistic, mean_field
        assert len(jax.devices()) == 4
        generator = np.random.default_rng(0)
        xs = jnp.asarray(generator.normal(size=(1000, 3)), jnp.float32)
        ys = jnp.asarray(generator.integers(0, 2, 1000), jnp.float32)
        params = []
        for mesh in (None, jax.make_mesh((4,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))):
            ledger = tw.Ledger(1e3, 1e-5, insecure_seed=1)
            receipt = ledger.spend(tw.PoissonGaussian(noise_multiplier=0.5, sampling_rate=0.2, steps=5), "x")
            svi = tw.DPSVI(logistic, mean_field, Adam(0.1), Trace_ELBO(), receipt, 1000, clip_norm=1.0, mesh=mesh)
            result = svi.run(jax.random.key(0), 5, xs, ys, progress_bar=False)
            params.append(np.asarray(result.params["loc"]))
            run = next(iter(svi._compiled.values()))[0]
            compiled = run.lower(svi._secrets, result.state, (xs, ys), jnp.int32(5)).compile().as_text()
            assert ("all-reduce" in compiled) == (mesh is not None)
        np.testing.assert_allclose(params[0], params[1], rtol=1e-4, atol=1e-5)
        print("same")
        """
    )
    assert run_alone(program, XLA_FLAGS="--xla_force_host_platform_device_count=4") == "same"


def test_double_precision_fits_like_single_precision():
    """In a process of its own, because JAX's precision is one for all of it."""
    program = textwrap.dedent(
        """
        import sys
        sys.path.insert(0, sys.argv[1])
        import jax, jax.numpy as jnp, numpy as np
        from numpyro.infer import Trace_ELBO
        from numpyro.optim import Adam
        import twinify_lite as tw
        from fits import logistic, mean_field
        for x64, kind, clip_norm in ((False, float, 1.0), (True, "f4", 1.0), (True, "f8", 1.0), (True, "f8", "auto")):
            jax.config.update("jax_enable_x64", x64)
            generator = np.random.default_rng(0)
            xs = generator.normal(size=(1000, 3)).astype(kind)
            ys = (xs @ [1.0, -2.0, 0.5] + generator.logistic(size=1000) > 0).astype(kind)
            ledger = tw.Ledger(50, 1e-5, insecure_seed=1)
            receipt = ledger.spend(tw.PoissonGaussian(noise_multiplier=0.8, sampling_rate=0.2, steps=200), "x")
            svi = tw.DPSVI(logistic, mean_field, Adam(0.05), Trace_ELBO(), receipt, 1000, clip_norm=clip_norm)
            params = svi.run(jax.random.key(0), 200, xs, ys, progress_bar=False).params
            np.testing.assert_allclose(params["loc"], [1.0, -2.0, 0.5], atol=0.5)
        print("fits")
        """
    )
    assert run_alone(program) == "fits"


def run_alone(program: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, os.path.dirname(__file__)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()
