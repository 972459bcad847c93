"""What can go wrong, told to the person who can put it right.

Every error of the package carries the exit code that the command line ends with.
"""

from __future__ import annotations


class PolydagError(Exception):
    """Base of all errors raised on purpose; its text says what to do."""

    exit_code = 1


class UsageError(PolydagError, ValueError):
    """A call or a command line that cannot be meant: an unknown option value, a run folder in the way."""

    exit_code = 2


class DataError(PolydagError, ValueError):
    """Data, a graph file or background knowledge that cannot be used as it is."""

    exit_code = 3


class NotConvergedError(PolydagError, RuntimeError):
    """A result exists but must not be trusted yet."""

    exit_code = 4


class ConvergenceWarning(UserWarning):
    """The solver stopped at its limit before its tolerance was reached."""


class DataWarning(UserWarning):
    """The data can be used, but a conclusion from it may mislead."""
