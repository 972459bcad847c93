"""The fits of a reproduction: posteriors of edges, and whether the chains behind them agree."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from polydag.checkpoint import piece
from polydag.errors import ConvergenceWarning
from polydag.learners.multitask import MultitaskDiscovery

CHAINS = "chains_"  # before the name of a table or figure: one row for each of its fits


class Fits(NamedTuple):
    """Posteriors `[…, task, i, j]`; of each fit, at `[…]`, how well its chains agree.

    The largest R-hat and the smallest number of effective draws of all tasks; NaN where nothing is sampled.
    """

    P: NDArray[np.float64]
    converged: NDArray[np.bool_]
    r_hat: NDArray[np.float64]
    ess: NDArray[np.float64]

    def at(self, *where: Any) -> Fits:
        """Some of the fits."""
        return Fits(*(np.asarray(values[where]) for values in self))


def fitted(model: MultitaskDiscovery, tables: Any) -> Fits:
    """One fit; chains that do not agree are written down instead of warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(tables)
    last = model.history_.groupby("task", sort=False).tail(1)
    sampled = "r_hat" in last
    return Fits(
        np.array([posterior.probabilities for posterior in model.posteriors_]),
        np.array(model.converged_),
        np.array(last["r_hat"].max() if sampled else np.nan),
        np.array(last["ess"].min() if sampled else np.nan),
    )


def stacked(parts: Sequence[Fits]) -> Fits:
    """Fits of the same shape as one more axis in front."""
    return Fits(*(np.array(values) for values in zip(*parts, strict=True)))


def kept(key: str, compute: Callable[[], Fits]) -> Fits:
    """Fits as a piece of an interruptible run."""
    stored: Mapping[str, Any] = piece(f"{key} fits", lambda: compute()._asdict())
    return Fits(**stored)


def chains(fits: Fits, axes: Mapping[str, Sequence[object]]) -> pd.DataFrame:
    """One row a fit, labelled by the axes."""
    index = pd.MultiIndex.from_product(list(axes.values()), names=list(axes))
    values = {"converged": fits.converged, "r_hat": fits.r_hat, "ess": fits.ess}
    columns = {name: value.ravel() for name, value in values.items()}
    return pd.DataFrame(columns, index=index).reset_index()


def agreement(fits: Fits) -> dict[str, float]:
    """Columns that say how well the chains of some fits agree."""
    return {
        "fits": fits.converged.size,
        "not_converged": int((~fits.converged).sum()),
        "worst_r_hat": float(np.fmax.reduce(fits.r_hat, axis=None)),
        "smallest_ess": float(np.fmin.reduce(fits.ess, axis=None)),
    }


def sentences(found: Mapping[str, pd.DataFrame]) -> list[str]:
    """How many fits of each table or figure are not to be relied on."""
    said = []
    for name, table in found.items():
        if not name.startswith(CHAINS):
            continue
        bad = table[~table["converged"].astype(bool)]
        what = f"{name.removeprefix(CHAINS)}: in {len(bad)} of {len(table)} fits the chains do not agree"
        if len(bad):
            what += f" (R-hat up to {bad['r_hat'].max():.2f}, effective draws down to {bad['ess'].min():.0f})"
        said.append(f"{what}; {name}.csv has them all.")
    return said
