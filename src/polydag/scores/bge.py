"""The Bayesian Gaussian equivalent score (Geiger and Heckerman 2002), as corrected by Kuipers et al. (2014).

Prior: mean `ν`, precision Wishart with `α_w` degrees of freedom and `T = t·I`, `t = α_μ(α_w-d-1)/(α_μ+1)`.
With `R = T + scatter` (the prior mean is put at the sample mean, so that shifting a column changes nothing),
a set `Y` of `l` out of `d` variables has the marginal likelihood

    (α_μ/(N+α_μ))^{l/2} π^{-lN/2} Γ_l((N+a)/2) / Γ_l(a/2) |T_Y|^{a/2} |R_Y|^{-(N+a)/2},  a = α_w - d + l,

and a family scores `log p(parents and node) - log p(parents)`. The prior is on the data's own scale:
standardise the columns first (`stats.standardized()`) unless their units are meant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from polydag.errors import UsageError
from polydag.scores.families import Array, Index, Mask, ParentSets
from polydag.scores.gaussian import GaussianGains, Source, log_determinant, node_groups, target_sets
from polydag.stats import GaussianStats


@dataclass(frozen=True, eq=False)
class BGe:
    """BGe from Gaussian statistics; with `Regimes`, each node is scored by the rows that did not set it.

    Parameters
    ----------
    stats : GaussianStats or Regimes of GaussianStats
        The data.
    alpha_mu : float
        How many rows the prior mean counts for.
    alpha_w : float, optional
        Degrees of freedom of the Wishart prior, above d + 1; d + alpha_mu + 1 by default.
    """

    stats: Source
    alpha_mu: float = 1.0
    alpha_w: float | None = None
    targets: tuple[frozenset[int], ...] = field(init=False, repr=False)
    groups: list[GaussianStats] = field(init=False, repr=False)
    _gains: GaussianGains = field(init=False, repr=False)
    dof: float = field(init=False, repr=False)
    _t: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        groups, group = node_groups(self.stats)
        d = len(self.names)
        dof = d + self.alpha_mu + 1 if self.alpha_w is None else float(self.alpha_w)
        if not (self.alpha_mu > 0 and dof > d + 1):
            raise UsageError(
                f"BGe needs alpha_mu > 0 and alpha_w > {d + 1} (the number of variables plus one); "
                f"got {self.alpha_mu} and {dof}."
            )
        object.__setattr__(self, "dof", dof)
        object.__setattr__(self, "_t", self.alpha_mu * (dof - d - 1) / (self.alpha_mu + 1))
        sizes = np.arange(d + 1)
        normaliser = [np.array([self.normaliser(part.n, int(k)) for k in sizes]) for part in groups]
        gains = GaussianGains(
            [part.scatter + self._t * np.eye(d) for part in groups],
            group,
            [np.append(np.diff(constant), 0.0) for constant in normaliser],
            [np.asarray(0.5 * (part.n + dof - d + sizes) + 1.0, dtype=float) for part in groups],
            half=1.0,
        )
        object.__setattr__(self, "targets", target_sets(self.stats))
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "_gains", gains)

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return self.stats.names

    @property
    def n(self) -> float:
        """The number of rows."""
        return self.stats.n

    @property
    def group(self) -> Index:
        """Which of `groups`, the statistics that score nodes, each node is scored by."""
        return self._gains.group

    @property
    def matrices(self) -> list[Array]:
        """R of each group."""
        return self._gains.matrices

    def normaliser(self, n: float, k: int) -> float:
        """What a family with k parents has besides determinants of R; the multivariate gammas telescope."""
        low = self.dof - len(self.names) + k + 1
        return (
            0.5 * math.log(self.alpha_mu / (n + self.alpha_mu))
            - 0.5 * n * math.log(math.pi)
            + math.lgamma(0.5 * (n + low))
            - math.lgamma(0.5 * low)
            + (0.5 * low + 0.5 * k) * math.log(self._t)
        )

    def local_score(self, node: int, parents: Sequence[int]) -> float:
        """The log marginal likelihood of `node` given its parents."""
        g = int(self._gains.group[node])
        R, n = self._gains.matrices[g], self.groups[g].n
        inner, outer = list(parents), [*parents, node]
        k = len(inner)
        power = n + self.dof - len(self.names) + k
        return (
            self.normaliser(n, k)
            + 0.5 * power * log_determinant(R[np.ix_(inner, inner)])
            - 0.5 * (power + 1) * log_determinant(R[np.ix_(outer, outer)])
        )

    def gains(
        self, node: int, candidates: Index, sets: ParentSets, wanted: Mask, positive_only: bool = False
    ) -> Array:
        """The gain of each candidate parent over each parent set."""
        return self._gains(node, candidates, sets, positive_only)
