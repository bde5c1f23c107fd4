"""Shapes and types in annotations are checked while the tests run.

Only inside: the border (ledger, accountant, `DPSVI`) checks its inputs itself, with errors for people.

Property tests try the same examples in every run, so that a failure belongs to a change and not to luck.
To look for new ones: `pytest --hypothesis-profile=search`.
"""

from hypothesis import settings
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

settings.register_profile("same", derandomize=True)
settings.register_profile("search", derandomize=False)
settings.load_profile("same")
