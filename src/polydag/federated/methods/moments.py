"""Section 4 of the paper: summed sufficient statistics, for any learner that works from moments.

The sum of the parties' statistics about a common centre is that of the pooled rows, so the result is that of
pooling. The centre is zero, and one round suffices. Sums of squares about zero lose digits where means are
large compared to standard deviations; only where more than four digits are lost, a second round is about the
means. Rows that are linked within a party come decorrelated: their mean is a generalised least-squares one,
and what it weighs (`mass`, the number of rows where these are independent) is summed beside their number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from polydag.arrays import Array
from polydag.errors import DataError, UsageError
from polydag.federated.models.linear_party import LinearParty
from polydag.federated.models.regimes import known_regimes, regime_label, require_rows
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Answer, Ask, State, Total, majority_columns
from polydag.federated.session import Outcome, run_study
from polydag.privacy.settings import Privacy
from polydag.stats import GaussianStats, Regimes

_LOST = 1e4  # the squared mean over the variance, the factor by which rounding errors about zero are larger
Statistics = dict[frozenset[str], GaussianStats]


@dataclass(frozen=True, eq=False)
class Moments:
    """The coordinator's side; its answer holds the pooled statistics, which `statistics` reads."""

    names: tuple[str, ...]
    regimes: tuple[frozenset[str], ...] = (frozenset(),)

    @property
    def tolerates_absence(self) -> bool:
        """The two sums, where both are needed, must be over the same parties."""
        return False

    def begin(self) -> tuple[State, Ask]:
        """Ask for statistics about zero."""
        return self._about(np.zeros((len(self.regimes), len(self.names))))

    def _about(self, centre: Array) -> tuple[State, Ask]:
        meta = {"columns": list(self.names), "regimes": [sorted(targets) for targets in self.regimes]}
        return {"centre": centre}, Ask("scatter", {"centre": centre}, meta, returns=self._returned())

    def advance(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        """The statistics; about the means where digits were lost about zero."""
        stats = self._statistics(state["centre"], total.arrays)
        scored = [[part.n for targets, part in stats.items() if name not in targets] for name in self.names]
        require_rows(self.names, np.arange(len(self.names)), np.array([sum(rows, 0.0) for rows in scored]))
        if not state["centre"].any() and any(map(_lost_digits, stats.values())):
            means = {targets: part.mean for targets, part in stats.items()}
            none = np.zeros(len(self.names))
            return self._about(np.array([means.get(targets, none) for targets in self.regimes]))
        variance = np.maximum(reduce(add, stats.values()).covariance.diagonal(), 0.0)
        arrays = {"pooled_scale": np.sqrt(variance), "log_scales": total.arrays["log_scales"]}
        for targets, part in stats.items():
            label = regime_label(targets)
            arrays[f"rows[{label}]"] = np.array([part.n, part.mass])
            arrays[f"mean[{label}]"] = part.mean
            arrays[f"scatter[{label}]"] = part.scatter
        return state, Answer(arrays)

    def _returned(self) -> dict[str, tuple[int, ...]]:
        d = len(self.names)
        shapes = {"rows": (2,), "sums": (d,), "scatter": (d, d)}
        labels = [regime_label(targets) for targets in self.regimes]
        each = {f"{name}[{label}]": shape for label in labels for name, shape in shapes.items()}
        return {**each, "log_scales": (3, d)}

    def _statistics(self, centre: Array, arrays: Arrays) -> Statistics:
        parts: Statistics = {}
        for targets, about in zip(self.regimes, centre, strict=True):
            label = regime_label(targets)
            n, mass = map(float, arrays[f"rows[{label}]"])
            if n > 0:
                off = arrays[f"sums[{label}]"] / mass
                scatter = arrays[f"scatter[{label}]"] - mass * np.outer(off, off)
                parts[targets] = GaussianStats(n, about + off, scatter, self.names, mass)
        if not parts:
            raise DataError("No party has any rows.")
        return parts

    def statistics(self, result: Arrays) -> GaussianStats | Regimes[GaussianStats]:
        """The pooled statistics of an answer."""
        parts = {}
        for targets in self.regimes:
            label = regime_label(targets)
            if f"rows[{label}]" in result:
                n, mass = map(float, result[f"rows[{label}]"])
                mean, scatter = result[f"mean[{label}]"], result[f"scatter[{label}]"]
                parts[targets] = GaussianStats(n, mean, scatter, self.names, mass)
        if list(parts) == [frozenset()]:
            return parts[frozenset()]
        return Regimes(parts)


def _lost_digits(stats: GaussianStats) -> bool:
    return bool((stats.mean**2 > _LOST * stats.covariance.diagonal()).any())


def summed_moments(
    statistics: Mapping[str, GaussianStats | Regimes[GaussianStats]],
    privacy: Privacy,
    *,
    min_rows: int = 1,
    key: str = "",
) -> tuple[GaussianStats | Regimes[GaussianStats], Outcome]:
    """The statistics of all parties' rows, as if they were pooled.

    Parameters
    ----------
    statistics : mapping of party to GaussianStats or Regimes
        The statistics of each party's rows, per set of intervened variables where these are known.
    privacy : Privacy
        How sums are protected; for `epsilon` see `private.moments.summed_private_moments`.
    min_rows, key
        As for `run_study`.

    Examples
    --------
    >>> from polydag import simulate
    >>> rows = simulate.linear(simulate.dag(3, expected_edges=2, random_state=0), n=60, random_state=0)
    >>> parts = {f"party {k}": GaussianStats.from_data(rows.iloc[k::3]) for k in range(3)}
    >>> pooled, outcome = summed_moments(parts, Privacy())
    >>> pooled.n, outcome.n_rounds, bool(outcome.disclosure["masked"].all())
    (60.0, 1, True)
    """
    if privacy.epsilon is not None:
        raise UsageError(
            "Differential privacy bounds the effect of each row, so it needs rows, not statistics."
        )
    parties = {name: LinearParty(own) for name, own in statistics.items()}
    names = majority_columns(party.names for party in parties.values())
    program = Moments(names, known_regimes(parties.values()))
    outcome = run_study(program, parties, privacy, min_rows=min_rows, key=key)
    return program.statistics(outcome.result), outcome
