"""NOTEARS over parties that keep their rows."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import pandas as pd
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from polydag.acyclicity import ACYCLICITY
from polydag.arrays import Array
from polydag.errors import ConvergenceWarning, UsageError
from polydag.federated.each_party import for_each_party
from polydag.federated.methods.fitting import fit_parties
from polydag.federated.methods.interface import MethodSettings
from polydag.federated.methods.registry import METHODS
from polydag.federated.models.registry import MODELS
from polydag.federated.protocol.programs import majority_columns
from polydag.graph import Graph
from polydag.knowledge import Knowledge
from polydag.learners.base import StructureLearner
from polydag.learners.notears.linear import Notears
from polydag.learners.notears.nonlinear import NotearsMLP
from polydag.losses.settings import Network, Series
from polydag.metrics import shd
from polydag.parameters import Constraint, Either, Instance, key_of, number, one_of, optional, whole
from polydag.sources.given import Given
from polydag.sources.interface import Source
from polydag.sources.parties import Parties, aligned
from polydag.sources.table import InMemory
from polydag.stats.regimes import rescaled

SINGLE_TABLE_LEARNERS: dict[str, Any] = {
    "linear": Notears,
    "lagged": Notears,
    "mlp": NotearsMLP,
    "masked": NotearsMLP,
}


class FederatedNotears(StructureLearner):
    """One graph from the tables of several parties, by an exchange of parameters or votes.

    Only sums over the parties are opened. To learn from summed statistics instead, fit any learner to
    `Parties`: that gives the result of pooling, in one round.

    Parameters
    ----------
    method : {"admm", "fedavg", "varying", "voting"}
        With "admm", parties exchange parameters over some fifty rounds. At the end, pooled covariances within
        candidate families are summed as well, unless `threshold` is a number. "fedavg" is similar, but
        parties keep no state between rounds and may be absent from some. With "varying", the parties share
        the graph but have coefficients and means of their own. With "voting", every party learns alone; the
        pairs that more than half of the parties connect are candidates, from which sums as for "admm" choose
        by the extended BIC. With a number as `threshold` or with a `learner`, the votes alone decide: edges
        that more than half of the parties found are kept. An undirected edge, as GES and PC return, is then a
        vote for both directions: the one with more votes is kept, or both.
    schedule : {"default", "paper"}
        "paper" uses the constants of Algorithm 1 (λ = 0.01, ρ1 = ρ2 = 1e-3, γ1 = 1.75, γ2 = 1.25, up to 200
        rounds, threshold 0.3, matrix exponential; for networks λ1 = 0.001, λ2 = 0.01, ρ1 = ρ2 = 0.1), but
        centres rows on the common mean and forbids self-loops from the start. For voting it uses the
        constants of NOTEARS as published (λ = 0.1, for networks λ1 = λ2 = 0.01, threshold 0.3) and keeps
        cycles. Where `lambda_`, `threshold` or `network.lambda2` is given, that value is used.
    model : {"linear", "mlp", "masked", "lagged"}
        The form of a variable given its parents: a weighted sum; a small neural network, whose parents are
        found by its slopes ("mlp") or by learned probabilities in front of it ("masked"); or, for time
        series, a weighted sum of others now and up to `series.lags` steps before ("lagged": a graph over
        slices `x[t]`, `x[t-1]`, …). The method "varying" requires "linear".
    network : Network
        Hidden units and ℓ2 penalty of the networks.
    series : Series
        Lags and order columns of time series.
    lambda_ : float, "bic" or "stability"
        The ℓ1 penalty. "bic" chooses the value on a path with the lowest extended BIC, for which the sum of
        the parties' losses suffices; "stability" the one whose graph changes least over random halves of the
        parties. A `learner` that is given chooses its own. For votes over networks the sum of the parties'
        own BIC decides.
    acyclicity : {"logdet", "expm"}
        The function that measures cycles.
    threshold : float or "ebic"
        Weights below a number are not edges; with "ebic", edges are removed if that lowers the extended BIC.
        For networks "ebic" means 0.2 for slopes and 0.5 for probabilities.
    learner : estimator, optional
        For "voting": the learner that each party uses; `Notears` by default, for networks `NotearsMLP`.
    knowledge : Knowledge, optional
        Required and forbidden edges, tiers.
    participation : float
        For "fedavg": the share of the parties that is asked in each round.
    random_state : int, optional
        For random choices of parties and the starting values of networks.

    Attributes
    ----------
    disclosure_ : DataFrame
        site, round, name, shape, bytes, masked, noise: every array that left a party.
    protection_ : str
        What was protected from whom.
    votes_ : array of shape (d, d)
        For "voting": the share of parties that found each edge.
    party_weights_ : mapping of party to array of shape (d, d)
        For "varying": each party's own coefficients. They are not disclosed; `weights_` is their mean,
        weighted by rows.
    instantaneous_graph_, lag_weights_
        For "lagged", as for `NotearsLagged`.
    lambda_used_ : float
        The penalty of the result (NaN where a `learner` chose its own).
    criterion_ : float
        The extended BIC of the graph, where it was computed; for votes over networks the sum of the parties'
        own.
    varsortability_ : float
        How closely the graph follows the order of the pooled variances, as for `Notears`; NaN where these are
        not known. If it is near 1, `standardized_difference(parties)` shows how much depends on units.
    n_rounds_ : int
        The number of questions that the coordinator asked.

    References
    ----------
    Ng, I. and Zhang, K. (2022). Towards federated Bayesian network structure learning with continuous
    optimization. AISTATS, PMLR 151, 8095–8111.
    Na, Y. and Yang, J. (2010). Distributed Bayesian network structure learning.
    McMahan, B. et al. (2017). Communication-efficient learning of deep networks from decentralized data.

    Examples
    --------
    >>> from polydag import FederatedNotears, metrics, simulate
    >>> dag = simulate.dag(8, expected_edges=10, random_state=0)
    >>> parties = [simulate.linear(dag, n=60, random_state=seed) for seed in range(5)]
    >>> model = FederatedNotears(method="admm").fit(parties)
    >>> metrics.shd(true=dag, estimate=model.graph_)
    0
    """

    disclosure_: pd.DataFrame
    protection_: str
    votes_: Array
    party_weights_: Mapping[str, Array]
    instantaneous_graph_: Graph
    lag_weights_: Array
    lambda_used_: float
    criterion_: float
    varsortability_: float
    n_rounds_: int
    _scale: Array | None

    constraints: ClassVar[Mapping[str, Constraint]] = {
        "method": key_of(METHODS),
        "schedule": one_of("default", "paper"),
        "model": key_of(MODELS),
        "network": Instance(Network, "a Network"),
        "series": Instance(Series, "a Series"),
        "lambda_": Either(number(least=0), one_of("bic"), one_of("stability")),
        "acyclicity": key_of(ACYCLICITY),
        "threshold": Either(number(least=0), one_of("ebic")),
        "knowledge": optional(Instance(Knowledge, "a polydag.Knowledge")),
        "participation": number(above=0, most=1),
        "random_state": optional(whole(least=0)),
    }

    def __init__(
        self,
        *,
        method: str = "admm",
        schedule: Literal["default", "paper"] = "default",
        model: str = "linear",
        network: Network = Network(),
        series: Series = Series(),
        lambda_: float | Literal["bic", "stability"] = "bic",
        acyclicity: str = "logdet",
        threshold: float | Literal["ebic"] = "ebic",
        learner: Any = None,
        knowledge: Knowledge | None = None,
        participation: float = 1.0,
        random_state: int | None = None,
    ) -> None:
        self.method = method
        self.schedule = schedule
        self.model = model
        self.network = network
        self.series = series
        self.lambda_ = lambda_
        self.acyclicity = acyclicity
        self.threshold = threshold
        self.learner = learner
        self.knowledge = knowledge
        self.participation = participation
        self.random_state = random_state

    def fit(self, X: Any, y: None = None) -> Self:
        """Learn from `Parties`, or from a list or mapping of tables with the default privacy; `y` is ignored.

        A table is a DataFrame, an array, a `polydag.data.Table`, a source, or statistics; `Regimes` where
        variables were set by intervention in some rows.
        """
        return super().fit(X)

    def _source(self, X: Any) -> Parties:
        return X if isinstance(X, Parties) else Parties(X)

    def _fit(self, parties: Parties) -> None:
        result = fit_parties(
            _tables(parties.parties),
            METHODS[self.method],
            MODELS[self.model],
            dataclasses.replace(self.method_settings(), site_effects=parties.site_effects),
            parties.privacy,
            lambda_=self.lambda_,
            min_rows=parties.min_rows,
        )
        fitted = result.fitted
        self._keep(fitted.graph, raw_weights=fitted.raw_weights, history=fitted.history, pruned=fitted.pruned,
                   converged=fitted.converged, n_iter=fitted.n_iter)  # fmt: skip
        self.lambda_used_, self.criterion_ = fitted.lambda_, fitted.criterion
        self.disclosure_, self.protection_ = result.disclosure, result.protection
        self.varsortability_, self.n_rounds_ = result.varsortability, result.n_rounds
        self._scale = result.scale
        own = [f"{name}: {note}" for name, source in parties.parties.items() for note in source.notes]
        self.notes_ = tuple(dict.fromkeys([*own, *result.notes]))
        for name, value in fitted.attributes.items():
            setattr(self, name, value)
        if not self.converged_:
            warnings.warn(
                f"{self.method} stopped after {self.n_rounds_} rounds before it had converged; the graph is "
                "acyclic nevertheless.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _keep_source(self, source: Any) -> None:
        """Nothing: what left the parties is known from the study itself."""

    def standardized_difference(self, X: Any) -> int:
        """In how many edges the graph of the same parties with standardised columns differs.

        This is a further study over the parties, and what it discloses adds to what the fit disclosed: it is
        not done unasked. For the linear model without noise, of the parties that were fitted.
        """
        check_is_fitted(self)
        parties = self._source(X)
        scale = self._scale
        if self.model != "linear" or scale is None or parties.privacy.epsilon is not None:
            raise UsageError(
                "The comparison with standardised columns needs the linear model and common spreads without "
                "noise. Standardise the columns at the parties, fit again, and compare by metrics.shd."
            )
        scaled = for_each_party(
            parties.parties, lambda source: rescaled(aligned(source.moments(), self.graph_.names), scale)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            again = clone(self).fit(parties.with_parties(scaled))
        return shd(true=self.graph_, estimate=again.graph_)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.learner is None:
            return
        if not METHODS[self.method].uses_learner:
            raise UsageError(f"A learner requires method='voting'; got {self.method!r}.")
        if self.lambda_ == "stability":
            raise UsageError(
                "lambda_='stability' chooses the penalty of the default learner; "
                f"{type(self.learner).__name__} has settings of its own. Leave out one of the two."
            )

    def method_settings(self) -> MethodSettings:
        """The parameters as the methods and models take them."""
        settings = MethodSettings(
            paper=self.schedule == "paper",
            acyclicity=self.acyclicity,
            threshold=self.threshold,
            network=self.network,
            series=self.series,
            knowledge=self.knowledge,
            random_state=self.random_state,
            participation=self.participation,
            learner=None if self.learner is None else clone(self.learner),
            own_penalty=self.learner is not None,
        )
        if self.learner is not None or not METHODS[self.method].uses_learner:
            return settings
        parameters = MODELS[self.model].learner_parameters(settings)
        return settings.with_learner(SINGLE_TABLE_LEARNERS[self.model](**parameters))


def _tables(parties: Mapping[str, Source]) -> dict[str, Any]:
    """Tables or statistics as the parties have them, with columns in the order of most of them."""
    names = majority_columns(source.names for source in parties.values())
    return for_each_party(parties, lambda source: _table(source, names))


def _table(source: Source, names: tuple[str, ...]) -> Any:
    """A party's table or statistics; other sources as they are, unless their columns are in another order."""
    moved = source.names != names and set(source.names) == set(names)
    if isinstance(source, Given):
        return aligned(source.moments(), names) if moved else source.statistics
    if isinstance(source, InMemory):
        if source.has_interventions:
            return aligned(source.moments(), names) if moved else source.moments()
        return source.rows()[list(names)] if moved else source.data
    return aligned(source.moments(), names) if moved else source
