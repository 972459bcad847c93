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
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from polydag.errors import UsageError
from polydag.parameters import number, optional, setting
from polydag.scores.gaussian.form import GaussianTerms
from polydag.scores.gaussian.score import GaussianScore
from polydag.stats import GaussianStats


@dataclass(frozen=True, eq=False)
class BGe(GaussianScore):
    """BGe from Gaussian statistics.

    Parameters
    ----------
    stats : GaussianStats or Regimes of GaussianStats
        The data; with `Regimes`, each node is scored by the rows that did not set it.
    alpha_mu : float
        How many rows the prior mean counts for.
    alpha_w : float, optional
        Degrees of freedom of the Wishart prior, above d + 1; d + alpha_mu + 1 by default.
    """

    standardised: ClassVar[bool] = True  # the prior has a scale

    alpha_mu: float = setting(1.0, number(above=0), "how many rows the prior mean counts for")
    alpha_w: float | None = setting(
        None, optional(number(above=0)), "degrees of freedom of the Wishart prior; above d + 1"
    )

    def terms(self, part: GaussianStats) -> GaussianTerms:
        """The marginal likelihood in terms of `R = T + scatter`; the multivariate gammas telescope."""
        n, d = part.n, part.d
        dof = d + self.alpha_mu + 1 if self.alpha_w is None else float(self.alpha_w)
        if not dof > d + 1:
            raise UsageError(
                f"BGe needs alpha_w > {d + 1}, the number of variables plus one; got {self.alpha_w}."
            )
        t = self.alpha_mu * (dof - d - 1) / (self.alpha_mu + 1)

        def constant(k: int) -> float:
            """What a family with k parents has besides determinants of R."""
            low = dof - d + k + 1
            return (
                0.5 * math.log(self.alpha_mu / (n + self.alpha_mu))
                - 0.5 * n * math.log(math.pi)
                + math.lgamma(0.5 * (n + low))
                - math.lgamma(0.5 * low)
                + (0.5 * low + 0.5 * k) * math.log(t)
            )

        return GaussianTerms(
            matrix=part.scatter + t * np.eye(d),
            base=np.full(d, constant(0)),
            step=np.diff([constant(k) for k in range(d + 1)]),
            power=n + dof - d,
            growth=1.0,
        )
