"""Summed moments under noise, for any learner that works from moments."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from polydag.errors import DataWarning, UsageError
from polydag.federated.each_party import for_each_party
from polydag.federated.methods.private.party import MOMENTS, private_party
from polydag.federated.methods.private.plan import NoisePlan, WhiteningSearch, moment_plan
from polydag.federated.methods.statistics.moments import Moments
from polydag.federated.protocol.programs import Answer, Ask, State, Total, majority_columns
from polydag.federated.session import Outcome, run_study
from polydag.privacy.dp.whitening import Whitening
from polydag.privacy.settings import Privacy
from polydag.stats import GaussianStats

_FEW = 5  # rows per column, below which a graph means little


@dataclass(frozen=True, eq=False)
class PrivateMoments(Moments):
    """The coordinator's side; its answer reads like that of exact moments."""

    plan: NoisePlan | None = None

    @property
    def _search(self) -> WhiteningSearch:
        assert self.plan is not None
        return WhiteningSearch(self.names, self.plan)

    def begin(self) -> tuple[State, Ask]:
        """The search for a whitening."""
        return self._search.begin()

    def advance(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        """The whitening, then the moments in it, converted to statistics in the original units."""
        if str(state["phase"]) != MOMENTS:
            found = self._search.advance(state, total)
            return self._search.ask({}, MOMENTS, found[0]) if isinstance(found[0], Whitening) else found
        whitening = self._search.whitening(state)
        deviation = self._search.moment_deviation(MOMENTS, total.n_sites, whitening)
        moments = whitening.moments_from(total.arrays["moments"], deviation)
        n, mean, covariance = whitening.original_moments(moments)
        return state, Answer(
            {
                "pooled_scale": np.sqrt(covariance.diagonal()),
                "rows[]": np.array([n, n]),
                "mean[]": mean,
                "scatter[]": n * covariance,
            }
        )


def summed_private_moments(
    rows: Mapping[str, Any], privacy: Privacy, *, min_rows: int = 1, key: str = ""
) -> tuple[GaussianStats, Outcome]:
    """The moments of all parties' rows, under noise.

    The number of rows of the result is an effective one: noise makes the moments as inaccurate as fewer rows
    would.

    Parameters
    ----------
    rows : mapping of party to table
        A DataFrame, an array, a `polydag.data.Table` or a source with rows.
    privacy : Privacy
        With `epsilon`.
    min_rows, key
        As for `run_study`.
    """
    if privacy.epsilon is None:
        raise UsageError("Private moments need Privacy(epsilon=…).")
    parties = for_each_party(rows, private_party)
    names = majority_columns(party.names for party in parties.values())
    program = PrivateMoments(names, plan=moment_plan(privacy, names))
    outcome = run_study(program, parties, privacy, min_rows=min_rows, key=key)
    statistics = program.statistics(outcome.result)
    assert isinstance(statistics, GaussianStats)
    if statistics.n < _FEW * len(names):
        warnings.warn(
            f"Noise for epsilon = {privacy.epsilon:g} leaves as much information as {statistics.n:.0f} rows: "
            "a graph learned from it means little. Use more rows, a larger epsilon, fewer columns, or give "
            "bounds=.",
            DataWarning,
            stacklevel=2,
        )
    return statistics, outcome
