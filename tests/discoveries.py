"""Discoveries with noise that repeats itself: what the tests of discovery share."""

from twinify_lite.discover import discover
from twinify_lite.ledger import Ledger
from twinify_lite.schema import Schema


def found(frame, *columns, epsilon=1.0, share=0.1, seed=0, **ledger):
    """Discover a DataFrame, with these columns declared."""
    schema = Schema(columns) if columns else None
    ledger = Ledger(epsilon, 1e-6, insecure_seed=seed, **ledger)
    return discover(frame, schema, ledger=ledger, share=share), ledger
