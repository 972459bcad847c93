"""Which variables are scored by the same rows, when some rows were observed under intervention.

Every party knows which variables were set in which rows of the others. A row does not score the variables
that were set in it. Variables that are scored by the same rows form one group; without interventions there is
one group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from polydag.arrays import Array, Index
from polydag.errors import DataError
from polydag.federated.party_data.unit_checks import SPREAD
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Ask, Local
from polydag.stats import Regimes


def known_regimes(sites: Iterable[Local]) -> tuple[frozenset[str], ...]:
    """The sets of variables that were intervened on anywhere; every site knows them."""
    found: set[frozenset[str]] = set()
    for site in sites:
        found |= set(site.data.parts) if isinstance(site.data, Regimes) else {frozenset()}
    return tuple(sorted(found, key=sorted))


def variable_groups(names: Sequence[str], regimes: Iterable[frozenset[str]]) -> Index:
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
    """A set of variables as part of a name; commas within variable names are escaped.

    Examples
    --------
    >>> regime_label({"dose", "age"}), regime_label({"a,b"})
    ('age,dose', 'a\\\\,b')
    """
    return ",".join(name.replace("\\", "\\\\").replace(",", "\\,") for name in sorted(targets))


def regimes_asked(ask: Ask) -> list[frozenset[str]] | None:
    """The sets of variables that a question names; None where these are no lists of names."""
    regimes = ask.meta["regimes"]
    if not isinstance(regimes, list) or not all(isinstance(regime, list) for regime in regimes):
        return None
    if not all(isinstance(name, str) for regime in regimes for name in regime):
        return None
    return [frozenset(regime) for regime in regimes]


def require_all_rows(own: Iterable[frozenset[str]], asked: Iterable[frozenset[str]]) -> None:
    """Decline a question that would leave out some of a party's rows."""
    known = set(asked)
    if left_out := [regime for regime in own if regime not in known]:
        what = " and ".join(sorted(left_out[0])) or "no variable"
        raise DataError(f"In some of its rows {what} was set, and the study does not ask for such rows.")


def centre_question(names: Sequence[str], group: Index, more: Arrays | None = None) -> Ask:
    """Ask for numbers of rows and sums, by which rows are centred, and for the parties' scales."""
    groups, d = int(group.max()) + 1, len(names)
    returns = {"rows": (groups,), "mass": (groups,), "sums": (groups, d)}
    returns |= {"rank": (1,), "log_scales": (3, d)}
    return Ask("centre", {"group": group, **(more or {})}, {"columns": list(names)}, returns=returns)


def require_spread(names: Sequence[str], deviation: Array, size: Array | float = 0.0) -> None:
    """Raise a `DataError` for constant columns; `size` is that of their means, for the rounding error."""
    flat = deviation <= SPREAD * np.abs(size)
    if flat.any():
        constant = ", ".join(name for name, each in zip(names, flat, strict=True) if each)
        raise DataError(f"All parties: column {constant} is constant. Leave it out.")


def require_rows(names: Sequence[str], group: Index, rows: Array) -> None:
    """Raise a `DataError` for a variable that no row scores; `rows` are the rows of each group."""
    if nobody := [name for name, g in zip(names, group, strict=True) if not rows[g] > 0]:
        raise DataError(
            f"{nobody[0]} was set in every row of every party that answered, so nothing can be learned about "
            "its causes."
        )
