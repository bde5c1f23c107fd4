"""The walker of `test_no_raise_below_boundary` on functions of a few lines: what it finds, and what it does not."""

import pytest
from boundary import Walk
from boundary_source import Package

START = """
from lib import PrivateTable, release


def fit(table, receipt):
    rows = table.reveal()
"""
LIB = """
class PrivateTable:
    def reveal(self):
        return self._reveal()


def release(rows):
    return rows
"""
WRONG = {
    "an exact count": (
        "if table.reveal().num_rows == 1000:",
        "    raise ValueError",
    ),
    "a count by another name": (
        "n = len(rows)",
        "if n > 3:",
        "    raise ValueError",
    ),
    "an exact majority": (
        "parts = [part.null_count for part in rows.columns]",
        "if 2 * sum(parts) > rows.num_rows:",
        "    raise ValueError",
    ),
    "an assertion": ("assert rows.num_rows",),
    "a warning": (
        "import warnings",
        "if rows.num_rows > 3:",
        "    warnings.warn('many')",
    ),
    "a word of a cell": ("raise ValueError(f'{rows[0]}')",),
    "a helper that is given rows": ("check(rows)",),
    "a helper that is called because of rows": (
        "if rows.num_rows > 3:",
        "    fail()",
    ),
    "a helper that tells": (
        "if is_large(rows):",
        "    raise ValueError",
    ),
    "an order": ("rows.num_rows > 3 and fail()",),
    "a choice": ("fail() if rows.num_rows > 3 else None",),
    "a loop": (
        "for part in rows:",
        "    raise ValueError",
    ),
    "what is left after an early end": (
        "for part in [1]:",
        "    if rows.num_rows > 3:",
        "        continue",
        "    raise ValueError",
    ),
    "an error of a cell's": (
        "try:",
        "    int(rows[0])",
        "except ValueError:",
        "    raise KeyError from None",
    ),
    "a release that is left out": (
        "if rows.num_rows < 3:",
        "    return None",
    ),
    "a flag": (
        "flag = False",
        "if rows.num_rows > 3:",
        "    flag = True",
        "if flag:",
        "    raise ValueError",
    ),
    "a method": ("Look(rows).look()",),
    "a property": (
        "if Look(rows).size > 3:",
        "    raise ValueError",
    ),
    "a table of functions": ("HOW['check'](rows)",),
    "a function as an argument": ("list(map(check, rows))",),
    "a function within": (
        "def inner():",
        "    if rows.num_rows > 3:",
        "        raise ValueError",
        "inner()",
    ),
    "progress": (
        "for number in range(rows.num_rows):",
        "    receipt.progress('reading', number, 10)",
    ),
    "a list that is filled": (
        "made = []",
        "for row in rows:",
        "    made.append(1)",
        "if len(made) > 3:",
        "    raise ValueError",
    ),
    "several results": (
        "first, second = both(rows)",
        "if second:",
        "    raise ValueError",
    ),
}
RIGHT = {
    "nothing": ("pass",),
    "names": (
        "if 'x' not in rows.column_names:",
        "    raise ValueError",
    ),
    "a type": (
        "if rows.schema.field('x').type == 3:",
        "    raise ValueError",
    ),
    "something public": (
        "if receipt.epsilon > 3:",
        "    raise ValueError",
    ),
    "something noisy": (
        "if release(rows) > 3:",
        "    raise ValueError",
    ),
    "the columns": (
        "arrays = {name: rows[name] for name in rows.column_names}",
        "if len(arrays) > 3:",
        "    raise ValueError",
    ),
    "the other of several results": (
        "first, second = both(rows)",
        "if first:",
        "    raise ValueError",
    ),
    "a helper that is given something else": ("check(receipt.rows)",),
}
END = """
    return release(rows)


def check(rows):
    if rows.num_rows == 1000:
        raise ValueError


def fail():
    raise ValueError


def is_large(rows):
    if rows.num_rows > 3:
        return True
    return False


def both(rows):
    return 3, rows.num_rows


HOW = {"check": check}


class Look:
    def __init__(self, rows):
        self._rows = rows

    @property
    def size(self):
        return len(self._rows)

    def look(self):
        if self._rows:
            raise ValueError
"""


def walked(lines):
    body = "".join(f"    {line}\n" for line in lines)
    package = Package({"lib": LIB, "lib.made": f"{START}{body}{END}"})
    return Walk(package, ["lib.made.fit"], doors=["lib.release"]).found


@pytest.mark.parametrize("lines", WRONG.values(), ids=WRONG)
def test_the_walker_finds_what_hangs_on_rows(lines):
    assert walked(lines)


@pytest.mark.parametrize("lines", RIGHT.values(), ids=RIGHT)
def test_the_walker_finds_nothing_where_nothing_hangs_on_rows(lines):
    assert not walked(lines), walked(lines)
