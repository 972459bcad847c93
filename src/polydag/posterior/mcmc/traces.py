"""Traces of Markov chains, thinned for pictures: the weight of the states, and the least certain edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from polydag.posterior.mcmc.driver import Run

TRACED = 6  # edges
_POINTS = 200  # draws of each chain


def traces(run: Run, names: tuple[str, ...]) -> pd.DataFrame:
    """One row for each chain and draw: chain, draw, log_weight, and edges by their names, `a -> b`.

    Of two directions of a pair, which mirror each other, the one with the larger R-hat is traced.
    """
    import pandas as pd

    n_chains, n_draws = run.log_weights.shape
    draws = np.unique(np.linspace(0, n_draws - 1, min(n_draws, _POINTS)).astype(int))
    columns = {
        "chain": np.repeat(np.arange(1, n_chains + 1), len(draws)),
        "draw": np.tile(draws + 1, n_chains),
        "log_weight": run.log_weights[:, draws].ravel(),
    }
    edges = {f"{names[i]} -> {names[j]}": run.edges[:, draws, i, j].ravel() for i, j in _least_known(run)}
    return pd.DataFrame({**columns, **edges})


def _least_known(run: Run) -> list[tuple[int, int]]:
    """The edges with the largest R-hat, one for each pair of variables."""
    r_hat = np.nan_to_num(run.diagnostics.r_hat, nan=0.0, posinf=1e9)
    found: dict[frozenset[int], tuple[int, int]] = {}
    for place in np.argsort(-r_hat, axis=None, kind="stable"):
        i, j = map(int, divmod(int(place), len(r_hat)))
        if r_hat[i, j] == 0.0 or len(found) == TRACED:
            break
        found.setdefault(frozenset((i, j)), (i, j))
    return list(found.values())
