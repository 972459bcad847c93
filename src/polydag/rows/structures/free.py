"""One entry of Θ for each link, by block coordinate descent with a graphical lasso (the paper's method).

With few columns the estimate follows chance in its many entries. Shrinking it towards independent rows,
`(1 − ν) Σ̂ + ν I`, keeps what is large in it; ν is chosen by held-out columns, as λ2 is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from polydag.arrays import Mask
from polydag.rows.descent.block_descent import Problem
from polydag.rows.descent.lambda_path import lambda_path
from polydag.rows.likelihood.restricted import Columns
from polydag.rows.likelihood.whitening import Estimated
from polydag.rows.precision import RowPrecision
from polydag.rows.structures.interface import Fitted

PENALTIES = (1.0, 5.0)  # λ2 that are tried beside the given one
OWN_PARTS = (0.6, 0.3, 0.0)


@dataclass(frozen=True, eq=False)
class Free:
    """One entry of Θ for each link, with the penalty λ2, and a row's own part ν of the variance."""

    problem: Problem
    lambda2: float
    own: float = 0.0
    fits: dict[tuple[int, int], RowPrecision] = field(default_factory=dict)  # of these columns, whatever ν is
    name: str = "free"

    def fit(self, columns: Columns, scored: Mask) -> Fitted:
        """The fit of the scored columns, which come before all others."""
        last = int(scored.sum())
        assert scored[:last].all()
        key = (id(columns), last)
        if key not in self.fits:
            own = replace(self.problem, X=np.ascontiguousarray(columns.X[:, :last]), lambda2=self.lambda2)
            path = lambda_path(own)
            self.fits[key] = path.fits[path.best].precision
        found = shrunken(self.fits[key], self.own)
        return Fitted(Estimated(found), {"lambda2": self.lambda2, "own": self.own})


def free_structures(problem: Problem) -> list[Free]:
    """All penalties with all own parts, the most shrunken first."""
    result: list[Free] = []
    for lambda2 in sorted({problem.lambda2, *PENALTIES}, reverse=True):
        fits: dict[tuple[int, int], RowPrecision] = {}
        result.extend(Free(problem, lambda2, own, fits) for own in OWN_PARTS)
    return result


def shrunken(precision: RowPrecision, own: float) -> RowPrecision:
    """The inverse of `(1 − ν) Σ + ν I`."""
    if own == 0.0:
        return precision
    blocks = [(1.0 - own) * block + own * np.eye(len(block)) for block in precision.correlations]
    return RowPrecision.from_correlations(precision.layout, blocks)
