"""How often an edge comes back when the data is drawn again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from polydag.checkpoint import piece
from polydag.errors import DataError, UsageError
from polydag.graph import Graph, node_names
from polydag.learners.inputs import is_statistics
from polydag.progress import report
from polydag.resampling import draw_groups, draw_rows, wilson_interval

_CHUNK = 10  # resamples that are stored together; the same for any number of processes


class Bootstrap(BaseEstimator):  # type: ignore[misc]
    """The share of bootstrap resamples in which a learner finds each edge.

    Parameters
    ----------
    learner : estimator
        Any learner of the package, with `fit` and `graph_`.
    n_resamples : int
        How many times the data is drawn again.
    n_jobs : int
        Processes; the result does not depend on it.
    random_state : int, optional
        The seed of the draws.

    Attributes
    ----------
    frequencies_ : DataFrame
        Row -> column: the share of resamples with that edge; an undirected one counts half each way.
    edges_ : DataFrame
        source, target, frequency, low, high (Wilson's 95 % interval for the number of resamples), and
        adjacent, the share with an edge between the two of any direction; the most frequent first.
    graph_ : Graph
        The consensus: pairs adjacent in more than half of the resamples, directed the more frequent way,
        acyclic; weights are frequencies.

    Examples
    --------
    >>> from polydag import Bootstrap, EqualVariance, simulate
    >>> dag = simulate.dag(4, expected_edges=3, random_state=1)
    >>> X = simulate.linear(dag, n=200, random_state=1)
    >>> Bootstrap(EqualVariance(), n_resamples=20, random_state=0).fit(X).graph_.edges() != []
    True
    """

    def __init__(
        self, learner: Any, *, n_resamples: int = 200, n_jobs: int = 1, random_state: int | None = None
    ) -> None:
        self.learner = learner
        self.n_resamples = n_resamples
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: None = None, *, groups: Sequence[Hashable] | None = None) -> Self:
        """Draw again and learn, `n_resamples` times; `y` is ignored.

        Parameters
        ----------
        X : DataFrame, array, Table, or a list of them
            A list holds parties or tasks: each is drawn from its own rows, and the learner gets a list.
        groups : sequence, optional
            A label for each row; rows of a label are drawn together. One sequence a table for a list.
        """
        if self.n_resamples < 1:
            raise UsageError(f"n_resamples must be at least 1; got {self.n_resamples}.")
        if is_statistics(X):
            raise UsageError("The bootstrap draws rows again, so it needs rows, not statistics.")
        if getattr(self.learner, "series", False):
            raise UsageError("The bootstrap draws rows one by one; those of a time series follow each other.")
        tables, labels = _tables(X, groups)
        many = isinstance(X, (list, tuple))
        seeds = np.random.SeedSequence(self.random_state).spawn(self.n_resamples)
        found: list[NDArray[np.bool_]] = []
        for start in range(0, self.n_resamples, _CHUNK):
            chunk = seeds[start : start + _CHUNK]

            def learn(chunk: list[np.random.SeedSequence] = chunk) -> dict[str, NDArray[Any]]:
                return {"graphs": np.array(self._graphs(tables, labels, many, chunk))}

            found.extend(piece(f"bootstrap-{start}", learn)["graphs"])
            report("bootstrap", len(found), self.n_resamples)
        self._summarise(np.array(found), _names(tables[0]))
        return self

    def _graphs(
        self,
        tables: list[Any],
        labels: list[Sequence[Hashable] | None],
        many: bool,
        seeds: list[np.random.SeedSequence],
    ) -> list[NDArray[np.bool_]]:
        from joblib import Parallel, delayed

        jobs = (delayed(_one)(self.learner, tables, labels, many, seed) for seed in seeds)
        result: list[NDArray[np.bool_]] = Parallel(n_jobs=self.n_jobs)(jobs)
        return result

    def _summarise(self, graphs: NDArray[np.bool_], names: tuple[str, ...]) -> None:
        n = len(graphs)
        both = graphs & graphs.transpose(0, 2, 1)
        hits = (graphs & ~both).sum(axis=0) + 0.5 * both.sum(axis=0)
        adjacent = (graphs | graphs.transpose(0, 2, 1)).mean(axis=0)
        low, high = wilson_interval(hits, n)
        share = hits / n
        self.frequencies_ = pd.DataFrame(share, index=list(names), columns=list(names))
        ends = np.argwhere(hits > 0)
        ends = ends[np.argsort(-share[ends[:, 0], ends[:, 1]], kind="stable")]
        i, j = ends.T if len(ends) else (np.array([], dtype=int),) * 2
        self.edges_ = pd.DataFrame(
            {
                "source": np.array(names, dtype=object)[i],
                "target": np.array(names, dtype=object)[j],
                "frequency": share[i, j],
                "low": low[i, j],
                "high": high[i, j],
                "adjacent": adjacent[i, j],
            }
        )
        chosen = (
            (adjacent > 0.5) & (share >= share.T) & ~((share == share.T) & np.tri(len(names), dtype=bool))
        )
        raw = Graph(chosen, names, np.where(chosen, share, 0.0))
        self.graph_, self.pruned_ = raw.prune_cycles()
        self.n_resamples_ = n


def _tables(X: Any, groups: Sequence[Any] | None) -> tuple[list[Any], list[Sequence[Hashable] | None]]:
    many = isinstance(X, (list, tuple))
    tables = [_with_levels(getattr(table, "frame", table)) for table in (X if many else [X])]
    labels = list(groups) if many and groups is not None else [groups] * len(tables)
    if len(labels) != len(tables):
        raise DataError(f"There are {len(labels)} sequences of groups for {len(tables)} tables.")
    for number, (table, label) in enumerate(zip(tables, labels, strict=True)):
        if label is not None and len(label) != len(table):
            raise DataError(f"Table {number + 1} has {len(table)} rows, but {len(label)} group labels.")
    return tables, labels


def _with_levels(table: Any) -> Any:
    """Text as categories, so that a level that is not drawn is still known."""
    if not isinstance(table, pd.DataFrame):
        return table
    text = [name for name in table.columns if table[name].dtype.kind not in "iufb"]
    return table.astype(dict.fromkeys(text, "category"))


def _one(
    learner: Any,
    tables: list[Any],
    labels: list[Sequence[Hashable] | None],
    many: bool,
    seed: np.random.SeedSequence,
) -> NDArray[np.bool_]:
    rng = np.random.default_rng(seed)
    drawn = []
    for table, label in zip(tables, labels, strict=True):
        rows = draw_rows(len(table), rng) if label is None else draw_groups(label, rng)
        drawn.append(
            table.iloc[rows].reset_index(drop=True) if hasattr(table, "iloc") else np.asarray(table)[rows]
        )
    model = clone(learner).fit(drawn if many else drawn[0])
    adjacency: NDArray[np.bool_] = model.graph_.adjacency
    return adjacency


def _names(table: Any) -> tuple[str, ...]:
    """The names a learner gives the nodes of its graph."""
    columns = getattr(table, "columns", None)
    return node_names(columns, np.shape(table)[1])
