"""A checkpoint is for one fit at a time: while one is at work on it, whoever else comes is sent away at once."""

import os
import subprocess
import sys

import pytest

from twinify_lite import demo, locking
from twinify_lite.errors import ReceiptError, TableError
from twinify_lite.locking import held
from twinify_lite.table import write_table

pytestmark = pytest.mark.skipif(locking.fcntl is None, reason="no locks here")
CHECKPOINT = "out.twin.checkpoint"
# A fit that says when it has begun, and waits to be told to go on.
FIT = f"""
import sys
import twinify_lite as tw

def wait(phase, *_):
    if phase != "rows counted":  # before which there is nothing to continue
        print("begun", flush=True)
        sys.stdin.readline()

tw.fit("data.csv", schema="schema.toml", epsilon=1, checkpoint="{CHECKPOINT}", progress=wait)
"""


def begin(folder):
    """A process that is in the middle of a fit."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = subprocess.Popen([sys.executable, "-c", FIT], cwd=folder, **pipes)
    assert running.stdout.readline() == b"begun\n"
    return running


def twin(folder, *arguments):
    command = [sys.executable, "-m", "twinify_lite", "fit", "data.csv", "--schema", "schema.toml", "--epsilon", "1"]
    return subprocess.run([*command, "-o", "out.twin", *arguments], cwd=folder, capture_output=True, text=True)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def folder(tmp_path):
    write_table(demo.hospital(3000), tmp_path / "data.csv")
    (tmp_path / "schema.toml").write_text(demo.SCHEMA)
    return tmp_path


def test_two_processes_cannot_continue_one_checkpoint_and_a_killed_one_frees_it(folder):
    with begin(folder) as running:
        before = (folder / CHECKPOINT).read_bytes()
        for how in ("--resume", "--force"):
            refused = twin(folder, how)
            assert (refused.returncode, refused.stdout) == (1, "")
            assert f"Another fit is at work on {CHECKPOINT}" in refused.stderr
            assert (folder / CHECKPOINT).read_bytes() == before
        running.kill()
    # Whoever is killed leaves its lock behind, which nobody holds any more.
    assert names(folder) == [f".{CHECKPOINT}.twin-lock", "data.csv", CHECKPOINT, "schema.toml"]
    assert twin(folder, "--resume").returncode == 0
    assert names(folder) == ["data.csv", "out.twin", "schema.toml"]


def test_whoever_is_inside_is_alone_and_the_next_may_come_after(tmp_path):
    path = tmp_path / "checkpoint"
    with held(path):
        with pytest.raises(ReceiptError, match="Another fit is at work on"), held(path):
            pytest.fail("two are inside")
        with held(tmp_path / "other"), held(None):
            pass
    with held(path):
        pass
    with pytest.raises(KeyError), held(path):
        raise KeyError
    assert names(tmp_path) == []


def test_another_name_of_the_file_has_the_same_lock(tmp_path):
    (tmp_path / "checkpoint").write_text("")
    (tmp_path / "link").symlink_to("checkpoint")
    with held(tmp_path / "link"), pytest.raises(ReceiptError), held(tmp_path / "checkpoint"):
        pytest.fail("two are inside")


def test_a_lock_that_its_holder_took_away_meanwhile_is_asked_for_anew(tmp_path, monkeypatch):
    """Between opening the lock and holding it, the last holder may end, and a third one may come."""
    flock, lock = locking.fcntl.flock, tmp_path / ".checkpoint.twin-lock"
    tries = []

    def late(number, how):
        tries.append(number)
        if len(tries) == 1:
            os.unlink(lock)
        flock(number, how)

    monkeypatch.setattr(locking.fcntl, "flock", late)
    with held(tmp_path / "checkpoint"):
        assert len(tries) == 2
        assert lock.exists()
        with pytest.raises(ReceiptError), held(tmp_path / "checkpoint"):
            pytest.fail("two are inside")


def test_a_file_system_without_locks_keeps_nobody_out(tmp_path, monkeypatch):
    def unsupported(*_):
        raise OSError(95, "not supported")

    monkeypatch.setattr(locking.fcntl, "flock", unsupported)
    with held(tmp_path / "checkpoint"), held(tmp_path / "checkpoint"):
        assert names(tmp_path) == [".checkpoint.twin-lock"]
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["", "nowhere/checkpoint", ".", "a\0b", 3, True, "x" * 254], ids=repr)
def test_what_is_no_place_for_a_checkpoint_is_refused(tmp_path, name):
    path = tmp_path / name if isinstance(name, str) and name else name
    with pytest.raises(TableError), held(path):
        pytest.fail("it was held")


def test_a_file_of_the_user_beside_the_checkpoint_stays(tmp_path):
    (tmp_path / "poetry.lock").write_text("mine")
    with held(tmp_path / "poetry"):
        pass
    assert names(tmp_path) == ["poetry.lock"]
    assert (tmp_path / "poetry.lock").read_text() == "mine"


def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path):
    os.symlink(tmp_path / "elsewhere", locking.beside(str(tmp_path / "checkpoint")))
    with pytest.raises(TableError, match="No lock can be made beside"), held(tmp_path / "checkpoint"):
        pass
    assert not (tmp_path / "elsewhere").exists()
