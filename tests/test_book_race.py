"""Several processes on one ledger file, some of them killed: it never overspends, and never forgets."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import twinify_lite as tw
from twinify_lite import accountant, demo, locking
from twinify_lite.accountant import Gaussian
from twinify_lite.book import Book
from twinify_lite.table import write_table

pytestmark = pytest.mark.skipif(locking.fcntl is None, reason="no locks here")
# A process that asks for one release after the other, and tells of each that it was granted.
CHARGE = """
import sys
from twinify_lite import BudgetExceeded, Gaussian
from twinify_lite.book import Book

book, first = Book("a.ledger"), int(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
refused = 0
for number in range(first, first + 200):
    noise = 20.0 + number % 7
    try:
        book.charge(f"{number:08x}", 0, [Gaussian(noise_multiplier=noise)])
        print(f"{number:08x} {noise}", flush=True)
    except BudgetExceeded:
        refused += 1
    if refused == 5:
        break
"""
# A start of the same fit in two processes, at the same time: it waits for a line before the table is touched.
FIT = """
import sys
from twinify_lite.__main__ import run

import twinify_lite.twin
print("ready", flush=True)
sys.stdin.readline()
sys.argv = ["twin", "fit", "data.csv", "--schema", "schema.toml", "--epsilon", "0.5", "--ledger", "a.ledger",
            "-o", sys.argv[1]]
run()
"""


def start(folder, program, *arguments):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    running = subprocess.Popen([sys.executable, "-c", program, *arguments], cwd=folder, text=True, **pipes)
    assert running.stdout.readline() == "ready\n"
    return running


def go(running):
    for process in running:
        process.stdin.write("\n")
        process.stdin.flush()


def granted(process):
    """What the process was told that it may release."""
    lines = [line for line in process.communicate(timeout=200)[0].splitlines(keepends=True) if line.endswith("\n")]
    return dict(line.split() for line in lines)


def test_four_processes_on_one_file_never_overspend_and_all_that_is_granted_is_recorded(tmp_path):
    book = Book.create(tmp_path / "a.ledger", epsilon=2.5, delta=1e-6)
    running = [start(tmp_path, CHARGE, str(1000 * number)) for number in range(4)]
    go(running)
    told = [granted(process) for process in running]
    assert all(process.returncode == 0 for process in running)
    recorded = {entry.run: entry.releases[0].mechanism.noise_multiplier for entry in book.read().entries}
    assert {run: float(noise) for each in told for run, noise in each.items()} == recorded
    assert sum(map(bool, told)) >= 2  # it was a race
    assert len(recorded) > 100
    # Together they are one Gaussian: its noise is known exactly, whatever a grid would make of so many.
    everything = Gaussian(noise_multiplier=sum(noise**-2 for noise in recorded.values()) ** -0.5)
    assert 0.95 * 2.5 < accountant.epsilon(everything, delta=0.75e-6) <= 2.5 * (1 + 1e-6)
    assert book.total() <= 2.5
    assert os.listdir(tmp_path) == ["a.ledger"]


def test_whoever_is_killed_while_charging_leaves_a_whole_file_with_all_that_was_granted(tmp_path):
    book, chance = Book.create(tmp_path / "a.ledger", epsilon=9.0, delta=1e-6), random.Random(1)
    told = {}
    for number in range(5):
        running = start(tmp_path, CHARGE, str(1000 * number))
        go([running])
        assert running.stdout.readline()  # it is at it
        time.sleep(chance.uniform(0, 0.3))
        running.kill()
        told |= granted(running)
        assert running.returncode == -signal.SIGKILL
        recorded = {entry.run for entry in book.read().entries}
        assert set(told) <= recorded
    book.charge("abcdabcd", 0, [Gaussian(noise_multiplier=50.0)])  # its lock is nobody's by now
    left = {name for name in os.listdir(tmp_path) if not (name.startswith(".twin-") and name.endswith(".tmp"))}
    assert left == {"a.ledger"}


@pytest.fixture
def folder(tmp_path):
    write_table(demo.hospital(1000), tmp_path / "data.csv")
    (tmp_path / "schema.toml").write_text("rows = 1000\n" + demo.SCHEMA)
    return tmp_path


def test_of_two_fits_at_once_the_one_that_does_not_fit_releases_nothing(folder):
    book = Book.create(folder / "a.ledger", epsilon=0.55, delta=1e-6)
    running = [start(folder, FIT, name) for name in ("a.twin", "b.twin")]
    go(running)
    ended = [process.communicate(timeout=300) for process in running]
    codes = [process.returncode for process in running]
    assert sorted(codes) == [0, 3], ended
    assert "a.ledger" in ended[codes.index(3)][1]
    assert ended[codes.index(3)][0] == ""
    assert "Spent" not in ended[codes.index(3)][1]
    winner, loser = (["a.twin", "b.twin"][codes.index(code)] for code in (0, 3))
    assert {winner, loser} & set(os.listdir(folder)) == {winner}
    assert book.read().runs == 1
    assert book.total() <= 0.55


def test_a_fit_that_is_killed_and_resumed_is_charged_once(folder):
    (folder / "schema.toml").write_text(demo.SCHEMA)
    tw.Book.create(folder / "a.ledger", epsilon=1.2, delta=1e-6)
    command = [sys.executable, "-m", "twinify_lite", "fit", "data.csv", "--schema", "schema.toml", "--epsilon", "1"]
    command += ["--ledger", "a.ledger", "-o", "out.twin"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=folder, **pipes) as running:
        while running.poll() is None and not (folder / "out.twin.checkpoint").exists():
            time.sleep(0.005)
        running.kill()
    resumed = subprocess.run([*command, "--resume"], cwd=folder, capture_output=True, text=True)
    assert resumed.returncode == 0, resumed.stderr
    assert "by 1 release." in resumed.stderr
    entries = json.loads((folder / "a.ledger").read_text())["entries"]
    assert [(entry["run"], entry["stage"]) for entry in entries] == [(entries[0]["run"], 0), (entries[0]["run"], 1)]


# Somebody else charges the file: another user, who may write it because its group or everybody may.
OTHER = """
import os
from twinify_lite import Gaussian
from twinify_lite.book import Book

def charge(book):
    book.charge("0" * 8, 0, [Gaussian(noise_multiplier=20.0)])

charge(Book.create("own.ledger", epsilon=3.0))  # imports all that it takes, which the other user may not read
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
print("ready", flush=True)
charge(Book("shared.ledger", patience=60))
"""


@pytest.fixture
def public():
    """A folder that everybody may use: those of pytest are for their owner only."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        yield Path(folder)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be two users")
@pytest.mark.parametrize("mode", [0o666, 0o660])
def test_a_second_user_of_a_shared_ledger_waits_for_the_first(public, mode):
    path = public / "shared.ledger"
    Book.create(path, epsilon=3.0)
    os.chown(path, -1, 65534)
    path.chmod(mode)
    mask = os.umask(0o077)
    try:
        with locking.turn(path, patience=0):
            running = subprocess.Popen(
                [sys.executable, "-c", OTHER], cwd=public, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            assert running.stdout.readline() == b"ready\n", running.communicate()
            time.sleep(0.3)
            assert running.poll() is None, running.communicate()
    finally:
        os.umask(mask)
    _, err = running.communicate(timeout=120)
    assert running.returncode == 0, err.decode()
    assert len(Book(path).read().entries) == 1


@pytest.mark.skipif(os.name != "posix", reason="permissions")
def test_a_lock_has_the_permissions_of_its_file_whatever_the_umask(tmp_path):
    path = tmp_path / "a.ledger"
    Book.create(path, epsilon=3.0)
    for mode, expected in ((0o664, 0o664), (0o600, 0o600), (0o440, 0o640)):
        path.chmod(mode)
        mask = os.umask(0o077)
        try:
            with locking.turn(path, patience=0):
                assert os.stat(locking.beside(path)).st_mode & 0o777 == expected
        finally:
            os.umask(mask)
