"""The defaults of other packages, for `defaults.py`: what a person gets there who chooses nothing.

Nothing here is needed by the project. What is installed is compared, the rest is named and left out:

    pip install causal-learn ges pgmpy && pip install --no-deps dagma igraph tqdm

causal-learn, pgmpy and ges are under the MIT or BSD licences, DAGMA under Apache 2.0. gCastle needs PyTorch,
and LiNGAM assumes errors that are not Gaussian; neither is here. Rows of parties are pooled, and groups of
linked rows are left out, since none of the peers knows either. A peer that would take minutes at a number of
columns is not run there.
"""

from __future__ import annotations

import os

os.environ.setdefault("TQDM_DISABLE", "1")

import importlib.metadata
import importlib.util
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from polydag import Graph


class Peer(NamedTuple):
    """A learner of another package: the module to look for, for how many columns, and how it is run."""

    module: str
    package: str
    most_columns: int
    learn: Callable[[pd.DataFrame], np.ndarray]


def _of_causallearn(graph: Any) -> np.ndarray:
    """The adjacency matrix of causal-learn's graph, whose -1 is a tail and 1 an arrowhead at the row's node.

    Two arrowheads, a conflict, become an undirected edge.
    """
    marks = np.asarray(graph.graph)
    return ((marks == -1) & (marks.T == 1)) | ((marks != 0) & (marks == marks.T))


def _causallearn_pc(rows: pd.DataFrame) -> np.ndarray:
    from causallearn.search.ConstraintBased.PC import pc

    return _of_causallearn(pc(_plain(rows), show_progress=False).G)


def _causallearn_pc_labels(rows: pd.DataFrame) -> np.ndarray:
    from causallearn.search.ConstraintBased.PC import pc

    return _of_causallearn(pc(_codes(rows), indep_test="gsq", show_progress=False).G)


def _causallearn_ges(rows: pd.DataFrame) -> np.ndarray:
    from causallearn.search.ScoreBased.GES import ges

    return _of_causallearn(ges(_plain(rows))["G"])


def _causallearn_ges_labels(rows: pd.DataFrame) -> np.ndarray:
    from causallearn.search.ScoreBased.GES import ges

    return _of_causallearn(ges(_codes(rows), score_func="local_score_BDeu")["G"])


def _causallearn_boss(rows: pd.DataFrame) -> np.ndarray:
    from causallearn.search.PermutationBased.BOSS import boss

    return _of_causallearn(boss(_plain(rows), verbose=False))


def _ges(rows: pd.DataFrame) -> np.ndarray:
    import ges

    return np.asarray(ges.fit_bic(_plain(rows))[0]) != 0


def _dagma(rows: pd.DataFrame) -> np.ndarray:
    from dagma.linear import DagmaLinear

    return np.asarray(DagmaLinear(loss_type="l2").fit(_plain(rows))) != 0


def _pgmpy(rows: pd.DataFrame) -> np.ndarray:
    from pgmpy.causal_discovery import HillClimbSearch

    found = HillClimbSearch(show_progress=False).fit(rows).causal_graph_
    A = np.zeros((rows.shape[1],) * 2, dtype=bool)
    place = {name: i for i, name in enumerate(rows)}
    for source, target in getattr(found, "directed_edges", found.edges()):
        A[place[source], place[target]] = True
    for one, other in getattr(found, "undirected_edges", ()):
        A[place[one], place[other]] = A[place[other], place[one]] = True
    return A


NUMBERS = {
    "causal-learn PC": Peer("causallearn", "causal-learn", 80, _causallearn_pc),
    "causal-learn GES": Peer("causallearn", "causal-learn", 20, _causallearn_ges),
    "causal-learn BOSS": Peer("causallearn", "causal-learn", 80, _causallearn_boss),
    "ges": Peer("ges", "ges", 10, _ges),
    "DAGMA": Peer("dagma", "dagma", 50, _dagma),
}
LABELS = {
    "causal-learn PC": Peer("causallearn", "causal-learn", 30, _causallearn_pc_labels),
    "causal-learn GES": Peer("causallearn", "causal-learn", 8, _causallearn_ges_labels),
    "pgmpy hill climbing": Peer("pgmpy", "pgmpy", 30, _pgmpy),
}


def installed(peers: dict[str, Peer]) -> dict[str, Peer]:
    """Those whose module can be imported."""
    return {name: peer for name, peer in peers.items() if importlib.util.find_spec(peer.module) is not None}


def packages() -> list[str]:
    """The installed packages of the peers, whose versions are kept beside the figures."""
    there = {peer.package for peers in (NUMBERS, LABELS) for peer in installed(peers).values()}
    return sorted(package for package in there if _has_version(package))


def missing() -> list[str]:
    """The packages that are not installed."""
    return sorted({peer.package for peer in (NUMBERS | LABELS).values()} - set(packages()))


def as_way(peer: Peer, rows_of: Callable[[Any], pd.DataFrame]) -> Callable[[Any], Graph]:
    """A way of learning for `defaults.py`; `rows_of` makes one table of the data."""

    def learned(data: Any) -> Graph:
        rows = rows_of(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Graph(peer.learn(rows), tuple(rows.columns))

    return learned


def pooled(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The rows of all parties in one table."""
    return pd.concat(parts, ignore_index=True)


def without_groups(rows: pd.DataFrame) -> pd.DataFrame:
    """Linked rows as if they were independent."""
    return rows.drop(columns="school")


def _plain(rows: pd.DataFrame) -> np.ndarray:
    return np.array(rows, dtype=float)


def _codes(rows: pd.DataFrame) -> np.ndarray:
    return np.column_stack([pd.factorize(rows[name], sort=True)[0] for name in rows])


def _has_version(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
