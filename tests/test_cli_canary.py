"""Canaries through a whole fit: secrets of one person are in no member of the twin, no output, and no file's name."""

import contextlib
import io
import os
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from twinify_lite import demo
from twinify_lite.cli import main
from twinify_lite.table import write_table

# So long that no random digits or hashes contain them by chance.
NUMBER = 8127364509
WORDS = ("CANARY", "7f3a9cQZ", str(NUMBER), "1887-06-05")
SECRET = {
    "age": NUMBER,
    "sex": "CANARY",
    "ward": "CANARY ward 7f3a9cQZ",
    "diagnosis": "7f3a9cQZ",
    "referred": "1887-06-05",
    "admitted": "1887-06-05",
    "nights": NUMBER,
    "sodium": -NUMBER / 10,
    "systolic": NUMBER,
    "cost": NUMBER / 100,
    "smoker": "CANARY smokes",
}


def sings(data):
    """The canaries in bytes or text, however they are written down."""
    data = data if isinstance(data, bytes) else data.encode()
    numbers = [np.array(number, kind).tobytes() for number in (NUMBER, -NUMBER / 10) for kind in ("<f8", "<i8")]
    return [word for word in (*(word.encode() for word in WORDS), *numbers) if word in data]


def fit(folder):
    """As a process of its own: what native code writes to stderr and to temporary files is caught too."""
    command = [sys.executable, "-m", "twinify_lite", "fit", "data.csv", "--epsilon", "1", "-o", "out.twin"]
    environment = {**os.environ, "TMPDIR": str(folder)}
    ended = subprocess.run(command, cwd=folder, capture_output=True, timeout=300, env=environment)
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout + ended.stderr


def twin(folder, *arguments):
    with contextlib.chdir(folder):
        ended = CliRunner().invoke(main, list(map(str, arguments)))
    return ended.exit_code, ended.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where a table with canaries was fitted, sampled, described and verified, with all that was said."""
    made = tmp_path_factory.mktemp("canary")
    people = demo.hospital(3000).astype(object)
    people.loc[1500, list(SECRET)] = list(SECRET.values())
    write_table(people.astype(str), made / "data.csv")
    said = [fit(made).decode()]
    for arguments in (
        ["fit", "data.csv", "--epsilon", 1, "--dry-run"],
        ["sample", "out.twin", "--n", 20_000],
        ["sample", "out.twin", "--n", 2000, "-o", "s.parquet", "--datasets", 1],
        ["describe", "out.twin"],
        ["describe", "out.twin", "--json"],
        ["verify", "out.twin"],
    ):
        code, output = twin(made, *arguments)
        assert code == 0, output
        said.append(output)
    (made / "said.txt").write_text("\n".join(said))
    return made


def test_the_canaries_are_in_the_table(folder):
    assert set(sings((folder / "data.csv").read_bytes())) >= {word.encode() for word in WORDS}


def test_nothing_that_was_said_sings(folder):
    assert not sings((folder / "said.txt").read_bytes())


def test_no_member_of_the_twin_sings(folder):
    with zipfile.ZipFile(folder / "out.twin") as archive:
        for info in archive.infolist():
            assert not sings(info.filename), info.filename
            assert not sings(archive.read(info)), info.filename
    assert not sings((folder / "out.twin").read_bytes())


def test_no_synthetic_row_sings(folder):
    assert not sings((folder / "synthetic.csv").read_bytes())
    buffer = io.StringIO()
    pd.read_parquet(folder / "s-1.parquet").to_csv(buffer)
    assert not sings(buffer.getvalue())


def test_no_other_file_is_left_and_no_name_sings(folder):
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["data.csv", "out.twin", "s-1.parquet", "said.txt", "synthetic.csv"]
    assert not any(map(sings, names))


WRONG = '[columns.ward]\nkind = "number"\nmin = 0\nmax = 1\nnullable = false\n'


@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=["fit", "dry run"])
def test_a_fit_to_a_schema_that_most_cells_do_not_fit_does_not_sing(folder, more):
    (folder / "misfit.toml").write_text(WRONG)
    code, output = twin(
        folder, "fit", "data.csv", "--epsilon", 1, "-o", "misfit.twin", "--schema", "misfit.toml", *more
    )
    for name in ("misfit.toml", "misfit.twin"):
        (folder / name).unlink(missing_ok=True)
    assert code == 0, output
    assert ("most of its cells are not numbers" if more else "% of the cells of 'ward' do not fit the schema") in output
    assert not sings(output)


@pytest.mark.parametrize(
    "options", [["--schema", "wrong.toml"], ["--set", "nonsense=1"], ["--model", "nonsense"], ["--target", "nothing"]]
)
def test_a_fit_that_is_refused_does_not_sing(folder, options):
    (folder / "wrong.toml").write_text(WRONG.replace("ward", "wart"))
    code, output = twin(folder, "fit", "data.csv", "--epsilon", 1, "-o", "refused.twin", *options)
    (folder / "wrong.toml").unlink()
    assert code == 1, output
    assert "This should not have happened" not in output
    assert not sings(output)
    assert not (folder / "refused.twin").exists()


@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=["fit", "dry run"])
def test_a_file_without_a_header_is_refused_before_its_first_row_becomes_names(folder, more):
    (folder / "headless.csv").write_text(f"CANARY,{NUMBER}\n" + "a,1\nb,2\n" * 20)
    code, output = twin(folder, "fit", "headless.csv", "--epsilon", 1, *more)
    (folder / "headless.csv").unlink()
    assert code == 1, output
    assert "if the file has no header, add one" in output
    assert not sings(output)
    assert not (folder / "headless.twin").exists()


def test_names_that_are_numbers_may_be_declared(folder):
    (folder / "years.csv").write_text("name,2019,2020\n" + "a,1,2\nb,3,4\n" * 20)
    code, output = twin(folder, "fit", "years.csv", "--epsilon", 1, "--dry-run")
    assert code == 1
    assert "The names of columns 2 and 3 are numbers" in output
    assert twin(folder, "schema", "years.csv", "-o", "years.toml")[0] == 0
    code, output = twin(folder, "fit", "years.csv", "--epsilon", 1, "--dry-run", "--schema", "years.toml")
    for name in ("years.csv", "years.toml"):
        (folder / name).unlink()
    assert code == 0, output
