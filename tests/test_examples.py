"""Every example runs as a reader would run it, and finds what it claims; small settings, generous margins."""

import importlib.util
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from numpyro.infer import SVI, Trace_ELBO
from numpyro.optim import Adam

import twinify_lite as tw
from twinify_lite.models import check_model

EXAMPLES = Path(__file__).parent.parent / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_example_is_run_here():
    here = Path(__file__).read_text()
    missing = [path.name for path in EXAMPLES.glob("*.py") if f'load("{path.stem}")' not in here]
    assert not missing, f"Give these a quick run: {missing}"


def test_the_readmes_program_runs_and_prints_its_statement(capsys):
    readme = (EXAMPLES.parent / "README.md").read_text()
    program = readme.split("```python\n")[1].split("```")[0]
    exec(compile(program, "README.md", "exec"), {})
    assert "(1, 1e-06)-differential privacy" in capsys.readouterr().out


def test_the_readmes_table_comes_in_and_its_constraints_hold_in_what_comes_back(tmp_path, monkeypatch, capsys):
    readme = (EXAMPLES.parent / "README.md").read_text()
    rng = np.random.default_rng(0)
    rows, age = 30_000, rng.integers(0, 100, 30_000)
    admitted = np.datetime64("2015-01-01") + rng.integers(0, 3000, rows)
    ward = rng.choice(["heart", "lungs", "mind"], rows)
    sodium = rng.normal(140, 3, rows).round(1).astype(str)
    people = pd.DataFrame(
        {
            "patient": [f"P{number:06d}" for number in range(rows)],
            "age": age,
            "smoker": np.where(age < 15, "not asked", rng.choice(["yes", "no"], rows)),
            "ward": ward,
            "building": np.where(ward == "mind", "B", "A"),
            "admitted": admitted.astype(str),
            "discharged": (admitted + rng.integers(0, 30, rows)).astype(str),
            "sodium": np.where(rng.random(rows) < 0.2, "clotted", sodium),
        }
    )
    monkeypatch.chdir(tmp_path)
    people.to_csv("data.csv", index=False, sep=";")
    Path("schema.toml").write_text(readme.split("```toml\n")[1].split("```")[0])
    exec(compile(readme.split("```py\n")[1].split("```")[0], "README.md", "exec"), {})
    assert "(1, 1e-06)-differential privacy" in capsys.readouterr().out
    twin = pd.read_csv("rows.csv", sep=";", dtype=str)
    assert list(twin.columns) == list(people.columns) == Path("schema.toml").read_text()[5:].split(";")[0].split(",")
    assert (twin["admitted"] <= twin["discharged"]).all()
    assert (twin["smoker"][twin["age"].astype(int) < 15] == "not asked").all()
    assert (twin.groupby("ward")["building"].nunique() == 1).all()
    assert (twin["sodium"] == "clotted").mean() == pytest.approx(0.2, abs=0.02)
    assert twin["patient"].is_unique


def test_the_readmes_model_is_sound(tmp_path):
    readme = (EXAMPLES.parent / "README.md").read_text()
    (tmp_path / "mine.py").write_text(readme.split("```py model\n")[1].split("```")[0])
    columns = (
        tw.Column(name="age", kind="integer", min=0, max=100, nullable=False),
        tw.Column(name="smoker", kind="boolean", nullable=False),
    )
    assert check_model(str(tmp_path / "mine.py"), tw.Schema(columns=columns)).is_sound


def test_noisy_tables_and_a_chain_come_closer_than_single_columns(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    table = load("ablation").main(rows=5000, runs=0, only=("tables of single columns", "tables, chain (auto)"))
    alone, chain = table["tables of single columns"], table["tables, chain (auto)"]
    assert chain[1] < 0.6 * alone[1]
    assert chain[2] < 0.6 * alone[2]


def test_logistic_regression_finds_the_weights_both_ways(capsys):
    results, mean = load("logistic_regression").main(rows=6000, num_iter=400, epsilon=4.0)
    for params, ledger in results.values():
        assert np.linalg.norm(params["w_loc"] - mean) < 0.35 * np.linalg.norm(mean)
        assert ledger.spent[0] <= 4.0
    assert "differential privacy" in capsys.readouterr().out


def test_the_papers_model_and_guide_without_noise_give_numpyros_posterior():
    example = load("logistic_regression")
    data, labels = map(jnp.asarray, example.make_data(1500))
    receipt = tw.Ledger.without_privacy().spend(tw.NotPrivate(), "comparison")
    ours = tw.DPSVI(example.model, example.guide, Adam(1e-2), Trace_ELBO(), receipt, 1500)
    theirs = SVI(example.model, example.guide, Adam(1e-2), Trace_ELBO(), N=1500)
    key = jax.random.key(0)
    got = ours.run(key, 1500, data, labels, progress_bar=False).params
    wanted = theirs.run(key, 1500, data, labels, progress_bar=False).params
    np.testing.assert_allclose(got["w_loc"], wanted["w_loc"], atol=0.05)
    np.testing.assert_allclose(np.exp(got["w_scale_log"]), np.exp(wanted["w_scale_log"]), rtol=0.25)


def test_hierarchical_logistic_regression_predicts_held_out_rows():
    private, best = load("hierarchical_logistic_regression").main(rows=1000, num_iter=800, epsilon=4.0)
    assert private > 0.8
    assert best > private - 0.02


def test_gaussian_mixture_finds_the_clusters():
    fitted, best, single = load("gaussian_mixture").main(rows=3000, num_iter=600, epsilon=4.0)
    assert fitted > single + 0.5 * (best - single)


def test_the_mixture_distribution_of_the_example_is_the_library_one():
    example = load("gaussian_mixture")
    pis, locs, scales = np.array([0.3, 0.7]), np.array([[0.0, 1.0], [2.0, -1.0]]), np.array([0.5, 2.0])
    points = np.random.default_rng(0).normal(size=(7, 2))
    components = dist.Normal(locs, scales[:, None]).to_event(1)
    library = dist.MixtureSameFamily(dist.Categorical(pis), components).log_prob(points)
    np.testing.assert_allclose(example.GaussianMixtureModel(pis, locs, scales).log_prob(points), library, rtol=1e-5)


def test_clipping_in_latent_space_comes_closer_to_the_exact_posterior_than_the_papers_way():
    table = load("latent_gradient").main(rows=1000, columns=5, steps=400, runs=4, clip_norms=(2.0, 4.0))
    for guide in ("mean field", "full rank"):
        latent, whole = table[guide, "latent space"], table[guide, "guide space"]
        assert latent[2] < whole[2]  # divergence from the exact posterior
        assert abs(np.log(latent[1])) < abs(np.log(whole[1]))  # ratio of standard deviations


def test_the_automatic_clip_norm_is_close_to_the_best_fixed_one():
    example = load("automatic_clip")
    table = example.main(rows=2000, steps=500, runs=1, epsilon=2.0, models=(example.logistic,), clip_norms=(0.3, 3.0))
    best, automatic = table["logistic"]
    assert automatic > best - 0.04 * abs(best)


def test_the_automatic_clip_norm_does_not_walk_away_where_noise_is_large(capsys):
    example = load("automatic_clip")
    noisy = {"rows": 500, "sampling_rate": 0.1, "steps": 3000, "epsilon": 1.0, "learning_rate": 0.01}
    table = example.main(**noisy, runs=1, models=(example.logistic,), clip_norms=(1.0,))
    fixed, automatic = table["logistic"]
    assert automatic > fixed - 0.1 * abs(fixed)
    assert "ended at" in capsys.readouterr().out


def test_a_messy_table_comes_in_and_comes_back(capsys):
    ledger = load("messy_table").main(rows=20_000)
    assert ledger.spent[0] <= 0.1
    assert "Columns that come back: patient, age, sex, admitted, discharged" in capsys.readouterr().out


@pytest.mark.slow
def test_the_automatic_clip_norm_is_within_a_few_percent_on_three_models():
    for best, automatic in load("automatic_clip").main().values():
        assert automatic > best - 0.04 * abs(best)
