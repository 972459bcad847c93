"""What learners found in tables that were completed in different ways, as one result (Rubin 1987)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from polydag.arrays import Array
from polydag.confidence import Confidence
from polydag.graph import Edge, Graph
from polydag.posterior.probabilities import Posterior
from polydag.regression import Coefficients, coefficients
from polydag.regression.coefficients import from_weights

_FREQUENCIES = (
    "The graph is that of most of {m} tables whose missing values were drawn. Without a bootstrap "
    "(--bootstrap), frequencies of edges show the "
    "uncertainty due to missing values only."
)
_PROBABILITIES = (
    "Probabilities are means over {m} tables whose missing values were drawn; missing_share is the part of "
    "the uncertainty about a pair that is due to them."
)


class Pooled(NamedTuple):
    """One result of several fits: the graph, how sure it is, and pooled coefficients."""

    graph: Graph
    confidence: Confidence
    coefficients: Coefficients
    raw_weights: Array
    posterior: Posterior | None
    history: list[dict[str, Any]]
    removed: list[Edge]


def pooled(models: Sequence[Any]) -> Pooled:
    """One result of learners that were fitted to tables completed in different ways.

    Its graph has the pairs that are adjacent in more than half of the tables, or with a mean probability
    above the learner's threshold, directed where one direction is.
    """
    posteriors = [model.posterior_ for model in models if hasattr(model, "posterior_")]
    names = models[0].graph_.names
    if posteriors:
        confidence = Confidence.pooled([posterior.confidence for posterior in posteriors])
    else:
        confidence = Confidence.of_graphs(
            np.array([model.graph_.adjacency for model in models]), names, "frequency"
        )
    graph, removed = confidence.graph(models[0].threshold if posteriors else 0.5)
    weights = np.mean([model.raw_weights_ for model in models], axis=0)
    if not posteriors:
        graph = Graph(graph.adjacency, names, _mean_weights(graph, models))
    history = [
        {
            "imputation": k,
            "edges": model.graph_.n_edges,
            "steps": model.n_iter_,
            "converged": model.converged_,
        }
        for k, model in enumerate(models, start=1)
    ]
    return Pooled(
        graph,
        confidence,
        _coefficients(graph, models),
        weights,
        pooled_posterior(posteriors) if posteriors else None,
        history,
        removed,
    )


def pooling_note(models: Sequence[Any]) -> tuple[str, ...]:
    """What shares of edges say where there are fits to completed tables; nothing where there are none."""
    if not models:
        return ()
    words = _PROBABILITIES if hasattr(models[0], "posterior_") else _FREQUENCIES
    return (words.format(m=len(models)),)


def pooled_posterior(posteriors: Sequence[Posterior]) -> Posterior:
    """The mean of posteriors; of parent sets, too, where all have the same candidates."""
    first = posteriors[0]
    same = all(
        _alike(first.sets, own.sets) and _alike(first.candidates, own.candidates) for own in posteriors
    )
    families = None
    if same:
        nodes = range(len(first.names))
        families = np.array([np.mean([own.families_of(j) for own in posteriors], axis=0) for j in nodes])
    return Posterior(
        first.names,
        np.mean([own.probabilities for own in posteriors], axis=0),
        first.method,
        first.candidates if same else None,
        first.sets if same else None,
        families,
    )


def _alike(a: Any, b: Any) -> bool:
    return a is not None and b is not None and np.array_equal(a, b)


def _mean_weights(graph: Graph, models: Sequence[Any]) -> Array:
    """The mean weight of each edge over the graphs that have it; 1 where none has it in this direction."""
    present = np.array([model.graph_.adjacency for model in models])
    weights = np.array([model.graph_.weights for model in models])
    count = present.sum(axis=0)
    mean = np.divide((weights * present).sum(axis=0), count, out=np.ones(count.shape), where=count > 0)
    return np.where(graph.adjacency, np.where(mean == 0, 1.0, mean), 0.0)


def _coefficients(graph: Graph, models: Sequence[Any]) -> Coefficients:
    """Rubin's rules: the mean coefficient, and its variance within tables plus (1 + 1/m) times between."""
    if any(model._moments is None for model in models):
        return from_weights(graph)
    each = [coefficients(graph, model._moments) for model in models]
    raw = np.array([own.raw for own in each])
    within = np.mean([own.standard_errors**2 for own in each], axis=0)
    between = raw.var(axis=0, ddof=1)
    total = np.sqrt(within + (1 + 1 / len(each)) * between)
    standardized = np.mean([own.standardized for own in each], axis=0)
    return Coefficients(
        raw.mean(axis=0), standardized, total, np.mean([own.strengths for own in each], axis=0)
    )
