"""A table whose rows are linked: variables, covariates and network, taken apart and checked."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from polydag.data.quality import require_usable
from polydag.errors import DataError
from polydag.graph import node_names
from polydag.rows.links import Links, as_links
from polydag.stats import GaussianStats
from polydag.stats.rows import numeric_rows, require_finite

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinkedTable:
    """Numeric columns, the covariates of their means, and the network of the rows.

    `group` is the column that told the network, where one did; `index` the rows' names, where they have any.
    """

    values: Array
    names: tuple[str, ...]
    links: Links
    covariates: Array | None
    group: str = ""
    index: Any = None

    @classmethod
    def of(cls, X: Any, links: Any, covariates: Any = None) -> Self:
        """Take a table apart: a text as `links` or texts as `covariates` name columns of it."""
        data = getattr(X, "frame", X)
        group = links if isinstance(links, str) else ""
        told = _as_names(covariates)
        taken = [*([group] if group else []), *(told or ())]
        labels = _column(data, group) if group else None
        beside = _numbers(data, told) if told else _given(covariates)
        values, found = numeric_rows(_without(data, taken))
        names = node_names(found, values.shape[1])
        if values.shape[1] == 0:
            raise DataError("No columns are left beside groups and covariates.")
        require_finite(values, names)
        if len(values) < 4:
            raise DataError(f"The data has {len(values)} rows; at least 4 are needed.")
        index = _index(data)
        rows: int | Sequence[Hashable] = len(values) if index is None else index.tolist()
        network = Links.from_groups(labels) if labels is not None else as_links(_nothing(links), rows)
        network = as_links(network, len(values)) if labels is not None else network
        _require_not_complete(network, values.shape[1])
        require_usable(GaussianStats.from_data(values, names=names), independent=len(values) > len(names))
        return cls(values, names, network, beside, group, getattr(data, "index", None))

    def of_same_rows(self, X: Any, group: str, covariates: Any) -> tuple[Array, Array | None]:
        """The variables and covariates of another table with the same rows and columns."""
        data = getattr(X, "frame", X)
        told = _as_names(covariates)
        present = {str(name) for name in getattr(data, "columns", ())}
        values, found = numeric_rows(
            _without(data, [name for name in (group, *(told or ())) if name in present])
        )
        names = node_names(found, values.shape[1])
        if values.shape != self.values.shape or (found is not None and names != self.names):
            raise DataError(
                f"This table is {values.shape[0]} x {values.shape[1]}; it must have the rows and columns of "
                f"the one that was fitted ({self.values.shape[0]} x {self.values.shape[1]}), in that order."
            )
        require_finite(values, names)
        return values, _numbers(data, told) if told else _given(covariates)


def _nothing(links: Any) -> Any:
    return [] if links is None else links


def _require_not_complete(links: Links, p: int) -> None:
    n = links.n
    if links.n_links == n * (n - 1) // 2 and n > p:
        raise DataError(
            f"Every one of {n} rows is linked with every other: what they share cannot be told from the "
            "mean. Give smaller groups, or only the links that matter."
        )


def _as_names(covariates: Any) -> list[str] | None:
    if isinstance(covariates, str):
        return [covariates]
    if isinstance(covariates, (list, tuple)) and covariates and all(isinstance(c, str) for c in covariates):
        return list(covariates)
    return None


def _given(covariates: Any) -> Array | None:
    if covariates is None or (isinstance(covariates, (list, tuple)) and not covariates):
        return None
    values = np.asarray(covariates, dtype=float)
    return values[:, None] if values.ndim == 1 else values


def _column(data: Any, name: str) -> Any:
    if name not in {str(column) for column in getattr(data, "columns", ())}:
        raise DataError(f"There is no column {name}.")
    return data[name]


def _numbers(data: Any, names: list[str]) -> Array:
    for name in names:
        _column(data, name)
    values, _ = numeric_rows(data[names])
    require_finite(values, names)
    return values


def _without(data: Any, names: Sequence[str]) -> Any:
    return data.drop(columns=list(names)) if names else data


def _index(data: Any) -> Any:
    """The rows' names; None where they are just numbered from 0."""
    import pandas as pd

    index = getattr(data, "index", None)
    plain = not isinstance(data, pd.DataFrame) or (
        isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1
    )
    return None if plain else index
