"""Choose a penalty by stability, after StARS (Liu, Roeder and Wasserman 2010).

The graph is learned from random halves of the rows. An edge found in a proportion θ of them has instability
2θ(1 − θ). The chosen penalty minimises the mean instability over the edges that were found at least once.
StARS instead starts from the empty graph and takes the first penalty below a limit. Here the graph is pruned
by a criterion at every penalty, so large penalties give biased graphs rather than empty ones, and these are
often less stable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydag.acyclicity import Acyclicity
from polydag.arrays import Array
from polydag.computing.checkpoint import piece
from polydag.computing.progress import report
from polydag.knowledge import Masks
from polydag.losses import LeastSquares
from polydag.optimize.notears import follow_path, order_start
from polydag.optimize.pruning import Threshold, prune
from polydag.stats import GaussianStats
from polydag.stats.rows import numeric_rows

_HALVES = 20


def stable_lambda(
    rows: Any,
    lambdas: Sequence[float],
    acyclicity: Acyclicity,
    masks: Masks,
    threshold: Threshold,
    random_state: int | None,
) -> float:
    """The penalty whose graph is most stable; the first of `lambdas` among ties."""
    values, _ = numeric_rows(rows)
    rng = np.random.default_rng(random_state)
    found = np.zeros((len(lambdas), *masks.required.shape))
    for draw in range(_HALVES):
        half = values[rng.permutation(len(values))[: (len(values) + 1) // 2]]

        def learn(half: Array = half) -> dict[str, NDArray[Any]]:
            loss = LeastSquares.from_stats(GaussianStats.from_data(half))
            graphs = []
            for lambda_ in lambdas:
                start = order_start(loss, lambda_, masks)
                solution = follow_path(loss, lambda_, acyclicity, masks, start, "order", 1e-2)
                graphs.append(prune(loss, solution.W, masks, threshold).weights != 0)
            return {"graphs": np.array(graphs)}

        found += piece(f"half-{draw}", learn)["graphs"]
        report("stability", draw + 1, _HALVES)
    share = found / _HALVES
    n_found = np.maximum((found > 0).sum(axis=(1, 2)), 1)
    instability = (2 * share * (1 - share)).sum(axis=(1, 2)) / n_found
    return lambdas[int(np.argmin(instability))]
