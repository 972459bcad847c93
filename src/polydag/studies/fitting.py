"""Fitting a learner in a study: its errors name the source, and its warnings become notes."""

from __future__ import annotations

import warnings
from typing import Any

from polydag.errors import ConvergenceWarning, DataError, DataWarning


def fitted(learner: Any, data: Any, source: str) -> tuple[Any, tuple[str, ...]]:
    """The fitted learner, and what it warned of; `source` is what its errors should name."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = learner.fit(data)
        except DataError as error:
            raise DataError(_naming(source, str(error))) from error
    ours = [w for w in caught if issubclass(w.category, (ConvergenceWarning, DataWarning))]
    for other in caught:
        if other not in ours:
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
    return model, tuple(dict.fromkeys(str(w.message) for w in ours))


def _naming(source: str, message: str) -> str:
    """A learner's message about "the data" with the name of the source, which the learner does not know."""
    if source in message:
        return message
    if message.startswith("The data"):
        return f"{source}{message.removeprefix('The data')}"
    return f"{source}: {message}"
