"""Typed errors: what is wrong, where, and the call that repairs it; never a value from the table."""

from __future__ import annotations

from collections.abc import Iterable


class TwinError(Exception):
    """Base of every error that this package raises on purpose. `exit_code` is what the command line returns."""

    exit_code = 1


class PrivacyParameterError(TwinError, ValueError):
    """An epsilon, delta, noise or sampling rate that no theorem covers."""


class BudgetExceeded(TwinError):
    """The ledger refused: nothing was recorded and nothing was run."""

    exit_code = 3


class BookRefused(BudgetExceeded):
    """The ledger file has no room for it: nothing was charged and nothing was run."""


class BookError(TwinError, ValueError):
    """A ledger file that is not there, cannot be trusted or is held by others: it stays as it is."""


class PolicyError(TwinError, ValueError):
    """A policy that cannot be read, or says what no policy can say."""


class PolicyRefused(TwinError):
    """The policy forbids it: nothing was run."""

    exit_code = 3


class ReceiptError(TwinError):
    """A mechanism was asked to run without a receipt, with a used one, or with one for something else."""


class AccountantDisagreement(TwinError):
    """Two independent accountants differ by more than their stated errors: no figure is stated at all."""


class ModelError(TwinError, ValueError):
    """The model or guide breaks the contract that one row is one person."""


class TableError(TwinError, ValueError):
    """A file or table that cannot be read or written. It names the file, the line or the column, never a cell."""


class SchemaError(TwinError, ValueError):
    """What the schema says is impossible, or does not fit the table."""

    @classmethod
    def listing(cls, problems: Iterable[str]) -> SchemaError:
        """One error for all `problems`, a line each."""
        return cls("\n".join(problems))


class ArtifactError(TwinError, ValueError):
    """A `.twin` file that cannot be trusted: not one, damaged, of a newer format, or with a false statement."""
