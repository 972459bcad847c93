"""The package's exceptions and warnings. Every message says what is wrong and how to fix it.

Each exception class carries the exit code that the command line returns for it.
"""

from __future__ import annotations


class PolydagError(Exception):
    """Base class of all errors that the package raises deliberately."""

    exit_code = 1


class UsageError(PolydagError, ValueError):
    """An invalid call or command line: an unknown option value, a run folder that already exists."""

    exit_code = 2


class DataError(PolydagError, ValueError):
    """Data, a graph file or background knowledge that cannot be used as given."""

    exit_code = 3


class NotConvergedError(PolydagError, RuntimeError):
    """A result exists, but the fit has not converged: do not rely on it."""

    exit_code = 4


class ConvergenceWarning(UserWarning):
    """The solver reached its iteration limit before its tolerance."""


class DataWarning(UserWarning):
    """The data can be used, but conclusions from them may be misleading."""
