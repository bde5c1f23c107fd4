"""The command line: a skin over the package, quick to start, with sentences for errors and never a cell in them."""

import importlib.metadata
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import twinify_lite
from twinify_lite.__main__ import run
from twinify_lite.cli import TRACEBACK, Commands, main
from twinify_lite.errors import BudgetExceeded
from twinify_lite.schema import Schema
from twinify_lite.table import FORMATS, CsvStyle
from twinify_lite.table.csv_style import DECIMALS, ENCODINGS

HEAVY = ("jax", "numpyro", "pyarrow", "pandas", "numpy", "scipy", "dp_accounting")
CELLS = ("41977", "zanzibar", "quokka", "0.77313")
CSV = "id,word,share\n41977,zanzibar,0.77313\n2,quokka,0.5\n3,quokka,0.25\n4,quokka,0.125\n"


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(CSV, encoding="utf-8")
    return path


def twin(*arguments, **options):
    return CliRunner().invoke(main, list(map(str, arguments)), **options)


def process(*arguments, **options):
    command = [sys.executable, "-m", "twinify_lite", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=120, **options)


def commands(group=main, path=()):
    yield path, group
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*path, name))


@pytest.mark.parametrize(("path", "command"), list(commands()))
def test_every_command_and_every_option_has_help(path, command):
    assert command.help
    assert all(option.help for option in command.params if isinstance(option, click.Option))
    shown = twin(*path, "--help")
    assert shown.exit_code == 0
    assert shown.output.startswith("Usage: ")


@pytest.mark.parametrize("name", sorted(main.commands))
def test_every_command_answers_in_json_too(name):
    assert "--json" in {option for parameter in main.commands[name].params for option in parameter.opts}


def test_help_imports_nothing_heavy():
    program = (
        "import sys\nfrom twinify_lite.cli import main\n"
        "for path in [[], *([name] for name in main.commands)]: main([*path, '--help'], standalone_mode=False)\n"
        f"print(sorted(set({HEAVY}) & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("Usage: ")
    assert ended.stdout.splitlines()[-1] == "[]"


def test_the_version_is_the_packages():
    assert twin("--version").output == f"twin, version {twinify_lite.__version__}\n"


def test_the_module_and_the_script_run_the_same_command():
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="twin")
    assert script.load() is run
    ended = process("--version")
    assert (ended.returncode, ended.stdout.decode().split()) == (0, ["twin,", "version", twinify_lite.__version__])


# -- twin schema -------------------------------------------------------------------------------------------------------


def test_a_schema_goes_to_stdout_and_notes_go_to_stderr(data):
    ended = twin("schema", data)
    assert ended.exit_code == 0
    schema = Schema.from_toml(ended.stdout)
    assert {name: column.kind for name, column in schema.items()} == {
        "id": "integer",
        "word": "category",
        "share": "number",
    }
    assert "Next:" in ended.stderr
    assert "NOT PRIVATE" not in ended.output


def test_no_cell_is_shown_without_peek(data):
    ended = twin("schema", data)
    assert not [cell for cell in CELLS if cell in ended.output]


def test_a_peek_is_announced_in_red_on_stderr(data):
    ended = twin("schema", data, "--peek", color=True)
    assert Schema.from_toml(ended.stdout).peeked == ("id", "word", "share")
    assert "zanzibar" in ended.stdout
    assert click.style("NOT PRIVATE", fg="red").removesuffix("\x1b[0m") in ended.stderr
    assert not [cell for cell in CELLS if cell in ended.stderr]


def test_a_schema_is_written_to_a_file_and_replaced_only_by_force(data, tmp_path):
    target = tmp_path / "schema.toml"
    assert twin("schema", data, "-o", target).stdout == ""
    assert Schema.load(target) == Schema.from_toml(twin("schema", data).stdout)
    target.write_text("mine")
    refused = twin("schema", data, "-o", target)
    assert (refused.exit_code, target.read_text()) == (1, "mine")
    assert "--force" in refused.stderr
    assert twin("schema", data, "-o", target, "--force").exit_code == 0
    assert Schema.load(target)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.csv", "schema.toml"]


def test_the_file_is_refused_before_the_data_is_read(tmp_path):
    (tmp_path / "schema.toml").write_text("mine")
    (tmp_path / "ragged.csv").write_text("a,b\n1,2,3\n")
    assert "--force" in twin("schema", tmp_path / "ragged.csv", "-o", tmp_path / "schema.toml").stderr


def test_a_table_that_is_not_there_is_told_before_a_file_that_is(tmp_path):
    (tmp_path / "schema.toml").write_text("mine")
    assert "no.csv" in twin("schema", tmp_path / "no.csv", "-o", tmp_path / "schema.toml").stderr


def test_a_failure_leaves_no_file(tmp_path):
    assert twin("schema", tmp_path / "no.csv", "-o", tmp_path / "schema.toml").exit_code == 1
    assert list(tmp_path.iterdir()) == []


def test_the_look_of_the_file_can_be_told(tmp_path):
    path = tmp_path / "d.csv"
    path.write_bytes("größe|art\n1,5|a\n2,5|b\n3,5|a\n".encode("latin-1"))
    ended = twin("schema", path, "--separator", "|", "--decimal", ",", "--encoding", "latin-1")
    schema = Schema.from_toml(ended.stdout)
    assert schema["größe"].decimals == 1
    assert schema.style == CsvStyle("|", ",", "latin-1")
    assert "[csv]" in ended.stdout
    assert Schema.from_toml(schema.to_toml()) == schema


def test_an_ordinary_csv_file_needs_no_block_for_its_look(data):
    assert "[csv]" not in twin("schema", data).stdout


def test_the_format_of_the_file_can_be_told(data, tmp_path):
    (tmp_path / "d.parquet").write_bytes(data.read_bytes())
    refused = twin("schema", tmp_path / "d.parquet")
    assert refused.exit_code == 1
    assert "--format csv" in refused.stderr
    assert twin("schema", tmp_path / "d.parquet", "--format", "csv").stdout == twin("schema", data).stdout


@pytest.mark.parametrize(("option", "known"), [("format", FORMATS), ("encoding", ENCODINGS), ("decimal", DECIMALS)])
def test_an_option_has_the_choices_of_read_table(option, known):
    (parameter,) = [parameter for parameter in main.commands["schema"].params if parameter.name == option]
    assert tuple(parameter.type.choices) == known


def test_every_option_that_a_table_error_names_is_one_of_the_command():
    folder = Path(twinify_lite.__file__).parent / "table"
    named = {option for path in folder.glob("*.py") for option in re.findall(r"--[a-z]+", path.read_text())}
    known = {option for parameter in main.commands["schema"].params for option in parameter.opts}
    assert named <= known


def test_notes_on_the_table_go_to_stderr(tmp_path):
    (tmp_path / "d.csv").write_text("x;y\n1,5;a\n2,5;b\n3,5;a\n", encoding="utf-8")
    ended = twin("schema", tmp_path / "d.csv")
    assert "Column 'x' looks like numbers with decimal commas: add --decimal ," in ended.stderr
    (tmp_path / "d.csv").write_text("41977;0.77313\n1;2\n3;4\n5;6\n", encoding="utf-8")
    ended = twin("schema", tmp_path / "d.csv")
    assert "All column names are numbers: if the file has no header, add one." in ended.stderr
    assert not [cell for cell in CELLS if cell in ended.stderr]
    (tmp_path / "d.csv").write_text("x\n" + "".join(f"level {n}\n" for n in range(101)), encoding="utf-8")
    assert "more than 100 levels" in twin("schema", tmp_path / "d.csv", "--peek").stderr


def test_the_output_is_utf8_whatever_the_terminal_speaks(tmp_path):
    (tmp_path / "d.csv").write_text("größe\n1\n2\n3\n", encoding="utf-8")
    ended = process("schema", tmp_path / "d.csv", env={**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"})
    assert ended.returncode == 0
    assert "größe" in Schema.from_toml(ended.stdout.decode("utf-8"))


def test_a_table_can_come_from_stdin():
    ended = process("schema", "-", input=CSV.encode())
    assert list(Schema.from_toml(ended.stdout.decode())) == ["id", "word", "share"]


# -- errors ------------------------------------------------------------------------------------------------------------


def failing(error):
    group = Commands(name="twin")

    @group.command()
    def fail():
        raise error

    return CliRunner().invoke(group, ["fail"])


def test_an_error_of_the_package_is_a_sentence_with_its_exit_code():
    ended = failing(BudgetExceeded("Nothing is left."))
    assert (ended.exit_code, ended.stdout, ended.stderr) == (3, "", "Error: Nothing is left.\n")


def test_an_interrupt_ends_with_130():
    ended = failing(KeyboardInterrupt())
    assert (ended.exit_code, ended.stderr) == (130, "Error: Interrupted.\n")


def test_memory_that_runs_out_is_told_as_that():
    ended = failing(MemoryError("malloc of size 7340032 failed"))
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert ended.stderr.startswith("Error: Memory ran out. Close other programs, use a machine with more memory")
    assert "7340032" not in ended.stderr


def test_the_words_of_an_unexpected_error_are_not_shown_unless_asked_for(monkeypatch):
    ended = failing(ValueError("cannot parse 'zanzibar'"))
    assert ended.exit_code == 1
    assert "ValueError at test_cli.py" in ended.stderr
    assert "zanzibar" not in ended.output
    assert ended.exception.__context__ is None
    monkeypatch.setenv(TRACEBACK, "1")
    assert "zanzibar" in str(failing(ValueError("cannot parse 'zanzibar'")).exception)


def test_a_file_that_is_not_there_is_an_error_without_traceback(tmp_path):
    ended = process("schema", tmp_path / "no.csv")
    assert ended.returncode == 1
    assert ended.stderr.startswith(b"Error: ")
    assert b"Traceback" not in ended.stderr


def test_a_ragged_file_is_refused_without_its_cells(tmp_path):
    (tmp_path / "d.csv").write_text(CSV + "zanzibar,quokka\n", encoding="utf-8")
    ended = twin("schema", tmp_path / "d.csv")
    assert ended.exit_code == 1
    assert not [cell for cell in CELLS if cell in ended.output]


@pytest.mark.skipif(os.name != "posix", reason="pipes")
def test_a_closed_pipe_ends_quietly(data):
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "twinify_lite", "schema", str(data)]
    ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, timeout=120)
    os.close(write)
    assert ended.returncode == 1
    assert ended.stderr == b""


ENDED = [(signal.SIGINT, 130, b"Error: Interrupted.\n"), (signal.SIGTERM, 143, b"Error: Terminated.\n")]


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(("sent", "code", "said"), ENDED, ids=["control-c", "sigterm"])
def test_a_signal_ends_a_command_with_its_exit_code_and_no_traceback(sent, code, said):
    command = [sys.executable, "-m", "twinify_lite", "schema", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        # More than a pipe holds: once it is written, the command has begun to read.
        running.stdin.write(b"a,b\n" + b"1,2\n" * 100_000)
        running.stdin.flush()
        running.send_signal(sent)
        _, stderr = running.communicate(timeout=120)
    assert (running.returncode, stderr) == (code, said)


# Importing the commands says so, and then waits for something that never comes.
SLOW = """
import sys

class Slow:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "twinify_lite.cli":
            print("importing", flush=True)
            exec("sys.stdin.read()")  # as imports of dataclasses do

sys.meta_path.insert(0, Slow)
from twinify_lite.__main__ import run
run()
"""


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(("sent", "code", "said"), ENDED, ids=["control-c", "sigterm"])
def test_a_signal_ends_with_its_exit_code_before_a_command_has_begun(sent, code, said):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", SLOW], **pipes) as running:
        assert running.stdout.readline() == b"importing\n"
        running.send_signal(sent)
        stdout, stderr = running.communicate(timeout=120)
    assert (running.returncode, stdout, stderr) == (code, b"", said)


def test_control_c_ends_with_130_while_arguments_are_read():
    def interrupt(*_):
        raise KeyboardInterrupt

    group = Commands(name="twin", params=[click.Option(["--slow"], callback=interrupt)])
    ended = CliRunner().invoke(group, ["--slow", "1", "x"])
    assert (ended.exit_code, ended.stderr) == (130, "Error: Interrupted.\n")


def test_the_command_is_the_way_in_that_control_c_ends_well():
    scripts = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"twin": f"{run.__module__}:{run.__name__}"}


# -- the names of the package ------------------------------------------------------------------------------------------


BEFORE = (
    "",
    "from twinify_lite.{0} import {0}",
    "import twinify_lite.{0}",
    "import twinify_lite; twinify_lite.{0}; import twinify_lite.{0}",
    "from twinify_lite import {0}",
)


@pytest.mark.parametrize(("name", "before"), [*(("encode", before) for before in BEFORE), ("discover", BEFORE[1])])
def test_a_function_is_not_hidden_by_the_module_of_its_name(name, before):
    program = (
        f"{before.format(name)}\nimport sys, twinify_lite as tw\nfrom twinify_lite import {name} as imported\n"
        f"module = sys.modules['twinify_lite.{name}']\n"
        f"assert tw.{name} is imported is module.{name}, tw.{name}\nprint(type(tw.{name}).__name__)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.stdout, ended.stderr) == ("function\n", "")
