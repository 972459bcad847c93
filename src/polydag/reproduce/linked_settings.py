"""The data of the linked-rows paper, section 3, and the settings that the paper does not specify.

Sizes are those of the tables, (n, p) = (100, 200) and (300, 100); the text gives others. The published
numbers are in `linked_published.csv`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from polydag import simulate
from polydag.arrays import Array
from polydag.errors import UsageError
from polydag.graph import Graph

SIZES = ((100, 200), (300, 100))
KINDS = ("toeplitz", "equi", "ar", "star")
NETWORKS = {"facebook": "facebook_like_n1899_undirected.csv", "celegans_n306": "celegans_n306_undirected.csv"}
COPIES = {"andes": 1, "hailfinder": 4, "barley": 4}
SUBSAMPLE = 100
_TOEPLITZ = {1: 0.3, 2: 0.7}  # the bases consistent with the tables; the text gives 0.3
_CLUSTER = {1: 20, 2: 30}


class Preset(NamedTuple):
    """Settings that the paper does not specify.

    Attributes
    ----------
    links : {"clusters", "support"}
        Whether all rows of a simulated cluster are linked, or only those with a non-zero entry in the true Θ.
    toeplitz : float, optional
        The base of the Toeplitz matrices; by default 0.3 for Table 1 and 0.7 for Table 2, which match them.
    units : {"scaled", "raw"}
        Whether weights are thresholded in units of standard deviations, or in the units of the data.
    threshold : float, optional
        The threshold on BCD's weights; the benchmark then gets the same number of edges. By default both get
        the number in the paper.
    ranking : {"weights", "t"}
        What the edges of a known order are ranked by: the lasso's weights, or the absolute t statistics of
        the same edges in a least-squares fit to the decorrelated rows.
    n_orders : int
        The number of column orders to average over if the order is unknown.
    ges_penalty, ges_screen
        The factor of the BIC penalty in GES, and whether GES assumes faithfulness.
    pc_alpha, pc_max_conditioning
        The significance level of PC's tests, and the size of the largest conditioning set.
    """

    links: str
    toeplitz: float | None
    units: str
    threshold: float | None
    ranking: str
    n_orders: int
    ges_penalty: float
    ges_screen: bool
    pc_alpha: float
    pc_max_conditioning: int | None


PRESETS = {
    "ours": Preset("clusters", None, "scaled", None, "t", 5, 4.0, False, 0.01, None),
    "published": Preset("support", None, "scaled", 0.1, "weights", 1, 4.0, True, 0.05, 5),
}
_CHOICES = {"links": ("clusters", "support"), "units": ("scaled", "raw"), "ranking": ("weights", "t")}


def chosen(preset: str, settings: Mapping[str, Any]) -> Preset:
    """A preset by name, with some values replaced."""
    if preset not in PRESETS:
        raise UsageError(f"preset must be one of {', '.join(PRESETS)}; got {preset!r}.")
    if unknown := [name for name in settings if name not in Preset._fields]:
        raise UsageError(f"There is no setting {unknown[0]}. The settings are {', '.join(Preset._fields)}.")
    result = PRESETS[preset]._replace(**settings)
    for name, choices in _CHOICES.items():
        if getattr(result, name) not in choices:
            raise UsageError(f"{name} must be one of {', '.join(choices)}; got {getattr(result, name)!r}.")
    return result


@cache
def published() -> pd.DataFrame:
    """The numbers in the paper's tables."""
    file = resources.files("polydag.reproduce") / "linked_published.csv"
    with file.open("r", encoding="utf-8") as text:
        return pd.read_csv(text)


def _predicted(table: int, labels: tuple[str, str]) -> int:
    """The number of edges that BCD predicts in the paper; 0, which stands for all, if it is not given."""
    given = published()
    own = given[(given["table"] == table) & (given["rows"] == labels[0]) & (given["kind"] == labels[1])]
    return round(float(own["P"].iloc[0])) if len(own) else 0


class Sample(NamedTuple):
    """One simulated data set."""

    truth: Graph
    rows: pd.DataFrame
    links: Any


class Setting(NamedTuple):
    """A cell of a table: its labels, the number of edges to predict, and a function that draws a data set."""

    labels: tuple[str, str]
    predicted: int
    draw: Callable[[int], Sample]


def simulated(
    table: int,
    preset: Preset,
    sizes: Iterable[tuple[int, int]] = SIZES,
    kinds: Iterable[str] = KINDS,
    cluster: int | None = None,
) -> list[Setting]:
    """The settings of section 3.1: rows in clusters."""
    base = _TOEPLITZ[table] if preset.toeplitz is None else preset.toeplitz
    cells = [((n, p), kind) for n, p in sizes for kind in kinds]
    return [
        Setting(
            (str(size), kind),
            _predicted(table, (str(size), kind)),
            _cluster_draw(size, cluster or _CLUSTER[table], kind, base, preset.links),
        )
        for size, kind in cells
    ]


def _cluster_draw(
    shape: tuple[int, int], size: int, kind: str, base: float, linked: str
) -> Callable[[int], Sample]:
    def draw(seed: int) -> Sample:
        n, p = shape
        rng = np.random.default_rng(seed)
        truth = simulate.dag(p, n_edges=2 * p, weight_range=(0.1, 1.0), random_state=rng)
        blocks = simulate.clusters(kind, n, size, base=base if kind == "toeplitz" else None, random_state=rng)
        rows = simulate.linked(truth, row_covariance=blocks, noise_scale=(0.1, 1.0), random_state=rng)
        return Sample(truth, rows, np.arange(n) // size if linked == "clusters" else _support(blocks))

    return draw


def _support(blocks: Sequence[Array]) -> Any:
    """The pairs of rows with a non-zero entry in Θ."""
    from scipy.sparse import block_diag, csr_array

    return csr_array(block_diag([np.abs(np.linalg.inv(block)) > 1e-8 for block in blocks]))


def real(table: int, data: Path) -> list[Setting]:
    """The settings of section 3.2: published DAGs, with rows on subsamples of two real networks."""
    return [
        Setting((network, dag), _predicted(table, (network, dag)), _network_draw(data, network, dag))
        for network in NETWORKS
        for dag in COPIES
    ]


def _network_draw(data: Path, network: str, name: str) -> Callable[[int], Sample]:
    def draw(seed: int) -> Sample:
        from scipy.sparse import coo_array

        rng = np.random.default_rng(seed)
        truth = simulate.weights(_copies(data, name), 0.1, 1.0, random_state=rng)
        pairs = pd.read_csv(data / "networks" / NETWORKS[network]).to_numpy()[:, :2] - 1
        n = 306 if network == "celegans_n306" else 1899  # including nodes without links
        A = coo_array((np.ones(len(pairs)), tuple(pairs.T)), shape=(n, n)).toarray()
        chosen = rng.choice(n, SUBSAMPLE, replace=False)
        own = (A + A.T)[np.ix_(chosen, chosen)] > 0
        Sigma = np.linalg.inv(simulate.network_precision(own, random_state=rng))
        rows = simulate.linked(
            truth, row_covariance=(Sigma + Sigma.T) / 2, noise_scale=(0.1, 1.0), random_state=rng
        )
        return Sample(truth, rows, own)

    return draw


def _copies(data: Path, name: str) -> Graph:
    edges = pd.read_csv(data / "bn" / "edges.csv")
    own = edges[edges["network"] == name]
    pairs = [
        (f"{a}.{copy}", f"{b}.{copy}")
        for copy in range(COPIES[name])
        for a, b in zip(own["parent"], own["child"], strict=True)
    ]
    names = list(dict.fromkeys(end for pair in pairs for end in pair))
    return Graph.from_edges(names, pairs)
