"""Whether tasks differ at all: rows exchanged between tasks at random."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
from sklearn.base import clone

from polydag.arrays import Index
from polydag.computing.progress import report
from polydag.learners.posterior.criterion import chosen_criterion
from polydag.learners.posterior.multitask import MultitaskDiscovery
from polydag.posterior.probabilities import either_way
from polydag.scores import kind_of
from polydag.sources.gaps.moments import MULTIPLE
from polydag.sources.table import InMemory, as_frame
from polydag.sources.tasks import Tasks


def permutation_p_value(
    learner: MultitaskDiscovery, tasks: Tasks, n_permutations: int = 99, random_state: int | None = 0
) -> float | None:
    """The probability of as many differing connections if all rows were of one population.

    The statistic is the expected number of connections that one task has and another has not, over all pairs
    of tasks, each task learned alone; rows are exchanged between tasks, whose sizes stay. None where rows are
    not at hand, or were not drawn one by one (interventions, blocks), or labels are missing.

    Parameters
    ----------
    learner : MultitaskDiscovery
        The settings.
    tasks : Tasks
        The data.
    n_permutations : int
        How often rows are exchanged; the smallest p-value is 1 / (n_permutations + 1).
    """
    plain = {name: source for name, source in tasks.items() if isinstance(source, InMemory)}
    if len(plain) < len(tasks) or any(own.has_interventions or own.has_blocks for own in plain.values()):
        return None
    lacking = any(own.lacks_values for own in plain.values())
    if lacking and kind_of(chosen_criterion(learner, tasks)) == "labels":
        return None  # structural EM for every exchange takes too long
    frames = [as_frame(source.data) for source in plain.values()]
    ends = np.cumsum([len(frame) for frame in frames])[:-1]
    whole = pd.concat(frames, ignore_index=True)
    alone = clone(learner).set_params(transfer="none")
    rng = np.random.default_rng(random_state)

    def statistic(order: Index) -> float:
        parts = zip(plain.items(), np.split(order, ends), strict=True)
        tables = {
            name: InMemory(
                whole.iloc[rows],
                kinds=tasks.kinds,
                missing="em" if lacking and source.missing == MULTIPLE else source.missing,
            )
            for (name, source), rows in parts
        }
        found = alone.fit(Tasks(tables))
        P = [np.triu(either_way(own.probabilities), 1) for own in found.posteriors_]
        pairs = itertools.permutations(range(len(P)), 2)
        return float(sum((P[j] * (1.0 - P[k])).sum() for j, k in pairs))

    observed = statistic(np.arange(len(whole)))
    as_large = 0
    for done in range(n_permutations):
        report("permutations", done, n_permutations)
        as_large += statistic(rng.permutation(len(whole))) >= observed - 1e-9
    report("permutations", n_permutations, n_permutations)
    return (1 + as_large) / (1 + n_permutations)
