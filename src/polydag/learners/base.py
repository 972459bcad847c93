"""What a fitted structure learner holds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from polydag.data.table import Kind
from polydag.errors import DataError, UsageError
from polydag.graph import Edge, Graph
from polydag.parameters import Constraint, Settings, check_all
from polydag.plot import Picture, picture
from polydag.regression import Coefficients, coefficients
from polydag.regression.coefficients import from_weights
from polydag.regression.held_out import mean_log_likelihood
from polydag.sources.adapt import as_source
from polydag.sources.columns.kinds_notes import kinds_notes
from polydag.sources.interface import Source
from polydag.sources.tasks import Tasks
from polydag.stats import GaussianStats


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
        source, target, weight, standardized, standard_error, directed: one row per edge. The weight is a
        coefficient in the units of the data, `standardized` the same in standard deviations of both columns.
        Undirected edges and labels have none (NaN).
    coefficients_ : Coefficients
        The same as arrays.
    pruned_ : DataFrame
        source, target, weight, reason: edges that were removed on the way, the largest first.
    history_ : DataFrame
        How the fit went.
    converged_ : bool
        Whether the method ended as it should; otherwise do not rely on the result.
    n_iter_ : int
        Steps taken.
    feature_names_in_ : array of str
        The columns, in order.
    kinds_ : dict of column to "continuous" or "discrete"
        What each column was taken for: numbers, or labels.
    notes_ : tuple of str
        What a reader of the result should know about the data.
    disclosure_ : DataFrame
        Every array that left a party; empty for data without parties.
    protection_ : str
        What was protected from whom; empty for data without parties.
    """

    # Whether rows follow each other in time and the graph is over time slices: then rows cannot be drawn,
    # left out or put together one by one.
    time_series: ClassVar[bool] = False

    graph_: Graph
    coefficients_: Coefficients
    raw_weights_: NDArray[np.float64]
    history_: pd.DataFrame
    pruned_: pd.DataFrame
    converged_: bool
    n_iter_: int
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    kinds_: dict[str, Kind]
    notes_: tuple[str, ...]
    disclosure_: pd.DataFrame
    protection_: str
    _moments: Any

    def fit(self, X: Any, y: None = None) -> Self:
        """Learn from a table, from statistics, or from any other source; `y` is ignored."""
        self._check_parameters()
        source = self._source(X)
        self.kinds_ = {}
        self._fit(source)
        self._keep_source(source)
        return self

    def _source(self, X: Any) -> Any:
        """What is learned from: one source; learners of several parties or tasks take these."""
        return as_source(X)

    @abstractmethod
    def _fit(self, source: Any) -> None:
        """Ask the source for what is needed, learn, and end with `_keep`."""

    def _keep_source(self, source: Source | Tasks) -> None:
        own = getattr(self, "notes_", ())
        if isinstance(source, Source):
            self.kinds_ = self.kinds_ or dict.fromkeys(source.names, "continuous")
            own = (*own, *kinds_notes(source, self.kinds_))
        self.notes_ = (*own, *source.notes)
        self.disclosure_ = source.disclosure_
        self.protection_ = source.protection_

    def __sklearn_is_fitted__(self) -> bool:
        """Whether `fit` was called: names such as `lambda_` are parameters here."""
        return hasattr(self, "graph_")

    def log_likelihood(self, X: Any) -> float:
        """The mean log density of held-out rows, in nats per row; for learners of numbers from moments."""
        check_is_fitted(self)
        if not isinstance(self._moments, GaussianStats):
            raise UsageError(
                f"The likelihood of held-out rows needs the moments of numbers, from which "
                f"{type(self).__name__} has not learned here."
            )
        held_out = as_source(X).moments()
        if not isinstance(held_out, GaussianStats):
            raise UsageError("Held-out rows are those of one regime.")
        if set(held_out.names) != set(self.graph_.names):
            raise DataError(
                f"Held-out rows need the columns of the fitted ones: {', '.join(self.graph_.names)}; got "
                f"{', '.join(held_out.names)}."
            )
        return mean_log_likelihood(self.graph_, self._moments, held_out)

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
    def weights_(self) -> NDArray[np.float64]:
        """The weights of `graph_`."""
        return self.graph_.weights

    @property
    def edges_(self) -> pd.DataFrame:
        """One row per edge: source, target, weight, standardized, standard_error, directed."""
        table = pd.DataFrame(self.graph_.edges(), columns=list(Edge._fields))
        where = tuple(table[end].map(self.graph_.index).to_numpy(dtype=int) for end in ("source", "target"))
        raw, standardized, errors = self.coefficients_
        table["weight"] = raw[where]
        table.insert(3, "standardized", standardized[where])
        table.insert(4, "standard_error", errors[where])
        return table

    def _keep(
        self,
        graph: Graph,
        *,
        raw_weights: NDArray[np.float64],
        history: Iterable[Any],
        pruned: Iterable[tuple[Edge, str]],
        converged: bool,
        n_iter: int,
        stats: Any = None,
    ) -> None:
        """Store a result; the coefficients come from `stats`, or else from the weights of the graph."""
        self.graph_ = graph
        self._moments = stats
        self.coefficients_ = from_weights(graph) if stats is None else coefficients(graph, stats)
        self.raw_weights_ = raw_weights
        self.history_ = pd.DataFrame(history)
        rows = [(edge.source, edge.target, edge.weight, reason) for edge, reason in pruned]
        table = pd.DataFrame(rows, columns=["source", "target", "weight", "reason"])
        self.pruned_ = table.sort_values("weight", key=abs, ascending=False, ignore_index=True, kind="stable")
        self.converged_ = converged
        self.n_iter_ = n_iter
        self.n_features_in_ = graph.n_nodes
        self.feature_names_in_ = np.array(graph.names, dtype=object)
