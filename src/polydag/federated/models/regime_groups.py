"""Which variables are scored by the same rows, when some rows were taken under intervention.

Targets are known to all: every site says which variables it has set in which of its rows, and a row does not
score the variables that were set in it. Variables that no regime tells apart form one group; without any
intervention there is one group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from polydag.errors import DataError
from polydag.federated.models.unit_checks import SPREAD
from polydag.federated.protocol.programs import Ask


def variable_groups(names: Sequence[str], regimes: Iterable[frozenset[str]]) -> NDArray[np.int64]:
    """The group of each variable.

    Examples
    --------
    >>> variable_groups(["a", "b", "c"], [frozenset(), frozenset({"b"})]).tolist()
    [0, 1, 0]
    """
    known = sorted(set(regimes), key=sorted)
    pattern = [tuple(name in targets for targets in known) for name in names]
    order = {each: number for number, each in enumerate(dict.fromkeys(pattern))}
    return np.array([order[each] for each in pattern], dtype=np.int64)


def regime_label(targets: Iterable[str]) -> str:
    """A set of variables as part of a name; commas inside of their names are told from those between.

    Examples
    --------
    >>> regime_label({"dose", "age"}), regime_label({"a,b"})
    ('age,dose', 'a\\\\,b')
    """
    return ",".join(name.replace("\\", "\\\\").replace(",", "\\,") for name in sorted(targets))


def centre_question(names: Sequence[str], group: NDArray[np.int64]) -> Ask:
    """Ask for numbers of rows and sums, by which rows are centred, and for what tells other units."""
    groups, d = int(group.max()) + 1, len(names)
    returns = {"rows": (groups,), "sums": (groups, d), "rank": (1,), "log_scales": (3, d)}
    return Ask("centre", {"group": group}, {"columns": list(names)}, returns=returns)


def require_spread(
    names: Sequence[str], deviation: NDArray[np.float64], size: NDArray[np.float64] | float = 0.0
) -> None:
    """Say which columns are constant; `size` is that of their means, beside which rounding is told."""
    flat = deviation <= SPREAD * np.abs(size)
    if flat.any():
        told = ", ".join(name for name, each in zip(names, flat, strict=True) if each)
        raise DataError(f"All sites: column {told} is constant. Leave it out.")


def require_rows(names: Sequence[str], group: NDArray[np.int64], rows: NDArray[np.float64]) -> None:
    """Say which variable no row scores; `rows` are the numbers of rows of each group, over all sites."""
    if nobody := [name for name, g in zip(names, group, strict=True) if not rows[g] > 0]:
        raise DataError(
            f"{nobody[0]} was set in every row at every site that answered, so nothing can be learned of its "
            "causes."
        )
