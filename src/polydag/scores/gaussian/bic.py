"""The Bayesian information criterion of linear Gaussian families (Schwarz 1978), with a penalty discount.

`local_score = log-likelihood - penalty · k/2 · log n`, with `k = |parents| + 2` (coefficients, intercept,
error variance). It is half of what Tetrad calls the SEM BIC score; `penalty` is Tetrad's penalty discount.
With `penalty="auto"` it is the extended BIC (`polydag.scores.penalty`). A family may have at most `n - 3`
parents: with more, the fit is perfect whatever the data, and the score is -inf.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from polydag.parameters import setting
from polydag.scores.gaussian.form import GaussianTerms
from polydag.scores.gaussian.score import GaussianScore, require_rows_and_rank
from polydag.scores.penalty import PENALTY, Penalty, edge_price
from polydag.stats import GaussianStats


@dataclass(frozen=True, eq=False)
class BIC(GaussianScore):
    """BIC from Gaussian statistics.

    Parameters
    ----------
    stats : GaussianStats or Regimes of GaussianStats
        The data; with `Regimes`, each node is scored by the rows that did not set it.
    penalty : float or "auto"
        The penalty discount: 1 is BIC, larger gives sparser graphs. "auto" is the extended BIC, which also
        counts the variables.
    """

    penalty: Penalty = setting(
        1.0, PENALTY, "the penalty discount, larger gives sparser graphs; auto: the extended BIC"
    )

    def __post_init__(self) -> None:
        require_rows_and_rank(self.stats)
        super().__post_init__()

    def terms(self, part: GaussianStats) -> GaussianTerms:
        """The likelihood in terms of correlations; every parent costs the same."""
        n, d = part.n, part.d
        price = edge_price(self.penalty, n, d)
        # A column that is constant in these rows explains nothing and is explained by nothing.
        variance = np.maximum(part.covariance.diagonal(), 1e-300)
        return GaussianTerms(
            matrix=part.correlation,
            base=-0.5 * n * (np.log(2 * math.pi * variance) + 1) - 2 * price,
            step=np.where(np.arange(d) < n - 3, -price, -np.inf),
            power=n,
            growth=0.0,
        )
