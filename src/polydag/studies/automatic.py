"""The method "auto": what it stands for, by the options of a study and by its data."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from polydag.studies.config.shapes import AUTO, Config

if TYPE_CHECKING:
    from polydag.scores.spec import Kind
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
    from polydag.scores.registry import usual
    from polydag.studies.data.linking import variables

    table = next(iter(inputs.tables.values()))
    names = variables(config, table.names)
    contents = _contents(config, table, names)
    own = contents is None or {"criterion", "penalty"} & set(config.settings)
    score = "" if own or contents is None else usual(contents)
    decided = _of_options(config)
    method, reason = decided or choose(d=len(names), n=inputs.n, score=score, labels=contents == "labels")
    return dataclasses.replace(config, method=method), (reason,)


def _contents(config: Config, table: Any, names: Sequence[str]) -> Kind | None:
    """What scores are asked of: labels have moments only where rows are linked or have gaps."""
    kinds = getattr(table, "kinds", None)
    if kinds is None:
        return None
    found = {kinds[name] for name in names}
    if found == {"continuous"}:
        return "numbers"
    by_moments = config.is_linked or config.missing == "testwise"
    return "labels" if found == {"discrete"} and not by_moments else "mixed"


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
