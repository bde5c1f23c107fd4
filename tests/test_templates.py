"""Each template is fitted to data that it made itself, finds what they were made with, and makes such data again."""

import re

import numpy as np
import pandas as pd
import pytest
from model_cases import boolean, category, fit, integer, made_by, mean, number, sample, schema_of

import twinify_lite as tw
from twinify_lite import models
from twinify_lite.errors import ModelError
from twinify_lite.models.catalogue import folder, template_path

QUICK = {"steps": 300, "sampling_rate": 0.5, "learning_rate": 0.08}
ROWS = 3000
PREDICTORS = (number("age"), category("sex"))


def recovered(model, schema, latents, rows=ROWS, quick=QUICK, epsilon=None, **options):
    table = made_by(model, schema, latents, rows, **options)
    return fit(model, schema, table, epsilon=epsilon, **quick, **options), table


def predictor_latents():
    return {"age_mean": -0.2, "age_sd": 0.3, "sex_logits": np.array([0.5, -0.5])}


def test_independent_recovers_its_parameters():
    latents = {"age_mean": -0.2, "age_sd": 0.25, "sex_logits": np.array([0.7, -0.7])}
    posterior, table = recovered("independent", schema_of(*PREDICTORS), latents)
    assert mean(posterior, "age_mean") == pytest.approx(-0.2, abs=0.03)
    assert mean(posterior, "age_sd") == pytest.approx(0.25, abs=0.03)
    assert np.diff(mean(posterior, "sex_logits")) == pytest.approx(-1.4, abs=0.25)
    assert sample(posterior)["age"].mean() == pytest.approx(np.mean(table["age"].to_numpy()), abs=2)


MIXED = schema_of(number("age", nullable=True), category("sex"))


def mixed_latents():
    return {
        "weights": np.array([0.3, 0.7]),
        "age_mean": np.array([-0.6, 0.3]),
        "age_sd": np.array([0.1, 0.2]),
        "sex_logits": np.array([[2.0, 0.0], [0.0, 1.0]]),
        "age_state_logits": np.array([[0.0, 1.0], [3.0, 0.0]]),
    }


def test_mixture_recovers_its_kinds_and_who_is_missing():
    posterior, table = recovered("mixture", MIXED, mixed_latents(), components=2)
    order = np.argsort(mean(posterior, "age_mean"))
    assert mean(posterior, "age_mean")[order] == pytest.approx([-0.6, 0.3], abs=0.06)
    assert mean(posterior, "weights")[order] == pytest.approx([0.3, 0.7], abs=0.06)
    made, drawn = table.to_pandas(), sample(posterior)
    for sex in "fm":  # missingness belongs to the kind, and so it depends on the other column
        share = [frame["age"].isna()[frame["sex"] == sex].mean() for frame in (made, drawn)]
        assert share[0] == pytest.approx(share[1], abs=0.06)


def test_gaussian_mixture_recovers_its_centres():
    schema = schema_of(number("x"), number("y"))
    centres = np.array([[-0.6, 0.5], [0.4, -0.3]])
    latents = {"weights": np.array([0.4, 0.6]), "centres": centres, "widths": np.full((2, 2), 0.15)}
    posterior, _ = recovered("gaussian_mixture", schema, latents, clusters=2)
    order = np.argsort(mean(posterior, "centres")[:, 0])
    assert mean(posterior, "centres")[order] == pytest.approx(centres, abs=0.05)
    assert mean(posterior, "widths") == pytest.approx(0.15, abs=0.04)


def test_logistic_regression_recovers_its_weights_also_where_the_answer_can_be_missing():
    schema = schema_of(*PREDICTORS, boolean("ill", nullable=True))
    latents = predictor_latents() | {"ill_bias": 0.3, "ill_weights": np.array([2.0, -1.0])}
    latents |= {"ill:states": np.array([0.8, 0.2])}
    posterior, _ = recovered("logistic_regression", schema, latents)
    assert mean(posterior, "ill_weights") == pytest.approx([2.0, -1.0], abs=0.4)
    assert sample(posterior)["ill"].isna().mean() == pytest.approx(0.2, abs=0.03)
    assert posterior.settings["target"] == "ill"


def test_hierarchical_logistic_regression_recovers_the_offsets_of_groups():
    schema = schema_of(category("ward", tuple("abcd")), number("age"), boolean("ill"))
    group = np.array([-1.5, 0.5, 0.0, 1.2])
    latents = {"ward_logits": np.zeros(4), "age_mean": 0.0, "age_sd": 0.4}
    latents |= {"ill_bias": 0.2, "ill_weights": np.array([1.0]), "ill_spread": 1.0, "ill_group": group}
    posterior, _ = recovered("hierarchical_logistic_regression", schema, latents)
    draws = posterior.draws
    found = (draws["ill_bias"][:, None] + draws["ill_spread"][:, None] * draws["ill_group"]).mean(axis=0)
    assert found == pytest.approx(0.2 + group, abs=0.4)


def test_linear_regression_recovers_its_line():
    schema = schema_of(number("age"), number("cost"))
    latents = {"age_mean": -0.2, "age_sd": 0.3, "cost_bias": 0.1, "cost_weights": np.array([0.5]), "cost_sd": 0.1}
    posterior, _ = recovered("linear_regression", schema, latents)
    assert mean(posterior, "cost_weights") == pytest.approx([0.5], abs=0.05)
    assert mean(posterior, "cost_sd") == pytest.approx(0.1, abs=0.02)


def test_poisson_regression_recovers_its_rates():
    schema = schema_of(number("age"), integer("visits", max=200))
    latents = {"age_mean": -0.2, "age_sd": 0.3, "visits_bias": 1.0, "visits_weights": np.array([0.8])}
    posterior, table = recovered("poisson_regression", schema, latents)
    assert mean(posterior, "visits_weights") == pytest.approx([0.8], abs=0.15)
    drawn = sample(posterior)["visits"]
    assert drawn.var() == pytest.approx(table.to_pandas()["visits"].var(), rel=0.2)
    assert drawn.dtype == np.int64


def test_bayesian_network_recovers_its_arrows():
    schema = schema_of(*PREDICTORS)
    latents = {"age_bias": -0.2, "age_sd": 0.3, "sex_bias": np.zeros(2), "sex_weights": np.array([[0.0, 3.0]])}
    posterior, table = recovered("bayesian_network", schema, latents)
    assert np.diff(mean(posterior, "sex_weights")[0]) == pytest.approx(3.0, abs=0.5)
    made, drawn = (frame.groupby("sex")["age"].mean() for frame in (table.to_pandas(), sample(posterior)))
    assert list(drawn) == pytest.approx(list(made), abs=3)


def test_the_chain_of_the_automatic_template_recovers_its_effects():
    schema = schema_of(*PREDICTORS)
    latents = {"age_bias": -0.2, "age_sd": 0.3, "sex_bias": np.zeros(2), "sex_weights": np.array([[0.0, 3.0]])}
    posterior, table = recovered(str(template_path("auto")), schema, latents)
    assert np.diff(mean(posterior, "sex_weights")[0]) == pytest.approx(3.0, abs=0.5)
    made, drawn = (frame.groupby("sex")["age"].mean() for frame in (table.to_pandas(), sample(posterior)))
    assert list(drawn) == pytest.approx(list(made), abs=3)


def test_the_graph_of_a_bayesian_network_is_the_users(tmp_path):
    path = models.new("net", "bayesian_network", tmp_path)
    text = path.read_text()
    for graph, problem in (
        ('{"age": ["sex"], "sex": ["age"]}', "cycle among ['age', 'sex']"),
        ('{"age": ["sax"]}', "['sax'], which are no columns"),
    ):
        path.write_text(re.sub(r"PARENTS = \{.*?\n\}", f"PARENTS = {graph}", text, flags=re.DOTALL))
        assert problem in str(models.check_model(str(path), schema_of(*PREDICTORS)))


def test_vae_keeps_columns_together():
    generator = np.random.default_rng(0)
    hidden = generator.normal(size=4000)
    frame = pd.DataFrame({f"x{i}": 50 + 12 * hidden + 5 * generator.normal(size=4000) for i in range(2)})
    frame["sex"] = np.where(hidden + 0.5 * generator.normal(size=4000) > 0, "m", "f")
    schema = schema_of(number("x0"), number("x1"), category("sex"))
    drawn = sample(fit("vae", schema, frame, steps=400, sampling_rate=0.25, latent=2, units=16))
    numbers = [f.assign(sex=f["sex"] == "m").corr().to_numpy() for f in (frame, drawn)]
    assert numbers[1] == pytest.approx(numbers[0], abs=0.15)


def test_a_private_fit_of_a_template_at_epsilon_one_is_close():
    """The fast version of the slow test below: few parameters, many rows."""
    latents = {"age_mean": -0.2, "age_sd": 0.25}
    posterior, _ = recovered("independent", schema_of(number("age")), latents, 20_000, {}, epsilon=1.0)
    assert mean(posterior, "age_mean") == pytest.approx(-0.2, abs=0.02)
    assert mean(posterior, "age_sd") == pytest.approx(0.25, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [5_000, 100_000])
def test_templates_recover_their_parameters_at_epsilon_one(rows):
    schema = schema_of(*PREDICTORS, boolean("ill"))
    latents = predictor_latents() | {"ill_bias": 0.3, "ill_weights": np.array([2.0, -1.0])}
    posterior, _ = recovered("logistic_regression", schema, latents, rows, {}, epsilon=1.0)
    assert mean(posterior, "ill_weights") == pytest.approx([2.0, -1.0], abs=1.0 if rows < 10_000 else 0.2)
    posterior, _ = recovered("mixture", MIXED, mixed_latents(), rows, {}, epsilon=1.0, components=2)
    assert np.sort(mean(posterior, "age_mean")) == pytest.approx([-0.6, 0.3], abs=0.15 if rows < 10_000 else 0.05)


# -- the folder -------------------------------------------------------------------------------------------------------


def test_every_template_has_a_readme_of_one_screen_with_a_command():
    known = dict(models.templates())
    assert {"auto", "mixture", "vae", "bayesian_network", "independent"} <= set(known)
    for name in known:
        text = (folder() / name / "README.md").read_text()
        assert len(text.splitlines()) <= 40
        assert known[name].endswith(".")
        for part in ("When to use it", "What it assumes", f"twin fit data.csv --epsilon 1 --model {name}"):
            assert part in text


def test_new_copies_a_template_and_overwrites_nothing(tmp_path):
    path = models.new("mine", "mixture", tmp_path)
    assert path == tmp_path / "mine.py"
    assert path.read_text() == (folder() / "mixture" / "model.py").read_text()
    with pytest.raises(ModelError, match="exists already"):
        models.new("mine.py", "mixture", tmp_path)
    with pytest.raises(ModelError, match=r"no template 'mixtur'; did you mean 'mixture'\?"):
        models.new("other", "mixtur", tmp_path)
    with pytest.raises(ModelError, match="no name for a model file"):
        models.new("../x", "mixture", tmp_path)
    with pytest.raises(ModelError, match="no folder"):
        models.new("x", "mixture", tmp_path / "none")


@pytest.mark.parametrize(
    ("template", "needs"),
    [
        ("logistic_regression", "a boolean or a column of two levels"),
        ("hierarchical_logistic_regression", "a boolean or a column of two levels"),
        ("linear_regression", "a number or an integer"),
        ("poisson_regression", "an integer"),
        ("gaussian_mixture", "a number or a date"),
    ],
)
def test_a_template_says_what_it_needs(template, needs):
    report = models.check_model(template, schema_of(category("place", ("a", "b", "c"))))
    assert len(report.problems) == 1
    assert needs in report.problems[0]


def test_the_target_is_an_option_and_is_settled_before_anything_is_discovered():
    schema = schema_of(number("age", min=None, max=None, nullable=None), boolean("ill"), boolean("old"))
    family = models.resolve("logistic_regression", schema)
    assert family.plan(schema, 1000).options["target"] == "old"
    assert family.plan(schema, 1000, {"target": "ill"}).settings["target"] == "ill"
    with pytest.raises(ModelError, match="'age' is a number, and this model needs a boolean"):
        family.plan(schema, 1000, {"target": "age"})
    with pytest.raises(ModelError, match=r"There is no option 'tarhet'\. The options are clip_norm, guide, .*target"):
        family.plan(schema, 1000, {"tarhet": "ill"})


def test_templates_are_listed_without_jax():
    import subprocess
    import sys

    code = "import sys; from twinify_lite import models; models.templates(); sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_plan_reads_only_public_numbers():
    schema = schema_of(*PREDICTORS)
    plan = models.resolve("independent", schema).plan(schema, 50_000)
    assert plan.mechanism == tw.PoissonGaussian(
        noise_multiplier=1.0, sampling_rate=plan.settings["sampling_rate"], steps=plan.settings["steps"]
    )
    assert plan.settings["guide"] == "AutoNormal"
    assert models.resolve("independent", schema).plan(schema, 50_000, {"steps": "70"}).mechanism.steps == 70
