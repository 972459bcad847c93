"""Fitting a learner in a study, and reading off what it tells."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from polydag.errors import ConvergenceWarning, DataError, DataWarning
from polydag.studies.config import Config
from polydag.studies.inputs import Inputs, public
from polydag.studies.result import Removed, Result, versions

if TYPE_CHECKING:
    import pandas as pd

SORTABLE = 0.9  # from here on the variances alone would give nearly all directions
_COMMON = ("converged_", "n_iter_", "n_features_in_")


def fitted(learner: Any, inputs: Inputs) -> tuple[Any, tuple[str, ...]]:
    """The fitted learner, and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = learner.fit(inputs.rows)
        except DataError as error:
            raise DataError(_about(inputs.source, str(error))) from error
    ours = [w for w in caught if issubclass(w.category, (ConvergenceWarning, DataWarning))]
    for other in caught:
        if other not in ours:
            warnings.warn_explicit(other.message, other.category, other.filename, other.lineno)
    return model, tuple(dict.fromkeys(str(w.message) for w in ours))


def _about(source: str, said: str) -> str:
    """What a learner says of "the data", said of the source: learners do not know where rows come from."""
    if source in said:
        return said
    return f"{source}{said.removeprefix('The data')}" if said.startswith("The data") else f"{source}: {said}"


def result_of(
    model: Any,
    inputs: Inputs,
    config: Config,
    settings: Mapping[str, Any],
    notes: tuple[str, ...],
    **more: Any,
) -> Result:
    """What a study found: what every learner tells, in `more` what is this study's own.

    The configuration is written down as it was used, with these settings and without secrets.
    """
    used = {name: value for name, value in settings.items() if value is not None}
    told = {
        "n_iter": getattr(model, "n_iter_", None),
        "measures": measures_of(model),
        "pruned": removed(getattr(model, "pruned_", None)),
    }
    return Result(
        config=dataclasses.replace(config, data=tuple(map(public, config.data)), settings=used),
        graph=model.graph_,
        n=inputs.n,
        converged=bool(model.converged_),
        history=model.history_,
        notes=notes,
        sha256=dict(inputs.sha256),
        versions=versions(),
        **{**told, **more},
    )


def measures_of(model: Any) -> dict[str, float]:
    """The numbers that a fitted learner tells about its result, such as the penalty it chose."""
    return {
        name.rstrip("_"): float(value)
        for name, value in vars(model).items()
        if name.endswith("_") and isinstance(value, (int, float)) and name not in _COMMON
    }


def cautions(measures: dict[str, float]) -> tuple[str, ...]:
    """What the numbers say against trusting the directions."""
    sortable = measures.get("varsortability", 0.0)
    if not sortable >= SORTABLE:
        return ()
    return (
        f"The graph follows the order of the columns' variances (varsortability {sortable:.2f}): directions "
        "may say more about units than about causes. Where the units are arbitrary, compare with a "
        "scale-free method.",
    )


def removed(table: pd.DataFrame | None) -> tuple[Removed, ...]:
    """The edges that a learner took out again, from its table of them."""
    if table is None:
        return ()
    columns = (table["source"], table["target"], table["weight"], table["reason"])
    return tuple(Removed(str(s), str(t), float(w), str(r)) for s, t, w, r in zip(*columns, strict=True))
