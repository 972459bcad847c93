"""What a fitted structure learner holds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from html import escape
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from polydag.arrays import Array
from polydag.computing.interruption import require_whole
from polydag.computing.progress import report
from polydag.confidence import Confidence
from polydag.data.table import Kind
from polydag.federated.session import one_after_the_other
from polydag.graph import Edge, Graph
from polydag.learners.imputations import pooled, pooling_note
from polydag.parameters import Constraint, Settings, check_all
from polydag.plot import Picture, picture
from polydag.regression import Coefficients, coefficients
from polydag.regression.coefficients import from_weights
from polydag.sources.adapt import as_source
from polydag.sources.columns.kinds_notes import kinds_notes
from polydag.sources.interface import Source
from polydag.sources.tasks import Tasks


class Estimator(BaseEstimator):  # type: ignore[misc]
    """What every estimator has: parameters declared with what they may be, and groups of settings."""

    constraints: ClassVar[Mapping[str, Constraint]] = {}

    def _check_parameters(self) -> None:
        """Raise a `UsageError` for the first parameter that is not what it may be."""
        check_all(self, self.constraints)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of a group of settings as `group__name`; returns the estimator."""
        groups: dict[str, dict[str, Any]] = {}
        others: dict[str, Any] = {}
        for key, value in params.items():
            name, nested, inner = key.partition("__")
            if nested and isinstance(params.get(name, getattr(self, name, None)), Settings):
                groups.setdefault(name, {})[inner] = value
            else:
                others[key] = value
        super().set_params(**others)
        for name, changes in groups.items():
            setattr(self, name, getattr(self, name).replaced(**changes))
        return self


class StructureLearner(Estimator, ABC):
    """A learner of one graph from one source of data.

    A subclass implements `_fit`, which asks the source for moments, counts or rows.

    Attributes
    ----------
    graph_ : Graph
        The learned graph, with the data's column names.
    weights_ : array of shape (d, d)
        The weights of `graph_`.
    raw_weights_ : array of shape (d, d)
        The weights before threshold and pruning.
    edges_ : DataFrame
        source, target, weight, standardized, standard_error, strength, directed: one row per edge. The weight
        is a coefficient in the units of the data, `standardized` the same in standard deviations of both
        columns; undirected edges and labels have none (NaN). `strength` is the absolute partial correlation
        given the other parents, or what corresponds to it for labels.
    coefficients_ : Coefficients
        The same as arrays.
    pruned_ : DataFrame
        source, target, weight, reason: edges that were removed on the way, the largest first.
    history_ : DataFrame
        The progress of the fit, one row for each step.
    converged_ : bool
        Whether the method converged; if not, do not rely on the result.
    n_iter_ : int
        The number of steps.
    feature_names_in_ : array of str
        The columns, in order.
    kinds_ : dict of column to "continuous" or "discrete"
        The kind that each column was taken for: numbers, or labels.
    notes_ : tuple of str
        What a reader of the result should know about the data.
    unknown_pairs_ : tuple of pairs of names
        Columns that no row has both of: no edge between them does not mean that there is none.
    disclosure_ : DataFrame
        Every array that left a party; empty for data without parties.
    protection_ : str
        What was protected from whom; empty for data without parties.
    completed_ : list of StructureLearner
        With `missing="multiple"`, the learners that were fitted to the completed tables.
    confidence_ : Confidence
        With `missing="multiple"`, the share of completed tables with each edge; for a posterior, the
        probability over all of them, and which share of its uncertainty is due to missing values.
    """

    # Whether rows follow each other in time and the graph is over time slices: then rows cannot be drawn,
    # left out or put together one by one.
    time_series: ClassVar[bool] = False

    graph_: Graph
    raw_weights_: Array
    history_: pd.DataFrame
    pruned_: pd.DataFrame
    converged_: bool
    n_iter_: int
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    kinds_: dict[str, Kind]
    notes_: tuple[str, ...]
    unknown_pairs_: tuple[tuple[str, str], ...]
    disclosure_: pd.DataFrame
    protection_: str
    completed_: list[Any]
    confidence_: Confidence
    _moments: Any

    def fit(self, X: Any, y: None = None) -> Self:
        """Learn from a table, from statistics, or from any other source; `y` is ignored."""
        self._check_parameters()
        source = self._source(X)
        self.kinds_ = {}
        completed = source.completions() if isinstance(source, Source) else ()
        if not completed:
            self._fit(source)
            self._keep_source(source)
            return self
        self._fit_completed(completed)
        StructureLearner._keep_source(self, source)
        left = [model.disclosure_ for model in self.completed_]
        self.disclosure_ = one_after_the_other([self.disclosure_, *left])
        return self

    def _source(self, X: Any) -> Any:
        """What is learned from: one source; learners of several parties or tasks take these."""
        return as_source(X)

    @abstractmethod
    def _fit(self, source: Any) -> None:
        """Ask the source for what is needed, learn, and end with `_keep`."""

    def _fit_completed(self, completed: Sequence[Source]) -> None:
        """Learn from each of several tables whose missing values were drawn, and pool what was found."""
        self.completed_ = []
        for number, source in enumerate(completed):
            report("imputations", number, len(completed))
            self.completed_.append(clone(self).fit(source))
            require_whole(self.completed_[-1])
        report("imputations", len(completed), len(completed))
        found = pooled(self.completed_)
        if found.posterior is not None:
            self.posterior_ = found.posterior
        self.confidence_ = found.confidence
        self.kinds_ = self.completed_[0].kinds_
        self._keep(
            found.graph,
            raw_weights=found.raw_weights,
            history=found.history,
            pruned=[(edge, "part of a cycle") for edge in found.removed],
            converged=all(model.converged_ for model in self.completed_),
            n_iter=len(completed),
        )
        self.coefficients_ = found.coefficients
        sources = {note for source in completed for note in source.notes}
        own = [note for note in self.completed_[0].notes_ if note not in sources]
        self.notes_ = (*own, *pooling_note(self.completed_))

    def _keep_source(self, source: Source | Tasks) -> None:
        own = getattr(self, "notes_", ())
        self.unknown_pairs_ = source.unknown_pairs
        self.kinds_ = self.kinds_ or dict.fromkeys(source.names, "continuous")
        own = (*own, *kinds_notes(source, self.kinds_))
        self.notes_ = tuple(dict.fromkeys((*own, *source.notes)))
        self.disclosure_ = source.disclosure_
        self.protection_ = source.protection_

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `fit` was called: names such as `lambda_` are parameters here."""
        return hasattr(self, "graph_")

    def plot(self, top: int | None = None) -> Picture:
        """A picture of the learned graph, with its probabilities if there are any; see `Graph.plot`."""
        posterior = getattr(self, "posterior_", None)
        return picture(self.graph_, None if posterior is None else posterior.probabilities, top)

    def _html_repr(self) -> str:
        """What a notebook shows: the parameters of an estimator, and once fitted its graph and notes."""
        from sklearn.utils import estimator_html_repr

        shown = str(estimator_html_repr(self))
        if not hasattr(self, "graph_"):
            return shown
        notes = "".join(f"<li>{escape(note)}</li>" for note in getattr(self, "notes_", ()))
        return f"{shown}{self.plot()._repr_html_()}" + (f"<ul>{notes}</ul>" if notes else "")

    @property
    def weights_(self) -> Array:
        """The weights of `graph_`."""
        return self.graph_.weights

    @cached_property
    def coefficients_(self) -> Coefficients:
        """The coefficients of the edges, computed when first asked for."""
        stats = self._moments
        return from_weights(self.graph_) if stats is None else coefficients(self.graph_, stats)

    @property
    def edges_(self) -> pd.DataFrame:
        """One row per edge: source, target, weight, standardized, standard_error, strength, directed."""
        table = pd.DataFrame(self.graph_.edges(), columns=list(Edge._fields))
        where = tuple(table[end].map(self.graph_.index).to_numpy(dtype=int) for end in ("source", "target"))
        found = self.coefficients_
        table["weight"] = found.raw[where]
        table.insert(3, "standardized", found.standardized[where])
        table.insert(4, "standard_error", found.standard_errors[where])
        table.insert(5, "strength", found.strengths[where])
        return table

    def _keep(
        self,
        graph: Graph,
        *,
        raw_weights: Array,
        history: Iterable[Any],
        pruned: Iterable[tuple[Edge, str]],
        converged: bool,
        n_iter: int,
        stats: Any = None,
    ) -> None:
        """Store a result; the coefficients come from `stats`, or else from the weights of the graph."""
        self.graph_ = graph
        self._moments = stats
        self.__dict__.pop("coefficients_", None)  # of an earlier fit
        self.raw_weights_ = raw_weights
        self.history_ = pd.DataFrame(history)
        rows = [(edge.source, edge.target, edge.weight, reason) for edge, reason in pruned]
        table = pd.DataFrame(rows, columns=["source", "target", "weight", "reason"])
        self.pruned_ = table.sort_values("weight", key=abs, ascending=False, ignore_index=True, kind="stable")
        self.converged_ = converged
        self.n_iter_ = n_iter
        self.n_features_in_ = graph.n_nodes
        self.feature_names_in_ = np.array(graph.names, dtype=object)
