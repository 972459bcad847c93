"""The method "auto": what it stands for, by the options of a study and by its data."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, TypeVar

from polydag.studies.config.shapes import AUTO, Config

if TYPE_CHECKING:
    from polydag.studies.data.inputs import Inputs

C = TypeVar("C", bound=Config)

_FOR_ONE_GRAPH = "boss"  # what is checked before the data are read: ges takes the same settings


def by_options(config: C) -> C:
    """The configuration with the method of its options; what they leave open, the data may change."""
    if config.method != AUTO:
        return config
    method, _ = _of_options(config) or (_FOR_ONE_GRAPH, "")
    return dataclasses.replace(config, method=method)


def by_data(config: C, inputs: Inputs) -> tuple[C, tuple[str, ...]]:
    """The configuration with the method that its options and its data ask for, and a note of why."""
    if config.method != AUTO:
        return config, ()
    from polydag.data.method_choice import choose
    from polydag.studies.data.linking import variables

    table = next(iter(inputs.tables.values()))
    method, reason = _of_options(config) or choose(d=len(variables(config, table.names)), n=inputs.n)
    return dataclasses.replace(config, method=method), (reason,)


def _of_options(config: Config) -> tuple[str, str] | None:
    """The method that the options alone decide, and why; None where the data decide."""
    if config.shape == "tasks":
        why = "each task has a network of its own, and the probability of every edge shows where they differ"
        return "posterior", f"Method auto chose posterior: {why}."
    if config.discretize is not None:
        return "posterior", "Method auto chose posterior, which is what --discretize is for."
    if config.order is not None:
        return "bcd", "Method auto chose bcd: the order of the variables is known."
    return None
