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
    assert "Next: twin fit data.csv --epsilon E --model m.py" in ended.stderr
    shown = json.loads(twin("check", "m.py", "data.csv", "--schema", "s.toml", "--json").stdout)
    assert set(shown["columns"]) == {"age", "sex"}


def test_every_mistake_of_a_model_is_told(here):
    (here / "m.py").write_text(MODEL.format(sex="pass"))
    ended = twin("check", "m.py", "data.csv")
    assert ended.exit_code == 1
    assert "Error: Column 'sex' is not observed." in ended.stderr
    error = json.loads(twin("check", "m.py", "data.csv", "--json").stdout)["error"]
    assert (error["type"], error["exit_code"]) == ("ModelError", 1)


def test_settings_reach_the_model(here, monkeypatch):
    seen = []

    def record(model, schema, *, options):
        seen.append((model, list(schema), options))
        return checking.Report(model=model)

    monkeypatch.setattr(models, "check_model", record)
    assert twin("check", "m.py", "data.csv", "--set", "target=sex").exit_code == 0
    assert seen == [("m.py", ["age", "sex"], {"target": "sex"})]
