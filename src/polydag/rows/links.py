"""Which rows may depend on each other: an undirected network of rows, however a person has it in hand."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polydag.arrays import Array, Index
from polydag.errors import DataError, DataWarning, UsageError

if TYPE_CHECKING:
    from scipy.sparse import csr_array

NEIGHBOURS = 5
MAX_LINKS = 20_000_000  # beyond this the list of links alone takes half a gigabyte
MAX_COMPONENT = 10_000  # beyond this the matrices of one component take more than 4 GB


@dataclass(frozen=True, eq=False)
class Links:
    """An undirected network among n rows.

    Attributes
    ----------
    n : int
        The number of rows.
    pairs : array of shape (m, 2)
        Linked rows, counted from 0, i < j, each pair once, sorted.
    what : str
        How messages call a set of linked rows: "groups", "neighbours", "links".
    kinds : array of shape (m,), optional
        The kind of each link, as text.
    weights : array of shape (m,), optional
        How strong each link is known to be, kinship for one.

    Examples
    --------
    >>> Links.from_groups(["a", "b", "a", "a"]).pairs.tolist()
    [[0, 2], [0, 3], [2, 3]]
    """

    n: int
    pairs: Index
    what: str = "links"
    kinds: NDArray[np.str_] | None = None
    weights: Array | None = None

    @classmethod
    def from_edges(
        cls,
        edges: Iterable[Sequence[Hashable]],
        rows: int | Sequence[Hashable],
        *,
        kinds: Iterable[Hashable] | None = None,
    ) -> Self:
        """Links given as pairs of rows.

        Parameters
        ----------
        edges : iterable of pairs
            Names of rows where `rows` are names, else numbers from 0.
        rows : int or sequence
            How many rows there are, or their names.
        kinds : iterable, optional
            The kind of each link: siblings, cousins.
        """
        named = not isinstance(rows, (int, np.integer))
        names = list(rows) if named else range(int(rows))  # type: ignore[arg-type]
        place = {name: number for number, name in enumerate(names)}
        if len(place) < len(names):
            twice = next(name for number, name in enumerate(names) if place[name] != number)
            raise DataError(f"Two rows are called {twice!r}; links by name need names that differ.")
        ends = [_pair(edge, number) for number, edge in enumerate(edges)]
        if strange := [end for pair in ends for end in pair if end not in place]:
            raise DataError(_unknown(strange, names, named))
        found = np.array([(place[a], place[b]) for a, b in ends], dtype=np.int64).reshape(-1, 2)
        labels = None if kinds is None else np.array([str(_bare(kind)) for kind in kinds])
        return cls._from_pairs(len(names), found, names, labels)

    @classmethod
    def _from_pairs(cls, n: int, found: Index, names: Sequence[Any], kinds: NDArray[np.str_] | None) -> Self:
        alone = found[:, 0] == found[:, 1]
        if alone.any():
            first = names[found[alone][0, 0]]
            _warn(f"{_count(int(alone.sum()), 'link')} from a row to itself (first: {first!r}) left out.")
        ordered = np.sort(found[~alone], axis=1)
        pairs, first, which = np.unique(ordered, axis=0, return_index=True, return_inverse=True)
        own = None if kinds is None else kinds[~alone]
        if own is not None and (differ := own != own[first][which.ravel()]).any():
            a, b = (names[row] for row in ordered[differ][0])
            raise DataError(f"The link between {a!r} and {b!r} is given with two kinds.")
        if extra := len(ordered) - len(pairs):
            _warn(f"{_count(extra, 'link')} given more than once; each pair counts once.")
        return cls(n, pairs.reshape(-1, 2), kinds=None if own is None else own[first])

    @classmethod
    def from_graph(cls, graph: Any, rows: int | Sequence[Hashable]) -> Self:
        """Links of a networkx graph whose nodes are row names, or numbers from 0."""
        return cls.from_edges([tuple(edge[:2]) for edge in graph.edges()], rows)

    @classmethod
    def from_matrix(cls, matrix: Any) -> Self:
        """Links where a (sparse or dense) square matrix is not zero; its diagonal says nothing."""
        from scipy.sparse import coo_array

        entries = coo_array(matrix)
        if len(entries.shape) != 2 or entries.shape[0] != entries.shape[1]:
            raise DataError(f"A matrix of links must be square; this one is {entries.shape}.")
        off = (entries.data != 0) & (entries.row != entries.col)
        if not np.isin(entries.data[off], (0, 1)).all():
            _warn(
                "The matrix of links has values other than 0 and 1. Links are where it is not zero, and "
                "the values "
                "are not used; for a known covariance of the rows, or kinship, give covariance= instead."
            )
        i, j = (axis[off] for axis in entries.coords)
        pairs = np.unique(np.sort(np.stack([i, j], axis=1).astype(np.int64), axis=1), axis=0)
        return cls(entries.shape[0], pairs.reshape(-1, 2))

    @classmethod
    def from_covariance(cls, matrix: Any) -> Self:
        """Links where a (sparse or dense) covariance of the rows is not zero, weighted by it."""
        from scipy.sparse import coo_array, triu

        upper = coo_array(triu(matrix, 1))
        kept = upper.data != 0
        pairs = np.stack([axis[kept] for axis in upper.coords], axis=1).astype(np.int64)
        order = np.lexsort(pairs.T[::-1])
        return cls(upper.shape[0], pairs[order], weights=np.asarray(upper.data[kept][order], dtype=float))

    @classmethod
    def from_groups(cls, labels: Any) -> Self:
        """Every two rows with the same label are linked."""
        import pandas as pd

        column = pd.Series(labels)
        if not len(column):
            raise DataError("The data has no rows.")
        if column.isna().any():
            row = int(np.flatnonzero(column.isna())[0]) + 1
            raise DataError(
                f"Row {row} has no group label. Give every row one; its own where it has no group."
            )
        codes, _ = pd.factorize(column)
        sizes = np.bincount(codes)
        total = int((sizes * (sizes - 1) // 2).sum())
        if total > MAX_LINKS or sizes.max() > MAX_COMPONENT:
            raise DataError(
                f"The largest of {len(sizes)} groups has {sizes.max()} rows, which makes {total:,} links: "
                "too many. Use smaller groups (classes rather than schools), or fewer links for each row."
            )
        members = np.split(np.argsort(codes, kind="stable"), np.cumsum(sizes)[:-1])
        found = [group[np.stack(np.triu_indices(len(group), 1), axis=1)] for group in members]
        pairs = np.concatenate(found).astype(np.int64)
        return cls(len(column), pairs[np.lexsort(pairs.T[::-1])], "groups")

    @classmethod
    def from_coordinates(cls, coordinates: ArrayLike, k: int = NEIGHBOURS) -> Self:
        """Each row is linked with its `k` nearest neighbours, and with those it is a neighbour of."""
        from scipy.spatial import KDTree

        points = np.asarray(coordinates, dtype=float)
        if points.ndim != 2 or not np.isfinite(points).all():
            raise DataError("Coordinates are a table of finite numbers, one row for each row of the data.")
        if not 1 <= k < len(points):
            raise UsageError(f"k, the number of neighbours, is from 1 to {len(points) - 1}; got {k}.")
        _, near = KDTree(points).query(points, k=k + 1)
        i = np.repeat(np.arange(len(points)), k + 1)
        pairs = np.sort(np.stack([i, near.ravel()], axis=1)[i != near.ravel()], axis=1)
        return cls(len(points), np.unique(pairs, axis=0).astype(np.int64).reshape(-1, 2), "neighbours")

    @cached_property
    def components(self) -> Index:
        """The number of each row's connected component."""
        from scipy.sparse.csgraph import connected_components

        _, labels = connected_components(self.adjacency, directed=False)
        return labels.astype(np.int64)

    @property
    def adjacency(self) -> csr_array:
        """The symmetric matrix of links, True where there is one."""
        from scipy.sparse import coo_array

        i, j = self.pairs.T
        both = (np.concatenate([i, j]), np.concatenate([j, i]))
        return coo_array((np.ones(2 * len(i), dtype=bool), both), shape=(self.n, self.n)).tocsr()

    def among(self, rows: Index) -> Self:
        """The links between some of the rows, which are numbered anew in the given order."""
        place = np.full(self.n, -1)
        place[rows] = np.arange(len(rows))
        own = (place[self.pairs] >= 0).all(axis=1)
        found = np.sort(place[self.pairs[own]], axis=1)
        order = np.lexsort(found.T[::-1])
        kinds = None if self.kinds is None else self.kinds[own][order]
        weights = None if self.weights is None else self.weights[own][order]
        return replace(self, n=len(rows), pairs=found[order], kinds=kinds, weights=weights)

    @property
    def n_links(self) -> int:
        """The number of links."""
        return len(self.pairs)


def as_links(links: Any, rows: int | Sequence[Hashable]) -> Links:
    """Links from whatever holds them, checked against the rows.

    Parameters
    ----------
    links : Links, pairs, networkx graph, sparse or square matrix, labels, or coordinates
        A list of pairs or a table with two columns holds links; a third column called `kind` their kinds. A
        column (one dimension) holds group labels. A table of decimal numbers with a line for each row holds
        coordinates (5 nearest neighbours).
    rows : int or sequence
        How many rows the data has, or their names.
    """
    n = int(rows) if isinstance(rows, (int, np.integer)) else len(rows)
    result = _read(links, rows, n)
    if result.n != n:
        raise DataError(f"The network is about {result.n} rows, the data has {n}.")
    if result.n_links == 0:
        _warn("The network has no links: rows are taken as independent.")
        return result
    sizes = np.bincount(result.components)
    if sizes.max() > MAX_COMPONENT or result.n_links > MAX_LINKS:
        raise DataError(
            f"{sizes.max():,} rows are connected, by {result.n_links:,} links: too many (at most "
            f"{MAX_COMPONENT:,} and {MAX_LINKS:,}). Use fewer links, so that the network splits into parts."
        )
    return result


def _read(links: Any, rows: int | Sequence[Hashable], n: int) -> Links:
    if isinstance(links, Links):
        return links
    if hasattr(links, "edges") and hasattr(links, "nodes"):
        return Links.from_graph(links, rows)
    if hasattr(links, "tocoo"):
        return Links.from_matrix(links)
    if hasattr(links, "dtypes") and hasattr(links, "columns"):
        values = links.to_numpy()
        if links.shape[1] == 2 and all(kind.kind == "f" for kind in links.dtypes) and len(links) == n:
            _require_decimals(values)
            return Links.from_coordinates(values)
        ends = list(links.iloc[:, :2].itertuples(index=False, name=None))
        return Links.from_edges(ends, rows, kinds=links["kind"] if "kind" in links.columns else None)
    if _are_pairs(links):
        return Links.from_edges(links, rows)
    values = np.asarray(links)
    if values.ndim == 1:
        return Links.from_groups(links) if len(values) else Links(n, np.empty((0, 2), dtype=np.int64))
    if values.ndim == 2 and values.dtype.kind == "f" and len(values) == n > values.shape[1]:
        _require_decimals(values)
        return Links.from_coordinates(values)
    if values.ndim == 2 and values.shape == (n, n):
        return Links.from_matrix(values)
    if values.ndim == 2 and values.shape[1] == 2:
        return Links.from_edges([tuple(pair) for pair in values.tolist()], rows)
    raise UsageError(
        "links are pairs of rows, a networkx graph, a square matrix, a column of group labels or "
        f"coordinates; this is {type(links).__name__} of the shape {np.shape(links)}."
    )


def _require_decimals(values: Array) -> None:
    """Raise where a table of two columns may hold pairs of rows as well as coordinates."""
    if values.shape[1] == 2 and np.array_equal(values, np.round(values)):
        raise UsageError(
            "This table of whole numbers may hold pairs of rows or coordinates. Say which: "
            "Links.from_edges(pairs, rows) or Links.from_coordinates(points), or LinkedRows with links= or "
            "coordinates=."
        )


def _are_pairs(links: Any) -> bool:
    """Whether this is a list (or set) of pairs, whose entries may be of any sort."""
    if isinstance(links, (list, tuple, set, frozenset)):
        return len(links) > 0 and all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in links)
    return False


def _pair(edge: Sequence[Hashable], number: int) -> tuple[Hashable, Hashable]:
    if len(edge) < 2:
        raise DataError(f"Link {number + 1} is {edge!r}; a link is a pair of rows.")
    return _bare(edge[0]), _bare(edge[1])


def _bare(end: Any) -> Hashable:
    """A row's name or number as Python has it: 3.0 and numpy's 3 are 3."""
    value = end.item() if hasattr(end, "item") else end
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _unknown(strange: Sequence[Hashable], names: Sequence[Hashable], named: bool) -> str:
    listed = ", ".join(repr(end) for end in dict.fromkeys(strange))
    if len(listed) > 120:
        listed = listed[:120].rsplit(",", 1)[0] + ", …"
    rows = f"rows are numbered 0 to {len(names) - 1}"
    if named:
        shown = [repr(name) for name in names]
        short = shown if len(shown) < 4 else [*shown[:2], "…", shown[-1]]
        rows = f"rows are called {', '.join(short)}"
    return f"Links lead to rows that do not exist: {listed}; {rows}."


def _count(number: int, what: str) -> str:
    return f"{number} {what} is" if number == 1 else f"{number} {what}s are"


def _warn(text: str) -> None:
    warnings.warn(text[0].upper() + text[1:], DataWarning, stacklevel=4)
