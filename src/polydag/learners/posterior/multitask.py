"""The posterior probability of every edge in several related tasks."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd

from polydag.arrays import Array
from polydag.computing.progress import report
from polydag.errors import ConvergenceWarning, DataWarning, UsageError
from polydag.graph import Edge, Graph
from polydag.knowledge import Knowledge
from polydag.learners.base import StructureLearner
from polydag.learners.posterior.bayesian_discovery import POSTERIOR_CONSTRAINTS
from polydag.learners.posterior.criterion import chosen_criterion, criterion_notes, posterior_score
from polydag.learners.posterior.histories import histories
from polydag.learners.posterior.learned_tasks import Learning
from polydag.learners.posterior.own_columns import (
    OwnPosterior,
    among,
    columns_of_all,
    known_differences,
    known_pairs,
    lacking_notes,
    mean_of_known,
    require_all_candidates,
    table_over,
)
from polydag.learners.posterior.power import found_share
from polydag.learners.posterior.task_priors import TaskPriors
from polydag.learners.posterior.task_scores import TaskScores
from polydag.parameters import Constraint, Instance, one_of
from polydag.posterior import exact_posterior
from polydag.posterior.dags.samples import DagSamples
from polydag.posterior.exact.subset_lattice import fits, require_fit
from polydag.posterior.families.several_scores import candidate_table, tables_of
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.joint_chains.related_chains import JointChainPosterior
from polydag.posterior.mcmc.chains import DEFAULT_CHAINS, Chains
from polydag.posterior.mcmc.order_posterior import McmcPosterior, mcmc_posterior
from polydag.posterior.probabilities import Posterior
from polydag.posterior.transfer import (
    DEFAULT_SIMILARITY,
    Similarity,
    family_form,
    theorem1,
)
from polydag.posterior.transfer.common_network import require_joint_memory
from polydag.posterior.transfer.differences import (
    Differences,
    from_joint,
    from_marginals,
    from_pool,
    from_related,
)
from polydag.posterior.transfer.draws import TaskPosterior, independent
from polydag.posterior.transfer.shared_strengths import SharedStrengths
from polydag.posterior.transfer.theorem1 import Theorem1Networks, require_joint_fit
from polydag.scores import kind_of
from polydag.scores.registry import resolve
from polydag.sources.checked import used_kinds
from polydag.sources.task_statistics import pooled, task_counts, task_mixed, task_statistics
from polydag.sources.tasks import Tasks

TRANSFERS = ("learned", "family", "theorem1", "none", "pool")
ASSUMES_SIMILARITY = ("family", "theorem1")


class MultitaskDiscovery(StructureLearner):
    """The posterior probability of every edge in each of several related tasks, which inform each other.

    Parameters
    ----------
    transfer : {"learned", "family", "theorem1", "none", "pool"}
        "learned": which tasks are related, and how closely, is learned from their rows, and unrelated tasks
        do not influence each other. Differences have joint probabilities: exact for up to about 20 variables,
        and for more by Markov chains over an order that tasks share. Where these would take too long
        (`method`), the families of each task are weighted as in "family", according to how related the tasks
        are. "family": the families of each task are weighted by the scores of similar families in the other
        tasks; for any number of variables. "theorem1": tasks share an order, and the prior depends on the
        predecessors; exact, for up to about 20 variables, with joint probabilities of differences. "none":
        each task alone. "pool": all rows as one task.
    similarity : Similarity
        How similar tasks are assumed to be, for "family" and "theorem1".
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
    method : {"auto", "exact", "mcmc"}
        "exact" sums over all orders, "mcmc" samples them; "auto" is exact where that fits. "theorem1" is
        always exact. "learned" has joint chains with "mcmc", and with "auto" where they take minutes.
    chains : Chains
        How many Markov chains "mcmc" runs for each task, how long, and how large their buckets are.
    edge_prior : array or DataFrame of shape (n, n), or mapping of task to one, optional
        The prior probability of each edge, row -> column: in every task, or in the tasks that are named.
    equivalent_sample_size : float
        The weight of the prior of "bdeu" and "bds", in rows.
    max_candidates : int or "auto", optional
        How many candidate parents each variable keeps, the same in all tasks.
    discretize : str, optional
        Cut continuous columns into levels, at the same points in all tasks: "quantile:4" or "interval:4".
    threshold : float
        Graphs have the edges with a probability above this.
    memory : float, optional
        The memory that may be used, in gigabytes; by default what is available.
    knowledge : Knowledge, or mapping of task to Knowledge, optional
        Required and forbidden edges, tiers: of every task, or of the tasks that are named.
    n_jobs : int
        The number of threads, or of processes for chains; -1 for all processors.
    random_state : int, optional
        The seed of the chains; the exact method is deterministic.

    Attributes
    ----------
    tasks_ : tuple of str
        The tasks, in order.
    criterion_ : str
        The score that was used, where `criterion="auto"` left it open.
    n_rows_ : dict
        The number of rows of each task.
    posteriors_ : list of Posterior
        One for each task: `posteriors_[0].edges`.
    graphs_ : list of Graph
        The connections of each task above the threshold, directed where one direction is above it, too.
        Posteriors and graphs are over the columns that the task has.
    differences_ : DataFrame
        source, target, `in <task>`, shared, `only in <task>`, basis: the probability that an edge is in each
        task, in all of them, in one and no other. With "learned" also `other strengths`: that it is in all
        tasks, among the same parents, which have other strengths. What depends on a column that a task lacks
        is NaN. The basis is "joint" for "learned" and "theorem1", "one network for all" for "pool" and
        "product of marginals" otherwise. With "theorem1" each task has its
        own view of what all tasks share, `shared from <task>`; `shared` is the smallest of these.
    connections_ : DataFrame
        The same for connections, which are edges in either direction, with the columns first and second in
        place of source and target. Compare tasks by these where the data do not determine directions.
    relatedness_ : DataFrame
        With "learned", the probability that two tasks are related, task by task.
    ways_ : dict
        With "learned", the expected share of pairs of tasks that are separate, of one population, of the same
        network, or of networks that deviate from a common one.
    mechanisms_ : DataFrame
        With "learned" and joint probabilities, how each variable depends on its parents in all tasks: `same`,
        the probability of the same parents and the same strengths, or of no parents; `other strengths`, that
        of the same parents only; `other parents`, that tasks differ in the parents themselves.
    task_scores_ : TaskScores
        With "learned", the scores of each task's families.
    graph_ : Graph
        The same of the mean probabilities over the tasks, each pair over those that have both columns.
    unknown_pairs_ : tuple of pairs of str
        The pairs of columns that no task has both of; there is nothing in `graph_` between them.
    candidates_ : DataFrame
        variable, candidates, best_left_out (the largest gain, in any task, of a variable that is not a
        candidate); empty where all variables are candidates.

    References
    ----------
    Oyen, D. and Lane, T. (2012). Leveraging domain knowledge in multitask Bayesian network structure
    learning. AAAI.
    Oyen, D. and Lane, T. (2013). Bayesian discovery of multiple Bayesian networks via transfer learning.
    ICDM.
    Oyen, D. and Lane, T. (2015). Transfer learning for Bayesian discovery of multiple Bayesian networks.
    Knowledge and Information Systems.

    Examples
    --------
    >>> from polydag.embedded import asia
    >>> clinic = asia()
    >>> tables = [clinic.sample(100, random_state=0), clinic.related(0.3, 3).sample(80, random_state=1)]
    >>> model = MultitaskDiscovery(max_parents=2).fit(tables)
    >>> round(float(model.posteriors_[0].edges.loc["bronc", "dysp"]), 2)
    0.98
    """

    constraints: ClassVar[Mapping[str, Constraint]] = {
        **POSTERIOR_CONSTRAINTS,
        "transfer": one_of(*TRANSFERS),
        "similarity": Instance(Similarity, "a polydag.Similarity"),
    }

    tasks_: tuple[str, ...]
    criterion_: str
    posteriors_: list[Posterior]
    graphs_: list[Graph]
    differences_: pd.DataFrame
    connections_: pd.DataFrame
    candidates_: pd.DataFrame
    n_rows_: dict[str, float]
    relatedness_: pd.DataFrame
    ways_: dict[str, float]
    mechanisms_: pd.DataFrame
    task_scores_: TaskScores

    def __init__(
        self,
        *,
        transfer: str = "learned",
        similarity: Similarity = DEFAULT_SIMILARITY,
        criterion: str = "auto",
        criterion_options: Mapping[str, Any] | None = None,
        structure_prior: str = "fair",
        max_parents: int = 3,
        method: str = "auto",
        chains: Chains = DEFAULT_CHAINS,
        edge_prior: Any = None,
        equivalent_sample_size: float = 4.0,
        max_candidates: int | Literal["auto"] | None = "auto",
        discretize: str | None = None,
        threshold: float = 0.5,
        memory: float | None = None,
        knowledge: Knowledge | Mapping[str, Knowledge] | None = None,
        n_jobs: int = 1,
        random_state: int | None = None,
    ) -> None:
        self.transfer = transfer
        self.similarity = similarity
        self.criterion = criterion
        self.criterion_options = criterion_options
        self.structure_prior = structure_prior
        self.max_parents = max_parents
        self.method = method
        self.chains = chains
        self.edge_prior = edge_prior
        self.equivalent_sample_size = equivalent_sample_size
        self.max_candidates = max_candidates
        self.discretize = discretize
        self.threshold = threshold
        self.memory = memory
        self.knowledge = knowledge
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Tasks | Iterable[Any] | Mapping[str, Any], y: None = None) -> Self:
        """Learn from `Tasks`, or from a list or mapping of tables, one per task; `y` is ignored.

        A table is a DataFrame, an array, a `Table`, statistics, or any other source. Tables may differ in the
        number of rows. With `transfer="learned"` a task may lack columns that others have: its network is
        then over its own columns. All other forms need the same columns in all tasks.
        """
        return super().fit(X)

    def _source(self, X: Any) -> Tasks:
        return X if isinstance(X, Tasks) else Tasks(X)

    def _fit(self, source: Tasks) -> None:
        transfer = self._transfer(len(source))
        stats = self._statistics(source, may_lack=transfer == "learned")
        names = columns_of_all(part.names for part in stats)
        lacking = any(len(part.names) < len(names) for part in stats)
        self._own = [part.names for part in stats] if lacking else [names] * len(source)
        priors = TaskPriors.of(self.structure_prior, self.edge_prior, self.knowledge, tuple(source), names)
        for name in ("relatedness_", "ways_", "mechanisms_", "task_scores_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        # Refused before a long computation.
        self._require_fit(transfer, len(names), len(stats))
        if transfer == "pool" and priors.differ:
            raise UsageError("transfer='pool' learns one network, which cannot have a prior for each task.")
        self.n_rows_ = {name: float(table.n) for name, table in source.items()}
        self._statistics_by_task, self._priors = stats, priors
        scores = [posterior_score(self, part) for part in stats]
        self.notes_ = (*self.notes_, *lacking_notes(tuple(source), self._own, names))
        if not lacking:
            plain, pruned = tables_of(
                scores, self.max_parents, self.max_candidates, priors.candidates, self.n_jobs
            )
        else:
            require_all_candidates(len(names), self.max_parents, self.max_candidates)
            plain, pruned = [table_over(names, own, self.max_parents, self.n_jobs) for own in scores], None
        self.candidates_ = candidate_table(pruned, names)
        self.tasks_ = tuple(source)
        if transfer == "learned":
            found = self._learned(plain, stats, lacking)
        else:
            own = [priors.with_prior(table, k) for k, table in enumerate(plain)]
            sources = [priors.allowed(table, k) for k, table in enumerate(plain)]
            if transfer == "family":
                own = family_form(own, sources, self.similarity.of_pairs, self.similarity.combination)
            joint = transfer == "theorem1"
            found = (
                self._joint(own, sources, names) if joint else self._separate(own, names, transfer == "pool")
            )
        self._finish(found, names)

    def difference(
        self, first: int | str, second: int | str, *, of: Literal["edges", "connections"] = "edges"
    ) -> pd.DataFrame:
        """As `differences_`, or `connections_`, for two tasks.

        Tasks are given by name, or by number from 0 where that is not the name of a task.
        """
        if not hasattr(self, "tasks_"):
            raise UsageError("There are no tasks to compare: call fit first.")
        if len(self.tasks_) < 2:
            raise UsageError(f"There is nothing to compare: {self.tasks_[0]} is the only task.")
        a, b = self.number(first), self.number(second)
        if a == b:
            raise UsageError(f"Two different tasks are needed; {first!r} and {second!r} are the same.")
        if of not in ("edges", "connections"):
            raise UsageError(f"Tasks differ in 'edges' or in 'connections'; got {of!r}.")
        found = self._differences if of == "edges" else self._differences.connections()
        return found.pair(a, b)

    def sample_dags(
        self, count: int = 1000, *, view: int | str | None = None, random_state: int | None = None
    ) -> list[DagSamples]:
        """DAGs of all tasks, drawn together: one `DagSamples` for each task, in the order of `tasks_`.

        The DAGs at the same place belong together, so that any property of several tasks' networks can be
        counted. With "theorem1" each task has a view of its own, and `view` says whose is meant. Tasks that
        were learned separately ("none", "family", "learned" for many variables) are drawn independently.
        """
        if not hasattr(self, "tasks_"):
            raise UsageError("There are no tasks to draw: call fit first.")
        first = self._whole[0]
        if not isinstance(first, TaskPosterior):
            return self._among_own(independent(self._whole, count, random_state))
        by_view = isinstance(first.networks, Theorem1Networks)
        if by_view and view is None:
            raise UsageError(
                "With transfer='theorem1' each task has its own view of all tasks: name one as view."
            )
        own = self._whole[self.number(view)] if by_view and view is not None else first
        assert isinstance(own, TaskPosterior)
        assert own.networks is not None
        return self._among_own(own.networks.sample(count, random_state))

    def _among_own(self, drawn: list[DagSamples]) -> list[DagSamples]:
        """Of each task, what is left among the columns that it has."""
        return [
            dags if len(own) == len(dags.names) else among(dags, own)
            for dags, own in zip(drawn, self._own, strict=True)
        ]

    def power(
        self,
        task: int | str,
        like: int | str,
        *,
        n_samples: int = 20,
        random_state: int | None = 0,
    ) -> pd.DataFrame | None:
        """How often samples of a task's size would show the connections of another task.

        A connection that is found in one task and not in another may be absent there, or there may be too few
        rows to show it. Samples with as many rows as `task` has are drawn from the distribution of `like`,
        and `power` is the share of them in which a connection is found: its probability, from that sample
        alone, is above one half. The columns are first, second and power. None where no such samples can be
        drawn: with interventions, with mixed columns, where the tasks' columns differ, for more variables
        than exact sums are for.
        """
        number, other = self.number(task), self.number(like)
        n = round(self.n_rows_[self.tasks_[number]])
        names = tuple(self.feature_names_in_)
        differ = self._own[number] != names or self._own[other] != names
        if differ or not fits(len(names), self._memory()) or self.transfer == "pool":
            return None
        table = partial(self._prior_table, number)
        found = found_share(self._statistics_by_task[other], n, table, n_samples, random_state)
        if found is None:
            return None
        i, j = np.triu_indices(len(names), 1)
        labels = np.array(names, dtype=object)
        return pd.DataFrame({"first": labels[i], "second": labels[j], "power": found[i, j]})

    def number(self, task: int | str) -> int:
        """The place of a task in `tasks_`, from 0."""
        if str(task) in self.tasks_:
            return self.tasks_.index(str(task))
        whole = isinstance(task, (int, np.integer)) and not isinstance(task, bool)
        if whole and 0 <= int(task) < len(self.tasks_):
            return int(task)
        raise UsageError(f"There is no task {task!r}. The tasks are {', '.join(self.tasks_)}.")

    def _transfer(self, n_tasks: int) -> str:
        if self.transfer not in ASSUMES_SIMILARITY and self.similarity != DEFAULT_SIMILARITY:
            raise UsageError(
                f"similarity has no effect with transfer={self.transfer!r}: leave it out, or use "
                "transfer='family' or 'theorem1'."
            )
        if n_tasks > 1:
            return self.transfer
        warnings.warn(
            "There is only one task, so nothing can be transferred: this is single-task learning.",
            DataWarning,
            stacklevel=4,
        )
        return "none"

    def _require_fit(self, transfer: str, n: int, tasks: int) -> None:
        if transfer == "theorem1":
            if self.method == "mcmc":
                raise UsageError(
                    "transfer='theorem1' is always exact; use transfer='family' with method='mcmc'."
                )
            require_joint_fit(n, tasks, self._memory())
        elif transfer == "learned" and self.method == "exact":
            require_joint_memory(n, self._memory())
        elif self.method == "exact":
            require_fit(n, self._memory())

    def _statistics(self, tasks: Tasks, *, may_lack: bool) -> list[Any]:
        self.criterion_ = chosen_criterion(self, tasks)
        self.notes_ = criterion_notes(self)
        kind = kind_of(self.criterion_) or "numbers"
        self.kinds_ = used_kinds(tasks, kind)
        if kind == "labels":
            counts = task_counts(tasks, self.criterion_, self.discretize, may_lack=may_lack)
            return [pooled(counts)] if self.transfer == "pool" else counts
        if kind == "mixed":
            stats = task_mixed(tasks, resolve(self.criterion_, "mixed").needs, may_lack=may_lack)
        else:
            stats = task_statistics(tasks, may_lack=may_lack)
        return [pooled(stats)] if self.transfer == "pool" else list(stats)

    def _memory(self) -> float | None:
        return None if self.memory is None else self.memory * 1e9

    def _prior_table(self, task: int, stats: Any) -> FamilyTable:
        """The families of some statistics, with a task's prior, by themselves."""
        masks = self._priors.masks[task]
        (table,), _ = tables_of([posterior_score(self, stats)], self.max_parents, None, masks, self.n_jobs)
        return self._priors.with_prior(table, task)

    def _learned(self, plain: list[FamilyTable], stats: list[Any], lacking: bool) -> Differences:
        """Tasks in groups that are learned."""
        first, kind, differ = plain[0], kind_of(self.criterion_) or "numbers", self._priors.differ
        none = first.with_scores(np.zeros_like(first.scores))
        weights = self._priors.weights(none)
        ruled_out = not np.isfinite(weights[0].scores).all()
        self.task_scores_ = TaskScores(
            partial(posterior_score, self), kind, stats, plain, weights, self.n_jobs
        )
        how = Learning(self.method, self.chains, self.n_jobs, self._memory(), self.random_state)
        found = how.learn(
            self._priors.of_common(none),
            self.task_scores_,
            normal=weights if differ else weights[:1] if ruled_out else (),
            one_population=not lacking,
            strengths=None if differ or lacking else self._strengths(first, stats),
        )
        self.relatedness_ = pd.DataFrame(
            found.relatedness, index=list(self.tasks_), columns=list(self.tasks_)
        )
        if found.related is None:
            return self._separate(list(found.tables), first.names, one_for_all=False)
        self.ways_, self.mechanisms_ = found.related.ways, found.related.mechanisms()
        self.posteriors_ = list(found.posteriors)
        return from_related(first.names, self.tasks_, found.related)

    def _strengths(self, table: FamilyTable, stats: list[Any]) -> SharedStrengths | None:
        """How tasks may share strengths in part; for labels scored by BDeu, and more than two tasks."""
        if self.criterion_ != "bdeu" or len(stats) < 3:
            return None
        options = {"equivalent_sample_size": self.equivalent_sample_size, **(self.criterion_options or {})}
        return SharedStrengths.of(table, stats, float(options["equivalent_sample_size"]))

    def _joint(
        self, own: list[FamilyTable], sources: list[FamilyTable], names: tuple[str, ...]
    ) -> Differences:
        views = theorem1(
            own,
            sources,
            self.similarity.of_pairs,
            self.similarity.combination,
            n_jobs=self.n_jobs,
            memory=self._memory(),
        )
        self.posteriors_ = [view.posterior for view in views]
        return from_joint(names, self.tasks_, views)

    def _separate(self, tables: list[FamilyTable], names: tuple[str, ...], one_for_all: bool) -> Differences:
        """The posterior of each table on its own; a pooled table stands for every task."""
        found: list[Posterior] = []
        for k, table in enumerate(tables):
            task = "all rows" if one_for_all else self.tasks_[k]
            report("tasks", k, len(tables), task)
            found.append(self._posterior(table, task))
        report("tasks", len(tables), len(tables))
        self.posteriors_ = found * len(self.tasks_) if one_for_all else found
        edges: Array = np.array([posterior.probabilities for posterior in self.posteriors_])
        return (from_pool if one_for_all else from_marginals)(names, self.tasks_, edges)

    def _posterior(self, table: FamilyTable, task: str) -> Posterior:
        exact = self.method == "exact" or (self.method == "auto" and fits(table.n, self._memory()))
        if exact:
            return exact_posterior(table, n_jobs=self.n_jobs, memory=self._memory())
        return mcmc_posterior(
            table,
            chains=self.chains,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
            name=f"chains {task}",
        )

    def _finish(self, found: Differences, names: tuple[str, ...]) -> None:
        known = known_pairs(names, self._own)
        mean = mean_of_known(found.edges, known)
        self._whole = self.posteriors_
        if not known.all():
            found = known_differences(found, known)
            self.posteriors_ = [
                whole if own == names else OwnPosterior.of(whole, own)
                for whole, own in zip(self._whole, self._own, strict=True)
            ]
        self._differences = found
        self.differences_, self.connections_ = found.table(), found.connections().table()
        self.graphs_ = []
        removed: list[tuple[Edge, str]] = []
        for task, posterior, masks in zip(self.tasks_, self.posteriors_, self._priors.masks, strict=True):
            own = [names.index(name) for name in posterior.names]
            graph, edges = posterior.confidence.graph(self.threshold, keep=masks.required[np.ix_(own, own)])
            self.graphs_.append(graph)
            removed += [(edge, f"part of a cycle in {task}") for edge in edges]
        required = self._priors.common.required
        graph, edges = Posterior(names, mean, "mean").confidence.graph(self.threshold, keep=required)
        removed += [(edge, "part of a cycle in the mean") for edge in edges]
        unmixed = [
            task
            for task, posterior in zip(self.tasks_, self._whole, strict=True)
            if isinstance(posterior, McmcPosterior | JointChainPosterior) and not posterior.mixed
        ]
        history = histories(self.tasks_, self._whole)
        self._keep(
            graph,
            raw_weights=mean,
            history=history,
            pruned=removed,
            converged=not unmixed,
            n_iter=int(sum(row.get("steps", 1) for row in history)),
        )
        if unmixed:
            warnings.warn(
                f"The chains of {', '.join(unmixed)} have not mixed: do not rely on these probabilities. Use "
                "more steps (n_steps) or larger buckets (bucket_size).",
                ConvergenceWarning,
                stacklevel=4,
            )
