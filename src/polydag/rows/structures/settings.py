"""Settings of the free structure, in which every link has an entry of Θ of its own."""

from __future__ import annotations

from dataclasses import dataclass

from polydag.parameters import Settings, number, setting, whole
from polydag.rows.descent.block_descent import LAMBDA2


@dataclass(frozen=True)
class FreeStructure(Settings):
    """How the correlation of linked rows is estimated with `structure="free"`.

    Parameters
    ----------
    lambda2 : float
        The penalty λ2 on the entries of Θ, the rows' inverse correlation; "auto" tries others as well.
    n_orders : int
        The number of random orders of the columns to average.

    Examples
    --------
    >>> FreeStructure(n_orders=2)
    FreeStructure(lambda2=0.01, n_orders=2)
    """

    lambda2: float = setting(
        LAMBDA2, number(least=0), "penalty on the entries of the rows' inverse correlation"
    )
    n_orders: int = setting(5, whole(least=1), "random orders of the columns that are averaged")


DEFAULT_FREE = FreeStructure()
