"""Discrete Bayesian networks: labels, parents and conditional probability tables; sampling; edge deletion.

Edge deletion makes related networks for the tasks paper, section V-A: "the conditional probability table for
the child of the deleted edge is updated by marginalizing over the deleted parent". We read that under the
original joint distribution: the new table is `P(child | remaining parents)`. Of all networks on the remaining
edges this one is nearest to the original in Kullback-Leibler divergence. Weighting the deleted parent
uniformly, or by its own marginal although the remaining parents tell about it, lacks that property.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polydag.errors import DataError, UsageError
from polydag.graph import Graph, node_names

if TYPE_CHECKING:
    import pandas as pd

Array = NDArray[np.float64]
RandomState = int | np.random.Generator | None

ROW_SUM_TOLERANCE = 1e-5  # published tables are rounded to a few digits
_LARGEST_FACTOR = 2**25  # entries: 256 MB


@dataclass(frozen=True, init=False, eq=False)
class DiscreteNetwork:
    """A discrete Bayesian network. Its parts are read-only.

    Parameters
    ----------
    levels : mapping of name to labels
        Each variable's labels, in their order; the order of the mapping is the order of the variables.
    parents : mapping of name to names
        Each variable's parents; a variable that is left out has none.
    tables : mapping of name to array
        One conditional probability table per variable: one axis per parent, in the order of `parents[name]`,
        and the variable itself on the last axis. Every row sums to 1 (to 1e-5: published tables are rounded;
        they are kept as given).

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
                raise DataError(f"There are {what} of {unknown[0]}, which is not a variable of the network.")
        for name in names:
            if not labels[name] or len(set(labels[name])) < len(labels[name]):
                raise DataError(f"The labels of {name} must be unique, and at least one: {labels[name]}.")
            if len(set(family[name])) < len(family[name]):
                raise DataError(f"A parent of {name} is named twice: {', '.join(family[name])}.")
        graph = Graph.from_edges(names, ((parent, name) for name in names for parent in family[name]))
        if not graph.is_dag:
            raise DataError("The parents form a cycle: a variable would be its own ancestor.")
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
                f"The table of {name} has the shape {table.shape}; its parents "
                f"({', '.join(self.parents[name]) or 'none'}) and {name} itself need {shape}."
            )
        sums = table.sum(axis=-1)
        good = (np.abs(sums - 1) <= ROW_SUM_TOLERANCE) & (table >= 0).all(axis=-1)
        if not good.all():
            where = np.argwhere(~good)[0]
            raise DataError(
                f"The probabilities of {name}{self._condition(name, where)} must be at least 0 and sum to 1; "
                f"they are {table[tuple(where)].tolist()}, with the sum {sums[tuple(where)]}."
            )
        table.flags.writeable = False
        return table

    def _condition(self, name: str, where: Iterable[int]) -> str:
        """One configuration of a variable's parents in words: ` given a = yes, b = no`."""
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
        """The number of free parameters: one less than the labels, for each configuration of the parents."""
        return sum(table.size - table.size // table.shape[-1] for table in self.tables.values())

    def sample(self, n: int, random_state: RandomState = None) -> pd.DataFrame:
        """Draw `n` rows: one categorical column per variable, its categories in the order of the labels."""
        import pandas as pd

        if n < 0:
            raise UsageError(f"The number of rows must not be negative; got {n}.")
        rng = np.random.default_rng(random_state)
        codes: dict[str, NDArray[np.int64]] = {}
        for name in self.graph.topological_order():
            table = self.tables[name]
            row = np.zeros(n, dtype=np.int64)
            for parent in self.parents[name]:
                row = row * len(self.levels[parent]) + codes[parent]
            upper = table.reshape(-1, table.shape[-1]).cumsum(axis=1)
            upper /= upper[:, -1:]  # rounded rows; a last label of probability 0 is never drawn
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

        Raises `DataError` where that needs a table of more than 2^25 entries on the way.

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
            raise DataError(f"A variable is named twice: {', '.join(query)}.")
        needed = dict.fromkeys(query)  # with all ancestors: everything else sums to 1
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
        """The network without some edges, each child's table marginalised over its deleted parents.

        The new table is `P(child | remaining parents)` under this network's joint distribution (see the
        module's text). Where a configuration of the remaining parents has probability 0, the deleted
        parents are weighted by their own joint distribution.

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
        gone: dict[str, set[str]] = {}
        for parent, child in edges:
            if parent not in self.parents.get(child, ()):
                raise DataError(f"{parent} -> {child} is not an edge of the network.")
            gone.setdefault(child, set()).add(parent)
        parents, tables = dict(self.parents), dict(self.tables)
        for child, dropped in gone.items():
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
        """A related network: each edge is deleted with the probability `p_del` (tasks paper, section V-A)."""
        if not 0 <= p_del <= 1:
            raise UsageError(f"p_del is a probability; got {p_del}.")
        edges = self.graph.edges()
        chosen = np.random.default_rng(random_state).random(len(edges)) < p_del
        return self.delete_edges((e.source, e.target) for e, out in zip(edges, chosen, strict=True) if out)


Factor = tuple[tuple[str, ...], Array]


def _eliminate(factors: list[Factor], keep: tuple[str, ...], size: Mapping[str, int]) -> Array:
    """Sum the product of the factors over everything but `keep`, the cheapest variable first."""
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
    """The product of factors as one array with the axes of `scope`."""
    entries = math.prod(size[name] for name in scope)
    if entries > _LARGEST_FACTOR:
        raise DataError(
            f"Exact inference needs a table of {entries:,} entries over {len(scope)} variables, more than "
            f"the {_LARGEST_FACTOR:,} that are allowed: this network is too densely connected."
        )
    result = np.ones([size[name] for name in scope])
    for names, table in factors:
        order = sorted(range(len(names)), key=lambda i: scope.index(names[i]))
        shape = [size[name] if name in names else 1 for name in scope]
        result *= table.transpose(order).reshape(shape)
    return result
