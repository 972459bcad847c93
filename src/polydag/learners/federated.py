"""NOTEARS over parties that keep their rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from polydag.acyclicity import ACYCLICITY
from polydag.errors import ConvergenceWarning, DataError, UsageError
from polydag.federated import Local
from polydag.federated.protocol.fingerprint import fingerprint
from polydag.federated.protocol.programs import columns_of_most
from polydag.federated.session import data_fingerprint, one_after_the_other, run_study
from polydag.graph import Graph
from polydag.knowledge import Knowledge
from polydag.learners.base import StructureLearner
from polydag.learners.party_methods import (
    ALONE,
    METHODS,
    alone,
    follows_variances,
    papers_lambda,
    program_of,
    read,
)
from polydag.learners.party_models import FAMILIES
from polydag.learners.party_networks import LAMBDA2
from polydag.learners.party_privacy import check_privacy, privacy_of, private_local
from polydag.learners.site_stability import stable_lambda
from polydag.stats import GaussianStats, Regimes

Table = Any


class FederatedNotears(StructureLearner):
    """One graph from the tables of several parties, none of which shows its rows.

    All that is used of the parties is sums over them.

    Parameters
    ----------
    method : {"admm", "moments", "fedavg", "varying", "voting"}
        "moments": sums of sufficient statistics, then `learner`; the answer of pooling, in one round.
        "admm": parameters only are exchanged, over some fifty rounds; of the pooled covariances
        none are seen but those within candidate families at the end, and none at all with a number for
        `threshold`. "fedavg": as "admm", but sites keep nothing between rounds and may be missing in some.
        "varying": the graph is shared, coefficients and means are each party's own. "voting": every party
        learns alone, and an edge stays that more than half of them found. An undirected edge, as GES and PC
        have them, is a vote for both directions: the one with more votes stays, or both.
    schedule : {"default", "paper"}
        "paper" has the constants of Algorithm 1 (λ = 0.01, ρ1 = ρ2 = 1e-3, γ1 = 1.75, γ2 = 1.25, up to 200
        rounds, threshold 0.3, matrix exponential; for networks λ1 = 0.001, λ2 = 0.01, ρ1 = ρ2 = 0.1), but
        centres rows on the common mean and forbids self-loops from the start. For voting and moments it has
        the constants of NOTEARS as published (λ = 0.1, for networks λ1 = λ2 = 0.01, threshold 0.3), and for
        voting it keeps cycles. Where `lambda_`, `threshold` or `lambda2` is given, that holds.
    model : {"linear", "mlp", "masked", "lagged"}
        What a variable is of its parents: a weighted sum; a small neural network, the parents told by its
        slopes ("mlp") or by learned probabilities in front of it ("masked"); or, for time series, a weighted
        sum of others now and up to `lags` steps before ("lagged": a graph over slices `x[t]`, `x[t-1]`, …).
        "linear" and "lagged" go with every method but that "varying" is linear only; networks have no
        sufficient statistics and go with "admm", "fedavg" and "voting".
    lags, time, realisation
        For "lagged", as for `NotearsLagged`.
    hidden, lambda2
        For networks, as for `NotearsMLP`.
    lambda_ : float, "bic" or "stability"
        The ℓ1 penalty; "bic" takes the one of a path with the lowest extended BIC (for which the sum of the
        parties' losses is enough), "stability" the one whose graph changes least over random halves of the
        parties. A `learner` that is given chooses its own. Votes over networks have no common network: there
        the sum of the parties' own BIC decides.
    acyclicity : {"logdet", "expm"}
        The function that measures cycles.
    threshold : float or "ebic"
        Which weights are too small to be edges: those below a number, or those without which the extended
        BIC is lower. For networks "ebic" means 0.2 for slopes and 0.5 for probabilities.
    learner : estimator, optional
        For "moments" and "voting": what learns from a party, or from summed statistics; `Notears` (for
        networks `NotearsMLP`) by default.
    knowledge : Knowledge, optional
        Required and forbidden edges, tiers.
    participation : float
        For "fedavg": the share of the parties that is asked in each round.
    min_rows : int
        A party with fewer rows does not take part, and the study stops.
    privacy : {"masked", "none"}
        "masked": nobody sees a single party's numbers, only sums over at least three of them; so there must
        be three parties. "none": sums are formed in the open. See `docs/privacy.md`.
    quorum : int, optional
        For masked sums: one more than the parties that may collude without learning anything; where parties
        may drop out ("fedavg", "voting"), as many can open a sum together. By default one more than two
        thirds; where every party is needed, no more than four, as a larger one takes time.
    ledgers : path, optional
        A folder with one file a party, to which all that leaves it is added. Earlier studies in it count:
        no sums are formed that would single out a party beside theirs, and their noise is in the account.
    epsilon, delta : float, optional
        For differential privacy of single rows: what this study may spend. It goes with "moments", which is
        the most accurate, "admm" and "fedavg".
    budget : float, optional
        The most that all studies in `ledgers` may spend together; this study's epsilon by default.
    bounds : mapping of column to (lowest, highest), or one such pair, optional
        For differential privacy: what values columns can have; rows are clipped to them. Estimated, under
        noise, by default.
    random_state : int, optional
        For the random choices of parties.

    Attributes
    ----------
    disclosure_ : DataFrame
        site, round, name, shape, bytes, masked, noise: every array that left a site.
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
        How far the graph follows the order of the pooled variances, as for `Notears`; NaN where these are
        not known.
    n_rounds_ : int
        Questions that the coordinator asked.

    References
    ----------
    Ng, I. and Zhang, K. (2022). Towards federated Bayesian network structure learning with continuous
    optimization.
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
    votes_: NDArray[np.float64]
    party_weights_: Mapping[str, NDArray[np.float64]]
    instantaneous_graph_: Graph
    lag_weights_: NDArray[np.float64]
    lambda_used_: float
    criterion_: float
    varsortability_: float
    n_rounds_: int

    def __init__(
        self,
        *,
        method: str = "admm",
        schedule: Literal["default", "paper"] = "default",
        model: str = "linear",
        lags: int = 1,
        time: str = "t",
        realisation: str = "realisation",
        hidden: int = 10,
        lambda2: float = LAMBDA2,
        lambda_: float | Literal["bic", "stability"] = "bic",
        acyclicity: str = "logdet",
        threshold: float | Literal["ebic"] = "ebic",
        learner: Any = None,
        knowledge: Knowledge | None = None,
        participation: float = 1.0,
        min_rows: int = 1,
        privacy: Literal["masked", "none"] = "masked",
        quorum: int | None = None,
        ledgers: str | None = None,
        epsilon: float | None = None,
        delta: float = 1e-5,
        budget: float | None = None,
        bounds: Mapping[str, tuple[float, float]] | tuple[float, float] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.method = method
        self.schedule = schedule
        self.model = model
        self.lags = lags
        self.time = time
        self.realisation = realisation
        self.hidden = hidden
        self.lambda2 = lambda2
        self.lambda_ = lambda_
        self.acyclicity = acyclicity
        self.threshold = threshold
        self.learner = learner
        self.knowledge = knowledge
        self.participation = participation
        self.min_rows = min_rows
        self.privacy = privacy
        self.quorum = quorum
        self.ledgers = ledgers
        self.epsilon = epsilon
        self.delta = delta
        self.budget = budget
        self.bounds = bounds
        self.random_state = random_state

    def fit(self, X: Iterable[Table] | Mapping[str, Table], y: None = None) -> Self:
        """Learn from the parties' tables: a list, or a mapping of names to tables; `y` is ignored.

        A table is a DataFrame, an array, a `Table`, or statistics; `Regimes` where variables were set in
        some rows.
        """
        self._check_parameters()
        locals_ = self._locals(X)
        names = columns_of_most(local.names for local in locals_.values())
        masks = FAMILIES[self.model].masks(self, names)
        key = fingerprint(self)
        lambda_, disclosed = self._penalty(locals_, f"{key} {data_fingerprint(locals_)}")
        program = program_of(self, locals_, masks, lambda_)
        outcome = run_study(
            program, locals_, privacy_of(self), min_rows=self.min_rows, key=f"{lambda_} {key}"
        )
        self.protection_ = outcome.protection
        self.disclosure_ = one_after_the_other([*disclosed, outcome.disclosure])
        found = read(self, program, outcome.result, locals_, masks, lambda_)
        self.lambda_used_, self.criterion_ = found.lambda_, found.criterion
        self.varsortability_ = follows_variances(found.graph, outcome.result)
        besides = {**found.besides, **FAMILIES[self.model].besides(self, found.graph)}
        for name, value in besides.items():
            setattr(self, name, value)
        self._keep(found.graph, raw_weights=found.raw_weights, history=found.history, pruned=found.pruned,
                   converged=found.converged, n_iter=found.n_iter)  # fmt: skip
        self.n_rounds_ = outcome.n_rounds
        if not self.converged_:
            warnings.warn(
                f"{self.method} stopped after {self.n_rounds_} rounds before it had settled; the graph is "
                "acyclic all the same.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _check_parameters(self) -> None:
        for name, allowed in (
            ("method", METHODS),
            ("schedule", ("default", "paper")),
            ("model", tuple(FAMILIES)),
            ("acyclicity", tuple(ACYCLICITY)),
        ):
            if getattr(self, name) not in allowed:
                told = ", ".join(allowed)
                raise UsageError(f"{name} must be one of {told}; got {getattr(self, name)!r}.")
        for name, words in (("lambda_", ("bic", "stability")), ("threshold", ("ebic",))):
            value = getattr(self, name)
            if not (value >= 0 and np.isfinite(value) if _is_number(value) else value in words):
                told = " or ".join(repr(word) for word in words)
                raise UsageError(f"{name} must be {told}, or a number that is not negative; got {value!r}.")
        family = FAMILIES[self.model]
        if self.method not in family.methods:
            known = ", ".join(family.methods)
            raise UsageError(f"model={self.model!r} goes with method {known}; got {self.method!r}.")
        if not _is_number(self.participation) or not 0 < self.participation <= 1:
            raise UsageError(f"participation is a share above 0 and up to 1; got {self.participation!r}.")
        if not _is_number(self.min_rows) or self.min_rows < 0 or self.min_rows != int(self.min_rows):
            raise UsageError(f"min_rows is a whole number that is not negative; got {self.min_rows!r}.")
        if self.learner is not None and self.method not in ALONE:
            raise UsageError(f"A learner goes with method 'moments' or 'voting', not with {self.method!r}.")
        if self.lambda_ == "stability" and self.learner is not None:
            raise UsageError(
                "lambda_='stability' chooses the penalty of the usual learner; "
                f"{type(self.learner).__name__} has settings of its own. Leave out one of the two."
            )
        check_privacy(self)

    def _locals(self, X: Iterable[Table] | Mapping[str, Table]) -> dict[str, Local]:
        """One local side a party, built from its table alone."""
        if isinstance(X, (str, bytes, pd.DataFrame, np.ndarray, GaussianStats, Regimes)) or not isinstance(
            X, Iterable
        ):
            raise UsageError(
                "fit takes several tables, one a party: a list or a mapping of names to tables; got "
                f"{type(X).__name__}. For one table use Notears; for files, polydag fit --as parties."
            )
        tables = dict(X) if isinstance(X, Mapping) else {f"site {i}": t for i, t in enumerate(X, start=1)}
        if not tables:
            raise DataError("There are no parties: fit takes a list of tables, one a party.")
        told = [str(name) for name in tables]
        if twice := [name for name in told if told.count(name) > 1]:
            raise UsageError(f"Two parties are called {twice[0]!r}. Give every party a name of its own.")
        # For votes; a penalty that parties have in common comes with the question.
        learner = alone(self, "bic") if self.method == "voting" else None
        result: dict[str, Local] = {}
        for name, table in tables.items():
            try:
                _require_numbers(table)
                if self.epsilon is not None:
                    own: Local = private_local(table)
                else:
                    own = FAMILIES[self.model].local(self, table, None if learner is None else clone(learner))
            except DataError as error:
                raise DataError(f"{name}: {error}") from None
            result[str(name)] = own
        return result

    def _penalty(
        self, locals_: Mapping[str, Local], mark: str
    ) -> tuple[float | Literal["bic"], list[pd.DataFrame]]:
        """The penalty, or how it is chosen within the study; and what left the sites for it so far."""
        if self.schedule == "paper" and self.lambda_ == "bic":
            return papers_lambda(self), []
        if self.lambda_ == "stability":
            data = {name: local.data for name, local in locals_.items()}
            chosen = stable_lambda(self, data, self.random_state, mark)
            return chosen.lambda_, [chosen.disclosure]
        return self.lambda_, []


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _require_numbers(table: Table) -> None:
    """Truth values are labels, as in files; other labels are told when rows are read."""
    frame = getattr(table, "frame", table)
    types: dict[Any, Any] = {"x0": getattr(frame, "dtype", None)}
    if isinstance(frame, pd.DataFrame):
        types = dict(frame.dtypes)
    if truths := [name for name, dtype in types.items() if getattr(dtype, "kind", "") == "b"]:
        raise DataError(
            f"column {truths[0]} holds True and False, which are labels, not numbers. Leave it out at every "
            "party, or turn it into numbers."
        )
