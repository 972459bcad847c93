"""Tasks whose relatedness is learned: exactly where that fits, by Markov chains, or family by family."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from polydag.arrays import Array
from polydag.errors import DataWarning, UsageError
from polydag.learners.posterior.task_scores import TaskScores
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.joint_chains.related_chains import RelatedChains, chains_fit
from polydag.posterior.mcmc.chains import Chains
from polydag.posterior.probabilities import Posterior
from polydag.posterior.transfer import Relatedness
from polydag.posterior.transfer.common_network import joint_fits
from polydag.posterior.transfer.draws import TaskPosterior
from polydag.posterior.transfer.related_families import related_families
from polydag.posterior.transfer.relatedness import Related
from polydag.posterior.transfer.shared_strengths import SharedStrengths


@dataclass(frozen=True, eq=False)
class LearnedTasks:
    """What was learned of tasks that may be related.

    Attributes
    ----------
    relatedness : array of shape (tasks, tasks)
        The probability that two tasks are in one group.
    related : Related, optional
        The joint posterior. None where there is none: then tasks are learned from `tables`.
    posteriors : list of Posterior
        Of each task, where there is a joint posterior.
    tables : list of FamilyTable
        Otherwise, the families of each task with a prior that the related tasks inform.
    """

    relatedness: Array
    related: Related | None = None
    posteriors: Sequence[Posterior] = ()
    tables: Sequence[FamilyTable] = ()


@dataclass(frozen=True)
class Learning:
    """How tasks are learned: the settings of `MultitaskDiscovery` that matter for it."""

    method: str
    chains: Chains
    n_jobs: int
    memory: float | None
    random_state: int | None

    def learn(
        self,
        prior: FamilyTable,
        tasks: TaskScores,
        *,
        normal: Sequence[FamilyTable],
        one_population: bool,
        strengths: SharedStrengths | None,
    ) -> LearnedTasks:
        """Groups of tasks, and what follows for each task.

        Parameters
        ----------
        prior : FamilyTable
            The log prior of the network that tasks have in common.
        tasks : TaskScores
            The scores of their families.
        normal : sequence of FamilyTable
            As in `CommonNetwork`.
        one_population : bool
            Whether rows of different tasks may be of one population.
        strengths : SharedStrengths, optional
            How some of the tasks may share strengths.
        """
        first, K = tasks.tables[0], len(tasks.tables)
        pooled = tasks.pooled if one_population else None
        fits = joint_fits(first.n, K, first.max_parents, self.memory)
        if not first.is_pruned and (self.method == "exact" or (self.method == "auto" and fits)):
            learner = Relatedness(
                prior,
                tasks.own,
                pooled,
                normal=normal,
                strengths=strengths,
                n_jobs=self.n_jobs,
                memory=self.memory,
            )
            return _exact(first, learner.learn())
        if len(normal) > 1:
            raise UsageError(
                "With transfer='learned', priors that differ between tasks need exact joint probabilities, "
                f"which {K} tasks of {first.n} variables are too many for. Give all tasks the same prior, or "
                "use transfer='family' or 'none'."
            )
        size = (first.candidates.shape[1], first.max_parents)
        if self.method == "mcmc" or chains_fit(first.n, K, *size, self.memory):
            chains = RelatedChains(
                prior,
                tasks.own,
                pooled,
                self.chains,
                normal=normal,
                n_jobs=self.n_jobs,
                random_state=self.random_state,
            )
            found = chains.learn()
            return LearnedTasks(found.relatedness, found, chains.posteriors(found))
        warnings.warn(
            f"The joint posterior of {first.n} variables and {K} tasks is not computed: differences_ and "
            "connections_ multiply the tasks' own probabilities, which mistakes a lack of rows for a "
            "difference. Use method='mcmc' and have patience, compare fewer variables or tasks, or check "
            "connections with power().",
            DataWarning,
            stacklevel=5,
        )
        tables, relatedness = related_families(prior, tasks.own)
        return LearnedTasks(relatedness, tables=tables)


def _exact(table: FamilyTable, found: Related) -> LearnedTasks:
    posteriors = [
        TaskPosterior(
            table.names,
            P,
            "exact",
            candidates=table.candidates,
            sets=table.sets,
            family_probabilities=found.edges.families[k],
            log_evidence=found.edges.log_evidence,
            networks=found.networks,
            task=k,
        )
        for k, P in enumerate(found.edges.edges)
    ]
    return LearnedTasks(found.relatedness, found, posteriors)
