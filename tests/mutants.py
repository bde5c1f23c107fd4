"""Whether the tests notice: each mutation breaks one promise in a copy of the package, and its nearest tests must fail.

    python -m tests.mutants                       all of them: some six minutes of computing
    python -m tests.mutants --only '*noise*'      those whose names match; may be given several times
    python -m tests.mutants --sample 10 --turn 3  ten of them; every turn takes the next ten
    python -m tests.mutants --list                what there is; nothing is run

The working tree is only read. Exit code 1 if a mutation survives, 2 if the list no longer fits the code or its tests.

Every mutant is tested in a child of its own, forked from a process that has imported all but this package.
"""

from __future__ import annotations

import argparse
import compileall
import fnmatch
import importlib
import os
import py_compile
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from tests.mutations import MUTATIONS, PACKAGE, Mutation, mutated

ROOT = Path(__file__).parents[1]
_COPIED = (PACKAGE, "templates", "tests", "examples")
_OPTIONS = ("-x", "-q", "-p", "no:cacheprovider")
_PASSED, _FAILED = 0, 1
_WRITTEN = "written.txt"
_PATIENCE = 1800  # seconds of computing, after which a child is ended: a mutant may loop
_SEED = 1  # of the order in which mutations take their turns
# What takes long to import, and is imported once for all mutants.
_SLOW_IMPORTS = ("pytest", "numpyro", "numpyro.infer.autoguide", "pandas", "pyarrow", "scipy.stats", "dp_accounting")


class ListError(Exception):
    """The list of mutations does not fit the code or its tests."""


class Outcome(NamedTuple):
    """Whether the tests of one mutation noticed it, and how long they took."""

    mutation: Mutation
    killed: bool
    seconds: float


class Copy:
    """The package and its tests in a folder of their own, where one file at a time is mutated."""

    def __init__(self, folder: Path):
        self._folder = folder
        for name in _COPIED:
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", folder)
        # Found by the hash of the source and not by its time: a mutant is never taken for what it was made from.
        by_hash = py_compile.PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(folder / PACKAGE, quiet=1, invalidation_mode=by_hash)

    def outcome(self, mutation: Mutation) -> Outcome:
        """What the tests of `mutation` say of the package with it. The copy is as before afterwards."""
        file = self._folder / PACKAGE / mutation.file
        source = file.read_text(encoding="utf-8")
        begun = time.monotonic()
        try:
            file.write_text(mutated(mutation, source), encoding="utf-8")
            return Outcome(mutation, not self.passes(mutation.tests), time.monotonic() - begun)
        except ValueError as error:
            raise ListError(str(error)) from None
        finally:
            file.write_text(source, encoding="utf-8")

    def passes(self, tests: Iterable[str]) -> bool:
        """Whether these tests pass. That there are none, or that they cannot be loaded, is an error and no failure."""
        wanted = [f"tests/{test}" for test in tests]
        child = os.fork()
        if child == 0:
            _test(self._folder, wanted)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code not in (_PASSED, _FAILED) or "ERROR collecting" in self.written:
            raise ListError(f"{' '.join(wanted)} cannot be run:\n{self.written}")
        return code == _PASSED

    @property
    def written(self) -> str:
        """The end of what the last tests wrote."""
        return (self._folder / _WRITTEN).read_text(encoding="utf-8", errors="replace")[-3000:]


def _test(folder: Path, tests: Sequence[str]) -> NoReturn:
    """Be the child that runs `tests` on the copy in `folder`, and end with the exit code of pytest."""
    code = -1
    try:
        with open(folder / _WRITTEN, "wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        resource.setrlimit(resource.RLIMIT_CPU, (_PATIENCE, _PATIENCE))
        os.chdir(folder)
        sys.path[:] = [str(folder), *(path for path in sys.path if Path(path).resolve() != ROOT)]
        sys.dont_write_bytecode = True
        os.environ["PYTHONPATH"] = str(folder)
        code = int(sys.modules["pytest"].main([*_OPTIONS, *tests]))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def outcomes(mutations: Sequence[Mutation]) -> Iterator[Outcome]:
    """One after the other, once all of their tests have passed without any of them."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        os.environ |= {
            # What JAX compiles for one mutant serves the next one, where the program is the same.
            "JAX_COMPILATION_CACHE_DIR": f"{name}/compiled",
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "OPENBLAS_NUM_THREADS": "1",  # a child would miss the others
        }
        for module in _SLOW_IMPORTS:
            importlib.import_module(module)
        copy = Copy(Path(name))
        if not copy.passes(dict.fromkeys(test for mutation in mutations for test in mutation.tests)):
            raise ListError(f"A test fails without any mutation:\n{copy.written}")
        yield from map(copy.outcome, mutations)


def chosen(patterns: Sequence[str], sample: int | None, turn: int) -> list[Mutation]:
    """The mutations whose names match one of the patterns; of these a sample, which is another one every turn."""
    found = [m for m in MUTATIONS if not patterns or any(fnmatch.fnmatch(m.name, pattern) for pattern in patterns)]
    if sample is None or sample >= len(found):
        return found
    random.Random(_SEED).shuffle(found)
    return [found[(turn * sample + place) % len(found)] for place in range(sample)]


def line(name: str, file: str, tests: str, end: str, seconds: str) -> str:
    """One line of the table."""
    return f"{name:<64}  {file:<26}  {end:<8}  {seconds:>7}  {tests}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for, print the table, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.split("\n")[0])
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="Names to run, such as '*key*'.")
    parser.add_argument("--sample", type=int, metavar="N", help="Run N of them.")
    parser.add_argument("--turn", type=int, default=0, metavar="K", help="Which sample: every turn takes the next N.")
    parser.add_argument("--list", action="store_true", help="Show them and run nothing.")
    asked = parser.parse_args(arguments)
    mutations = chosen(asked.only, asked.sample, asked.turn)
    if not mutations:
        parser.error("No mutation has such a name.")
    print(line("mutation", "file", "tests", "", "seconds"))
    if asked.list:
        for one in mutations:
            print(line(one.name, one.file, " ".join(one.tests), "", ""))
        return 0
    survivors = 0
    try:
        for one, killed, seconds in outcomes(mutations):
            survivors += not killed
            end = "killed" if killed else "SURVIVED"
            print(line(one.name, one.file, " ".join(one.tests), end, f"{seconds:.1f}"), flush=True)
    except ListError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{len(mutations)} mutations, {survivors} survived.")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
