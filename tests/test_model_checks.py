"""`check_model` names the user's mistake, on made-up rows, and finds sound models sound."""

import textwrap

import numpyro
import numpyro.distributions as dist
import pytest
from model_cases import SMALL, boolean, category, integer, number, schema_of

from twinify_lite.errors import ModelError
from twinify_lite.models import check_model, resolve
from twinify_lite.schema import Column

HEADER = """
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
"""
AGE = 'numpyro.sample("age", dist.Normal(mean, 0.3))'


def check(tmp_path, body, schema=None, header=HEADER):
    path = tmp_path / "my_model.py"
    path.write_text(header + textwrap.dedent(body))
    return check_model(str(path), schema or schema_of(number("age")))


def in_model(*lines, before=""):
    inside = "\n".join(f"        {line}" for line in lines)
    start = f'    mean = numpyro.sample("mean", dist.Normal(0, 1))\n    {before}\n'
    return f"def model(rows):\n{start}    with rows:\n{inside}\n"


#: What is wrong, the lines of the model, and what the report must say. Found without compiling anything.
MISTAKES = [
    ("a column is not observed", in_model("pass"), "Column 'age' is not observed. Add `numpyro.sample('age', ...)`"),
    (
        "a site outside the plate",
        'def model(rows):\n    numpyro.sample("age", dist.Normal(0, 1))\n',
        "Column 'age' is sampled outside the row plate. Put it under `with rows:`.",
    ),
    (
        "an observed site that is no column",
        in_model(AGE, 'numpyro.sample("aeg", dist.Normal(0, 1), obs=jnp.zeros(rows.batch))'),
        "Site 'aeg' is observed and is no column of the table",
    ),
    (
        "a column that is given its cells twice",
        in_model('numpyro.sample("age", dist.Normal(mean, 1), obs=jnp.zeros(rows.batch))'),
        "Site 'age' has `obs=`. Leave it out",
    ),
    (
        "a discrete latent",
        in_model(AGE, before='k = numpyro.sample("k", dist.Bernoulli(0.5))'),
        "'k' is a discrete latent",
    ),
    (
        "a latent of one person",
        in_model('z = numpyro.sample("z", dist.Normal(0, 1))', 'numpyro.sample("age", dist.Normal(z, 1))'),
        "Site 'z' belongs to one row each, and AutoNormal would hold a value for every row",
    ),
    (
        "a vector for a column",
        in_model('numpyro.sample("age", dist.Normal(0, 1).expand([2]).to_event(1))'),
        "over vectors",
    ),
    (
        "levels for a number",
        in_model('numpyro.sample("age", dist.Poisson(3.0))'),
        "its distribution is for whole numbers",
    ),
    ("a wrong signature", "def model(x, y):\n    pass\n", "`model(x, y)` has the wrong arguments"),
    ("no argument", "def model():\n    pass\n", "`model()` has the wrong arguments"),
    ("a signature of d3p", "def model(xs, ys=None, N=None):\n    pass\n", "`model(xs, ys, N)` has the wrong arguments"),
    (
        "a signature of twinify",
        "def model(z=None, num_obs_total=None):\n    pass\n",
        "It is called with one: write `def model(rows):`",
    ),
    ("no model", "def modle(rows):\n    pass\n", "it has no function `model`"),
    ("a syntax error", "def model(rows:\n    pass\n", "my_model.py, line 5: it is not Python"),
    (
        "an error at import",
        "import no_such_module\n",
        "my_model.py, line 5: running the file failed: ModuleNotFoundError",
    ),
    ("an unknown guide", f'guide = "AutoNormale"\n{in_model(AGE)}', "there is no guide 'AutoNormale'"),
    ("a name that is not there", in_model("foo"), "my_model.py, line 9: NameError: name 'foo' is not defined"),
    ("a branch on a value", in_model("if mean > 0: pass", AGE), "Use jnp.where instead of `if`"),
    ("a branch on a column", in_model(f"age = {AGE}", "if age > 0: pass"), "Use jnp.where instead of `if`"),
    (
        "a prior that is none",
        in_model(AGE, before='x = numpyro.sample("x", dist.ImproperUniform(dist.constraints.real, (), ()))'),
        "my_model.py, line 7: a distribution here cannot be drawn from (ImproperUniform?)",
    ),
    ("a site twice", in_model(AGE, AGE), "my_model.py, line 10: there are two sites named 'age'."),
    (
        "a scale below 0",
        in_model('numpyro.sample("age", dist.Normal(mean, -1.0))'),
        "Normal is given a `scale` that it cannot have. A scale, rate or concentration must be above 0",
    ),
    (
        "a scale of 0",
        in_model('numpyro.sample("age", dist.Normal(mean, 0.0))'),
        "or a latent that is always so, such as dist.HalfNormal(1)",
    ),
    (
        "another number of values than of rows",
        in_model('numpyro.sample("age", dist.Normal(mean * jnp.ones(7), 1.0))'),
        "line 9: arrays of the shapes [(3,), (7,)] do not go together. Under `with rows:` a site has one value a row",
    ),
    (
        "an axis too many",
        in_model('numpyro.sample("age", dist.Normal(mean * jnp.ones((2, 1)), 1.0))'),
        "Site 'age' has an axis beside that of the rows, and it must have one value a row.",
    ),
    (
        "an axis of one",
        in_model('numpyro.sample("age", dist.Normal(mean * jnp.ones((1, 1)), 1.0))'),
        "Site 'age' has an axis beside that of the rows",
    ),
    ("an error without a word", in_model("raise RuntimeError"), "RuntimeError, without a word about the reason."),
    ("a column that is not there", in_model('rows.levels("sex")'), "There is no column 'sex'. The columns are 'age'."),
    ("a value before its site", in_model('rows["age"]', AGE), "is asked for before `numpyro.sample('age', ...)`"),
]


@pytest.mark.parametrize(("body", "said"), [case[1:] for case in MISTAKES], ids=[case[0] for case in MISTAKES])
def test_check_names_the_mistake(tmp_path, body, said):
    report = check(tmp_path, body)
    assert not report.is_sound
    assert said in str(report)
    with pytest.raises(ModelError):
        report.require()


def test_check_lists_all_problems_at_once(tmp_path):
    schema = schema_of(number("age"), category("sex"), number("income", min=-5.0))
    body = in_model(AGE, 'numpyro.sample("income", dist.LogNormal(0, 1))')
    report = check(tmp_path, body, schema)
    assert len(report.problems) == 2
    assert "Column 'income' begins below 0" in str(report)
    assert "Column 'sex' is not observed" in str(report)


@pytest.mark.parametrize(
    "line",
    [
        'jax.debug.print("{}", age)',
        "jax.lax.scan(lambda c, _: (jax.debug.print('{}', age) or c, None), 0.0, None, length=2)",
        "age = jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct(age.shape, age.dtype), age)",
    ],
)
def test_check_finds_callbacks_that_would_see_cells(tmp_path, line):
    body = in_model(f"age = {AGE}", line, 'numpyro.sample("cost", dist.Normal(age, 1))')
    report = check(tmp_path, body, schema_of(number("age"), number("cost")), header=f"import jax\n{HEADER}")
    assert "calls back to Python or prints" in str(report)


def test_check_says_what_to_use_for_numpy(tmp_path):
    body = in_model(f"age = {AGE}", 'numpyro.sample("cost", dist.Normal(np.exp(age), 1))')
    report = check(tmp_path, body, schema_of(number("age"), number("cost")), header=f"import numpy as np\n{HEADER}")
    assert "line 11: NumPy is given a value that is known only when the model runs. Use jax.numpy" in str(report)


@pytest.mark.parametrize("distribution", ["dist.Poisson(3.0)", "dist.Normal(0, 1)", "dist.Normal(0, 1), obs=0.0"])
def test_check_tells_a_misspelt_column_from_a_latent(tmp_path, distribution):
    body = in_model(AGE, f'numpyro.sample("visit", {distribution})')
    report = check(tmp_path, body, schema_of(number("age"), integer("visits")))
    assert report.problems == ("Site 'visit' is no column of the table; did you mean 'visits'?",)


def test_check_finds_rows_that_mix(tmp_path):
    body = in_model(AGE, 'numpyro.sample("cost", dist.Normal(jnp.mean(rows["age"]), 1))')
    report = check(tmp_path, body, schema_of(number("age"), number("cost")))
    assert "Site 'cost' mixes rows" in str(report)


def test_check_finds_a_density_and_a_gradient_that_are_not_finite(tmp_path):
    logarithm = "dist.Normal(jnp.log(-1 - jnp.abs(mean)), 1.0)"
    report = check(tmp_path, in_model(f'numpyro.sample("age", {logarithm})'))
    assert "Site 'age' has a density that is not finite" in str(report)
    root = "dist.Normal(jnp.sqrt(jnp.abs(mean - mean)), 1.0)"
    report = check(tmp_path, in_model(f'numpyro.sample("age", {root})'))
    assert "The gradient with respect to 'mean' is not finite" in str(report)


def test_check_finds_a_sound_model_sound_and_says_what_it_saw(tmp_path):
    report = check(tmp_path, in_model(AGE))
    assert report.is_sound
    assert report.require() is report
    assert str(report).splitlines() == [
        "my_model.py fits the table: 1 column, 1 latent or parameter with 1 number.",
        "column  distribution  value at its site",
        "age     Normal        place in [-1, 1]",
    ]
    assert report.latents == {"mean": ()}


NAMES = [
    (number("c"), "dist.Normal(mean, 1).expand([rows.batch])", "Normal"),
    (number("c"), "bounded(mean, 1.0)", "truncated Normal"),
    (number("c"), "hurdle(dist.LogNormal(mean, 1.0), 0.5)", "Hurdle"),
    (integer("c", nullable=True), "zero_inflated(dist.Poisson(2.0), 0.5)", "ZeroInflated"),
    (boolean("c"), "dist.Bernoulli(logits=mean)", "Bernoulli"),
    (number("c"), "Blend(jnp.zeros(2), dist.Normal(jnp.zeros(2), 1.0))", "mixture of Normal"),
]


@pytest.mark.parametrize(("column", "distribution", "name"), NAMES, ids=[case[1] for case in NAMES])
def test_a_report_calls_distributions_what_users_call_them(tmp_path, column, distribution, name):
    header = HEADER + "from twinify_lite.models.likelihoods import Blend, bounded, hurdle, zero_inflated\n"
    report = check(tmp_path, in_model(f'numpyro.sample("c", {distribution})'), schema_of(column), header=header)
    assert report.require().columns["c"].distribution == name


FITS = [
    (category("c", ("a", "b", "c")), "dist.Normal(0, 1)", "Use Categorical with 3 probabilities"),
    (category("c", ("a", "b", "c")), "dist.Bernoulli(0.5)", "has 3 levels, and its distribution has 2"),
    (boolean("c"), "dist.Categorical(jnp.ones(3) / 3)", "has 2 levels, and its distribution has 3"),
    (boolean("c"), "dist.Poisson(1.0)", "Use Categorical"),
    (number("c", min=-1.0), "dist.Gamma(1.0, 1.0)", "begins below 0, and its distribution is for positive numbers"),
    (integer("c", min=-1), "dist.Poisson(1.0)", "begins below 0, and its distribution is for counts"),
    (integer("c", max=20), "dist.Binomial(10, 0.5)", "goes up to its `max`, and its distribution ends before"),
    (number("c"), "dist.Pareto(1.0, 1.0)", "a bound that is not 0"),
    (number("c"), "dist.Dirichlet(jnp.ones(2))", "over vectors"),
    (
        Column(name="c", kind="datetime"),
        "dist.Poisson(1.0)",
        "is a datetime, and its distribution is",
    ),
]


@pytest.mark.parametrize(("column", "distribution", "said"), FITS, ids=[f"{c.kind} {d}" for c, d, _ in FITS])
def test_check_refuses_a_distribution_whose_support_does_not_fit_the_column(tmp_path, column, distribution, said):
    report = check(tmp_path, in_model(f'numpyro.sample("c", {distribution})'), schema_of(column))
    assert said in str(report)


def test_the_number_of_levels_that_are_still_to_be_found_is_not_made_up(tmp_path):
    unknown = schema_of(Column(name="c", kind="category"))
    for distribution in ("dist.Bernoulli(0.5)", "dist.Categorical(jnp.ones(7) / 7)"):
        report = check(tmp_path, in_model(f'numpyro.sample("c", {distribution})'), unknown)
        assert "Column 'c' has levels that are still to be found" in str(report)
        assert '[columns.c]: `levels = [...]`, or `kind = "boolean"`' in str(report)
    report = check(tmp_path, in_model('numpyro.sample("c", dist.Normal(0, 1))'), unknown)
    assert "the code of a level" in str(report)
    assert not any(digit in str(report) for digit in "0123456789")
    whole = 'numpyro.sample("c", dist.Categorical(logits=jnp.zeros(rows.levels("c"))))'
    assert check(tmp_path, in_model(whole), unknown).is_sound
    for declared in (Column(name="c", kind="boolean"), Column(name="c", kind="category", levels=("no", "yes"))):
        assert check(tmp_path, in_model('numpyro.sample("c", dist.Bernoulli(0.5))'), schema_of(declared)).is_sound


def test_resolve_names_what_is_not_there(tmp_path):
    with pytest.raises(ModelError, match=r"There is no model file .*gone\.py"):
        resolve(str(tmp_path / "gone.py"), SMALL)
    with pytest.raises(ModelError, match=r"There is no template 'mixtures'; did you mean 'mixture'\?"):
        resolve("mixtures", SMALL)
    with pytest.raises(ModelError, match=r"There is no template 'zzz'\. The templates are .*mixture"):
        resolve("zzz", SMALL)
    with pytest.raises(ModelError, match="is a folder"):
        resolve(str(tmp_path), SMALL)
    with pytest.raises(ModelError, match="A model is the name of a template"):
        resolve(5, SMALL)


def test_resolve_takes_functions_and_families():
    def model(rows):
        with rows:
            numpyro.sample("age", dist.Normal(0, 1))

    family = resolve(model, SMALL)
    assert family.name == "model"
    assert resolve(family, SMALL) is family


PROCESSING = [
    ("frame.assign(age=frame['age'] - frame['age'].mean())", "preprocess does not work row by row: 'age'"),
    ("frame.dropna()", "It must make one of each"),
    ("frame.assign(age=frame['age'].rank())", "preprocess does not work row by row"),
    ("frame.assign(age=frame['age'].fillna(frame['age'].median()))", "preprocess does not work row by row"),
    ("frame.assign(age=__import__('random').random())", "from call to call"),
    ("frame['age']", "it must return a DataFrame"),
    ("frame.assign(age=frame['nothing'])", "KeyError"),
]


@pytest.mark.parametrize(("result", "said"), PROCESSING, ids=[case[0] for case in PROCESSING])
def test_check_proves_that_preprocess_works_row_by_row(tmp_path, result, said):
    body = f"def preprocess(frame):\n    return {result}\n" + in_model(AGE)
    assert said in str(check(tmp_path, body))


def test_check_lets_row_functions_pass(tmp_path):
    body = "def preprocess(frame):\n    return frame.assign(age=(frame['age'] * 2).round(1))\n"
    body += "def postprocess(frame):\n    return frame.assign(age=frame['age'] / 2)\n" + in_model(AGE)
    assert check(tmp_path, body).is_sound
