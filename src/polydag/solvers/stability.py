"""A penalty chosen by stability (StARS, Liu, Roeder and Wasserman 2010).

The graph is learned from random halves of the rows. An edge found in a share θ of them is unstable by
2θ(1 − θ); the smallest penalty is taken at which the average over edges that were ever found, made
monotone along the path, stays below a limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from polydag.acyclicity import Acyclicity
from polydag.checkpoint import piece
from polydag.knowledge import Masks
from polydag.losses import LeastSquares
from polydag.progress import report
from polydag.solvers.notears import follow_path, order_start
from polydag.solvers.pruning import prune
from polydag.stats import GaussianStats
from polydag.stats.rows import numeric_rows

_HALVES = 20
_LIMIT = 0.1


def stable_lambda(
    rows: Any,
    lambdas: Sequence[float],
    acyclicity: Acyclicity,
    masks: Masks,
    threshold: float | Literal["ebic"],
    random_state: int | None,
) -> float:
    """The smallest penalty of a path that is still stable; the largest where none is."""
    values, _ = numeric_rows(rows)
    rng = np.random.default_rng(random_state)
    found = np.zeros((len(lambdas), *masks.required.shape))
    for draw in range(_HALVES):
        half = values[rng.permutation(len(values))[: (len(values) + 1) // 2]]

        def learn(half: NDArray[np.float64] = half) -> dict[str, NDArray[Any]]:
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
    ever = np.maximum((found > 0).sum(axis=(1, 2)), 1)
    unstable = np.maximum.accumulate((2 * share * (1 - share)).sum(axis=(1, 2)) / ever)
    stable = [lambda_ for lambda_, level in zip(lambdas, unstable, strict=True) if level <= _LIMIT]
    return stable[-1] if stable else lambdas[0]
