"""`twin templates`, `twin new` and `twin check`: a skin over `twinify_lite.models`."""

import json

import pytest
from click.testing import CliRunner

from twinify_lite import models
from twinify_lite.cli import main
from twinify_lite.models import checking


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(models, "templates", lambda: [("auto", "The automatic model."), ("mixture", "A mixture.")])
    (tmp_path / "data.csv").write_text("age,sex\n" + "3,f\n4,m\n" * 50)
    return tmp_path


def twin(*arguments):
    return CliRunner().invoke(main, list(arguments))


def test_templates_are_listed_with_a_line_each():
    assert twin("templates").stdout == "auto     The automatic model.\nmixture  A mixture.\n"
    assert json.loads(twin("templates", "--json").stdout) == {"auto": "The automatic model.", "mixture": "A mixture."}


def test_a_template_is_copied_under_a_new_name(monkeypatch, here):
    monkeypatch.setattr(models, "new", lambda name, template: here / f"{name}.{template}.py")
    ended = twin("new", "mine", "--template", "auto")
    assert f"Next: edit {here / 'mine.auto.py'}, then twin check" in ended.stderr
    assert json.loads(twin("new", "mine", "--json").stdout)["template"] == "mixture"


MODEL = """
import numpyro, numpyro.distributions as dist

def model(rows):
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    with rows:
        numpyro.sample("age", dist.Normal(0, scale))
        {sex}
"""


def test_a_model_is_tried_on_made_up_rows(here):
    (here / "m.py").write_text(MODEL.format(sex='numpyro.sample("sex", dist.Bernoulli(0.5))'))
    (here / "s.toml").write_text('[columns.sex]\nkind = "category"\nlevels = ["f", "m"]\nnullable = false\n')
    ended = twin("check", "m.py", "data.csv", "--schema", "s.toml")
    assert ended.exit_code == 0, ended.output
    assert "fits the table" in ended.stdout
    assert "Next: twin fit data.csv --epsilon E --model m.py --schema s.toml\n" in ended.stderr
    shown = json.loads(twin("check", "m.py", "data.csv", "--schema", "s.toml", "--json").stdout)
    assert shown["columns"]["sex"] == {"distribution": "Bernoulli", "value": "code of its level"}
    assert shown["columns"]["age"]["value"] == "place in [-1, 1], and age:state"
    assert shown["latents"] == {"scale": []}


def test_the_next_command_has_the_flags_that_were_given(here):
    sex = 'numpyro.sample("sex", dist.Categorical(jnp.ones(rows.levels("sex")) / rows.levels("sex")))'
    (here / "m.py").write_text(MODEL.format(sex=sex))
    (here / "m.py").write_text("import jax.numpy as jnp\n" + (here / "m.py").read_text())
    flags = ["--set", "a=1", "--set", "b=two words", "--separator", ",", "--decimal", "."]
    ended = twin("check", "m.py", "data.csv", *flags)
    wanted = "--model m.py --set a=1 --set 'b=two words' --separator , --decimal .\n"
    assert ended.stderr.endswith(wanted), ended.output


def test_a_sound_model_takes_one_screen_however_wide_the_table(here):
    names = [f"column{number}" for number in range(60)]
    (here / "wide.csv").write_text(",".join(names) + "\n" + ",".join("12345"[n % 5] for n in range(60)) + "\n")
    for template in ("auto", "independent"):
        ended = CliRunner().invoke(main, ["check", template, "wide.csv"])
        assert ended.exit_code == 0, ended.output
        lines = (ended.stdout + ended.stderr).splitlines()
        assert len(lines) <= 24
        assert max(map(len, lines)) <= 100
    assert "and 45 columns more" in ended.stdout


def test_mistakes_take_one_screen_however_wide_the_table(here):
    names = [f"column{number}" for number in range(60)]
    (here / "wide.csv").write_text(",".join(names) + "\n" + ",".join("1" * 60) + "\n")
    (here / "m.py").write_text("def model(rows):\n    pass\n")
    ended = twin("check", "m.py", "wide.csv")
    assert ended.exit_code == 1
    assert "Columns 'column0', 'column1', 'column2' and 57 more are not observed." in ended.stderr
    assert len(ended.stderr) < 600
    normals = "for name in rows.columns: numpyro.sample(name, dist.Normal(0, 1).expand([2]).to_event(1))"
    (here / "m.py").write_text(MODEL.format(sex=normals).replace('numpyro.sample("age", dist.Normal(0, scale))', ""))
    ended = twin("check", "m.py", "wide.csv")
    assert "and 55 more problems" in ended.stderr
    assert len(ended.stderr.splitlines()) < 10


def test_every_mistake_of_a_model_is_told(here):
    (here / "m.py").write_text(MODEL.format(sex="pass"))
    ended = twin("check", "m.py", "data.csv")
    assert ended.exit_code == 1
    assert "Error: Column 'sex' is not observed." in ended.stderr
    error = json.loads(twin("check", "m.py", "data.csv", "--json").stdout)["error"]
    assert (error["type"], error["exit_code"]) == ("ModelError", 1)


def test_settings_reach_the_model(here, monkeypatch):
    seen = []

    def record(model, table, declared, *, options):
        seen.append((model, list(table.columns), options))
        return checking.Report(model=model)

    monkeypatch.setattr(models, "check_on", record)
    assert twin("check", "m.py", "data.csv", "--set", "target=sex").exit_code == 0
    assert seen == [("m.py", ["age", "sex"], {"target": "sex"})]
