"""A fit that is stopped, by Ctrl-C or for good, leaves nothing half-written, and goes on without spending again."""

import os
import random
import signal
import subprocess
import sys
import time

import pandas as pd
import pytest

import twinify_lite as tw
from twinify_lite import artifact, demo
from twinify_lite.table import write_table
from twinify_lite.verification import verify

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")
CHECKPOINT = "out.twin.checkpoint"


@pytest.fixture
def folder(tmp_path):
    write_table(demo.hospital(3000), tmp_path / "data.csv")
    (tmp_path / "schema.toml").write_text(demo.SCHEMA)
    return tmp_path


def start(folder, *arguments):
    command = [sys.executable, "-m", "twinify_lite", "fit", "data.csv", "--schema", "schema.toml", "--epsilon", "1"]
    return subprocess.Popen(
        [*command, "-o", "out.twin", *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def finish(running):
    out, err = running.communicate(timeout=300)
    return running.returncode, out.decode(), err.decode()


def wait_for(running, path):
    """Until the file is there, or the fit is over."""
    while running.poll() is None and not path.exists():
        time.sleep(0.005)


def require_nothing_half_written(folder):
    left = {path.name for path in folder.iterdir()} - {"data.csv", "schema.toml", CHECKPOINT, "out.twin"}
    # Whoever is killed for good cannot clean up; its unfinished file has a name that nobody takes for a twin.
    left.discard(f".{CHECKPOINT}.twin-lock")  # which nobody holds any more
    assert all(name.startswith(".twin-") and name.endswith(".tmp") for name in left), left
    if (folder / "out.twin").exists():
        artifact.read(folder / "out.twin")
    return left


def complete(folder):
    """Go on from what is left, as a user would."""
    if (folder / "out.twin").exists():
        return
    resumes = (folder / CHECKPOINT).exists()
    code, out, err = finish(start(folder, *(["--resume"] if resumes else [])))
    assert code == 0, err
    assert "differential privacy" in out
    assert not (folder / CHECKPOINT).exists()
    assert not (folder / f".{CHECKPOINT}.twin-lock").exists()


def require_true_statement(folder):
    members = artifact.read(folder / "out.twin")
    result = verify(artifact.json_from_bytes(members["statement.json"]))
    assert result.private
    assert result.recomputed <= 1.0


ENDED = [
    pytest.param(signal.SIGINT, 130, "Interrupted", id="control-c"),
    pytest.param(signal.SIGTERM, 143, "Terminated", id="sigterm", marks=pytest.mark.slow),
]


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(("sent", "expected", "said"), ENDED)
def test_a_signal_ends_a_fit_with_its_exit_code_and_the_fit_can_be_continued(folder, sent, expected, said):
    running = start(folder)
    wait_for(running, folder / CHECKPOINT)
    running.send_signal(sent)
    code, out, err = finish(running)
    assert code == expected, (code, err)
    assert out == ""
    assert f"Error: {said}." in err
    assert "--resume" in err
    assert "Traceback" not in err
    assert require_nothing_half_written(folder) == set()
    assert not (folder / f".{CHECKPOINT}.twin-lock").exists()
    assert not (folder / "out.twin").exists()
    complete(folder)
    require_true_statement(folder)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("sent", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["control-c", "sigterm"]
)
def test_a_signal_while_rows_are_written_leaves_nothing_behind(tmp_path, sent, expected):
    frame = pd.DataFrame({"a": [1, 2, 3, 4] * 50, "b": [True, False] * 100})
    tw.fit(frame, epsilon=5, options={"particles": 256}).save(tmp_path / "a.twin")
    (tmp_path / "rows.csv").write_text("mine")
    before = sorted(path.name for path in tmp_path.iterdir())
    command = [sys.executable, "-m", "twinify_lite", "sample", "a.twin", "--n", "50000000", "-o", "rows.csv", "--force"]
    running = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while running.poll() is None and not list(tmp_path.glob(".twin-*.tmp")):
        time.sleep(0.005)
    running.send_signal(sent)
    code, out, err = finish(running)
    assert (code, out) == (expected, ""), err
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert (tmp_path / "rows.csv").read_text() == "mine"


def test_a_killed_fit_can_be_continued(folder):
    running = start(folder)
    wait_for(running, folder / CHECKPOINT)
    running.kill()
    finish(running)
    require_nothing_half_written(folder)
    complete(folder)
    require_true_statement(folder)


# Says when it begins to load the library, and loads nothing else.
LOADING = """
import sys

class Telling:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "jaxlib._jax":
            print("loading", flush=True)

sys.meta_path.insert(0, Telling)
from twinify_lite.cli import main
main = lambda **_: __import__("jax") and sys.stdin.read()
sys.modules["twinify_lite.cli"].main = main
from twinify_lite.__main__ import run
run()
"""


@pytest.mark.usefixtures("interruptible")
@pytest.mark.slow
@pytest.mark.parametrize("moment", range(30))
def test_a_signal_while_jax_is_loaded_is_no_crash(moment):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", LOADING], **pipes) as running:
        assert running.stdout.readline() == b"loading\n"
        time.sleep(0.01 * moment)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=300)
    assert (running.returncode, err) == (130, b"Error: Interrupted.\n")


@pytest.mark.usefixtures("interruptible")
@pytest.mark.slow
@pytest.mark.parametrize("moment", range(12))
def test_a_fit_that_is_stopped_at_any_moment_loses_nothing(folder, moment):
    chance = random.Random(moment)
    how = chance.choice([signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
    for _ in range(2):
        running = start(folder, *(["--resume"] if (folder / CHECKPOINT).exists() else []))
        time.sleep(chance.uniform(0.1, 20))
        running.send_signal(how)
        code, _, err = finish(running)
        assert code in (0, 130, 143, -how), err
        require_nothing_half_written(folder)
        if code == 0:
            break
    complete(folder)
    require_true_statement(folder)
