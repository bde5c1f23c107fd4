"""The package itself: light to import, typed, and with the names that it promises."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import twinify_lite

ROOT = Path(__file__).parent.parent


def run_python(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_the_package_loads_neither_jax_nor_sdmetrics():
    heavy = "{'jax', 'jaxlib', 'numpyro', 'sdmetrics', 'pandas', 'scipy', 'dp_accounting'}"
    program = f"import sys, twinify_lite; dir(twinify_lite); print(sorted({heavy} & set(sys.modules)))"
    assert run_python(program) == "[]"


def test_the_ledger_and_the_mechanisms_load_no_jax():
    program = "import sys; from twinify_lite import Ledger, Gaussian; print('jax' in sys.modules)"
    assert run_python(program) == "False"


@pytest.mark.parametrize("name", twinify_lite.__all__)
def test_every_promised_name_can_be_loaded(name):
    assert getattr(twinify_lite, name) is not None
    assert name in dir(twinify_lite)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nonsense"):
        _ = twinify_lite.nonsense


def test_the_package_is_typed_and_its_version_is_the_distributions():
    assert (Path(twinify_lite.__file__).parent / "py.typed").exists()
    assert importlib.metadata.version("twinify-lite") == twinify_lite.__version__


def test_ci_runs_the_readmes_test_command():
    readme, script = (ROOT / "README.md").read_text(), (ROOT / ".ci" / "run").read_text()
    commands = [line.strip() for line in readme.splitlines() if "pytest" in line and "pip install" in line]
    assert len(commands) == 1
    assert commands[0] in script.splitlines()
