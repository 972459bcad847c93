"""Simulate row-correlated data as in the linked-rows paper, equation (2) and section 3.

The errors are matrix normal, with covariance `Σ` (unit diagonal) between rows and `diag(ω²)` between
variables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from polydag.arrays import Array
from polydag.discrete_network import RandomState
from polydag.errors import DataError, UsageError
from polydag.graph import Graph
from polydag.simulate.sem import Scale, frame, noise_scales, propagate

if TYPE_CHECKING:
    import pandas as pd

_DEFAULT_BASE = {"toeplitz": 0.3, "equi": 0.7, "ar": 0.7}


def row_covariance(
    kind: str, size: int, *, base: float | None = None, random_state: RandomState = None
) -> Array:
    """The correlation matrix of the rows in one cluster (linked-rows paper, section 3.1).

    Parameters
    ----------
    kind : {"toeplitz", "equi", "star", "ar"}
        `toeplitz`: base^(|i-j|/5). `equi`: base for every pair. `star`: base between the first row and any
        other, base² between two others. `ar`: the inverse is base^|i-j| for |i-j| ≤ ⌈size/4⌉ and 0 beyond;
        Σ is then scaled to unit variances.
    size : int
        The number of rows.
    base : float, optional
        By default 0.3 for `toeplitz` (consistent with the paper's Table 1; 0.7 with Table 2), 0.7 for `equi`
        and `ar`, and uniform in [0.3, 0.5] for `star`.
    random_state : int or numpy.random.Generator, optional
        The seed; used for the default base of `star`.

    Examples
    --------
    >>> row_covariance("equi", 3).tolist()
    [[1.0, 0.7, 0.7], [0.7, 1.0, 0.7], [0.7, 0.7, 1.0]]
    """
    if kind not in _CORRELATIONS:
        raise UsageError(f"kind must be toeplitz, equi, star or ar; got {kind!r}.")
    if size < 1:
        raise UsageError(f"A cluster must have at least one row; got {size}.")
    if base is None:
        drawn = np.random.default_rng(random_state).uniform(0.3, 0.5)
        base = _DEFAULT_BASE.get(kind, float(drawn))
    apart = np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    Sigma = _CORRELATIONS[kind](apart, base)
    np.fill_diagonal(Sigma, 1.0)
    return Sigma


def _toeplitz(apart: Array, base: float) -> Array:
    return np.asarray(base ** (apart / 5))


def _equal(apart: Array, base: float) -> Array:
    return np.full(apart.shape, base)


def _star(apart: Array, base: float) -> Array:
    arm = np.where(np.arange(len(apart)) == 0, 1.0, base)
    return np.outer(arm, arm)


def _banded_inverse(apart: Array, base: float) -> Array:
    precision = np.where(apart <= math.ceil(len(apart) / 4), base**apart, 0.0)
    if np.linalg.eigvalsh(precision)[0] <= 0:
        raise UsageError(f"At size {len(apart)} and base {base} the banded inverse is not positive definite.")
    covariance = np.linalg.inv(precision)
    sd = np.sqrt(covariance.diagonal())
    return np.asarray((covariance + covariance.T) / (2 * np.outer(sd, sd)))


_CORRELATIONS: Mapping[str, Callable[[Array, float], Array]] = {
    "toeplitz": _toeplitz,
    "equi": _equal,
    "star": _star,
    "ar": _banded_inverse,
}


def clusters(
    kind: str, n: int, size: int, *, base: float | None = None, random_state: RandomState = None
) -> list[Array]:
    """The correlation matrices of `n` rows in clusters of `size` rows, one block per cluster, for `linked`.

    If `size` does not divide `n`, the last block holds only the first rows of its cluster.

    Examples
    --------
    >>> [len(block) for block in clusters("star", 50, 20, random_state=0)]
    [20, 20, 10]
    """
    if min(n, size) < 1:
        raise UsageError(f"n and size must be at least 1; got n={n}, size={size}.")
    rng = np.random.default_rng(random_state)
    blocks = [row_covariance(kind, size, base=base, random_state=rng) for _ in range(math.ceil(n / size))]
    rest = n - size * (len(blocks) - 1)
    return [*blocks[:-1], blocks[-1][:rest, :rest]]


def network_precision(links: Graph | ArrayLike, *, random_state: RandomState = None) -> Array:
    """Draw a random precision matrix on the links of a network (linked-rows paper, section 3.2).

    Entries on the links are uniform in [-5, 5]. A constant is added to the diagonal so that the smallest
    eigenvalue is 0.1. The matrix is then scaled so that its inverse has a unit diagonal.

    Parameters
    ----------
    links : Graph or array of shape (n, n)
        Which rows are linked; directions are ignored.
    random_state : int or numpy.random.Generator, optional
        The seed.

    Returns
    -------
    array of shape (n, n)
        `Θ`, the inverse of the row covariance for `linked`.

    Examples
    --------
    >>> import numpy as np
    >>> Theta = network_precision([[0, 1, 0], [1, 0, 0], [0, 0, 0]], random_state=0)
    >>> np.linalg.inv(Theta).diagonal().round(12).tolist(), (Theta != 0).tolist()[0]
    ([1.0, 1.0, 1.0], [True, True, False])
    """
    A = links.adjacency if isinstance(links, Graph) else np.asarray(links) != 0
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise DataError(f"Links must be a square matrix; this one has shape {A.shape}.")
    joined = np.triu(A | A.T, 1)
    Theta = np.zeros(A.shape)
    Theta[joined] = np.random.default_rng(random_state).uniform(-5.0, 5.0, int(joined.sum()))
    Theta += Theta.T
    Theta += (0.1 - np.linalg.eigvalsh(Theta)[0]) * np.eye(len(A))
    sd = np.sqrt(np.linalg.inv(Theta).diagonal())
    return np.asarray(Theta * np.outer(sd, sd))


def linked(
    dag: Graph,
    *,
    row_covariance: ArrayLike | Sequence[Array],
    noise_scale: Scale = 1.0,
    random_state: RandomState = None,
) -> pd.DataFrame:
    """Draw correlated rows from a linear Gaussian model with row covariance Σ, equation (2).

    Parameters
    ----------
    dag : Graph
        The DAG, with its weights.
    row_covariance : array of shape (n, n), or list of arrays
        `Σ`, positive definite with unit diagonal, or the blocks of a block-diagonal Σ, as from `clusters`.
    noise_scale : float, (low, high) or array of shape (d,)
        The standard deviations ω of the errors, as in `linear`; the paper draws them from (0.1, 1.0).
    random_state : int or numpy.random.Generator, optional
        The seed.

    Examples
    --------
    >>> from polydag import simulate
    >>> dag = simulate.dag(10, n_edges=20, weight_range=(0.1, 1.0), random_state=0)
    >>> Sigma = simulate.clusters("toeplitz", 100, 20)
    >>> simulate.linked(dag, row_covariance=Sigma, noise_scale=(0.1, 1.0), random_state=1).shape
    (100, 10)
    """
    rng = np.random.default_rng(random_state)
    blocks = list(row_covariance) if np.ndim(row_covariance[0]) == 2 else [row_covariance]  # type: ignore
    scales = noise_scales(noise_scale, dag.n_nodes, rng)
    errors = [
        factor @ rng.standard_normal((len(factor), dag.n_nodes)) for factor in map(_lower_factor, blocks)
    ]
    return frame(propagate(dag, np.concatenate(errors) * scales), dag)


def _lower_factor(block: ArrayLike) -> Array:
    Sigma = np.asarray(block, dtype=float)
    if Sigma.ndim != 2 or Sigma.shape[0] != Sigma.shape[1] or not np.allclose(Sigma, Sigma.T):
        raise DataError(f"A row covariance must be square and symmetric; this one has shape {Sigma.shape}.")
    if not np.allclose(Sigma.diagonal(), 1.0):
        raise DataError("A row covariance must have a unit diagonal: divide by the standard deviations.")
    try:
        return np.linalg.cholesky(Sigma)
    except np.linalg.LinAlgError as error:
        raise DataError("The row covariance is not positive definite.") from error
