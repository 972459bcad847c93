"""The posterior of every edge."""

from __future__ import annotations

import warnings
from typing import Any, Literal, Self, cast

import pandas as pd

from polydag.data.discretize import discretize
from polydag.errors import ConvergenceWarning, UsageError
from polydag.graph import Graph
from polydag.knowledge import Knowledge, Masks
from polydag.learners.base import StructureLearner
from polydag.learners.family_tables import tables_of, told_candidates
from polydag.learners.inputs import (
    Discrete,
    Gaussian,
    discrete_counts,
    gaussian_statistics,
    is_statistics,
    knowledge_masks,
    standardized,
)
from polydag.learners.labels import as_frame, not_labels, numbers_of
from polydag.posterior import edge_probabilities, exact_posterior, mcmc_posterior, with_prior
from polydag.posterior.dags import exact_uniform
from polydag.posterior.dags.weighted import Method, WeightedPosterior, dag_posterior
from polydag.posterior.exact.order_posterior import ExactPosterior
from polydag.posterior.exact.subset_lattice import fits, require_fit
from polydag.posterior.families.priors import Array, certain_edges, size_prior
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.mcmc.chains import Length
from polydag.posterior.mcmc.order_posterior import ChainPosterior
from polydag.posterior.probabilities import Posterior
from polydag.scores import Score, make_score

_DISCRETE = ("k2", "bdeu", "bds")
_SCORES = (*_DISCRETE, "bge")
_METHODS = ("auto", "exact", "weighted", "mcmc")
_OVER = ("orders", "dags")


class BayesianDiscovery(StructureLearner):
    """Not one best graph but the probability of every edge, averaged over all orders of the variables.

    Parameters
    ----------
    score : {"k2", "bdeu", "bds", "bge"}
        "bge" is for numbers, the others for labels.
    structure_prior : {"fair", "uniform"}
        Of parent sets: every number of parents is equally likely, or every set.
    max_parents : int
        The largest in-degree.
    method : {"auto", "exact", "weighted", "mcmc"}
        "exact" sums over all orders, for up to 25 to 29 variables; "mcmc" samples orders by Markov chains,
        for any number of variables; "auto" is exact where memory and a few minutes allow it. "weighted" goes
        with `over="dags"`.
    over : {"orders", "dags"}
        What the prior is uniform over. With "orders" a DAG counts once for every order that agrees with it,
        which is quick to sum over; with "dags" it counts once. Then "exact" sums over all DAGs, for up to
        about 20 variables; "weighted" draws DAGs from exact orders and weights them; "mcmc" samples ordered
        partitions. "auto" is exact for up to 18 variables, and takes weights for more where they leave
        enough draws in effect.
    edge_prior : array or DataFrame of shape (n, n), optional
        The prior probability of each edge, row -> column; 0.5 says nothing, 0 forbids, 1 requires.
    equivalent_sample_size : float
        How many imaginary rows the prior of "bdeu" and "bds" counts for.
    max_candidates : int or "auto", optional
        How many candidate parents each variable keeps, by how good they are alone. None keeps all; "auto"
        does so while there are at most 30 million families, and warns when it does not.
    discretize : str, optional
        Cut continuous columns into levels: "quantile:4" or "interval:4".
    threshold : float
        Edges of `graph_` are more probable than this.
    memory : float, optional
        Gigabytes that may be used; what is available by default.
    knowledge : Knowledge, optional
        Required and forbidden edges, tiers.
    n_chains : int
        Independent Markov chains of "mcmc"; at least 2 to see whether they agree.
    n_steps : int, optional
        The length of each chain, burn-in included; chosen by the diagnostics if not given.
    burn_in : int, optional
        Steps at the beginning that are not used; half of all by default.
    bucket_size : int
        Of a state of the chains, all orders of so many neighbouring variables are summed over exactly.
    n_jobs : int
        Threads for scores and sums, processes for chains; -1 for as many as there are processors. The result
        does not depend on it.
    random_state : int, optional
        The seed of the chains; nothing is random in the exact method.

    Attributes
    ----------
    posterior_ : Posterior
        `posterior_.edges`, `posterior_.parents(name)`, `posterior_.graph(threshold)`, and more.
    best_graph_ : Graph
        A network with the highest score, prior included; the best that was seen, where orders are sampled.
    best_score_ : float
        Its log score.
    log_evidence_ : float or None
        The logarithm of the sum over orders, or over DAGs (prior factors are not normalised); None where they
        are sampled.
    converged_ : bool
        Whether the chains agree; True for the exact method. If not, a `ConvergenceWarning` says so.
    history_ : DataFrame
        One row a round of the chains (steps, burn_in, draws, temperatures, acceptance, r_hat, ess, mixed).
    candidates_ : DataFrame
        variable, candidates, best_left_out (the gain of the best variable that is no candidate); empty where
        all are.

    Notes
    -----
    `graph_` has the edges above the threshold, weighted by their probability, and is always a DAG: of a cycle
    the least probable edge goes, and is listed in `pruned_`. The prior of BGe has a scale, so columns of
    numbers are standardised first, from rows and from statistics alike: the posterior does not depend on
    units. With `Regimes`, all rows share one scale, and rows that set a variable do not score it.

    References
    ----------
    Koivisto, M. and Sood, K. (2004). Exact Bayesian structure discovery in Bayesian networks.
    Koivisto, M. (2006). Advances in exact Bayesian structure discovery in Bayesian networks.
    Silander, T. and Myllymäki, P. (2006). A simple approach for finding the globally optimal Bayesian network
    structure.
    Tian, J. and He, R. (2009). Computing posterior probabilities of structural features in Bayesian networks.
    Niinimäki, T., Parviainen, P. and Koivisto, M. (2011). Partial order MCMC for structure discovery in
    Bayesian networks.
    Kuipers, J. and Moffa, G. (2017). Partition MCMC for inference on acyclic digraphs.

    Examples
    --------
    >>> from polydag.embedded import asia
    >>> model = BayesianDiscovery(score="bdeu", max_parents=2).fit(asia().sample(1000, random_state=0))
    >>> round(float(model.posterior_.edges.loc["bronc", "dysp"]), 2)
    1.0
    """

    posterior_: Posterior
    best_graph_: Graph
    best_score_: float
    log_evidence_: float | None
    candidates_: pd.DataFrame

    def __init__(
        self,
        *,
        score: str = "k2",
        structure_prior: str = "fair",
        max_parents: int = 3,
        method: str = "auto",
        over: str = "orders",
        edge_prior: Any = None,
        equivalent_sample_size: float = 1.0,
        max_candidates: int | Literal["auto"] | None = "auto",
        discretize: str | None = None,
        threshold: float = 0.5,
        memory: float | None = None,
        knowledge: Knowledge | None = None,
        n_chains: int = 4,
        n_steps: int | None = None,
        burn_in: int | None = None,
        bucket_size: int = 10,
        n_jobs: int = 1,
        random_state: int | None = None,
    ) -> None:
        self.score = score
        self.structure_prior = structure_prior
        self.max_parents = max_parents
        self.method = method
        self.over = over
        self.edge_prior = edge_prior
        self.equivalent_sample_size = equivalent_sample_size
        self.max_candidates = max_candidates
        self.discretize = discretize
        self.threshold = threshold
        self.memory = memory
        self.knowledge = knowledge
        self.n_chains = n_chains
        self.n_steps = n_steps
        self.burn_in = burn_in
        self.bucket_size = bucket_size
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: None = None) -> Self:
        """Learn from a DataFrame, an array, a `Table`, or statistics; `y` is ignored."""
        for name, known in (("score", _SCORES), ("method", _METHODS), ("over", _OVER)):
            if getattr(self, name) not in known:
                raise UsageError(f"{name} must be one of {', '.join(known)}; got {getattr(self, name)!r}.")
        stats = self._statistics(X)
        # What cannot be is told before a long computation.
        size_prior(self.structure_prior, len(stats.names), 0)
        if self.method == "weighted" and self.over != "dags":
            raise UsageError("method='weighted' goes with over='dags'.")
        if self.method in ("exact", "weighted"):
            summed = self.over == "dags" and self.method == "exact"
            (exact_uniform.require_fit if summed else require_fit)(len(stats.names), self._memory())
        Length(self.n_chains, self.n_steps, self.burn_in)
        edge_prior = None if self.edge_prior is None else edge_probabilities(self.edge_prior, stats.names)
        masks = certain_edges(knowledge_masks(self.knowledge, stats.names), edge_prior, stats.names)
        options = {"equivalent_sample_size": self.equivalent_sample_size}
        score = make_score(self.score, stats, **(options if self.score in ("bdeu", "bds") else {}))
        self._finish(self._table(score, masks, edge_prior), masks)
        return self

    def _statistics(self, X: Any) -> Discrete | Gaussian:
        if self.score not in _DISCRETE:
            return standardized(gaussian_statistics(X))
        if is_statistics(X):
            counts: Discrete = discrete_counts(X)
            return counts
        frame, numbers = as_frame(X), numbers_of(X)
        if numbers and self.discretize is None:
            raise not_labels(frame, numbers, self.score)
        found: Discrete = discrete_counts(
            discretize(frame, self.discretize, numbers) if self.discretize else frame
        )
        return found

    def _table(self, score: Score, masks: Masks, edge_prior: Array | None) -> FamilyTable:
        (table,), pruned = tables_of([score], self.max_parents, self.max_candidates, masks, self.n_jobs)
        self.candidates_ = told_candidates(pruned, score.names)
        return with_prior(table, self.structure_prior, edge_prior=edge_prior, masks=masks)

    def _memory(self) -> float | None:
        return None if self.memory is None else self.memory * 1e9

    def _posterior(self, table: FamilyTable) -> ExactPosterior | ChainPosterior:
        if self.over == "dags":
            return dag_posterior(
                table,
                method=cast(Method, self.method),
                n_chains=self.n_chains,
                n_steps=self.n_steps,
                burn_in=self.burn_in,
                n_jobs=self.n_jobs,
                memory=self._memory(),
                random_state=self.random_state,
            )
        if self.method == "exact" or (self.method == "auto" and fits(table.n, self._memory())):
            return exact_posterior(table, n_jobs=self.n_jobs, memory=self._memory())
        return mcmc_posterior(
            table,
            n_chains=self.n_chains,
            n_steps=self.n_steps,
            burn_in=self.burn_in,
            bucket_size=self.bucket_size,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
        )

    def _finish(self, table: FamilyTable, masks: Masks) -> None:
        posterior = self._posterior(table)
        self.posterior_ = posterior
        self.best_graph_, self.best_score_ = posterior.best_graph()
        self.log_evidence_ = posterior.log_evidence
        graph, removed = posterior.acyclic(self.threshold, keep=masks.required)
        history = pd.DataFrame([{"families": table.scores.size, "log_evidence": self.log_evidence_}])
        sampled = posterior if isinstance(posterior, ChainPosterior | WeightedPosterior) else None
        self._keep(
            graph,
            raw_weights=posterior.probabilities,
            history=sampled.history if sampled else history,
            pruned=[(edge, "part of a cycle") for edge in removed],
            converged=sampled.mixed if sampled else True,
            n_iter=sampled.n_steps if sampled else 1,
        )
        if sampled and not sampled.mixed:
            warnings.warn(sampled.disagreement(), ConvergenceWarning, stacklevel=3)
