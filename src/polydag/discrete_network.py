"""Discrete Bayesian networks: labels, parents and conditional probability tables; sampling; edge deletion.

Edge deletion creates the related networks of the tasks paper, section V-A: "the conditional probability table
for the child of the deleted edge is updated by marginalizing over the deleted parent". We marginalise under
the original joint distribution: the new table is `P(child | remaining parents)`. Among all networks with the
remaining edges, this one has the smallest Kullback-Leibler divergence from the original. Weighting the
deleted parent uniformly, or by its marginal even if it depends on the remaining parents, lacks this property.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from polydag.arrays import Array, Index
from polydag.errors import DataError, UsageError
from polydag.graph import Graph, node_names

if TYPE_CHECKING:
    import pandas as pd

RandomState = int | np.random.Generator | None

ROW_SUM_TOLERANCE = 1e-5  # probabilities in published tables are rounded to a few digits
_LARGEST_FACTOR = 2**25  # entries: 256 MB


@dataclass(frozen=True, init=False, eq=False)
class DiscreteNetwork:
    """A discrete Bayesian network. All attributes are read-only.

    Parameters
    ----------
    levels : mapping of name to labels
        The labels of each variable, in order. The order of the mapping is the order of the variables.
    parents : mapping of name to names
        The parents of each variable. A variable that is not a key has none.
    tables : mapping of name to array
        One conditional probability table per variable: one axis per parent, in the order of `parents[name]`,
        and the variable itself on the last axis. Every row sums to 1 within 1e-5, because published tables
        are rounded; tables are stored as given.

    Attributes
    ----------
    names : tuple of str
        The variables.
    levels, parents, tables : dict
        As above.
    graph : Graph
        The DAG.

    Examples
    --------
    >>> coin = DiscreteNetwork({"coin": ["heads", "tails"]}, {}, {"coin": [0.5, 0.5]})
    >>> coin.sample(3, random_state=0)["coin"].tolist()
    ['tails', 'heads', 'heads']
    """

    names: tuple[str, ...]
    levels: dict[str, tuple[str, ...]]
    parents: dict[str, tuple[str, ...]]
    tables: dict[str, Array]
    graph: Graph

    def __init__(
        self,
        levels: Mapping[str, Sequence[str]],
        parents: Mapping[str, Sequence[str]],
        tables: Mapping[str, ArrayLike],
    ) -> None:
        names = node_names(levels, len(levels))
        labels = {name: tuple(str(label) for label in levels[name]) for name in names}
        family = {name: tuple(str(parent) for parent in parents.get(name, ())) for name in names}
        for what, given in (("parents", parents), ("a table", tables)):
            if unknown := sorted(set(given) - set(names)):
                raise DataError(f"{unknown[0]} has {what} but is not a variable of the network.")
        for name in names:
            if not labels[name] or len(set(labels[name])) < len(labels[name]):
                raise DataError(f"{name} needs at least one label, and unique ones; got {labels[name]}.")
            if len(set(family[name])) < len(family[name]):
                raise DataError(f"A parent of {name} is listed twice: {', '.join(family[name])}.")
        graph = Graph.from_edges(names, ((parent, name) for name in names for parent in family[name]))
        if not graph.is_dag:
            raise DataError("The network has a directed cycle: a variable is its own ancestor.")
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "levels", labels)
        object.__setattr__(self, "parents", family)
        object.__setattr__(self, "graph", graph)
        object.__setattr__(self, "tables", {name: self._checked(name, tables) for name in names})

    def _checked(self, name: str, tables: Mapping[str, ArrayLike]) -> Array:
        if name not in tables:
            raise DataError(f"{name} has no probability table.")
        table = np.array(tables[name], dtype=float)
        shape = tuple(len(self.levels[member]) for member in (*self.parents[name], name))
        if table.shape != shape:
            raise DataError(
                f"The table of {name} has shape {table.shape}; with its parents "
                f"({', '.join(self.parents[name]) or 'none'}) it must have shape {shape}."
            )
        sums = table.sum(axis=-1)
        good = (np.abs(sums - 1) <= ROW_SUM_TOLERANCE) & (table >= 0).all(axis=-1)
        if not good.all():
            where = np.argwhere(~good)[0]
            raise DataError(
                f"The probabilities of {name}{self._condition(name, where)} must be non-negative and sum "
                f"to 1; got {table[tuple(where)].tolist()}, which sum to {sums[tuple(where)]}."
            )
        table.flags.writeable = False
        return table

    def _condition(self, name: str, where: Iterable[int]) -> str:
        """A configuration of a variable's parents in words: ` given a = yes, b = no`."""
        parts = [f"{p} = {self.levels[p][i]}" for p, i in zip(self.parents[name], where, strict=True)]
        return f" given {', '.join(parts)}" if parts else ""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DiscreteNetwork):
            return NotImplemented
        return (
            self.names == other.names
            and self.levels == other.levels
            and self.parents == other.parents
            and all(np.array_equal(self.tables[name], other.tables[name]) for name in self.names)
        )

    __hash__ = None  # type: ignore[assignment]  # compared by value, and the tables are arrays

    def __repr__(self) -> str:
        return f"<DiscreteNetwork: {len(self.names)} variables, {self.graph.n_edges} edges>"

    @property
    def n_parameters(self) -> int:
        """The number of free parameters: the number of labels minus one, per parent configuration."""
        return sum(table.size - table.size // table.shape[-1] for table in self.tables.values())

    def sample(self, n: int, random_state: RandomState = None) -> pd.DataFrame:
        """Draw `n` rows, with one categorical column per variable and categories in label order."""
        import pandas as pd

        if n < 0:
            raise UsageError(f"The number of rows must not be negative; got {n}.")
        rng = np.random.default_rng(random_state)
        codes: dict[str, Index] = {}
        for name in self.graph.topological_order():
            table = self.tables[name]
            row = np.zeros(n, dtype=np.int64)
            for parent in self.parents[name]:
                row = row * len(self.levels[parent]) + codes[parent]
            upper = table.reshape(-1, table.shape[-1]).cumsum(axis=1)
            upper /= upper[:, -1:]  # rows are rounded; a last label of probability 0 must never be drawn
            codes[name] = (rng.random(n)[:, None] >= upper[row, :-1]).sum(axis=1)
        # One dtype object per set of labels: pandas is slow to build hundreds of equal ones.
        dtypes = {labels: pd.CategoricalDtype(list(labels)) for labels in self.levels.values()}
        columns = {
            name: pd.Categorical.from_codes(codes[name].astype(np.int32), dtype=dtypes[self.levels[name]])
            for name in self.names
        }
        return pd.DataFrame(columns, index=pd.RangeIndex(n))

    def joint(self, names: Sequence[str]) -> Array:
        """The exact joint distribution of some variables, one axis each, by variable elimination.

        Raises `DataError` if an intermediate table would have more than 2^25 entries.

        Examples
        --------
        >>> from polydag.embedded import asia
        >>> asia().joint(["lung"]).round(3).tolist()
        [0.055, 0.945]
        """
        query = tuple(str(name) for name in names)
        if unknown := [name for name in query if name not in self.levels]:
            raise DataError(f"{unknown[0]!r} is not a variable of the network.")
        if len(set(query)) < len(query):
            raise DataError(f"A variable is listed twice: {', '.join(query)}.")
        needed = dict.fromkeys(query)  # and their ancestors; all other variables sum to 1
        stack = list(query)
        while stack:
            fresh = [parent for parent in self.parents[stack.pop()] if parent not in needed]
            needed.update(dict.fromkeys(fresh))
            stack += fresh
        factors = []
        for name in needed:
            table = self.tables[name]
            factors.append(((*self.parents[name], name), table / table.sum(axis=-1, keepdims=True)))
        size = {name: len(labels) for name, labels in self.levels.items()}
        return _eliminate(factors, query, size)

    def delete_edges(self, edges: Iterable[Sequence[str]]) -> DiscreteNetwork:
        """The network without some edges; each child's table is marginalised over the deleted parents.

        The new table is `P(child | remaining parents)` under this network's joint distribution (see the
        module docstring). If a configuration of the remaining parents has probability 0, the deleted parents
        are weighted by their marginal joint distribution.

        Parameters
        ----------
        edges : iterable of (parent, child)
            Edges of this network.

        Examples
        --------
        >>> from polydag.embedded import asia
        >>> asia().delete_edges([("smoke", "lung")]).tables["lung"].round(3).tolist()
        [0.055, 0.945]
        """
        deleted: dict[str, set[str]] = {}
        for parent, child in edges:
            if parent not in self.parents.get(child, ()):
                raise DataError(f"{parent} -> {child} is not an edge of the network.")
            deleted.setdefault(child, set()).add(parent)
        parents, tables = dict(self.parents), dict(self.tables)
        for child, dropped in deleted.items():
            parents[child] = tuple(p for p in self.parents[child] if p not in dropped)
            tables[child] = self._marginalised(child, dropped)
        return DiscreteNetwork(self.levels, parents, tables)

    def _marginalised(self, child: str, dropped: set[str]) -> Array:
        axes = tuple(i for i, parent in enumerate(self.parents[child]) if parent in dropped)
        weight = self.joint(self.parents[child])  # shaped like the table without its last axis
        kept = tuple(i for i in range(weight.ndim) if i not in axes)
        total = weight.sum(axis=axes, keepdims=True)
        alone = weight.sum(axis=kept, keepdims=True)
        share = np.divide(weight, total, out=np.broadcast_to(alone, weight.shape).copy(), where=total > 0)
        return np.asarray((share[..., None] * self.tables[child]).sum(axis=axes))

    def related(self, p_del: float, random_state: RandomState = None) -> DiscreteNetwork:
        """A related network: each edge is deleted with probability `p_del` (tasks paper, section V-A)."""
        if not 0 <= p_del <= 1:
            raise UsageError(f"p_del must be a probability; got {p_del}.")
        edges = self.graph.edges()
        chosen = np.random.default_rng(random_state).random(len(edges)) < p_del
        return self.delete_edges((e.source, e.target) for e, out in zip(edges, chosen, strict=True) if out)


Factor = tuple[tuple[str, ...], Array]


def _eliminate(factors: list[Factor], keep: tuple[str, ...], size: Mapping[str, int]) -> Array:
    """Sum the product of the factors over all variables but `keep`, the cheapest variable first."""
    near: dict[str, set[str]] = {}
    for scope, _ in factors:
        for name in scope:
            near.setdefault(name, set()).update(scope)

    def cost(name: str) -> tuple[int, str]:
        return math.prod(size[other] for other in near[name]), name

    left = {name: cost(name) for name in near if name not in keep}
    while left:
        _, name = min(left.values())
        touched = [factor for factor in factors if name in factor[0]]
        factors = [factor for factor in factors if name not in factor[0]]
        around = near.pop(name) - {name}
        scope = tuple(sorted(around))
        factors.append((scope, _product(touched, (*scope, name), size).sum(axis=-1)))
        del left[name]
        for other in around:
            near[other] = (near[other] | around) - {name}
            if other in left:
                left[other] = cost(other)
    return _product(factors, keep, size)


def _product(factors: Sequence[Factor], scope: tuple[str, ...], size: Mapping[str, int]) -> Array:
    """The product of factors, as an array whose axes are `scope`."""
    entries = math.prod(size[name] for name in scope)
    if entries > _LARGEST_FACTOR:
        raise DataError(
            f"Exact inference needs a table of {entries:,} entries over {len(scope)} variables, more than "
            f"the {_LARGEST_FACTOR:,} allowed: the network is too densely connected."
        )
    result = np.ones([size[name] for name in scope])
    for names, table in factors:
        order = sorted(range(len(names)), key=lambda i: scope.index(names[i]))
        shape = [size[name] if name in names else 1 for name in scope]
        result *= table.transpose(order).reshape(shape)
    return result
