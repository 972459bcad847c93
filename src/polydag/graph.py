"""Graphs with named nodes; `adjacency[i, j]` is the edge `i -> j`.

An edge is undirected if both entries are true, so DAGs, CPDAGs and partially directed graphs share one
representation. Graphs are immutable: their arrays are read-only and every operation returns a new graph.
The algorithms on plain arrays are in `polydag.orientation`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polydag import orientation
from polydag.arrays import Array, Mask
from polydag.errors import DataError
from polydag.printing import rounded_repr

if TYPE_CHECKING:
    from polydag.plot import Picture


class Edge(NamedTuple):
    """An edge, given by the names of its endpoints; an undirected edge is listed once, in node order."""

    source: str
    target: str
    weight: float
    directed: bool = True

    def __repr__(self) -> str:
        return rounded_repr(self)

    def __str__(self) -> str:
        return f"{self.source} {'->' if self.directed else '--'} {self.target}"


def node_names(names: Iterable[object] | None, n_nodes: int) -> tuple[str, ...]:
    """The names as unique strings; `x0, x1, …` by default."""
    if names is None:
        return tuple(f"x{i}" for i in range(n_nodes))
    result = tuple(str(name) for name in names)
    if len(result) != n_nodes:
        raise DataError(f"{len(result)} names were given for {n_nodes} variables.")
    if len(set(result)) != n_nodes:
        repeated = sorted({name for name in result if result.count(name) > 1})
        raise DataError(f"Variable names must be unique; these occur more than once: {', '.join(repeated)}.")
    return result


def _freeze(array: NDArray[np.generic]) -> None:
    array.flags.writeable = False


class Graph:
    """A graph with named nodes and weighted edges, directed or undirected.

    Parameters
    ----------
    adjacency : array of shape (d, d)
        True at `[i, j]` for the edge `i -> j`; also true at `[j, i]` if the edge is undirected.
    names : sequence of str, optional
        One name per node; `x0, x1, …` by default.
    weights : array of shape (d, d), optional
        A finite weight for each edge and 0 elsewhere. By default every edge has weight 1.

    Examples
    --------
    >>> graph = Graph.from_edges(["rain", "sprinkler", "wet"], [("rain", "wet"), ("sprinkler", "wet")])
    >>> graph.parents("wet")
    ['rain', 'sprinkler']
    >>> print(graph.to_cpdag().edges()[0])
    rain -> wet
    """

    __slots__ = ("_adjacency", "_index", "_names", "_weights")

    def __init__(
        self,
        adjacency: ArrayLike,
        names: Iterable[object] | None = None,
        weights: ArrayLike | None = None,
    ) -> None:
        matrix = np.array(adjacency, dtype=bool)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise DataError(f"An adjacency matrix must be square; this one has shape {matrix.shape}.")
        self._names = node_names(names, len(matrix))
        if matrix.diagonal().any():
            loop = self._names[int(np.argmax(matrix.diagonal()))]
            raise DataError(f"Self-loops are not allowed, but there is an edge {loop} -> {loop}.")
        values = matrix.astype(float) if weights is None else np.array(weights, dtype=float)
        if values.shape != matrix.shape:
            raise DataError(f"Weights of shape {values.shape} do not match {len(matrix)} nodes.")
        if not np.isfinite(values).all():
            i, j = np.argwhere(~np.isfinite(values))[0]
            raise DataError(
                f"Weights must be finite; that of {self._names[i]} -> {self._names[j]} is {values[i, j]}."
            )
        values += 0.0  # -0.0 becomes 0.0, so that equal graphs have equal hashes
        if (stray := (values != 0) & ~matrix).any():
            i, j = np.argwhere(stray)[0]
            raise DataError(f"{self._names[i]} -> {self._names[j]} has a weight but is not an edge.")
        _freeze(matrix)
        _freeze(values)
        self._adjacency, self._weights = matrix, values
        self._index = {name: i for i, name in enumerate(self._names)}

    @classmethod
    def from_weights(cls, weights: ArrayLike, names: Iterable[object] | None = None) -> Graph:
        """Create a graph whose edges are the non-zero entries of a weight matrix."""
        values = np.asarray(weights, dtype=float)
        return cls(values != 0, names, values)

    @classmethod
    def from_edges(
        cls,
        names: Sequence[object],
        edges: Iterable[Sequence[object]] = (),
        undirected: Iterable[Sequence[object]] = (),
    ) -> Graph:
        """Create a graph from directed and undirected edges, each `(source, target[, weight])`."""
        labels = node_names(names, len(names))
        index = {name: i for i, name in enumerate(labels)}
        adjacency = np.zeros((len(labels), len(labels)), dtype=bool)
        weights = np.zeros(adjacency.shape)
        for both, group in ((False, edges), (True, undirected)):
            for source, target, *rest in group:
                for end in (source, target):
                    if str(end) not in index:
                        raise DataError(
                            f"The edge {source} -> {target} refers to {end}, which is not a node."
                        )
                i, j = index[str(source)], index[str(target)]
                weight = float(rest[0]) if rest else 1.0  # type: ignore[arg-type]
                for a, b in ((i, j), (j, i)) if both else ((i, j),):
                    adjacency[a, b] = True
                    weights[a, b] = weight
        return cls(adjacency, labels, weights)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the nodes, in the order of rows and columns."""
        return self._names

    @property
    def adjacency(self) -> Mask:
        """True at `[i, j]` for `i -> j`, and at both entries for an undirected edge; read-only."""
        return self._adjacency

    @property
    def weights(self) -> Array:
        """The edge weights, 0 where there is no edge; read-only."""
        return self._weights

    @property
    def n_nodes(self) -> int:
        """The number of nodes."""
        return len(self._names)

    @property
    def n_edges(self) -> int:
        """The number of edges; an undirected edge counts once."""
        return int(np.triu(self._adjacency | self._adjacency.T).sum())

    def index(self, name: object) -> int:
        """The position of a node."""
        try:
            return self._index[str(name)]
        except KeyError:
            raise DataError(f"{name!r} is not a node of this graph.") from None

    def edges(self) -> list[Edge]:
        """All edges in node order; an undirected edge is listed once."""
        found = []
        for i, j in np.argwhere(self._adjacency):
            directed = not self._adjacency[j, i]
            if directed or i < j:
                found.append(Edge(self._names[i], self._names[j], float(self._weights[i, j]), directed))
        return found

    def _named(self, mask: Mask) -> list[str]:
        return [self._names[i] for i in np.flatnonzero(mask)]

    def parents(self, node: object) -> list[str]:
        """Nodes with a directed edge to `node`."""
        i = self.index(node)
        return self._named(self._adjacency[:, i] & ~self._adjacency[i])

    def children(self, node: object) -> list[str]:
        """Nodes to which `node` has a directed edge."""
        i = self.index(node)
        return self._named(self._adjacency[i] & ~self._adjacency[:, i])

    def neighbors(self, node: object) -> list[str]:
        """Nodes joined to `node` by an undirected edge."""
        i = self.index(node)
        return self._named(self._adjacency[i] & self._adjacency[:, i])

    @property
    def has_undirected(self) -> bool:
        """Whether any edge is undirected."""
        return bool((self._adjacency & self._adjacency.T).any())

    @property
    def is_dag(self) -> bool:
        """Whether all edges are directed and there is no cycle."""
        return orientation.topological_order(self._adjacency) is not None

    def _require_dag(self, what: str) -> list[int]:
        order = orientation.topological_order(self._adjacency)
        if order is None:
            why = "it has undirected edges" if self.has_undirected else "it has a directed cycle"
            raise DataError(f"{what} needs a DAG, but {why}.")
        return order

    def topological_order(self) -> list[str]:
        """The nodes, with every parent before its children and ties in node order."""
        return [self._names[i] for i in self._require_dag("A topological order")]

    def to_cpdag(self) -> Graph:
        """The CPDAG of this DAG: an edge is directed if all Markov equivalent DAGs agree on its direction."""
        self._require_dag("A CPDAG")
        return self._reoriented(orientation.cpdag(self._adjacency))

    def to_dag(self) -> Graph:
        """A DAG with this graph's skeleton, directed edges and v-structures (Dor and Tarsi 1992)."""
        extension = orientation.consistent_extension(self._adjacency)
        if extension is None:
            raise DataError(
                "No DAG has the same skeleton, directed edges and v-structures as this graph: "
                "it is not the CPDAG of any DAG."
            )
        return self._reoriented(extension)

    def meek(self) -> Graph:
        """This graph with every orientation that Meek's four rules imply."""
        return self._reoriented(orientation.meek(self._adjacency))

    def d_separated(self, a: object | Collection[object], b: object | Collection[object],
                    given: object | Collection[object] = ()) -> bool:  # fmt: skip
        """Whether this DAG d-separates `a` from `b` given `given`, each a node or a collection of nodes."""
        self._require_dag("d-separation")
        sets = [self._indices(group) for group in (a, b, given)]
        for left, right, what in ((0, 1, "both sides"), (0, 2, "a and given"), (1, 2, "b and given")):
            if common := set(sets[left]) & set(sets[right]):
                shared = ", ".join(self._names[i] for i in sorted(common))
                raise DataError(f"d-separation needs disjoint sets, but {shared} is in {what}.")
        return orientation.d_separated(self._adjacency, *sets)

    def _indices(self, nodes: object | Collection[object]) -> list[int]:
        many = isinstance(nodes, Collection) and not isinstance(nodes, (str, bytes))
        group: Iterable[object] = nodes if many else (nodes,)  # type: ignore[assignment]
        return [self.index(node) for node in group]

    def markov_blanket(self, node: object) -> list[str]:
        """Parents, children and the children's other parents.

        Given these, `node` is independent of all other nodes.
        """
        self._require_dag("A Markov blanket")
        i = self.index(node)
        children = self._adjacency[i]
        blanket = self._adjacency[:, i] | children | self._adjacency[:, children].any(axis=1)
        blanket[i] = False
        return self._named(blanket)

    def prune_cycles(self, keep: ArrayLike | None = None) -> tuple[Graph, list[Edge]]:
        """Remove the weakest edge of each directed cycle until none is left.

        Edges marked in `keep` are never removed; they must not form a cycle themselves. Returns the acyclic
        graph and the removed edges, in the order of removal.
        """
        if self.has_undirected:
            raise DataError(
                "Cycles can be removed from directed graphs only; this graph has undirected edges."
            )
        kept = np.zeros_like(self._adjacency) if keep is None else np.asarray(keep, dtype=bool)
        if kept.shape != self._adjacency.shape:
            raise DataError(f"A keep mask of shape {kept.shape} does not match {self.n_nodes} nodes.")
        adjacency = self._adjacency.copy()
        removed = []
        for i, j in orientation.weakest_cycle_edges(self._adjacency, np.abs(self._weights), kept):
            adjacency[i, j] = False
            removed.append(Edge(self._names[i], self._names[j], float(self._weights[i, j])))
        return self._reoriented(adjacency), removed

    def reorder(self, names: Sequence[object]) -> Graph:
        """The same graph with rows and columns in another order."""
        where = [self.index(name) for name in names]
        if sorted(where) != list(range(self.n_nodes)):
            raise DataError("The new order must name every node exactly once.")
        return Graph(self._adjacency[np.ix_(where, where)], names, self._weights[np.ix_(where, where)])

    def _reoriented(self, adjacency: Mask) -> Graph:
        """These edges with other orientations; each edge keeps its weight, whatever its direction."""
        both = np.where(self._adjacency, self._weights, self._weights.T)
        return Graph(adjacency, self._names, np.where(adjacency, both, 0.0))

    def plot(self, top: int | None = None) -> Picture:
        """A picture, which a notebook shows; of more than 60 nodes the strongest edges, or the `top` ones."""
        from polydag.plot import picture

        return picture(self, top=top)

    def _repr_svg_(self) -> str:
        return self.plot().svg

    def _repr_html_(self) -> str:
        return self.plot()._repr_html_()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        return (
            self._names == other._names
            and np.array_equal(self._adjacency, other._adjacency)
            and np.array_equal(self._weights, other._weights)
        )

    def __hash__(self) -> int:
        return hash((self._names, self._adjacency.tobytes(), self._weights.tobytes()))

    def __reduce__(self) -> tuple[object, ...]:
        return (Graph, (self._adjacency, self._names, self._weights))

    def __repr__(self) -> str:
        kind = "DAG" if self.is_dag else "partially directed graph" if self.has_undirected else "cyclic graph"
        return f"<Graph: {kind} with {self.n_nodes} nodes and {self.n_edges} edges>"
