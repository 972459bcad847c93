"""The graphical lasso with a given support: the linked-rows paper's (10) without its diagonal constraint.

`min −log det Θ + tr(SΘ) + Σ_{i≠j} λ_ij |θ_ij|` with `θ_ij = 0` where rows i and j are not linked: proximal
Newton steps by coordinate descent over the free entries (Hsieh et al. 2014), one small problem for each
connected component.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polydag.errors import ConvergenceWarning, DataError
from polydag.rowcov import _kernels
from polydag.rowcov.links import Links
from polydag.rowcov.precision import Layout

Array = NDArray[np.float64]
MAX_NEWTON = 100


def constrained_glasso(
    S: ArrayLike, links: Links | ArrayLike, penalty: ArrayLike = 0.0, *, tolerance: float = 1e-9
) -> Array:
    """The precision matrix on the given support.

    Parameters
    ----------
    S : array of shape (n, n)
        A covariance matrix.
    links : Links or array of shape (n, n)
        Where Θ may be other than zero; its diagonal always may.
    penalty : float or array of shape (n, n)
        `λ_ij`, symmetric, not negative; its diagonal is not used.
    tolerance : float
        The decrease, for each row, that a further step has to promise.

    Returns
    -------
    array of shape (n, n)
        Θ.

    Examples
    --------
    >>> import numpy as np
    >>> S = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, 0.5], [0.2, 0.5, 1.0]])
    >>> Theta = constrained_glasso(S, [[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> np.linalg.inv(Theta).round(4).tolist()[0]
    [1.0, 0.5, 0.25]
    """
    matrix = np.array(S, dtype=float)
    network = links if isinstance(links, Links) else Links.from_matrix(np.asarray(links))
    if matrix.shape != (network.n, network.n) or not np.allclose(matrix, matrix.T):
        raise DataError(f"S must be symmetric and {network.n} x {network.n}, as the links are.")
    if not (matrix.diagonal() > 0).all():
        raise DataError("S has a variance that is not positive.")
    weight = np.broadcast_to(np.asarray(penalty, dtype=float), matrix.shape)
    if not (weight >= 0).all() or not np.array_equal(weight, weight.T):
        raise DataError("The penalties must be symmetric and not negative.")
    layout = Layout.of(network)
    Theta = np.zeros_like(matrix)
    for c in range(len(layout.sizes)):
        where = layout.order[layout.starts[c] : layout.starts[c + 1]]
        own = np.ix_(where, where)
        free = slice(layout.frees[c], layout.frees[c + 1])
        Theta[own] = _solve(matrix[own], weight[own], layout.rows[free], layout.columns[free], tolerance)
    return Theta


def _solve(S: Array, weight: Array, rows: Any, columns: Any, tolerance: float) -> Array:
    Theta = np.diag(1.0 / S.diagonal())
    C, W = np.empty_like(S), np.empty_like(S)
    lam = np.where(rows == columns, 0.0, weight[rows, columns])
    if _kernels.glasso(S, Theta, C, W, rows, columns, lam, tolerance, MAX_NEWTON) < 0:
        warnings.warn(
            f"The graphical lasso of {len(S)} rows stopped before its tolerance; raise the penalty, or link "
            "fewer rows.",
            ConvergenceWarning,
            stacklevel=3,
        )
    return Theta


def in_parts(count: int, jobs: int, work: Callable[[int, int], object]) -> None:
    """Call `work(first, last)` over parts of `range(count)`, in threads where there are several jobs."""
    if jobs == 1 or count == 1:
        work(0, count)
        return
    from concurrent.futures import ThreadPoolExecutor

    ends = np.linspace(0, count, min(4 * jobs, count) + 1).astype(int)
    with ThreadPoolExecutor(jobs) as pool:
        results: Iterable[object] = pool.map(work, ends[:-1].tolist(), ends[1:].tolist())
        list(results)
