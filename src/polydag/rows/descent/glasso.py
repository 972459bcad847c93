"""The graphical lasso with a given support: the linked-rows paper's (10).

`min −log det Θ + tr(SΘ) + Σ_{i≠j} λ_ij |θ_ij|` with `θ_ij = 0` where rows i and j are not linked: proximal
Newton steps, each by coordinate descent and conjugate gradients over the free entries (Hsieh et al. 2014),
one small problem for each connected component. A unit diagonal of Θ⁻¹ makes it nonconvex. The scaled answer,
which the paper takes, is then only a start; quasi-Newton steps in partial correlations go on to a stationary
point.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from polydag.arrays import Array, Index
from polydag.errors import ConvergenceWarning, DataError
from polydag.rows import _precision_kernels
from polydag.rows.descent import _glasso_kernels, _unit_diagonal_kernels
from polydag.rows.links import Links
from polydag.rows.precision import Layout, assembled

MAX_NEWTON = 100
SLOPE, MAX_EXACT = 1e-6, 5000  # of the steps that keep to a unit diagonal


def constrained_glasso(
    S: Any,
    links: Links | ArrayLike,
    penalty: Any = 0.0,
    *,
    unit_diagonal: bool = False,
    tolerance: float = 1e-14,
    n_jobs: int = 1,
) -> Any:
    """The precision matrix on the given support.

    Parameters
    ----------
    S : array or sparse matrix of shape (n, n)
        A covariance matrix; only its entries within the network's connected components are used.
    links : Links or array of shape (n, n)
        Where Θ may be other than zero; its diagonal always may.
    penalty : float, or array or sparse matrix of shape (n, n)
        `λ_ij`, symmetric, not negative; its diagonal is not used.
    unit_diagonal : bool
        Minimise among those Θ whose inverse is a correlation matrix.
    tolerance : float
        The decrease, for each row, that a further step has to promise.
    n_jobs : int
        Threads for the components.

    Returns
    -------
    array or sparse matrix of shape (n, n)
        Θ, sparse where S is.

    Examples
    --------
    >>> import numpy as np
    >>> S = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, 0.5], [0.2, 0.5, 1.0]])
    >>> Theta = constrained_glasso(S, [[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> np.linalg.inv(Theta).round(4).tolist()[0]
    [1.0, 0.5, 0.25]
    """
    network = links if isinstance(links, Links) else Links.from_matrix(np.asarray(links))
    matrix = _square(S, network.n, "S")
    weight = penalty if np.ndim(penalty) == 0 and not hasattr(penalty, "tocsr") else None
    weights = _square(penalty, network.n, "The penalties") if weight is None else None
    if not (matrix.diagonal() > 0).all():
        raise DataError("S has a variance that is not positive.")
    if (weight is not None and not weight >= 0) or (weights is not None and weights.min() < 0):
        raise DataError("The penalties must be symmetric and not negative.")
    layout = Layout.of(network)
    blocks: list[Array] = [np.empty((0, 0))] * len(layout.sizes)

    def part(first: int, last: int) -> None:
        for c in range(first, last):
            where = layout.order[layout.starts[c] : layout.starts[c + 1]]
            free = slice(layout.frees[c], layout.frees[c + 1])
            rows, columns = layout.rows[free], layout.columns[free]
            own = _block(matrix, where)
            lam = np.full(len(rows), weight) if weights is None else _block(weights, where)[rows, columns]
            lam = np.where(rows == columns, 0.0, lam)
            blocks[c] = _solve(own, lam, rows, columns, tolerance, unit_diagonal)

    in_parts(len(layout.sizes), n_jobs, part)
    Theta = assembled(layout, blocks)
    return Theta if hasattr(S, "tocsr") else Theta.toarray()


def _square(given: Any, n: int, name: str) -> Any:
    """The matrix, checked; sparse ones in rows."""
    from scipy.sparse import csr_array

    matrix: Any = csr_array(given, dtype=float) if hasattr(given, "tocsr") else np.array(given, dtype=float)
    if matrix.shape != (n, n) or abs(matrix - matrix.T).max() > 1e-8 * abs(matrix).max():
        raise DataError(f"{name} must be symmetric and {n} x {n}, as the links are.")
    return matrix


def _block(matrix: Any, where: Index) -> Array:
    own = matrix[np.ix_(where, where)]
    return np.ascontiguousarray(own.toarray() if hasattr(own, "toarray") else own)


def _solve(S: Array, lam: Array, rows: Any, columns: Any, tolerance: float, unit_diagonal: bool) -> Array:
    Theta = np.diag(1.0 / S.diagonal())
    C, W = np.empty_like(S), np.empty_like(S)
    if _glasso_kernels.glasso(S, Theta, C, W, rows, columns, lam, tolerance, MAX_NEWTON) < 0:
        warnings.warn(
            f"The graphical lasso of {len(S)} rows stopped before its tolerance; raise the penalty, or link "
            "fewer rows.",
            ConvergenceWarning,
            stacklevel=3,
        )
    if unit_diagonal:
        _precision_kernels.normalise(Theta, C, W)
        left = _unit_diagonal_kernels.unit_diagonal(S, Theta, C, rows, columns, lam, SLOPE, MAX_EXACT)
        if left > 100 * SLOPE:
            warnings.warn(
                f"With a unit diagonal, the graphical lasso of {len(S)} rows stopped at a slope of "
                f"{left:.1g}; raise the penalty, or link fewer rows.",
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
