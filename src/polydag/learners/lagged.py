"""NOTEARS for time series."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from polydag.errors import UsageError
from polydag.graph import Graph
from polydag.knowledge import Knowledge
from polydag.learners.inputs import is_statistics
from polydag.learners.notears import Notears
from polydag.losses.lagged import (
    REALISATION,
    TIME,
    check_lags,
    nothing_changes_the_past,
    split_lags,
    stack,
    variables_of,
)
from polydag.stats import GaussianStats

_LEARNED = (
    "graph_", "raw_weights_", "history_", "pruned_", "converged_", "n_iter_", "n_features_in_",
    "feature_names_in_", "lambda_used_", "threshold_", "criterion_", "varsortability_",
)  # fmt: skip


class NotearsLagged(Notears):
    """A structural vector autoregression by NOTEARS: effects within a time, and of the past on the present.

    The graph is over time slices: `dose[t-1] -> crp[t]` is an effect of yesterday's dose. Only edges into the
    present are learned, and those within it form a DAG. Works on merged statistics, so realisations may be
    spread over parties.

    Parameters
    ----------
    lags : int
        How many steps back effects reach.
    time : str
        The column of times, whole numbers without gaps. Without a column `t` the rows are in time's order.
    realisation : str
        The column that tells independent series apart. Without a column `realisation` there is one series.
    lambda_, acyclicity, threshold, random_state
        As for `Notears`.
    knowledge : Knowledge, optional
        Required and forbidden edges and tiers, over the names of the slices.

    Attributes
    ----------
    instantaneous_graph_ : Graph
        The DAG within one time, over the variables' own names, with its weights.
    lag_weights_ : array of shape (lags, d, d)
        `lag_weights_[k - 1][i, j]` is the effect of variable i on variable j, k steps later.

    Notes
    -----
    `graph_`, `weights_` and everything else are those of `Notears` on the stacked rows. An order by variances
    helps within a time as much as it does `Notears`: see there.

    References
    ----------
    Pamfil, R. et al. (2020). DYNOTEARS: structure learning from time-series data.

    Examples
    --------
    >>> from polydag import metrics, simulate
    >>> from polydag.learners.lagged import NotearsLagged
    >>> sample = simulate.lagged(5, n_steps=200, n_realisations=5, random_state=0)
    >>> model = NotearsLagged(lags=1).fit(sample.data)
    >>> metrics.shd(true=sample.instantaneous, estimate=model.instantaneous_graph_)
    0
    """

    time_series: ClassVar[bool] = True

    instantaneous_graph_: Graph
    lag_weights_: NDArray[np.float64]

    def __init__(
        self,
        lags: int = 1,
        *,
        time: str = TIME,
        realisation: str = REALISATION,
        lambda_: float | Literal["bic", "stability"] = "bic",
        acyclicity: str = "logdet",
        threshold: float | Literal["ebic"] = "ebic",
        knowledge: Knowledge | None = None,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            lambda_=lambda_,
            acyclicity=acyclicity,
            threshold=threshold,
            knowledge=knowledge,
            random_state=random_state,
        )
        self.lags = lags
        self.time = time
        self.realisation = realisation

    def fit(self, X: Any, y: None = None) -> Self:
        """Learn from a table with one row a time, or from `lagged_statistics`; `y` is ignored."""
        lags = check_lags(self.lags)
        if is_statistics(X) and not isinstance(X, GaussianStats):
            raise UsageError("Time series are learned from a long table or its GaussianStats.")
        stacked: Any = X
        if not is_statistics(X):
            stacked = stack(getattr(X, "frame", X), lags, time=self.time, realisation=self.realisation)
        variables = variables_of(stacked.names if is_statistics(X) else list(stacked.columns), lags)
        if self.knowledge is not None and not isinstance(self.knowledge, Knowledge):
            raise UsageError(f"knowledge must be a polydag.Knowledge, not {type(self.knowledge).__name__}.")
        model = Notears(
            lambda_=self.lambda_,
            acyclicity=self.acyclicity,
            threshold=self.threshold,
            knowledge=nothing_changes_the_past(variables, lags, self.knowledge),
            random_state=self.random_state,
        ).fit(stacked)
        for name in _LEARNED:
            setattr(self, name, getattr(model, name))
        self.instantaneous_graph_, self.lag_weights_ = split_lags(self.graph_, lags)
        return self
