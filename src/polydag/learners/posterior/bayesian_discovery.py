"""The posterior probability of every edge, for one table."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, cast

import pandas as pd

from polydag.arrays import Array
from polydag.errors import ConvergenceWarning, UsageError
from polydag.graph import Graph
from polydag.knowledge import Knowledge, Masks, joined, knowledge_masks
from polydag.learners.base import StructureLearner
from polydag.learners.posterior.criterion import chosen_criterion, criterion_notes, posterior_score
from polydag.parameters import Constraint, Either, Instance, number, one_of, optional, whole
from polydag.posterior import edge_probabilities, exact_posterior, mcmc_posterior, with_prior
from polydag.posterior.dags import exact_uniform
from polydag.posterior.dags.weighted import Method, WeightedPosterior, dag_posterior
from polydag.posterior.exact.order_posterior import ExactPosterior
from polydag.posterior.exact.subset_lattice import fits, require_fit
from polydag.posterior.families.priors import certain_edges
from polydag.posterior.families.several_scores import candidate_table, tables_of
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.mcmc.chains import DEFAULT_CHAINS, Chains
from polydag.posterior.mcmc.order_posterior import ChainPosterior
from polydag.posterior.probabilities import Posterior
from polydag.scores import AUTO, Score, ScoreName, kind_of, resolve
from polydag.sources.checked import discrete_counts, scored_statistics, used_kinds
from polydag.sources.columns.labels import labelled
from polydag.sources.interface import Source
from polydag.sources.table import InMemory

# Parameters that all learners of posteriors share.
POSTERIOR_CONSTRAINTS: Mapping[str, Constraint] = {
    "criterion": ScoreName(AUTO),
    "criterion_options": optional(Instance(Mapping, "a mapping of options to values")),
    "structure_prior": one_of("fair", "uniform"),
    "max_parents": whole(least=0),
    "method": one_of("auto", "exact", "mcmc"),
    "equivalent_sample_size": number(above=0.0),
    "max_candidates": optional(Either(whole(least=1), one_of("auto"))),
    "threshold": number(least=0.0, most=1.0),
    "memory": optional(number(above=0.0)),
    "chains": Instance(Chains, "a polydag.Chains"),
}


class BayesianDiscovery(StructureLearner):
    """The posterior probability of every edge, averaged over all orders of the variables or over all DAGs.

    Parameters
    ----------
    criterion : str
        A name in `polydag.scores.SCORES`: "bdeu", "bds" and "k2" are for labels, "bge" and "bic" for numbers,
        "dg" for both. "auto" is "bdeu", "bge" or "dg" by the kinds of the columns, and "bdeu" where numbers
        are cut into levels. "k2", which Oyen and Lane (2013) use, is not score equivalent: it favours
        directions that the data do not determine.
    criterion_options : mapping, optional
        Options of the score, such as `{"alpha_mu": 0.1}` for "bge".
    structure_prior : {"fair", "uniform"}
        The prior of parent sets: "fair" gives every number of parents the same probability, "uniform" every
        parent set.
    max_parents : int
        The largest in-degree. A bound beyond the number of other variables has no effect.
    method : {"auto", "exact", "weighted", "mcmc"}
        "exact" sums over all orders, for up to 25 to 29 variables. "mcmc" samples orders by Markov chains,
        for any number of variables. "auto" is exact where that fits into memory and takes a few minutes at
        most. "weighted" is for `over="dags"`.
    over : {"orders", "dags"}
        The set over which the prior is uniform. With "orders" a DAG counts once for every order that agrees
        with it, which makes sums fast; with "dags" it counts once. For "dags", "exact" sums over all DAGs,
        for up to about 20 variables; "weighted" draws DAGs from the exact order posterior and weights them;
        "mcmc" samples ordered partitions; "auto" is exact for up to 18 variables, and for more it weights
        draws if their effective number is large enough.
    edge_prior : array or DataFrame of shape (n, n), optional
        The prior probability of each edge, row -> column; 0.5 is neutral, 0 forbids, 1 requires an edge.
    equivalent_sample_size : float
        The weight of the prior of "bdeu" and "bds", in rows.
    max_candidates : int or "auto", optional
        The number of candidate parents of each variable, chosen by their score as the only parent. None keeps
        all; "auto" keeps all as long as there are at most 30 million families, and warns otherwise.
    discretize : str, optional
        Cut continuous columns into levels: "quantile:4" or "interval:4".
    threshold : float
        `graph_` has the pairs that are adjacent with a probability above this, directed where one direction
        has such a probability and undirected otherwise.
    memory : float, optional
        The memory that may be used, in gigabytes; by default what is available.
    knowledge : Knowledge, optional
        Required and forbidden edges, tiers.
    chains : Chains
        How many Markov chains "mcmc" runs, how long, and how large their buckets are.
    n_jobs : int
        The number of threads for scores and sums, and of processes for chains; -1 for all processors. The
        result does not depend on it.
    random_state : int, optional
        The seed of the chains; the exact method is deterministic.

    Attributes
    ----------
    criterion_ : str
        The score that was used, where `criterion="auto"` left it open.
    posterior_ : Posterior
        `posterior_.edges`, `posterior_.parents(name)`, `posterior_.graph(threshold)`, and more.
    best_graph_ : Graph
        A network with the highest score, prior included; for "mcmc", the best network found.
    best_score_ : float
        Its log score.
    log_evidence_ : float or None
        The log of the sum over orders, or over DAGs (prior factors are not normalised); None where these
        are sampled.
    converged_ : bool
        Whether the chains have mixed; True for the exact method. If not, a `ConvergenceWarning` is raised.
    history_ : DataFrame
        One row for each round of the chains (steps, burn_in, draws, temperatures, acceptance, r_hat, ess,
        mixed).
    candidates_ : DataFrame
        variable, candidates, best_left_out (the gain of the best variable that is not a candidate); empty
        where all variables are candidates.

    Notes
    -----
    The weights of `graph_` are probabilities: of the direction, or of the connection where the edge is
    undirected. The least probable edge of each directed cycle is removed and listed in `pruned_`.
    `best_graph_` is a DAG. The prior of BGe has a scale, so continuous columns are standardised, from rows
    and from statistics alike, and the posterior does not depend on units. With `Regimes`, all rows share one
    scale, and rows in which a variable was set do not contribute to its score.

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
    >>> model = BayesianDiscovery(criterion="bdeu", max_parents=2).fit(asia().sample(1000, random_state=0))
    >>> round(float(model.posterior_.edges.loc["bronc", "dysp"]), 2)
    1.0
    """

    constraints: ClassVar[Mapping[str, Constraint]] = {
        **POSTERIOR_CONSTRAINTS,
        "method": one_of("auto", "exact", "weighted", "mcmc"),
        "over": one_of("orders", "dags"),
    }

    criterion_: str
    posterior_: Posterior
    best_graph_: Graph
    best_score_: float
    log_evidence_: float | None
    candidates_: pd.DataFrame

    def __init__(
        self,
        *,
        criterion: str = "auto",
        criterion_options: Mapping[str, Any] | None = None,
        structure_prior: str = "fair",
        max_parents: int = 3,
        method: str = "auto",
        over: str = "orders",
        edge_prior: Any = None,
        equivalent_sample_size: float = 4.0,
        max_candidates: int | Literal["auto"] | None = "auto",
        discretize: str | None = None,
        threshold: float = 0.5,
        memory: float | None = None,
        knowledge: Knowledge | None = None,
        chains: Chains = DEFAULT_CHAINS,
        n_jobs: int = 1,
        random_state: int | None = None,
    ) -> None:
        self.criterion = criterion
        self.criterion_options = criterion_options
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
        self.chains = chains
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, source: Source) -> None:
        stats = self._statistics(source)
        # Refused before a long computation.
        if self.method == "weighted" and self.over != "dags":
            raise UsageError("method='weighted' is for over='dags'.")
        if self.method in ("exact", "weighted"):
            summed = self.over == "dags" and self.method == "exact"
            (exact_uniform.require_fit if summed else require_fit)(len(stats.names), self._memory())
        edge_prior = None if self.edge_prior is None else edge_probabilities(self.edge_prior, stats.names)
        known = knowledge_masks(joined(self.knowledge, source.knowledge), stats.names)
        masks = certain_edges(known, edge_prior, stats.names)
        self._finish(self._table(posterior_score(self, stats), masks, edge_prior), masks)

    def _fit_completed(self, completed: Sequence[Source]) -> None:
        super()._fit_completed(completed)
        self.criterion_ = self.completed_[0].criterion_

    def _statistics(self, source: Source) -> Any:
        self.criterion_ = chosen_criterion(self, source)
        self.notes_ = criterion_notes(self)
        kind = kind_of(self.criterion_)
        if kind in ("numbers", "mixed"):
            self.kinds_ = used_kinds(source, kind)
            return scored_statistics(source, resolve(self.criterion_, kind).needs)
        self.kinds_ = used_kinds(source, "labels")
        if isinstance(source, InMemory):
            source = labelled(source, self.discretize, self.criterion_)
        elif self.discretize is not None:
            raise UsageError(
                f"discretize= needs rows; {source.described} has none to give. Discretise before."
            )
        return discrete_counts(source)

    def _table(self, score: Score, masks: Masks, edge_prior: Array | None) -> FamilyTable:
        (table,), pruned = tables_of([score], self.max_parents, self.max_candidates, masks, self.n_jobs)
        self.candidates_ = candidate_table(pruned, score.names)
        return with_prior(table, self.structure_prior, edge_prior=edge_prior, masks=masks)

    def _memory(self) -> float | None:
        return None if self.memory is None else self.memory * 1e9

    def _posterior(self, table: FamilyTable) -> ExactPosterior | ChainPosterior:
        if self.over == "dags":
            return dag_posterior(
                table,
                method=cast(Method, self.method),
                chains=self.chains,
                n_jobs=self.n_jobs,
                memory=self._memory(),
                random_state=self.random_state,
            )
        if self.method == "exact" or (self.method == "auto" and fits(table.n, self._memory())):
            return exact_posterior(table, n_jobs=self.n_jobs, memory=self._memory())
        return mcmc_posterior(
            table,
            chains=self.chains,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
        )

    def _finish(self, table: FamilyTable, masks: Masks) -> None:
        posterior = self._posterior(table)
        self.posterior_ = posterior
        self.best_graph_, self.best_score_ = posterior.best_graph()
        self.log_evidence_ = posterior.log_evidence
        graph, removed = posterior.confidence.graph(self.threshold, keep=masks.required)
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
            warnings.warn(sampled.disagreement(), ConvergenceWarning, stacklevel=4)
