"""Every benchmark has two forms: in full, on request, and a quick one that runs by default so that it keeps working.

The quick form is tiny, says nothing about time or memory, and must print its figures.
"""

import pytest


@pytest.fixture(scope="session", params=[False, pytest.param(True, marks=pytest.mark.benchmark)], ids=["quick", "full"])
def is_full(request):
    """Whether sizes are those to measure with, and what is measured is held to its bound."""
    return request.param


@pytest.fixture(autouse=True)
def _figures_are_printed(is_full, request):
    if is_full:
        yield  # in sight, with -s
        return
    captured = request.getfixturevalue("capsys")
    yield
    assert any(letter.isdigit() for letter in captured.readouterr().out)
