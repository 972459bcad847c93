"""Section 4 of the paper: summed sufficient statistics, for any learner that works from moments.

The sum of the parties' statistics about a common centre is that of the pooled rows, so the result is that of
pooling, once each party has adjusted its rows for `site_effects`. What it takes to compare the parties is
part of the same sum. The centre is zero, and one round suffices. Sums of squares about zero lose digits where
means are large compared to standard deviations; only where more than four digits are lost, a second round is
about the means. A random intercept takes two rounds more: its size follows from the scatter of rows as they
are and about their party's mean. Rows that are linked within a party come decorrelated: their mean is a
generalised least-squares one, and what it weighs (`mass`, the number of rows where these are independent) is
summed beside their number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from polydag.arrays import Array
from polydag.errors import DataError, UsageError
from polydag.federated.models.linear_party import LinearParty
from polydag.federated.party_data.regimes import known_regimes, regime_label, require_rows
from polydag.federated.party_data.site_comparison import Comparison, comparison_shapes
from polydag.federated.party_data.site_effects import (
    OVERALL,
    RANDOM_UNDER_INTERVENTION,
    UNCHANGED,
    Adjustment,
)
from polydag.federated.party_data.triangles import symmetric, triangle_size
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Answer, Ask, State, Total, majority_columns
from polydag.federated.session import Outcome, run_study
from polydag.privacy.settings import Privacy
from polydag.stats import GaussianStats, Regimes

TOTAL, CORRELATION = "total", "correlation"
_UNIT = 16  # a power of two: logarithms times rows, in which only factors count, fit into single words
_LOST = 1e4  # the squared mean over the variance, the factor by which rounding errors about zero are larger
Statistics = dict[frozenset[str], GaussianStats]


@dataclass(frozen=True, eq=False)
class Moments:
    """The coordinator's side; its answer holds the pooled statistics, which `statistics` reads.

    Parameters
    ----------
    names : tuple of str
        The columns.
    regimes : tuple of sets of str
        The sets of variables that were set by intervention anywhere.
    site_effects : {"none", "means", "means and scales", "random"}
        What each party takes out of its rows first.
    """

    names: tuple[str, ...]
    regimes: tuple[frozenset[str], ...] = (frozenset(),)
    site_effects: str = "none"

    @property
    def tolerates_absence(self) -> bool:
        """The two sums, where both are needed, must be over the same parties."""
        return False

    @property
    def _weighted(self) -> bool:
        """Whether the scatter of rows divided by their party's overall spread is asked for as well."""
        return self.site_effects == "means" and self.regimes == (frozenset(),)

    def begin(self) -> tuple[State, Ask]:
        """Ask for statistics about zero."""
        d = len(self.names)
        adjustment = Adjustment.before_comparison(self.site_effects, d)
        return self._about(np.zeros((len(self.regimes), d)), np.zeros(d), adjustment)

    def _about(self, centre: Array, reference: Array, adjustment: Adjustment) -> tuple[State, Ask]:
        meta = {
            "columns": list(self.names),
            "regimes": [sorted(targets) for targets in self.regimes],
            "weighted": self._weighted,
            "narrow": {"log_scales": [_UNIT]},
        }
        arrays = {"centre": centre, "reference": reference, "adjustment": adjustment.array}
        return arrays, Ask("scatter", arrays, meta, returns=self._returned())

    def advance(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        """The statistics; about the means where digits were lost about zero."""
        adjustment = Adjustment.of(state["adjustment"])
        stats = self._statistics(state["centre"], total.arrays, adjustment)
        scored = [[part.n for targets, part in stats.items() if name not in targets] for name in self.names]
        require_rows(self.names, np.arange(len(self.names)), np.array([sum(rows, 0.0) for rows in scored]))
        compared = Comparison.of(self.names, total.arrays)
        first = not (state["centre"].any() or state["reference"].any())
        if first and (any(map(_lost_digits, stats.values())) or compared.lost_digits):
            means = {targets: part.mean for targets, part in stats.items()}
            none = np.zeros(len(self.names))
            centre = np.array([means.get(targets, none) for targets in self.regimes])
            return self._about(centre, compared.mean, adjustment)
        if self.site_effects == "random" and CORRELATION not in state:
            return self._random_intercept(state, next(iter(stats.values())), compared)
        stats = self._in_common_units(stats, total.arrays, compared)
        if adjustment.centres:  # the means that were taken out
            common = state["reference"] + compared.mean
            stats = {targets: replace(part, mean=part.mean + common) for targets, part in stats.items()}
        variance = np.maximum(reduce(add, stats.values()).covariance.diagonal(), 0.0)
        arrays = {"pooled_scale": np.sqrt(variance), "log_scales": total.arrays["log_scales"]}
        arrays |= compared.arrays
        if CORRELATION in state:
            arrays[CORRELATION] = state[CORRELATION]
        for targets, part in stats.items():
            label = regime_label(targets)
            arrays[f"rows[{label}]"] = np.array([part.n, part.mass])
            arrays[f"mean[{label}]"] = part.mean
            arrays[f"scatter[{label}]"] = part.scatter
        return state, Answer(arrays)

    def _random_intercept(self, state: State, part: GaussianStats, compared: Comparison) -> tuple[State, Ask]:
        """Ask for the rows about their party's mean after the rows as they are, then for what follows."""
        if TOTAL not in state:
            reference = state["reference"] + compared.mean
            centred = Adjustment(1.0, UNCHANGED, compared.log_scale)
            more, ask = self._about(np.zeros((1, len(self.names))), reference, centred)
            return {**more, TOTAL: part.scatter}, ask
        whole = replace(part, scatter=state[TOTAL])
        correlation = compared.correlation_within(part, whole)
        adjustment = Adjustment(correlation, UNCHANGED, compared.log_scale)
        more, ask = self._about(state["reference"][None], state["reference"], adjustment)
        return {**more, CORRELATION: np.array(correlation)}, ask

    def _in_common_units(self, stats: Statistics, arrays: Arrays, compared: Comparison) -> Statistics:
        """Statistics of rows that were divided by spreads, times the typical ones."""
        if self.site_effects == "means and scales":
            zero, scale = np.zeros(len(self.names)), np.exp(-compared.log_scale)
            return {targets: part.rescaled(zero, scale) for targets, part in stats.items()}
        if self._weighted and compared.adjustment("means").divisor == OVERALL:
            (part,) = stats.values()
            typical = float(np.exp(2 * compared.overall[1] / compared.overall[0]))
            weighted = symmetric(arrays["weighted scatter"], len(self.names))
            return {frozenset(): replace(part, scatter=weighted * typical)}
        return stats

    def _returned(self) -> dict[str, tuple[int, ...]]:
        d = len(self.names)
        shapes = {"rows": (2,), "sums": (d,), "scatter": (triangle_size(d),)}
        labels = [regime_label(targets) for targets in self.regimes]
        each = {f"{name}[{label}]": shape for label in labels for name, shape in shapes.items()}
        weighted = {"weighted scatter": (triangle_size(d),)} if self._weighted else {}
        return {**each, **weighted, "log_scales": (3, d), **comparison_shapes(d)}

    def _statistics(self, centre: Array, arrays: Arrays, adjustment: Adjustment) -> Statistics:
        parts: Statistics = {}
        for targets, about in zip(self.regimes, centre, strict=True):
            label = regime_label(targets)
            n, mass = map(float, arrays[f"rows[{label}]"])
            scatter = symmetric(arrays[f"scatter[{label}]"], len(self.names))
            if not (n > 0 or mass > 0):
                continue
            off = arrays[f"sums[{label}]"] / mass if mass > 0 else np.zeros(len(self.names))
            # A party that is centred counts one row less; the common mean is not lost.
            rows = n + 1 if adjustment.centres and not targets else n
            with np.errstate(over="ignore", invalid="ignore"):
                scatter = scatter - mass * np.outer(off, off)
            if not np.isfinite(scatter).all():
                raise DataError(
                    "The sums over the parties are too large: a party has sent no moments of data."
                )
            parts[targets] = GaussianStats(rows, about + off, scatter, self.names, mass)
        if not parts:
            raise DataError("No party has any rows.")
        if adjustment.centres and sum(part.n for part in parts.values()) < 2:
            raise DataError(
                "Every party has a single row, so centring within parties leaves nothing: use "
                "site_effects='random' or 'none'."
            )
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
    site_effects: str = "none",
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
    site_effects : {"none", "means", "means and scales", "random"}
        What each party takes out of its rows first.

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
    if site_effects == "random" and any(isinstance(own, Regimes) for own in statistics.values()):
        raise UsageError(RANDOM_UNDER_INTERVENTION)
    parties = {name: LinearParty(own) for name, own in statistics.items()}
    names = majority_columns(party.names for party in parties.values())
    program = Moments(names, known_regimes(parties.values()), site_effects)
    outcome = run_study(program, parties, privacy, min_rows=min_rows, key=key)
    return program.statistics(outcome.result), outcome
