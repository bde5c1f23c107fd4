"""The tests notice what breaks a promise of privacy. Ten mutations by default, all of them when slow tests run."""

import subprocess
import sys
from pathlib import Path

import pytest
from mutations import MUTATIONS, PACKAGE, Mutation, mutated

TESTS = Path(__file__).parent
ROOT = TESTS.parent
# Quick ones, of every part of the package.
TEN = (
    "a replaced row counts as an added one",
    "rows and noise have the same key",
    "a receipt is redeemed twice",
    "a resumed run takes its steps again",
    "a replaced row moves a whole table as an added one does",
    "round-off is not charged",
    "rounding of sums is not charged",
    "the threshold for new values is a row too low",
    "the deviation of the noise is rounded up",
    "costs in a ledger file are believed",
)
HARMLESS = """
import sys
from tests import mutants, mutations

row = mutations.Mutation("harmless", "release.py", "return sums + ", "return 1 * sums + ", {tests!r})
mutants.MUTATIONS = (row,)
sys.exit(mutants.main([]))
"""


def run(*arguments):
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True)


def source_of(mutation):
    return (ROOT / PACKAGE / mutation.file).read_text(encoding="utf-8")


def test_every_mutation_fits_the_code():
    for mutation in MUTATIONS:
        source = source_of(mutation)
        changed = mutated(mutation, source)
        assert changed != source, mutation.name
        compile(changed, mutation.name, "exec")


def test_every_mutation_names_tests_that_there_are():
    for mutation in MUTATIONS:
        for test in mutation.tests:
            file, name = test.split("[")[0].split("::")
            assert f"\ndef {name}(" in (TESTS / file).read_text(encoding="utf-8"), mutation.name


def test_mutations_have_names_of_their_own():
    names = [mutation.name for mutation in MUTATIONS]
    assert len(set(names)) == len(names)
    assert set(TEN) <= set(names)


@pytest.mark.parametrize(("text", "times"), [("no such text", 0), ("import", "[0-9]+")])
def test_a_text_that_is_not_there_exactly_once_is_refused(text, times):
    mutation = Mutation("stale", "release.py", text, "", ())
    with pytest.raises(ValueError, match=f"'stale': its text stands {times} times in release.py"):
        mutated(mutation, source_of(mutation))


def test_ten_mutations_are_noticed():
    ended = run("-m", "tests.mutants", *(word for name in TEN for word in ("--only", name)))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.endswith("10 mutations, 0 survived.\n")


@pytest.mark.parametrize(
    ("test", "code", "said"),
    [("test_roots_are_rounded_up", 1, "SURVIVED"), ("test_that_there_is_not", 2, "cannot be run")],
)
def test_a_mutation_that_nothing_notices_or_tests_that_cannot_run_are_told(test, code, said):
    ended = run("-c", HARMLESS.format(tests=(f"test_release.py::{test}",)))
    assert ended.returncode == code
    assert said in ended.stdout + ended.stderr


@pytest.mark.slow
def test_all_mutations_are_noticed():
    ended = run("-m", "tests.mutants")
    assert ended.returncode == 0, ended.stdout + ended.stderr
