"""NOTEARS for time series."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from polydag.arrays import Array
from polydag.errors import UsageError
from polydag.federated.each_party import for_each_party
from polydag.graph import Graph
from polydag.knowledge import Knowledge
from polydag.learners.notears.linear import Notears
from polydag.losses.lagged import (
    REALISATION,
    TIME,
    centred_stack,
    lagged_statistics,
    nothing_changes_the_past,
    split_lags,
    stack,
    variables_of,
)
from polydag.optimize.pruning import Threshold
from polydag.parameters import Constraint, Instance, whole
from polydag.sources.given import Given
from polydag.sources.interface import Source
from polydag.sources.parties import Parties
from polydag.sources.tasks import Tasks
from polydag.stats import GaussianStats

_LEARNED = (
    "graph_", "raw_weights_", "history_", "pruned_", "converged_", "n_iter_", "n_features_in_",
    "feature_names_in_", "lambda_used_", "threshold_", "criterion_", "varsortability_",
    "notes_", "disclosure_", "protection_", "coefficients_", "kinds_", "_moments", "_masks",
)  # fmt: skip


class NotearsLagged(Notears):
    """NOTEARS for structural vector autoregressions, with instantaneous and lagged effects.

    The nodes of the graph are time slices: `dose[t-1] -> crp[t]` is the effect of the previous dose. Only
    edges into the present are learned, and the instantaneous edges form a DAG. The method needs only merged
    statistics, so realisations may be distributed over parties.

    Parameters
    ----------
    lags : int
        The number of lags.
    time : str
        The column of time points, whole numbers without gaps. If it is "t" and there is no such column, the
        rows are taken to be in temporal order.
    realisation : str
        The column that identifies independent series. If it is "realisation" and there is no such column, all
        rows form one series.
    baselines : bool
        Whether each realisation has means of its own, as patients do: its rows are centred, and every
        realisation but the first costs one row. Common means are more precise where series are short and
        known to have the same level.
    lambda_, acyclicity, threshold, random_state
        As in `Notears`.
    knowledge : Knowledge, optional
        Required and forbidden edges and tiers, in terms of the time slices.

    Attributes
    ----------
    instantaneous_graph_ : Graph
        The DAG of instantaneous effects over the variables, with its weights.
    lag_weights_ : array of shape (lags, d, d)
        `lag_weights_[k - 1][i, j]` is the effect of variable i on variable j, k steps later.

    Notes
    -----
    `graph_`, `weights_` and the other attributes are those of `Notears` on the stacked rows. The directions
    of instantaneous effects depend on the scales as in `Notears`.

    References
    ----------
    Pamfil, R. et al. (2020). DYNOTEARS: structure learning from time-series data.

    Examples
    --------
    >>> from polydag import metrics, simulate
    >>> from polydag.learners.notears.lagged import NotearsLagged
    >>> sample = simulate.lagged(5, n_steps=200, n_realisations=5, random_state=0)
    >>> model = NotearsLagged(lags=1).fit(sample.data)
    >>> metrics.shd(true=sample.instantaneous, estimate=model.instantaneous_graph_)
    0
    """

    time_series: ClassVar[bool] = True
    constraints: ClassVar[Mapping[str, Constraint]] = {
        **Notears.constraints,
        "lags": whole(least=1),
        "time": Instance(str, "a column name"),
        "realisation": Instance(str, "a column name"),
        "baselines": Instance(bool, "True or False"),
    }

    instantaneous_graph_: Graph
    lag_weights_: Array

    def __init__(
        self,
        lags: int = 1,
        *,
        time: str = TIME,
        realisation: str = REALISATION,
        baselines: bool = True,
        lambda_: float | Literal["bic", "stability"] = "bic",
        acyclicity: str = "logdet",
        threshold: Threshold = "ebic",
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
        self.baselines = baselines

    def _fit(self, source: Source) -> None:
        lags = int(self.lags)
        stacked = source
        if isinstance(source, Given):
            if not isinstance(source.moments(), GaussianStats):
                raise UsageError(
                    "NotearsLagged needs a table of time series, or the GaussianStats of stacked rows."
                )
        else:
            stacked = self._stacked(source)
        variables = variables_of(stacked.names, lags)
        model = Notears(
            lambda_=self.lambda_,
            acyclicity=self.acyclicity,
            threshold=self.threshold,
            knowledge=nothing_changes_the_past(variables, lags, self.knowledge),
            random_state=self.random_state,
        ).fit(stacked)
        for name in _LEARNED:
            setattr(self, name, getattr(model, name))
        if isinstance(stacked, Given):
            self.notes_ = (*source.notes, *model.notes_)
        self.instantaneous_graph_, self.lag_weights_ = split_lags(self.graph_, lags)

    def _stacked(self, source: Source) -> Source:
        """The source of stacked rows; of their statistics where realisations have means of their own."""
        columns = {"time": self.time, "realisation": self.realisation}
        lags = int(self.lags)
        if not self.baselines:
            return source.transformed(lambda rows: stack(rows, lags, **columns))
        if isinstance(source, Parties):
            return source.with_parties(for_each_party(source.parties, self._stacked))
        if self.lambda_ == "stability":
            return source.transformed(lambda rows: centred_stack(rows, lags, **columns))
        return Given(lagged_statistics(source.rows(), lags, **columns, baselines=True))

    def _keep_source(self, source: Source | Tasks) -> None:
        """Nothing: the stacked source has been reported by the learner that was fitted to it."""
