"""Simulate structural equation models on a DAG: linear with any noise, and multilayer perceptrons.

References
----------
Zheng, X., Aragam, B., Ravikumar, P. and Xing, E. P. (2018). DAGs with NO TEARS.
Zheng, X., Dan, C., Aragam, B., Ravikumar, P. and Xing, E. P. (2020). Learning sparse nonparametric DAGs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from polydag.arrays import Array
from polydag.discrete_network import RandomState
from polydag.errors import UsageError
from polydag.graph import Graph
from polydag.simulate.graphs import signed_uniform

if TYPE_CHECKING:
    import pandas as pd

Scale = float | tuple[float, float] | ArrayLike

# Each has mean 0 and variance 1, so that noise_scale is the standard deviation of every distribution.
NOISES: dict[str, Callable[[np.random.Generator, tuple[int, int]], Array]] = {
    "gaussian": lambda rng, shape: rng.standard_normal(shape),
    "exponential": lambda rng, shape: rng.standard_exponential(shape) - 1.0,
    "gumbel": lambda rng, shape: (rng.gumbel(size=shape) - np.euler_gamma) * np.sqrt(6.0) / np.pi,
    "uniform": lambda rng, shape: rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), shape),
    "laplace": lambda rng, shape: rng.laplace(scale=np.sqrt(0.5), size=shape),
}


def linear(
    dag: Graph,
    *,
    n: int,
    noise: str = "gaussian",
    noise_scale: Scale = 1.0,
    standardize: bool = False,
    random_state: RandomState = None,
) -> pd.DataFrame:
    """Draw rows from a linear structural equation model, `x = x W + noise`, with the graph's weights `W`.

    Parameters
    ----------
    dag : Graph
        The DAG, with its weights.
    n : int
        The number of rows.
    noise : {"gaussian", "exponential", "gumbel", "uniform", "laplace"}
        The distribution of the noise; its mean is 0.
    noise_scale : float, (low, high) or array of shape (d,)
        The standard deviation of the noise: a number for all variables, a range from which each variable's
        is drawn uniformly, or one value per variable.
    standardize : bool
        Whether to standardise each column to mean 0 and variance 1. The variances then carry no information
        about the causal order.
    random_state : int or numpy.random.Generator, optional
        The seed.

    Examples
    --------
    >>> from polydag import simulate
    >>> linear(simulate.dag(5, expected_edges=5, random_state=0), n=3, random_state=1).columns.tolist()
    ['x0', 'x1', 'x2', 'x3', 'x4']
    """
    if noise not in NOISES:
        raise UsageError(f"noise must be one of {', '.join(NOISES)}; got {noise!r}.")
    rng = np.random.default_rng(random_state)
    scales = noise_scales(noise_scale, dag.n_nodes, rng)
    X = propagate(dag, NOISES[noise](rng, (_rows(n), dag.n_nodes)) * scales)
    if standardize:
        X = (X - X.mean(axis=0)) / X.std(axis=0)
    return frame(X, dag)


def mlp(
    dag: Graph,
    *,
    n: int,
    hidden: int = 100,
    noise_scale: Scale = 1.0,
    random_state: RandomState = None,
) -> pd.DataFrame:
    """Draw rows from a nonlinear model: each variable is a random neural network of its parents, plus noise.

    The networks have one hidden layer of sigmoid units and weights uniform in ±[0.5, 2]; the noise is
    Gaussian. These are the nonlinear simulations of the federated paper, section 6, after Zheng et al.
    (2020). The weights of the graph are not used.

    Parameters
    ----------
    dag : Graph
        The DAG.
    n : int
        The number of rows.
    hidden : int
        The number of hidden units.
    noise_scale : float, (low, high) or array of shape (d,)
        As in `linear`.
    random_state : int or numpy.random.Generator, optional
        The seed.

    Examples
    --------
    >>> from polydag import simulate
    >>> mlp(simulate.dag(5, expected_edges=5, random_state=0), n=3, random_state=1).shape
    (3, 5)
    """
    from scipy.special import expit

    rng = np.random.default_rng(random_state)
    X = rng.standard_normal((_rows(n), dag.n_nodes)) * noise_scales(noise_scale, dag.n_nodes, rng)
    for name in dag.topological_order():
        j = dag.index(name)
        parents = np.flatnonzero(dag.adjacency[:, j])
        if len(parents):
            inner = signed_uniform(0.5, 2.0, (len(parents), hidden), rng)
            outer = signed_uniform(0.5, 2.0, hidden, rng)
            X[:, j] += expit(X[:, parents] @ inner) @ outer
    return frame(X, dag)


def propagate(dag: Graph, errors: Array) -> Array:
    """Solve `X = X W + errors`, parents before children."""
    X = errors.copy()
    for name in dag.topological_order():
        j = dag.index(name)
        parents = np.flatnonzero(dag.adjacency[:, j])
        X[:, j] += X[:, parents] @ dag.weights[parents, j]
    return X


def noise_scales(noise_scale: Scale, d: int, rng: np.random.Generator) -> Array:
    """One standard deviation per variable, from a number, a range (low, high) or an array."""
    if isinstance(noise_scale, tuple):
        if len(noise_scale) != 2 or not 0 < noise_scale[0] <= noise_scale[1]:
            raise UsageError(f"A noise_scale range (low, high) needs 0 < low <= high; got {noise_scale}.")
        return rng.uniform(noise_scale[0], noise_scale[1], d)
    scales = np.asarray(noise_scale, dtype=float)
    if scales.shape not in ((), (d,)) or not (scales > 0).all():
        raise UsageError(
            f"noise_scale must be a positive number, a range (low, high) or {d} positive numbers."
        )
    return np.broadcast_to(scales, (d,))


def frame(X: Array, dag: Graph) -> pd.DataFrame:
    """The rows as a DataFrame with the node names as columns."""
    import pandas as pd

    return pd.DataFrame(X, columns=list(dag.names))


def _rows(n: int) -> int:
    if n < 1:
        raise UsageError(f"The number of rows must be at least 1; got {n}.")
    return n
