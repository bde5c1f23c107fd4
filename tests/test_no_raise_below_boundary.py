"""Below the boundary nothing is raised, warned of or left out because of what exact rows hold, or how many there are.

`boundary` walks the source from where rows are private on, and finds each `raise`, `assert`, warning and word of
progress that could hang on them, and each early `return` of a function that releases something. Here stands why each
one that is there may be there. A new one fails the test: mend it, or list it with its reason.
"""

from pathlib import Path

import pytest
from boundary import Walk
from boundary_source import Package

import twinify_lite

FOLDER = Path(twinify_lite.__file__).parent
#: Where rows are looked at: a fit before and after it is paid for, `discover`, `encode` and a private score.
ENTRIES = [
    "twinify_lite.twin.fit",
    "twinify_lite.request.Request.prepare",
    "twinify_lite.fitting.Run.start",
    "twinify_lite.fitting.Run.resume",
    "twinify_lite.fitting.Run.discover",
    "twinify_lite.fitting.Run.fit",
    "twinify_lite.auto.Auto.fit",
    "twinify_lite.models.family.Family.fit",
    "twinify_lite.models.fitting.Declared.fit",
    "twinify_lite.discover.discover",
    "twinify_lite.discover.run",
    "twinify_lite.encode.encode",
    "twinify_lite.score.private.private_score",
    "twinify_lite.score.private._Sums.sums(real)",
    "twinify_lite.score.learning.Predictor.rightly(rows)",
]
#: What returns something public, though it is given rows.
DOORS = {
    "twinify_lite.schema.guess.guess": "guessed kinds are in the statement",
    "twinify_lite.schema.draft.fill": "guessed kinds are in the statement",
    "twinify_lite.schema.draft.draft": "guessed kinds are in the statement",
    "twinify_lite.schema.draft.fill_by_types": "types of columns are in the statement",
    "twinify_lite.schema.draft.guessed_as": "what was guessed comes from noisy counts, or is in the statement",
    "twinify_lite.models.processing.prepare_table": "a table that is held as the one before",
    "twinify_lite.models.processing.made_up_frame": "rows that nobody has",
    "twinify_lite.discover.count_rows": "declared, public under substitution, or noisy",
    "twinify_lite.discover.kinds.find_kinds": "what noisy counts and the types of columns show",
    "twinify_lite.discover.votes.Tally.counts": "noisy",
    "twinify_lite.discover.votes.Tally.select": "noisy",
    "twinify_lite.auto.tables.release": "noisy",
    "twinify_lite.dpsvi.svi.DPSVI.init": "only shapes and types of rows are used",
    "twinify_lite.dpsvi.svi.DPSVI.run": "noisy sums alone change its state",
    "twinify_lite.dpsvi.starting.traced": "whether JAX traces, which no row decides",
}
#: The same, of what is not walked either.
CLOSED = {
    "twinify_lite.discover.completion.complete": "reads of a Look what its noisy tallies showed",
    "twinify_lite.score.reading.read_sheets": "refuses by the synthetic table alone (test_private_score)",
    "twinify_lite.receipt.Receipt.claim": "refuses by the steps that were run",
    "twinify_lite.receipt.Receipt.redeem": "refuses by what was redeemed",
    "twinify_lite.receipt.Receipt.sampling_allowance": "delta, which is public",
    "twinify_lite.rng.key_from_words": "the words come from the receipt",
}
RAISERS = ["twinify_lite.encode.refusals.refuse", "twinify_lite.schema.columns.Column"]
OPAQUE = ["twinify_lite.table.private.PrivateTable"]

#: How often something is found in a function, and why it may be.
ALLOWED = {
    "twinify_lite.alias.scale": (1, "the table of a law of noise, which is public"),
    "twinify_lite.alias.walker": (1, "the table of a law of noise, which is public"),
    "twinify_lite.discover.votes.Tally._take": (1, "a release is asked for twice: which items are public"),
    "twinify_lite.exact._positive_integer": (1, "the deviation, which is public"),
    "twinify_lite.exact.rounded_gaussians": (1, "the deviation, which is public"),
    "twinify_lite.release.Noise.add": (1, "the type of sums, which our own code decides"),
    "twinify_lite.schema.draft.guessed_as": (1, "its keys are from a fixed list: every guess is a sound column"),
    "twinify_lite.models.processing._alone": (1, "KeyboardInterrupt alone: somebody stops the fit"),
    "twinify_lite.schema.guess.guess": (2, "its keys are from a fixed list: every guess is a sound column"),
    "twinify_lite.table.frames._texts": (1, "before payment: the statement says that all cells can be read"),
    "twinify_lite.table.frames.as_arrow": (1, "before payment: names of columns"),
    "twinify_lite.table.frames._if_it_can": (1, "before payment: memory that runs out"),
    "twinify_lite.table.guard.guarded": (3, "before payment: the statement says that all rows can be read"),
    "twinify_lite.table.private.PrivateTable.__init__": (1, "before payment: the statement says that there are rows"),
}
#: The same of DPSVI, however often.
ALLOWED_DPSVI = {
    "batches.places": "which sampler: by the plan",
    "allowed.refuse_strangers": "the model's program, traced on made-up rows",
    "batches.sampler_for": "the number of rows where it is public: batches of a fixed size",
    "binomial.binomial_table": "hangs on the number of rows beyond what memory holds",
    "elbo.what_persons_use": "the model's program, traced on made-up rows",
    "feistel.permute": "hangs on the number of rows beyond 32 bits",
    "lattice.lattice_for": "the noise, and the shapes of a made-up row",
    "mixing.refuse_mixing": "the model's program, traced on made-up rows",
    "rows._find_plate": "the model's program, traced on made-up rows",
    "rows._refuse_automatic_guide": "the model's program, traced on made-up rows",
    "rows._refuse_data_outside": "the model's program, traced on made-up rows",
    "rows._refuse_discrete": "the model's program, traced on made-up rows",
    "rows._refuse_personal_parameters": "the model's program, traced on made-up rows",
    "rows._refuse_row_shapes": "the model's program, traced on made-up rows",
    "rows.count_rows": "columns of different lengths, which no table has",
    "rows.find_structure": "the model's program, traced on made-up rows",
    "row_axis.Equation.at": "the model's program, traced on made-up rows",
    "row_axis.growing": "the model's program, traced on made-up rows",
    "row_independence._read": "the model's program, traced on made-up rows",
    "row_independence.follow": "the model's program, traced on made-up rows",
    "row_program.trace_row": "the model's program, traced on made-up rows",
    "rows.refuse_columns_by_keyword": "a number of rows that is public or noisy",
    "rows.refuse_columns_outside": "a number of rows that is public or noisy",
    "step._draw_steps": "which mechanism: by the plan",
    "step._private_sum": "which mechanism: by the plan",
    "step.draw_step": "which mechanism: by the plan",
    "svi.DPSVI._make_sampler": "batches that the caller makes, not a table's",
    "svi.DPSVI._ready": "called before init",
    "svi.DPSVI._settled": "which mechanism, and what made-up rows show of a program",
    "svi.DPSVI._refuse_coarse_sampling": "the plan, for any number of rows",
    "svi.DPSVI._refuse_extra_steps": "the steps of the receipt",
    "svi.DPSVI._refuse_lanes": "whether JAX traces",
    "svi.DPSVI._take_steps": "the steps of the receipt",
    "svi.DPSVI.run": "how many steps are done",
}


def walk(changed=None):
    package = Package.of(FOLDER, changed)
    return Walk(package, ENTRIES, doors=DOORS, closed=CLOSED, raisers=RAISERS, opaque=OPAQUE).found


@pytest.fixture(scope="module")
def found():
    return walk()


def listed(found):
    return "\n".join(f"{function}, line {line}: {what}" for function, what, line in sorted(found))


def test_nothing_below_the_boundary_hangs_on_exact_rows_but_what_is_listed_with_its_reason(found):
    allowed = ALLOWED | {f"twinify_lite.dpsvi.{name}": (99, reason) for name, reason in ALLOWED_DPSVI.items()}
    by_function = {}
    for one in found:
        by_function.setdefault(one[0], []).append(one)
    beyond = [one for name, ones in by_function.items() if len(ones) > allowed.get(name, (0,))[0] for one in ones]
    assert not beyond, listed(beyond)


def test_no_reason_is_listed_for_what_is_not_there(found):
    functions = [function for function, *_ in found]
    stale = {name: number for name, (number, _) in ALLOWED.items() if functions.count(name) != number}
    assert not stale
    assert not [name for name in ALLOWED_DPSVI if f"twinify_lite.dpsvi.{name}" not in functions]


# -- what is planted --------------------------------------------------------------------------------------------------

REFUSAL = """
    read, present = int((cells.state != MISSING).sum()), sum(int(_is_present(block, _BLANK).sum()) for block in blocks)
    if 2 * read < present:
        raise ValueError(f"Column {column.name!r}: most of its cells do not fit.")
    return cells
"""
PLANTS = {
    "the refusal of most cells": (
        "cells/__init__.py",
        "    return Cells(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))\n",
        "    cells = Cells(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))" + REFUSAL,
        "twinify_lite.cells.read",
    ),
    "a refusal by the exact count": (
        "fitting.py",
        "            progress(COUNTED, rows, rows)\n",
        "            if ready.table.reveal().num_rows == 1000:\n                raise TwinError('no')\n",
        "twinify_lite.fitting.Run.start",
    ),
    "a warning while cells are counted": (
        "auto/tables.py",
        "    height, width = shape[0] + 1, shape[1] + 1\n",
        "    height, width = shape[0] + 1, shape[1] + 1\n    assert len(rows) < 2**31\n",
        "twinify_lite.auto.tables.two_way",
    ),
    "a look that is refused": (
        "discover/findings.py",
        "    item = np.empty(len(is_number), np.int64)\n",
        "    item = np.empty(len(is_number), np.int64)\n    if not is_number.any():\n        raise ValueError\n",
        "twinify_lite.discover.findings.look_at",
    ),
    "a score of few rows": (
        "score/private.py",
        "        tables = Tables(real, self.coded)\n",
        "        tables = Tables(real, self.coded)\n        if real.rows < 20:\n            raise ValueError\n",
        "twinify_lite.score.private._Sums.sums",
    ),
}


@pytest.fixture(scope="module")
def planted():
    changed = {}
    for file, before, after, _ in PLANTS.values():
        text = (FOLDER / file).read_text()
        assert text.count(before) == 1
        changed[FOLDER / file] = text.replace(before, after)
    return walk(changed)


@pytest.mark.parametrize("plant", PLANTS)
def test_what_is_planted_in_the_package_is_found(found, planted, plant):
    *_, function = PLANTS[plant]
    assert function in {name for name, *_ in planted} - {name for name, *_ in found}
