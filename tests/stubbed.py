"""The command line on the stub of `twinify_lite.twin`, in a folder of its own."""

import sys
from pathlib import Path

import stub_twin
from click.testing import CliRunner

import twinify_lite
from twinify_lite.cli import main

CSV = "age,sex\n" + "3,f\n4,m\n" * 50


def install(folder, monkeypatch, table=CSV):
    """Work in `folder`, where `table` is data.csv, on the stub."""
    monkeypatch.setitem(sys.modules, "twinify_lite.twin", stub_twin)
    monkeypatch.setattr(twinify_lite, "twin", stub_twin, raising=False)
    monkeypatch.chdir(folder)
    Path("data.csv").write_text(table)
    stub_twin.CALLS.clear()
    return folder


def twin(*arguments, **options):
    """How the command ended."""
    return CliRunner().invoke(main, list(map(str, arguments)), **options)


def fit(*more):
    """Make data.twin, and return its name."""
    assert twin("fit", "data.csv", "--epsilon", 1, *more).exit_code == 0
    stub_twin.CALLS.clear()
    return "data.twin"
