"""Which subjects a difference between two groups rests on."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from polydag.arrays import Array
from polydag.computing.progress import report
from polydag.errors import UsageError
from polydag.learners.posterior.multitask import MultitaskDiscovery
from polydag.posterior.transfer.connection_states import DifferenceOdds
from polydag.posterior.transfer.relatedness import Relatedness, RelatedNetworks
from polydag.sources.table import InMemory, as_frame
from polydag.sources.tasks import Tasks
from polydag.stats import DiscreteCounts, GaussianStats, MixedStats
from polydag.stats.mixed import with_indicators


def influence(
    model: MultitaskDiscovery,
    tasks: Tasks,
    first: str,
    second: str,
    *,
    only_in: int | str,
    subjects: Mapping[str, Sequence[Hashable]] | None = None,
) -> pd.DataFrame:
    """How much of the evidence for a difference between two groups each subject brings.

    The difference is that `first` and `second` are connected in the group `only_in` and not in the other.
    `influence` is by how much its log odds fall if the subject is left out: the scores without the subject
    are computed anew, and what follows for the odds is approximated, one variable at a time. It is positive
    for subjects that speak for the difference. One that rests on a few may be an error in the data.

    Parameters
    ----------
    model : MultitaskDiscovery
        Fitted to `tasks` with transfer="learned", exactly, two groups.
    tasks : Tasks
        The data.
    first, second : str
        The variables.
    only_in : int or str
        The group that has the connection.
    subjects : mapping of task to a label per row, optional
        Which rows are of one subject. By default each row is one.

    Returns
    -------
    DataFrame
        task, subject (the label in the table's index, or in `subjects`), rows, influence; the largest first.
        The log odds of the difference are in `attrs["log_odds"]`.
    """
    learner = _learner(model)
    names = [str(name) for name in model.feature_names_in_]
    if unknown := [name for name in (first, second) if name not in names]:
        raise UsageError(f"{unknown[0]} is not a variable. The variables are {', '.join(names)}.")
    i, j = names.index(first), names.index(second)
    number = model.number(only_in)
    frames = [_frame(task, source) for task, source in tasks.items()]
    if tuple(tasks) != model.tasks_:
        raise UsageError(f"The model was fitted to {', '.join(model.tasks_)}; got {', '.join(tasks)}.")
    odds = DifferenceOdds(learner, i, j, number)
    whole = [table.scores for table in learner.tasks]
    pooled = None if learner.pooled is None else learner.pooled((0, 1)).scores
    rows: list[dict[str, Any]] = []
    total = sum(len(frame) for frame in frames)
    known: dict[bytes, float] = {}
    for k, (task, frame) in enumerate(zip(tasks, frames, strict=True)):
        own = frame[names]
        for subject, where in _subjects(task, frame, None if subjects is None else subjects.get(task)):
            report("influence", len(rows), total, f"{task}: {subject}")
            key = bytes([k]) + np.sort(_hashes(own.iloc[where])).tobytes()
            if key not in known:
                known[key] = _fall(model, odds, own, where, k, whole[k], pooled)
            rows.append({"task": task, "subject": subject, "rows": len(where), "influence": known[key]})
    report("influence", total, total)
    found = pd.DataFrame(rows).sort_values("influence", ascending=False, kind="stable", ignore_index=True)
    found.attrs["log_odds"] = odds.log_odds
    return found


def _fall(
    model: MultitaskDiscovery,
    odds: DifferenceOdds,
    frame: pd.DataFrame,
    where: Sequence[int],
    k: int,
    own: Array,
    pooled: Array | None,
) -> float:
    """By how much the log odds fall without some rows of task k."""
    kept = np.ones(len(frame))
    kept[list(where)] = 0.0
    scores = model.task_scores_
    without = scores.replaced(k, _weighted(scores.stats[k], frame, kept))
    change = _change(own, without.own[k].scores)
    both = np.zeros_like(change) if pooled is None else _change(pooled, without.pooled((0, 1)).scores)
    return odds.log_odds - odds.without(k, change, both)


def _change(before: Array, after: Array) -> Array:
    """Of scores; 0 where families are ruled out."""
    usable = np.isfinite(before) & np.isfinite(after)
    return np.subtract(after, before, out=np.zeros_like(before), where=usable)


def _weighted(like: Any, frame: pd.DataFrame, weights: Array) -> Any:
    """The statistics of weighted rows, with the levels of all rows."""
    if isinstance(like, DiscreteCounts):
        levels = dict(zip(like.names, like.levels, strict=True))
        return DiscreteCounts.from_data(frame, levels=levels, weights=weights)
    if isinstance(like, MixedStats):
        moments = GaussianStats.from_data(with_indicators(frame, like.levels), weights=weights)
        return MixedStats(like.names, like.levels, moments)
    return GaussianStats.from_data(frame, weights=weights)


def _learner(model: MultitaskDiscovery) -> Relatedness:
    """What learned the groups, exactly."""
    if not hasattr(model, "posteriors_"):
        raise UsageError("There are no differences yet: call fit first.")
    if len(model.tasks_) != 2:
        raise UsageError(
            f"Influence is on a difference of two groups; the model has {len(model.tasks_)}. Fit two of them."
        )
    networks = getattr(model.posteriors_[0], "networks", None)
    learner = networks.learner if isinstance(networks, RelatedNetworks) else None
    if not isinstance(learner, Relatedness):
        raise UsageError(
            "Influence needs exact joint probabilities: transfer='learned', and no more variables than exact "
            "sums are for."
        )
    if any(len(own.names) < len(model.feature_names_in_) for own in model.posteriors_):
        raise UsageError("Influence needs the same columns in both groups.")
    if len(learner.normal) > 1:
        raise UsageError("Influence needs the same prior in all tasks: without a mapping of tasks to priors.")
    return learner


def _frame(task: str, source: Any) -> pd.DataFrame:
    if not isinstance(source, InMemory) or source.has_interventions or source.has_blocks:
        raise UsageError(f"Influence needs independent rows without interventions; {task} has none.")
    return as_frame(source.data)


def _subjects(
    task: str, frame: pd.DataFrame, labels: Sequence[Hashable] | None
) -> list[tuple[Hashable, list[int]]]:
    """Each subject's rows."""
    if labels is None:
        return [(label, [number]) for number, label in enumerate(frame.index)]
    if len(labels) != len(frame):
        raise UsageError(f"{task} has {len(frame)} rows, and {len(labels)} labels of subjects.")
    where: dict[Hashable, list[int]] = {}
    for number, label in enumerate(labels):
        where.setdefault(label, []).append(number)
    return list(where.items())


def _hashes(rows: pd.DataFrame) -> Any:
    return pd.util.hash_pandas_object(rows, index=False).to_numpy()
