"""Whatever `twin check` refuses, a fit refuses before anything is spent; and what a trial compiled serves the fit."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from model_cases import fit, integer, mean, number, schema_of
from numpyro.distributions import constraints

import twinify_lite as tw
from twinify_lite.cli_plan import plan_lines
from twinify_lite.dpsvi import rows as dpsvi_rows
from twinify_lite.errors import ModelError
from twinify_lite.ledger import Ledger
from twinify_lite.models import check_model, resolve, trial
from twinify_lite.models.fitting import OPTIONS, Declared
from twinify_lite.models.program import prepare
from twinify_lite.models.source import from_function
from twinify_lite.posterior import Posterior
from twinify_lite.twin import dry_run

SCHEMA = schema_of(number("age"), number("cost"))
QUICK = {"steps": 2}


def table(rows=50):
    rng = np.random.default_rng(0)
    return pd.DataFrame({"age": rng.uniform(0, 100, rows), "cost": rng.uniform(0, 100, rows)})


def sound(rows):
    centre, spread = numpyro.sample("centre", dist.Normal(0, 1)), numpyro.sample("spread", dist.HalfNormal(1))
    with rows:
        numpyro.sample("age", dist.Normal(centre, spread))
        numpyro.sample("cost", dist.Normal(centre, 1.0))


def mixing(rows):
    with rows:
        age = numpyro.sample("age", dist.Normal(0, 1))
        numpyro.sample("cost", dist.Normal(age.mean(), 1.0))


def negative_scale(rows):
    """At the prior's mean the scale is 1."""
    spread = numpyro.sample("spread", dist.Normal(1, 1))
    with rows:
        numpyro.sample("age", dist.Normal(0, 1))
        numpyro.sample("cost", dist.Normal(0, spread, validate_args=False))


def hidden(rows):
    with rows:
        kind = numpyro.sample("kind", dist.Normal(0, 1))
        numpyro.sample("age", dist.Normal(kind, 1))
        numpyro.sample("cost", dist.Normal(kind, 1))


def around(name):
    loc, scale = numpyro.param(f"{name}_loc", 0.0), numpyro.param(f"{name}_scale", 0.1, constraint=constraints.positive)
    support = constraints.positive if name == "spread" else constraints.real
    return dist.TransformedDistribution(dist.Normal(loc, scale), dist.biject_to(support))


def whole_guide(rows):
    numpyro.sample("centre", around("centre"))
    numpyro.sample("spread", around("spread"))


def forgetful_guide(rows):
    numpyro.sample("centre", around("centre"))


def misnamed_guide(rows):
    whole_guide(rows)
    numpyro.sample("center", around("center"))


def helped_guide(rows):
    whole_guide(rows)
    numpyro.sample("helper", dist.Normal(0, 1), infer={"is_auxiliary": True})


def mixing_guide(rows):
    with rows:
        numpyro.sample("kind", dist.Normal(rows["age"].mean(), 1))


def declared(model, guide=None):
    return Declared(source=from_function(model, guide=guide))


REFUSED = {
    "rows that mix": (declared(mixing), "Site 'cost' mixes rows"),
    "a scale that can be negative": (declared(negative_scale), "Site 'cost' has a density that is not finite"),
    "a guide that forgets": (declared(sound, forgetful_guide), "The guide has no site for 'spread'"),
    "a guide of other names": (declared(sound, misnamed_guide), "'center', and the model has no such latent"),
    "a guide whose rows mix": (declared(hidden, mixing_guide), "Site 'kind' of the guide mixes rows"),
    "a latent of each row": (declared(hidden), "Site 'kind' belongs to one row each"),
}


@pytest.fixture
def broke(monkeypatch):
    """A world in which nothing can be paid for."""

    def spend(self, mechanism, what):
        raise AssertionError(f"{what} was paid for")

    monkeypatch.setattr(Ledger, "spend", spend)


@pytest.mark.parametrize(("model", "said"), REFUSED.values(), ids=REFUSED)
def test_check_fit_and_dry_run_refuse_the_same_and_nothing_is_spent(broke, tmp_path, model, said):
    assert said in str(check_model(model, SCHEMA))
    with pytest.raises(ModelError, match=said):
        tw.fit(table(), epsilon=1, schema=SCHEMA, model=model, checkpoint=tmp_path / "kept")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ModelError, match=said):
        dry_run(table(), epsilon=1, schema=SCHEMA, model=model)


def test_a_fit_refuses_a_postprocess_that_is_not_row_by_row(broke, tmp_path):
    (tmp_path / "m.py").write_text(
        "import numpyro, numpyro.distributions as dist\n"
        "def postprocess(frame):\n    return frame.assign(age=frame['age'].rank())\n"
        "def model(rows):\n    with rows:\n"
        "        [numpyro.sample(name, dist.Normal(0, 1)) for name in rows.columns]\n"
    )
    with pytest.raises(ModelError, match="postprocess does not work row by row"):
        tw.fit(table(), epsilon=1, schema=SCHEMA, model=tmp_path / "m.py")


@pytest.mark.parametrize("guide", [whole_guide, helped_guide])
def test_a_guide_with_a_site_for_each_latent_is_sound(guide):
    assert check_model(declared(sound, guide), SCHEMA).is_sound


def test_the_fit_takes_up_what_the_trial_found(monkeypatch):
    find, found = dpsvi_rows.find_structure, []
    monkeypatch.setattr(trial, "find_structure", lambda *asked: found.append(asked) or find(*asked))
    monkeypatch.setattr(dpsvi_rows, "find_structure", lambda *_: pytest.fail("It was found again."))
    tw.fit(table(), epsilon=1, schema=SCHEMA, model=sound, options=QUICK)
    assert len(found) == 1


def test_a_structure_of_other_functions_or_columns_is_found_anew():
    columns = {"age": np.zeros(4, np.float32)}
    made = dpsvi_rows.Structure(
        model=sound,
        guide=whole_guide,
        plate="rows",
        latents=frozenset(),
        local=frozenset(),
        guided=frozenset(),
        made_up=columns,
        kinds=("fraction",),
    )
    assert made.is_of(sound, whole_guide, {"age": np.ones(9, np.float32)}, "rows")
    assert not made.is_of(mixing, whole_guide, columns, "rows")
    assert not made.is_of(sound, helped_guide, columns, "rows")
    assert not made.is_of(sound, whole_guide, columns, "people")
    assert not made.is_of(sound, whole_guide, {"age": np.zeros(4, np.int32)}, "rows")
    assert not made.is_of(sound, whole_guide, {"age": np.zeros((4, 2), np.float32)}, "rows")


def test_the_shares_of_missing_cells_are_learnt_also_with_a_guide_of_ones_own():
    """The model has a latent for them that the user did not write, and so the guide does."""
    schema = schema_of(integer("age", nullable=True), number("cost"))
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"age": pd.array(rng.integers(0, 100, 2000), "Int64"), "cost": rng.uniform(0, 100, 2000)})
    data.loc[rng.random(2000) < 0.1, "age"] = pd.NA
    model = declared(sound, whole_guide)
    assert check_model(model, schema).is_sound
    shares = mean(fit(model, schema, data, noise=0.1), "age:states")
    assert shares[1] == pytest.approx(0.1, abs=0.03)


@pytest.mark.parametrize(("rows", "noise", "rate", "is_noted"), [(2e6, 5.0, 0.05, False), (200, 100.0, 0.00577, True)])
def test_the_learning_rate_falls_where_noise_would_lead(rows, noise, rate, is_noted):
    schema = schema_of(number("age"))
    for options, wanted in (({}, rate), ({"learning_rate": 0.3}, 0.3)):
        plan = resolve("independent", schema).plan(schema, rows, {"sampling_rate": 1.0, **options})
        plan = plan.with_mechanism(dataclasses.replace(plan.mechanism, noise_multiplier=noise))
        assert plan.settings["learning_rate"] == wanted
        posterior = Posterior(program=None, draws={}, params={}, datasets=1, settings=plan.settings)
        assert bool(posterior.notes()) == is_noted


def test_a_dry_run_offers_to_set_only_what_can_be_set():
    plan = dry_run(table(), epsilon=1, schema=SCHEMA, model=sound)
    lines = plan_lines(plan)
    first, last = (i for i, line in enumerate(lines) if line.startswith(("Set by rules", "Following from")))
    offered = {line.split()[0] for line in lines[first + 1 : last]}
    assert "learning_rate" in offered
    assert offered <= {*OPTIONS, *resolve(sound, SCHEMA).source.options}


#: Priors without a mean, or for which NumPyro has none, and where they should start.
WITHOUT_A_MEAN = [
    (dist.InverseGamma(1.0), (0.7, 3.0)),
    (dist.InverseGamma(0.01, 0.01), (0.5, 2.0)),
    (dist.InverseGamma(jnp.array([0.01, 3.0]), jnp.array([0.01, 8.0])), ([0.5, 2.0], [2.0, 8.0])),
    (dist.InverseGamma(1.0).expand([3]).to_event(1), (0.5, 3.0)),
    (dist.Cauchy(5.0, 1.0), (4.0, 6.0)),
    (dist.HalfCauchy(20.0), (10.0, 40.0)),
    (dist.HalfCauchy(20.0).expand([2, 3]), (8.0, 50.0)),
    (dist.StudentT(1.0, -5.0), (-6.0, -4.0)),
    (dist.Pareto(1.0, 0.5), (2.0, 8.0)),
    (dist.Levy(0.0, 1.0), (0.5, 4.0)),
    (dist.MultivariateStudentT(1.0, jnp.array([4.0, -5.0]), jnp.eye(2)), ([3.0, -6.0], [5.0, -4.0])),
]


@pytest.mark.parametrize(
    ("prior", "ends"),
    WITHOUT_A_MEAN,
    ids=[f"{type(prior).__name__} {i}" for i, (prior, _) in enumerate(WITHOUT_A_MEAN)],
)
def test_a_prior_without_a_mean_starts_where_it_is_dense(prior, ends):
    def model(rows):
        spread = numpyro.sample("spread", prior)
        with rows:
            numpyro.sample("age", dist.Normal(0.1 * jnp.sum(spread), 1))
            numpyro.sample("cost", dist.Normal(0, 1))

    start = prepare(from_function(model), SCHEMA, {}).start["spread"]
    assert start.shape == prior.shape()
    assert np.all(start > np.asarray(ends[0]))
    assert np.all(start < np.asarray(ends[1]))


def heavy(rows):
    centre = numpyro.sample("centre", dist.Cauchy(0.5, 1.0))
    spread = numpyro.sample("spread", dist.InverseGamma(1.0))
    width = numpyro.sample("width", dist.Pareto(0.5, 0.5))
    with rows:
        numpyro.sample("age", dist.Normal(centre, jnp.sqrt(spread)))
        numpyro.sample("cost", dist.Normal(0, width))


def test_a_model_with_priors_without_a_mean_is_sound_and_fitted():
    report = check_model(heavy, SCHEMA)
    assert report.is_sound, str(report)
    twin = tw.fit(table(), epsilon=1, schema=SCHEMA, model=heavy, options=QUICK)
    assert len(twin.sample(10)) == 10
