"""The fits of a reproduction: posterior edge probabilities and the convergence of their chains."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from polydag.arrays import Array, Mask
from polydag.computing.checkpoint import piece
from polydag.errors import ConvergenceWarning
from polydag.learners.posterior.multitask import MultitaskDiscovery

CHAINS = "chains_"  # prefix of the table with one row per fit of a table or figure


class Fits(NamedTuple):
    """Posterior probabilities `P[…, task, i, j]`, and the convergence of each fit at `[…]`.

    `r_hat` is the largest R-hat and `ess` the smallest effective sample size over all tasks; both are NaN for
    exact posteriors.
    """

    P: Array
    converged: Mask
    r_hat: Array
    ess: Array

    def at(self, *where: Any) -> Fits:
        """A selection of the fits."""
        return Fits(*(np.asarray(values[where]) for values in self))


def fitted(model: MultitaskDiscovery, tables: Any) -> Fits:
    """Fit a model; chains that have not converged are recorded instead of raising a warning."""
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
    """Stack fits of the same shape along a new first axis."""
    return Fits(*(np.array(values) for values in zip(*parts, strict=True)))


def kept(key: str, compute: Callable[[], Fits]) -> Fits:
    """Compute fits as a piece of a resumable run."""
    stored: Mapping[str, Any] = piece(f"{key} fits", lambda: compute()._asdict())
    return Fits(**stored)


def chains(fits: Fits, axes: Mapping[str, Sequence[object]]) -> pd.DataFrame:
    """The convergence of each fit, one row per fit, labelled by the axes."""
    index = pd.MultiIndex.from_product(list(axes.values()), names=list(axes))
    values = {"converged": fits.converged, "r_hat": fits.r_hat, "ess": fits.ess}
    columns = {name: value.ravel() for name, value in values.items()}
    return pd.DataFrame(columns, index=index).reset_index()


def agreement(fits: Fits) -> dict[str, float]:
    """A summary of the convergence of some fits, as table columns."""
    return {
        "fits": fits.converged.size,
        "not_converged": int((~fits.converged).sum()),
        "worst_r_hat": float(np.fmax.reduce(fits.r_hat, axis=None)),
        "smallest_ess": float(np.fmin.reduce(fits.ess, axis=None)),
    }


def convergence_notes(found: Mapping[str, pd.DataFrame]) -> list[str]:
    """One sentence per table or figure: how many of its fits have not converged."""
    notes = []
    for name, table in found.items():
        if not name.startswith(CHAINS):
            continue
        bad = table[~table["converged"].astype(bool)]
        note = (
            f"{name.removeprefix(CHAINS)}: the chains have not converged in {len(bad)} of {len(table)} fits"
        )
        if len(bad):
            note += f" (R-hat up to {bad['r_hat'].max():.2f}, ESS down to {bad['ess'].min():.0f})"
        notes.append(f"{note}; {name}.csv lists them all.")
    return notes
