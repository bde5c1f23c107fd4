"""Shapes and types in annotations are checked while the tests run.

Only inside: the border (ledger, accountant, `DPSVI`) checks its inputs itself, with errors for people.
"""

from jaxtyping import install_import_hook

INSIDE = [
    "rng",
    "noise",
    *(
        f"dpsvi.{name}"
        for name in ["feistel", "binomial", "batches", "clip", "elbo", "ghost", "gradient", "rows", "step"]
    ),
]
install_import_hook([f"twinify_lite.{name}" for name in INSIDE], "beartype.beartype")
