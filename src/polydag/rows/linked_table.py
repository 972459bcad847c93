"""A table whose rows are linked: variables, covariates and network, taken apart and checked."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from polydag.arrays import Array, Index, Mask
from polydag.data.checking.quality import require_usable
from polydag.data.containers import table_of
from polydag.errors import DataError, DataWarning
from polydag.graph import node_names
from polydag.rows.links import Links, as_links
from polydag.stats import GaussianStats
from polydag.stats.rows import is_arrow, numeric_rows, require_finite


@dataclass(frozen=True, eq=False)
class LinkedTable:
    """Numeric columns, the covariates of their means, and the network of the rows.

    `group` is the column that told the network, where one did; `index` the rows' names, where they have any.
    `places` holds times or coordinates, where they are known, `covariance` a known matrix between the rows,
    and `labels` the group of each row. `was_set` is True for values that an intervention set.
    """

    values: Array
    names: tuple[str, ...]
    links: Links
    covariates: Array | None
    group: str = ""
    index: Any = None
    places: Array | None = None
    covariance: Any = None
    labels: Sequence[Hashable] | None = None
    was_set: Mask | None = None

    @classmethod
    def of(
        cls,
        X: Any,
        links: Any,
        covariates: Any = None,
        *,
        time: Any = None,
        places: Array | None = None,
        covariance: Any = None,
        indicators: Collection[str] = (),
    ) -> Self:
        """Take a table apart: a text as `links` or `time`, or texts as `covariates`, name columns of it.

        `indicators` are columns that are known to have two values.
        """
        data = _rows_and_columns(X)
        group = links if isinstance(links, str) else ""
        told = _as_names(covariates)
        when = [time] if isinstance(time, str) else []
        taken = [*([group] if group else []), *when, *(told or ())]
        if time is not None:
            places = _times(_column(data, time) if when else time)
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
        if covariance is not None:
            covariance = _checked_covariance(covariance, len(values))
            network = Links.from_covariance(covariance)
        elif labels is not None:
            network = as_links(Links.from_groups(labels), len(values))
        else:
            network = as_links(_nothing(links), rows)
        if places is not None and len(places) != len(values):
            raise DataError(
                f"There are times or coordinates of {len(places)} rows; the data has {len(values)}."
            )
        if covariance is None and places is None:
            _require_not_complete(network, values.shape[1])
        _warn_of_two_values(values, names, indicators)
        if _alike(values, network).all():
            raise DataError("All columns are the same in linked rows. Use one row for each group.")
        require_usable(GaussianStats.from_data(values, names=names), independent=len(values) > len(names))
        named = getattr(data, "index", None)
        return cls(values, names, network, beside, group, named, places, covariance, labels)

    @property
    def group_level(self) -> Mask:
        """The columns that are the same in all linked rows, and say nothing about single ones."""
        return _alike(self.values, self.links)

    @property
    def unset(self) -> Mask:
        """The rows in which nothing was set by intervention."""
        if self.was_set is None:
            return np.ones(len(self.values), dtype=bool)
        return np.asarray(~self.was_set.any(axis=1))

    @property
    def unset_links(self) -> Links:
        """The links between these rows."""
        return self.links if self.was_set is None else self.links.among(np.flatnonzero(self.unset))

    @property
    def design(self) -> Array:
        """The intercept and the covariates."""
        ones = np.ones((len(self.values), 1))
        return ones if self.covariates is None else np.concatenate([ones, self.covariates], axis=1)

    def of_same_rows(self, X: Any, group: str, covariates: Any) -> tuple[Array, Array | None]:
        """The variables and covariates of another table with the same rows and columns."""
        data = _rows_and_columns(X)
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


def drawn_components(table: LinkedTable, drawn: Sequence[Index]) -> LinkedTable:
    """The table of components drawn with replacement, each of them linked as it was."""
    rows = np.concatenate(drawn)
    place = np.empty(table.links.n, dtype=np.int64)
    component = table.links.components
    ends = component[table.links.pairs[:, 0]] if table.links.n_links else np.empty(0, dtype=np.int64)
    by_component = {int(c): np.flatnonzero(ends == c) for c in np.unique(ends)}
    pairs, which, start = [np.empty((0, 2), dtype=np.int64)], [np.empty(0, dtype=np.int64)], 0
    for members in drawn:
        place[members] = np.arange(len(members))
        own = by_component.get(int(component[members[0]]))
        if own is not None:
            pairs.append(np.sort(place[table.links.pairs[own]], axis=1) + start)
            which.append(own)
        start += len(members)
    found = np.concatenate(pairs)
    order = np.lexsort(found.T[::-1])
    old = np.concatenate(which)[order]
    links = replace(
        table.links,
        n=len(rows),
        pairs=found[order],
        kinds=None if table.links.kinds is None else table.links.kinds[old],
        weights=None if table.links.weights is None else table.links.weights[old],
    )
    return replace(
        table,
        values=table.values[rows],
        links=links,
        covariates=None if table.covariates is None else table.covariates[rows],
        index=None,
        labels=None,
        was_set=None if table.was_set is None else table.was_set[rows],
        places=None if table.places is None else table.places[rows],
        covariance=None if table.covariance is None else _drawn_covariance(table.covariance, drawn),
    )


def _drawn_covariance(covariance: Any, drawn: Sequence[Index]) -> Any:
    """The covariance of components drawn with replacement; different draws are independent."""
    from scipy.sparse import block_diag

    return block_diag([covariance[np.ix_(members, members)] for members in drawn], format="csr")


def _times(column: Any) -> Array:
    """Times as numbers, in days where they are dates; one column."""
    import pandas as pd

    values: Any = pd.Series(column).reset_index(drop=True)
    if values.dtype.kind not in "Mmfiu":
        try:
            values = pd.to_datetime(values, format="ISO8601")
        except (ValueError, TypeError):
            raise DataError(
                f"The times are {values.dtype}, with {values.iloc[0]!r} first. They must be numbers, or "
                f"dates as "
                "2026-05-31."
            ) from None
    if values.isna().any():
        raise DataError(f"Row {int(values.isna().argmax()) + 1} has no time. Leave it out, or give it one.")
    if values.dtype.kind in "Mm":
        first = values.min() if values.dtype.kind == "M" else pd.Timedelta(0)
        values = (values - first) / pd.Timedelta(days=1)
    numbers: Array = values.to_numpy(dtype=float)[:, None]
    return numbers


def _checked_covariance(covariance: Any, n: int) -> Any:
    """K, symmetric, of the data's size, with positive variances; sparse ones in rows."""
    from scipy.sparse import csr_array

    matrix: Any = covariance
    if hasattr(covariance, "tocsr"):
        matrix = csr_array(covariance, dtype=float)
        finite = bool(np.isfinite(matrix.data).all())
    else:
        matrix = np.asarray(covariance, dtype=float)
        finite = bool(np.isfinite(matrix).all())
    if matrix.shape != (n, n):
        raise DataError(
            f"The covariance of the rows is {' x '.join(map(str, matrix.shape))}; the data has {n} rows."
        )
    if not finite:
        raise DataError("The covariance of the rows has missing or infinite values.")
    if abs(matrix - matrix.T).max() > 1e-6 * abs(matrix).max():
        raise DataError("The covariance of the rows is not symmetric.")
    diagonal = matrix.diagonal()
    if not (diagonal > 0).all():
        row = int(np.flatnonzero(diagonal <= 0)[0]) + 1
        raise DataError(f"The covariance of the rows has {diagonal[row - 1]:g} on its diagonal in row {row}.")
    return matrix


def _warn_of_two_values(values: Array, names: Sequence[str], known: Collection[str]) -> None:
    two = [name for name, column in zip(names, values.T, strict=True) if len(np.unique(column[:50])) < 3]
    two = [name for name in two if name not in known]
    two = [name for name in two if len(np.unique(values[:, list(names).index(name)])) == 2]
    if two and len(values) > 4:
        warnings.warn(
            f"Column {', '.join(two)} has two values only. Linked rows are modelled as Gaussian, to "
            f"which such "
            "a column is a rough approximation.",
            DataWarning,
            stacklevel=4,
        )


def _alike(values: Array, links: Links) -> Mask:
    """Which columns are the same in all linked rows of several components."""
    if links.n_links == 0 or links.weights is not None or links.components.max() == 0:
        return np.zeros(values.shape[1], dtype=bool)
    i, j = links.pairs.T
    result = np.ptp(values, axis=0) > 0
    for start in range(0, len(i), 100_000):
        part = slice(start, start + 100_000)
        result &= (values[i[part]] == values[j[part]]).all(axis=0)
    return np.asarray(result)


def _rows_and_columns(X: Any) -> Any:
    """A DataFrame or an array."""
    data = table_of(getattr(X, "frame", X))
    return data.to_pandas() if is_arrow(data) else data


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
