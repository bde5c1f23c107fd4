"""Shapes and types in annotations are checked while the tests run.

Only inside: the border (ledger, accountant, `DPSVI`) checks its inputs itself, with errors for people.

Property tests try the same examples in every run, and in the process of a test the bytes of secret keys follow from
its name, so that a failure belongs to a change and not to luck. To look for new ones:
`pytest --hypothesis-profile=search --fresh-keys`.
"""

import contextlib
import hashlib
import itertools
import secrets
import signal
from unittest.mock import patch

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

INSIDE = [
    "rng",
    "alias",
    "noise",
    *(
        f"dpsvi.{name}"
        for name in ["feistel", "binomial", "batches", "clip", "elbo", "ghost", "gradient", "rows", "step"]
    ),
]
install_import_hook([f"twinify_lite.{name}" for name in INSIDE], "beartype.beartype")

settings.register_profile("same", derandomize=True)
settings.register_profile("search", derandomize=False)
settings.load_profile("same")

# No tests: a script that is run from outside of this folder (`python -m tests.mutants`), and two files of one name.
collect_ignore = ["mutants.py", "conftest.py", "benchmarks/conftest.py"]

_KEY_BYTES = 32
_fresh_bytes = secrets.token_bytes


def pytest_addoption(parser):
    parser.addoption("--fresh-keys", action="store_true", help="Draw secret keys as outside of tests.")


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    name = f"{request.node.nodeid} {fixturedef.argname} {getattr(request, 'param_index', 0)}"
    with _keys_from(name, request.config):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    with _keys_from(item.nodeid, item.config):
        return (yield)


def _keys_from(name, config):
    """Only what has the length of a key: names of files and runs stay unique among processes."""
    number = itertools.count()

    def token_bytes(nbytes=None):
        if nbytes != _KEY_BYTES:
            return _fresh_bytes(nbytes)
        return hashlib.sha256(f"{name} {next(number)}".encode()).digest()

    fresh = config.getoption("--fresh-keys")
    return contextlib.nullcontext() if fresh else patch.object(secrets, "token_bytes", token_bytes)


@pytest.fixture
def interruptible():
    """Whoever runs the tests in the background may have them ignore interrupts, and what they start does too."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
