"""Interventional data: statistics per set of intervened variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from polydag.arrays import Array
from polydag.errors import DataError
from polydag.stats.by_node import ByNode
from polydag.stats.gaussian import GaussianStats


class Mergeable(Protocol):
    """What statistics per regime need to have."""

    @property
    def names(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def n(self) -> float: ...  # noqa: D102
    def __add__(self, other: Self) -> Self: ...


S = TypeVar("S", bound=Mergeable)


@dataclass(frozen=True, eq=False)
class Regimes(Generic[S]):
    """Statistics per set of intervened variables; a variable is scored by the rows that did not set it."""

    parts: Mapping[frozenset[str], S]

    def __post_init__(self) -> None:
        if not self.parts:
            raise DataError("There are no rows in any regime.")
        for targets in self.parts:
            if unknown := sorted(targets - set(self.names)):
                raise DataError(f"An intervention names {', '.join(unknown)}, which is not a column.")

    @classmethod
    def from_data(
        cls, data: Any, targets: Sequence[Iterable[object]], build: Callable[[Any], S]
    ) -> Regimes[S]:
        """Group rows by their targets (an iterable of names a row, empty where nothing was set)."""
        for number, row in enumerate(targets, start=1):
            if isinstance(row, str):  # would be taken apart into letters
                raise DataError(f"Row {number}: intervention targets are a list of names; got {row!r}.")
        sets = [frozenset(str(name) for name in row) for row in targets]
        if len(sets) != len(data):
            raise DataError(f"There are {len(sets)} intervention targets for {len(data)} rows.")
        if hasattr(data, "schema"):
            data = data.to_pandas()
        pick = data.iloc if hasattr(data, "iloc") else np.asarray(data)
        where = {key: [i for i, own in enumerate(sets) if own == key] for key in dict.fromkeys(sets)}
        return cls({key: build(pick[rows]) for key, rows in where.items()})

    @property
    def names(self) -> tuple[str, ...]:
        """The variables."""
        return next(iter(self.parts.values())).names

    @property
    def n(self) -> float:
        """All rows of all regimes."""
        return sum(part.n for part in self.parts.values())

    def for_node(self, node: object) -> S:
        """The merged statistics of all rows in which `node` was not set."""
        usable = [part for targets, part in self.parts.items() if str(node) not in targets]
        if not usable:
            raise DataError(f"{node} was set in every row, so nothing can be learned about its causes.")
        return reduce(add, usable)

    def __add__(self, other: Regimes[S]) -> Regimes[S]:
        parts = dict(self.parts)
        for key, part in other.parts.items():
            parts[key] = parts[key] + part if key in parts else part
        return Regimes(parts)

    def __iter__(self) -> Iterator[tuple[frozenset[str], S]]:
        return iter(self.parts.items())


Families = GaussianStats | Regimes[GaussianStats] | ByNode


def standardized(stats: Families) -> Families:
    """The statistics after scaling every column to mean zero and variance one over all rows.

    All regimes share one scale: what an intervention does to a mean or a variance is kept.
    """
    if isinstance(stats, GaussianStats | ByNode):
        return stats.standardized()
    whole = reduce(add, stats.parts.values())
    return rescaled(stats, np.sqrt(whole.covariance.diagonal()), whole.mean)


def rescaled(
    stats: GaussianStats | Regimes[GaussianStats], scale: Array, centre: Array | None = None
) -> GaussianStats | Regimes[GaussianStats]:
    """The statistics of `(x - centre) / scale`, in every regime."""
    where = np.zeros(len(scale)) if centre is None else centre
    if isinstance(stats, GaussianStats):
        return stats.rescaled(where, scale)
    return Regimes({targets: part.rescaled(where, scale) for targets, part in stats.parts.items()})
