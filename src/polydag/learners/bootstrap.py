"""How often an edge comes back when the data is drawn again."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from polydag.arrays import Mask
from polydag.computing.checkpoint import piece
from polydag.computing.interruption import require_whole
from polydag.computing.progress import report
from polydag.computing.workers import reporting_lost_workers
from polydag.confidence import Confidence
from polydag.errors import UsageError
from polydag.federated.session import one_after_the_other, packed_disclosure, unpacked_disclosure
from polydag.learners.base import Estimator
from polydag.parameters import whole
from polydag.sources import InMemory, Source, Tasks, as_source
from polydag.sources.interface import DISCLOSED

_CHUNK = 10  # resamples that are stored together; the same for any number of processes


Resampled = tuple[Mask, pd.DataFrame]  # a graph, and what left the parties for it
Draw = tuple[Source | Tasks, np.random.SeedSequence]


class Bootstrap(Estimator):
    """The share of bootstrap resamples in which a learner finds each edge.

    Each source is resampled in its own way: a table by rows, linked rows by whole groups, and each party and
    each task by its own rows (only sums leave a party). With `missing="multiple"` the imputed tables are
    resampled in turn.

    Parameters
    ----------
    learner : estimator
        Any learner of the package, with `fit` and `graph_`.
    n_resamples : int
        The number of resamples.
    n_jobs : int
        The number of processes; the result does not depend on it.
    random_state : int, optional
        The seed of the draws.

    Attributes
    ----------
    frequencies_ : DataFrame
        Row -> column: the share of resamples with that edge; an undirected one counts half each way.
    pairs_ : DataFrame
        a, b, adjacent, forward (a -> b), backward, undirected: shares of resamples, for all pairs that were
        adjacent in at least one of twenty; low and high are Wilson's 95 % interval of `adjacent` for the
        number of resamples. The most frequent come first.
    confidence_ : Confidence
        The same for all pairs, as arrays.
    graph_ : Graph
        The consensus: pairs adjacent in more than half of the resamples, directed where one direction was
        found in more than half, undirected otherwise; weights are frequencies.
    pruned_ : DataFrame
        source, target, weight, reason: the edges of the consensus that were removed from cycles.
    feature_names_in_ : array of str
        The columns, in order.
    disclosure_ : DataFrame
        Every array that left a party, over all resamples; empty for data without parties.

    Examples
    --------
    >>> from polydag import Bootstrap, EqualVariance, simulate
    >>> dag = simulate.dag(4, expected_edges=3, random_state=1)
    >>> X = simulate.linear(dag, n=200, random_state=1)
    >>> Bootstrap(EqualVariance(), n_resamples=20, random_state=0).fit(X).graph_.edges() != []
    True
    """

    constraints = {"n_resamples": whole(least=1)}  # noqa: RUF012

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
        X : DataFrame, array, Table, Source, or Tasks
            What the learner takes.
        groups : sequence, optional
            For a table: a label for each row. Rows with the same label are drawn together, but the learner
            takes rows as independent; for learning from dependent rows, give `LinkedRows`.
        """
        self._check_parameters()
        if getattr(self.learner, "time_series", False):
            raise UsageError("The bootstrap draws rows one by one; those of a time series follow each other.")
        source = _source(X, groups)
        completed = source.completions() if isinstance(source, Source) else ()
        sources: Sequence[Source | Tasks] = completed or (source,)
        seeds = np.random.SeedSequence(self.random_state).spawn(self.n_resamples)
        sources[0].resampled(
            np.random.default_rng(seeds[0])
        )  # what cannot be drawn is refused before work begins
        found: list[Mask] = []
        left: list[pd.DataFrame] = []
        for start in range(0, self.n_resamples, _CHUNK):
            chunk = [
                (sources[k % len(sources)], seeds[k])
                for k in range(start, min(start + _CHUNK, self.n_resamples))
            ]

            def learn(chunk: list[Draw] = chunk) -> dict[str, NDArray[Any]]:
                fits = self._fits(chunk)
                disclosed = one_after_the_other([disclosure for _, disclosure in fits])
                return {"graphs": np.array([graph for graph, _ in fits]), **packed_disclosure(disclosed)}

            kept = piece(f"bootstrap-{start}", learn)
            found.extend(kept["graphs"])
            left.append(unpacked_disclosure(kept))
            report("bootstrap", len(found), self.n_resamples)
        self._summarise(np.array(found), source.names, len(sources))
        self.feature_names_in_ = np.array(source.names, dtype=object)
        self.n_features_in_ = len(source.names)
        self.disclosure_ = one_after_the_other([source.disclosure_, *left] if completed else left)
        return self

    def _fits(self, draws: list[Draw]) -> list[Resampled]:
        from joblib import Parallel, delayed

        jobs = (delayed(_one)(self.learner, source, seed) for source, seed in draws)
        with reporting_lost_workers():
            result: list[Resampled] = Parallel(n_jobs=self.n_jobs)(jobs)
        return result

    def _summarise(self, graphs: Mask, names: tuple[str, ...], tables: int) -> None:
        each = [Confidence.of_graphs(graphs[k::tables], names, "frequency") for k in range(tables)]
        even = len(graphs) % tables == 0  # otherwise tables would not count alike
        self.confidence_ = (
            Confidence.pooled(each)
            if tables > 1 and even
            else Confidence.of_graphs(graphs, names, "frequency")
        )
        self.graph_, removed = self.confidence_.graph()
        rows = [(edge.source, edge.target, edge.weight, "part of a cycle") for edge in removed]
        self.pruned_ = pd.DataFrame(rows, columns=["source", "target", "weight", "reason"])
        self.n_resamples_ = len(graphs)

    @property
    def pairs_(self) -> pd.DataFrame:
        """How often each pair was adjacent, and in which direction."""
        return self.confidence_.pairs()

    @property
    def frequencies_(self) -> pd.DataFrame:
        """Row -> column: the share of resamples with that edge."""
        names = list(self.confidence_.names)
        return pd.DataFrame(self.confidence_.split, index=names, columns=names)


def _source(X: Any, groups: Sequence[Hashable] | None) -> Source | Tasks:
    if groups is not None:
        if isinstance(X, (Source, Tasks)):
            raise UsageError("groups= is for a table; a source knows which of its rows belong together.")
        return InMemory(X, blocks=groups)
    return X if isinstance(X, Tasks) else as_source(X)


def _one(learner: Any, source: Source | Tasks, seed: np.random.SeedSequence) -> Resampled:
    model = clone(learner).fit(source.resampled(np.random.default_rng(seed)))
    require_whole(model)  # half a search says nothing of the variability of whole ones
    return model.graph_.adjacency, getattr(model, "disclosure_", pd.DataFrame(columns=list(DISCLOSED)))
