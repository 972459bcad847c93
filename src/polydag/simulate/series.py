"""Simulate time series: a structural vector autoregression with an instantaneous DAG and lagged effects.

`x_t = x_t W + x_{t-1} A_1 + … + x_{t-p} A_p + noise`; entry `[i, j]` of every matrix refers to `i -> j`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from polydag.arrays import Array
from polydag.discrete_network import RandomState
from polydag.errors import UsageError
from polydag.graph import Graph, node_names
from polydag.simulate.graphs import dag, signed_uniform
from polydag.simulate.sem import Scale, noise_scales

if TYPE_CHECKING:
    import pandas as pd

# The effect of the initial state must vanish within the burn-in: 0.95^400 is 1e-9.
_LARGEST_RADIUS, _BURN_IN, _ATTEMPTS = 0.95, 400, 20


@dataclass(frozen=True)
class LaggedSample:
    """Simulated time series and the model that generated them.

    Attributes
    ----------
    data : DataFrame
        One row per time point of each realisation: the columns `realisation` and `t` (both from 0), then the
        variables.
    instantaneous : Graph
        The DAG of effects within one time point, with its weights.
    lags : tuple of arrays of shape (d, d)
        `lags[k - 1][i, j]` is the effect of variable i on variable j, k steps later.
    """

    data: pd.DataFrame
    instantaneous: Graph
    lags: tuple[Array, ...]


def lagged(
    d: int,
    *,
    n_steps: int,
    n_lags: int = 1,
    n_realisations: int = 1,
    expected_edges: float | None = None,
    weight_range: tuple[float, float] = (0.3, 0.8),
    noise_scale: Scale = 1.0,
    names: Iterable[object] | None = None,
    random_state: RandomState = None,
) -> LaggedSample:
    """Draw a random stationary structural vector autoregression and time series from it.

    Up to 20 models are drawn until one has a spectral radius of at most 0.95. If none has, which is common
    with many lags, the lagged effects of the last model are shrunk to that radius: those at lag k by the k-th
    power of a common factor. They may then fall below `weight_range`.

    Parameters
    ----------
    d : int
        The number of variables.
    n_steps : int
        The number of time points in each realisation, after the burn-in.
    n_lags : int
        The order of the autoregression.
    n_realisations : int
        The number of independent series drawn from the model.
    expected_edges : float, optional
        The expected number of instantaneous edges, and of lagged edges over all lags, which include effects
        of a variable on itself; `d` by default.
    weight_range : (low, high)
        Weights are uniform in ±[low, high].
    noise_scale : float, (low, high) or array of shape (d,)
        The standard deviation of the Gaussian noise, as in `linear`.
    names : iterable, optional
        The variable names; `x0, x1, …` by default.
    random_state : int or numpy.random.Generator, optional
        The seed.

    Examples
    --------
    >>> sample = lagged(5, n_steps=50, n_lags=2, n_realisations=3, random_state=0)
    >>> sample.data.shape, sample.instantaneous.n_nodes, len(sample.lags)
    ((150, 7), 5, 2)
    """
    if min(n_steps, n_lags, n_realisations) < 1:
        raise UsageError("n_steps, n_lags and n_realisations must be at least 1.")
    rng = np.random.default_rng(random_state)
    labels = node_names(names, d)
    edges = float(d) if expected_edges is None else expected_edges
    for _ in range(_ATTEMPTS):
        # With fewer than 3 nodes there are fewer than d pairs.
        within = min(edges, d * (d - 1) / 2)
        graph = dag(d, expected_edges=within, weight_range=weight_range, names=labels, random_state=rng)
        present = rng.random((n_lags, d, d)) < edges / (n_lags * d**2)
        lags = np.where(present, signed_uniform(*weight_range, present.shape, rng), 0.0)
        radius = spectral_radius(graph.weights, lags)
        if radius <= _LARGEST_RADIUS:
            break
    else:
        lags *= (_LARGEST_RADIUS / radius) ** np.arange(1, n_lags + 1)[:, None, None]
    errors = rng.standard_normal((_BURN_IN + n_steps, n_realisations, d)) * noise_scales(noise_scale, d, rng)
    series = _recursion(graph.weights, lags, errors)[_BURN_IN:].swapaxes(0, 1)
    return LaggedSample(_long(series, graph.names), graph, tuple(lags))


def spectral_radius(W: Array, lags: Sequence[Array] | Array) -> float:
    """The largest eigenvalue modulus of the companion matrix; the process is stationary if it is below 1."""
    d, p = len(W), len(lags)
    within = np.linalg.inv(np.eye(d) - W)
    companion = np.eye(d * p, k=d)
    companion[:, :d] = np.concatenate([lag @ within for lag in lags])
    return float(np.abs(np.linalg.eigvals(companion)).max())


def _recursion(W: Array, lags: Array, errors: Array) -> Array:
    """All realisations at once; the axes of `errors` are time, realisation, variable."""
    within = np.linalg.inv(np.eye(len(W)) - W)
    series = np.zeros_like(errors)
    for t, shock in enumerate(errors):
        past = (series[t - k] @ lag for k, lag in enumerate(lags, start=1) if k <= t)
        series[t] = sum(past, start=shock) @ within
    return series


def _long(series: Array, names: tuple[str, ...]) -> pd.DataFrame:
    import pandas as pd

    if taken := {"realisation", "t"} & set(names):
        raise UsageError(f"A variable cannot be called {min(taken)}: that column identifies the rows.")
    realisations, steps, d = series.shape
    data = pd.DataFrame(series.reshape(-1, d), columns=list(names))
    data.insert(0, "realisation", np.repeat(np.arange(realisations), steps))
    data.insert(1, "t", np.tile(np.arange(steps), realisations))
    return data
