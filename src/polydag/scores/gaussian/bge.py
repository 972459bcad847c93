"""The Bayesian Gaussian equivalent score (Geiger and Heckerman 2002), as corrected by Kuipers et al. (2014).

Prior: mean `ν`, precision Wishart with `α_w` degrees of freedom and the matrix `T`. With `R = T + scatter`
(the prior mean is put at the sample mean, so that shifting a column changes nothing), a set `Y` of `l` out of
`d` variables has the marginal likelihood

    (α_μ/(N+α_μ))^{l/2} π^{-lN/2} Γ_l((N+a)/2) / Γ_l(a/2) |T_Y|^{a/2} |R_Y|^{-(N+a)/2},  a = α_w - d + l,

and a family scores `log p(parents and node) - log p(parents)`. T is on the data's own scale: standardise the
columns first (`stats.standardized()`) unless their units are meant. T = I suits standardised columns: its
probabilities are the best calibrated over weak and strong effects (`benchmarks/calibration.py`). The choice
of Geiger and Heckerman, `α_μ(α_w-d-1)/(α_μ+1) · I`, is half of that with the other defaults.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from polydag.arrays import Array, Index
from polydag.errors import UsageError
from polydag.parameters import number, optional, setting
from polydag.scores.families import ParentSets
from polydag.scores.gaussian.form import GaussianForm, GaussianTerms
from polydag.scores.gaussian.score import GaussianScore
from polydag.stats import GaussianStats


class PriorMatrix:
    """What the prior's matrix may be; its size is checked when the data are known."""

    expected = "a number above 0 or a symmetric, positive definite matrix"

    def accepts(self, value: Any) -> bool:
        """Whether the value is a positive number or a positive definite matrix."""
        if number(above=0).accepts(value):
            return True
        matrix = np.asarray(value, dtype=float) if np.ndim(value) == 2 else np.empty((0, 1))
        square = matrix.shape[0] == matrix.shape[1] and np.isfinite(matrix).all()
        return bool(
            square and np.allclose(matrix, matrix.T, rtol=1e-9) and np.linalg.eigvalsh(matrix).min() > 0
        )


@dataclass(frozen=True, eq=False)
class RatioForm:
    """A form less that of the prior: what BGe is if the prior's matrix is not a multiple of the identity."""

    data: GaussianForm
    prior: GaussianForm

    def local_score(self, node: int, parents: Sequence[int]) -> float:
        """The score of one family."""
        return self.data.local_score(node, parents) - self.prior.local_score(node, parents)

    def gains(self, node: int, candidates: Index, sets: ParentSets, positive_only: bool) -> Array:
        """The gain of each candidate over each set."""
        found: Array = self.data.gains(node, candidates, sets, False) - self.prior.gains(
            node, candidates, sets, False
        )
        return np.maximum(found, 0.0) if positive_only else found


@dataclass(frozen=True, eq=False)
class BGe(GaussianScore):
    """BGe from Gaussian statistics.

    Parameters
    ----------
    stats : GaussianStats or Regimes of GaussianStats
        The data; with `Regimes`, each node is scored by the rows that did not set it.
    alpha_mu : float
        The weight of the prior mean, in rows.
    alpha_w : float, optional
        Degrees of freedom of the Wishart prior, above d + 1; d + alpha_mu + 1 by default.
    prior_matrix : float or array of shape (d, d)
        T, or t for `T = t I`, on the scale of the data, which learners standardise. A smaller t implies
        stronger effects, and demands more evidence for weak ones.
    """

    standardised: ClassVar[bool] = True  # the prior has a scale

    alpha_mu: float = setting(1.0, number(above=0), "how many rows the prior mean counts for")
    alpha_w: float | None = setting(
        None, optional(number(above=0)), "degrees of freedom of the Wishart prior; above d + 1"
    )
    prior_matrix: Any = setting(
        1.0, PriorMatrix(), "the Wishart prior's matrix, or t for t times the identity"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if np.ndim(self.prior_matrix) == 2:
            zero = np.zeros(len(self.names))
            none = GaussianTerms(self._matrix(), zero, zero, self._dof() - len(zero), 1.0)
            prior = GaussianForm.of([none] * len(self.form.terms), self.form.group)
            object.__setattr__(self, "form", RatioForm(self.form, prior))

    def terms(self, part: GaussianStats) -> GaussianTerms:
        """The marginal likelihood in terms of `R = T + scatter`; the multivariate gammas telescope."""
        n, d, dof = part.n, part.d, self._dof()
        log_t = math.log(self.prior_matrix) if np.ndim(self.prior_matrix) == 0 else 0.0

        def constant(k: int) -> float:
            """What a family with k parents has besides determinants."""
            low = dof - d + k + 1
            return (
                0.5 * math.log(self.alpha_mu / (n + self.alpha_mu))
                - 0.5 * n * math.log(math.pi)
                + math.lgamma(0.5 * (n + low))
                - math.lgamma(0.5 * low)
                + (0.5 * low + 0.5 * k) * log_t
            )

        return GaussianTerms(
            matrix=part.scatter + self._matrix(),
            base=np.full(d, constant(0)),
            step=np.diff([constant(k) for k in range(d + 1)]),
            power=n + dof - d,
            growth=1.0,
        )

    def _dof(self) -> float:
        d = len(self.names)
        dof = d + self.alpha_mu + 1 if self.alpha_w is None else float(self.alpha_w)
        if not dof > d + 1:
            raise UsageError(
                f"BGe needs alpha_w > {d + 1}, the number of variables plus one; got {self.alpha_w}."
            )
        return dof

    def _matrix(self) -> Array:
        d = len(self.names)
        if np.ndim(self.prior_matrix) == 0:
            return float(self.prior_matrix) * np.eye(d)
        matrix = np.asarray(self.prior_matrix, dtype=float)
        if matrix.shape != (d, d):
            raise UsageError(
                f"The prior_matrix of BGe has the shape {matrix.shape}, but there are {d} variables."
            )
        return matrix
