"""What a fit leaves behind: it generates, goes through its parts, and runs nobody's code but the one that was given."""

import dataclasses
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pyarrow as pa
import pytest
from model_cases import category, fit, number, sample, schema_of

import twinify_lite as tw
from twinify_lite import models
from twinify_lite.errors import ArtifactError, ModelError
from twinify_lite.models.fitting import keep, restore
from twinify_lite.models.processing import prepare_table, to_frame
from twinify_lite.models.program import prepare
from twinify_lite.models.source import from_text
from twinify_lite.posterior import BATCH, Posterior
from twinify_lite.schema.draft import draft

SCHEMA = schema_of(number("age", nullable=True), category("sex"))
QUICK = {"steps": 60, "sampling_rate": 0.5, "learning_rate": 0.1}
MODEL = """
import numpyro
import numpyro.distributions as dist
guide = "AutoMultivariateNormal"

def model(rows):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    weight = numpyro.param("weight", 0.5)
    with rows:
        numpyro.sample("age", dist.Normal(mean, 0.3))
        numpyro.sample("sex", dist.Categorical(logits=rows.features("age") * weight))
"""


def frame(rows=1000):
    generator = np.random.default_rng(0)
    age = np.clip(generator.normal(40, 15, rows), 0, 100)
    age[generator.random(rows) < 0.3] = np.nan
    return pd.DataFrame({"age": age, "sex": generator.choice(["f", "m"], rows)})


class Checkpoints:
    """Keeps what a fit saves."""

    def __init__(self):
        self.saved = []

    def load(self):
        return None

    def save(self, values):
        self.saved.append(values)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "my_model.py"
    path.write_text(MODEL)
    seen, checkpoints = [], Checkpoints()
    posterior = fit(
        str(path), SCHEMA, frame(), progress=lambda *step: seen.append(step), checkpoint=checkpoints, **QUICK
    )
    return posterior, path, seen, checkpoints


def test_generated_rows_are_rows_of_the_schema_with_missing_cells(fitted):
    drawn = sample(fitted[0])
    assert list(drawn.columns) == ["age", "sex"]
    assert drawn["age"].isna().mean() == pytest.approx(0.3, abs=0.05)
    assert drawn["age"].mean() == pytest.approx(40, abs=3)
    assert drawn["age"].between(0, 100)[drawn["age"].notna()].all()


def test_the_first_rows_do_not_depend_on_how_many_are_asked_for(fitted):
    few, many = sample(fitted[0], 10), sample(fitted[0], BATCH + 10)
    pd.testing.assert_frame_equal(few, many[:10])
    assert len(many) == BATCH + 10
    assert not many[BATCH:].reset_index(drop=True).equals(few)


def test_a_dataset_is_one_draw_and_a_seed_gives_it_again(fitted):
    posterior = fitted[0]
    assert posterior.datasets == 100
    assert sample(posterior).equals(sample(posterior))
    assert not sample(posterior, dataset=1).equals(sample(posterior))
    with pytest.raises(ModelError, match="There are 100 datasets"):
        sample(posterior, dataset=100)


def test_progress_says_compiling_first_and_counts_steps(fitted):
    seen = fitted[2]
    assert seen[0] == ("compiling", 0, 60)
    assert seen[-1] == ("fitting", 60, 60)


def test_a_checkpoint_holds_numbers_from_after_the_noise_and_restores_them(fitted):
    saved = fitted[3].saved[-1]
    assert int(saved["step"]) == 60
    assert set(saved) == {"step", "clip_norm"} | {f"leaf_{i}" for i in range(len(saved) - 2)}

    from twinify_lite.dpsvi.step import DPSVIState

    leaves = [saved[f"leaf_{i}"] for i in range(len(saved) - 2)]
    zeros = tuple(map(jnp.zeros_like, leaves))
    blank = DPSVIState(zeros, jax.random.key(0), jnp.int32(0), jnp.float32(1), owner=1)
    again = keep(restore(blank, saved))
    assert all(np.array_equal(again[name], saved[name]) for name in saved)
    with pytest.raises(ModelError, match="checkpoint is of another model"):
        restore(blank, {name: saved[name] for name in list(saved)[:-1]})


def parts_of(posterior):
    import json

    meta, arrays, texts = posterior.parts()
    return json.loads(json.dumps(meta)), arrays, texts


def test_a_posterior_goes_through_its_parts(fitted):
    posterior, path, *_ = fitted
    meta, arrays, texts = parts_of(posterior)
    assert texts == {"model.py": MODEL}
    again = Posterior.from_parts(meta, arrays, texts, SCHEMA, model_file=str(path))
    assert sample(again).equals(sample(posterior))
    assert again.describe() == posterior.describe()
    assert again.params.keys() == {"weight"}


FORGERIES = {
    "fewer draws": lambda array: array[:1],
    "another axis": lambda array: array[..., None],
    "not numbers": lambda array: np.full_like(array, np.nan),
    "infinite": lambda array: np.full_like(array, np.inf),
    "whole numbers": lambda array: np.ones_like(array, np.int64),
}


@pytest.mark.parametrize("change", FORGERIES.values(), ids=FORGERIES)
def test_arrays_that_the_model_cannot_draw_with_are_refused(fitted, change):
    meta, arrays, texts = parts_of(fitted[0])
    assert {"latent_0", "param_0"} <= arrays.keys()
    for name in ("latent_0", "param_0"):
        arrays[name] = np.atleast_1d(arrays[name]) if change is FORGERIES["fewer draws"] else arrays[name]
        with pytest.raises(ArtifactError, match="Fit the twin again"):
            Posterior.from_parts(meta, arrays | {name: change(arrays[name])}, texts, SCHEMA, model_file=fitted[1])


@pytest.mark.parametrize("datasets", [0, -1, 3, 10**6])
def test_another_number_of_draws_than_there_are_is_refused(fitted, datasets):
    meta, arrays, texts = parts_of(fitted[0])
    with pytest.raises(ArtifactError, match="Fit the twin again"):
        Posterior.from_parts(meta | {"datasets": datasets}, arrays, texts, SCHEMA, model_file=fitted[1])


def test_code_inside_a_twin_is_not_run_unless_it_is_trusted(fitted, tmp_path):
    posterior = fitted[0]
    meta, arrays, texts = parts_of(posterior)
    flag = tmp_path / "run"
    evil = {"model.py": f"open({str(flag)!r}, 'w')\n" + MODEL}
    for contents in (texts, evil, {}):
        with pytest.raises(ModelError, match="Code inside a twin is never run"):
            Posterior.from_parts(meta, arrays, contents, SCHEMA)
    with pytest.raises(ModelError, match="Do not trust this file"):
        Posterior.from_parts(meta, arrays, evil, SCHEMA, trust_model=True)
    other = tmp_path / "other.py"
    other.write_text(f"open({str(flag)!r}, 'w')\n" + MODEL)
    with pytest.raises(ModelError, match="is not the model that this twin was fitted with"):
        Posterior.from_parts(meta, arrays, texts, SCHEMA, model_file=str(other))
    assert sample(Posterior.from_parts(meta, arrays, texts, SCHEMA, trust_model=True)).equals(sample(posterior))
    assert not flag.exists()


def test_a_model_file_that_changes_after_its_hash_was_compared_is_not_run(fitted, monkeypatch):
    meta, arrays, texts = parts_of(fitted[0])
    ran = "raise AssertionError('this was run')\n" + MODEL
    answers = iter([texts["model.py"], ran])
    monkeypatch.setattr("twinify_lite.models.source.read", lambda path: next(answers))
    assert sample(Posterior.from_parts(meta, arrays, {}, SCHEMA, model_file=fitted[1])).equals(sample(fitted[0]))


def test_a_template_is_taken_from_the_package_only_if_it_is_the_same():
    schema = schema_of(number("age"))
    source = models.resolve("independent", schema).source
    draws = {"age_mean": np.zeros(3, np.float32), "age_sd": np.full(3, 0.2, np.float32)}
    posterior = Posterior(program=prepare(source, schema, {}), draws=draws, params={}, datasets=3, settings={})
    meta, arrays, texts = parts_of(posterior)
    assert sample(Posterior.from_parts(meta, arrays, {}, schema)).equals(sample(posterior))
    meta["model"]["sha256"] = "0" * 64
    with pytest.raises(ModelError, match="of this version is not the one"):
        Posterior.from_parts(meta, arrays, texts, schema)


def test_a_function_is_given_again_to_load_its_twin():
    def model(rows):
        mean = numpyro.sample("mean", dist.Normal(0, 1))
        with rows:
            numpyro.sample("age", dist.Normal(mean, 0.3))

    schema = schema_of(number("age"))
    program = prepare(models.resolve(model, schema).source, schema, {})
    posterior = Posterior(program=program, draws={"mean": np.zeros(2)}, params={}, datasets=2, settings={})
    meta, arrays, texts = parts_of(posterior)
    with pytest.raises(ModelError, match="fitted with a function of Python, `model`"):
        Posterior.from_parts(meta, arrays, texts, schema, trust_model=True)
    assert sample(Posterior.from_parts(meta, arrays, texts, schema, model_file=model)).equals(sample(posterior))


# -- preprocess and postprocess ---------------------------------------------------------------------------------------


def source_with(result, key="preprocess"):
    return from_text(f"def {key}(frame):\n    return {result}\n{MODEL}", name="my_model.py")


def test_preprocess_sees_every_row_alone(monkeypatch):
    table = tw.read_table(frame(50))
    sizes = []
    monkeypatch.setitem(sys.modules, "seen_sizes", types.SimpleNamespace(add=sizes.append))
    source = source_with("__import__('seen_sizes').add(len(frame)) or frame.assign(age=frame['age'] * 2)")
    made = prepare_table(source, table).reveal().to_pandas()
    assert sizes[-50:] == [1] * 50
    assert len(set(sizes[:-50])) > 1  # made-up rows, among others
    assert made["age"].equals(frame(50)["age"] * 2)
    assert made["sex"].equals(frame(50)["sex"])


def test_a_preprocess_that_remembers_rows_is_refused():
    """Codes by order of appearance: a row's code tells which values came before it."""
    remembers = "CODES = {}\ndef code(cell): return CODES.setdefault(cell, len(CODES))\n"
    text = f"{remembers}def preprocess(frame):\n    return frame.assign(age=frame['age'].map(code))\n{MODEL}"
    with pytest.raises(ModelError, match="does not work row by row"):
        prepare_table(from_text(text, name="my_model.py"), tw.read_table(frame(50)))


def test_a_preprocess_that_remembers_what_no_made_up_row_has_still_meets_every_row_as_the_first():
    remembers = "SEEN = []\ndef number(age):\n    SEEN.extend([age] * (age == 77.25))\n    return age + len(SEEN)\n"
    text = f"{remembers}def preprocess(frame):\n    return frame.assign(age=frame['age'].map(number))\n{MODEL}"
    table = frame(50)
    table.loc[0, "age"] = 77.25
    made = prepare_table(from_text(text, name="my_model.py"), tw.read_table(table)).reveal().to_pandas()
    assert made["age"][0] == 78.25
    assert made["age"][1:].equals(table["age"][1:])


@pytest.mark.parametrize("odd", ["2020-01-01T00:00:00Z", "2020-01-01 00:00+01:00", "now", "9999999-01-01", "x"])
def test_one_odd_date_decides_nothing_for_other_rows(odd):
    days = [f"2020-01-{1 + i % 28:02d}" for i in range(60)]
    made = [
        to_frame(draft(table), table)["day"][:60].tolist()
        for table in map(tw.read_table, (pd.DataFrame({"day": days}), pd.DataFrame({"day": [*days, odd]})))
    ]
    assert made[0] == made[1]


def test_a_preprocess_that_mixes_rows_is_refused_before_it_sees_one():
    with pytest.raises(ModelError, match="does not work row by row"):
        prepare_table(source_with("frame.assign(age=frame['age'] - frame['age'].mean())"), tw.read_table(frame(50)))


def test_a_row_for_which_preprocess_fails_is_missing_and_nobody_is_told(capfd):
    """A function that fails on one private value only, which no made-up row has."""
    table = frame(50)
    table.loc[7, "age"] = 77.25
    result = "frame.assign(age=frame['age'].map(lambda age: 1 / 0 if age == 77.25 else age))"
    made = prepare_table(source_with(result), tw.read_table(table)).reveal().to_pandas()
    assert made.loc[7].isna().all()
    assert len(made) == 50
    assert made.drop(7)["age"].equals(table.drop(7)["age"])
    assert capfd.readouterr() == ("", "")


def test_postprocess_runs_on_generated_rows(fitted):
    posterior = fitted[0]
    program = posterior.program
    source = dataclasses.replace(program.source, postprocess=lambda rows: rows.assign(old=rows["age"] > 50))
    changed = dataclasses.replace(posterior, program=dataclasses.replace(program, source=source))
    table = changed.generate(20, dataset=0, rng=np.random.default_rng(0))
    assert isinstance(table, pa.Table)
    assert table.column_names == ["age", "sex", "old"]


def wandering(rows):
    """A model of two kinds of people, one of which noise has pushed out of the range."""
    mean = numpyro.sample("mean", dist.Normal(0, 1).expand([2]).to_event(1))
    sd = numpyro.sample("sd", dist.LogNormal(0, 1))
    with rows:
        kind = numpyro.sample("sex", dist.Categorical(probs=jnp.array([0.8, 0.2])))
        numpyro.sample("age", dist.Normal(mean[kind], sd))


def drawn_from(means, sd, rows):
    schema = schema_of(number("age"), category("sex"))
    program = prepare(models.resolve(wandering, schema).source, schema, {})
    draws = {"mean": np.array([means], np.float32), "sd": np.array([sd], np.float32)}
    return sample(Posterior(program=program, draws=draws, params={}, datasets=1, settings={}), rows=rows)


def test_rows_far_out_of_a_range_are_drawn_again():
    rows = drawn_from([0.0, 9.0], 0.05, 3000)
    assert len(rows) == 3000
    assert (rows["sex"] == "f").mean() > 0.99
    assert rows["age"].between(30, 70).all()


@pytest.mark.parametrize(("mean", "sd"), [(0.9, 0.1), (9.0, 0.1), (0.0, 12.0)])
def test_rows_pile_up_nowhere_and_their_other_columns_stay(mean, sd):
    rows = drawn_from([mean, mean], sd, BATCH)
    assert rows["age"].value_counts(normalize=True).max() < 0.02
    assert (rows["sex"] == "f").mean() == pytest.approx(0.8, abs=0.03)
    halves = rows["age"][: BATCH // 2], rows["age"][BATCH // 2 :]
    assert abs(halves[0].std() - halves[1].std()) < 0.1 * rows["age"].std()
