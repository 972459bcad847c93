"""How the chains of several tasks went, task by task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polydag.posterior.joint_chains.related_chains import JointChainPosterior
from polydag.posterior.mcmc.order_posterior import McmcPosterior
from polydag.posterior.probabilities import Posterior


def histories(tasks: Sequence[str], posteriors: Sequence[Posterior]) -> list[dict[str, Any]]:
    """The rounds of the chains of all tasks; those that were sampled together are listed once."""
    if isinstance(posteriors[0], JointChainPosterior):
        rounds = posteriors[0].history.to_dict("records")
        return [{"task": " + ".join(tasks[k] for k in row.pop("members")), **row} for row in rounds]
    return [
        row for task, posterior in zip(tasks, posteriors, strict=True) for row in _history(task, posterior)
    ]


def _history(task: str, posterior: Posterior) -> list[dict[str, Any]]:
    """One row for each round of a task's chains, or one row where the posterior is exact."""
    if isinstance(posterior, McmcPosterior):
        rounds = posterior.history.to_dict("records")
        return [{"task": task, **{str(name): value for name, value in row.items()}} for row in rounds]
    return [{"task": task, "log_evidence": posterior.log_evidence}]
