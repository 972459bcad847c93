"""polydag: Bayesian network structure from data that is not one i.i.d. table.

Everything is imported on first use, so that `import polydag` and `polydag --help` stay quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from polydag.compilation_cache import ensure_writable_cache

if TYPE_CHECKING:
    from polydag import data, formats, metrics, simulate, sources
    from polydag.graph import Edge, Graph
    from polydag.knowledge import Knowledge
    from polydag.learners import (
        BOSS,
        GES,
        PC,
        AutoDAG,
        BayesianDiscovery,
        Bootstrap,
        EqualVariance,
        FederatedNotears,
        LinkedRowsDAG,
        MultitaskDiscovery,
        Notears,
        NotearsLagged,
        NotearsMLP,
        RowDecorrelator,
    )
    from polydag.losses.settings import Network, Series
    from polydag.posterior.mcmc.chains import Chains
    from polydag.posterior.transfer.similarity import Similarity
    from polydag.privacy.settings import Privacy
    from polydag.rows.structures.settings import FreeStructure
    from polydag.sources import LinkedRows, Parties, Tasks
    from polydag.stats import DiscreteCounts, GaussianStats, Regimes

__version__ = "0.2.0"

ensure_writable_cache()

_HOMES = {
    "Edge": "polydag.graph",
    "Graph": "polydag.graph",
    "Knowledge": "polydag.knowledge",
    "Network": "polydag.losses.settings",
    "Series": "polydag.losses.settings",
    "Similarity": "polydag.posterior.transfer.similarity",
    "Privacy": "polydag.privacy.settings",
    "DiscreteCounts": "polydag.stats",
    "GaussianStats": "polydag.stats",
    "Regimes": "polydag.stats",
    "AutoDAG": "polydag.learners",
    "BOSS": "polydag.learners",
    "BayesianDiscovery": "polydag.learners",
    "Bootstrap": "polydag.learners",
    "Chains": "polydag.posterior.mcmc.chains",
    "EqualVariance": "polydag.learners",
    "FederatedNotears": "polydag.learners",
    "FreeStructure": "polydag.rows.structures.settings",
    "GES": "polydag.learners",
    "LinkedRows": "polydag.sources",
    "LinkedRowsDAG": "polydag.learners",
    "MultitaskDiscovery": "polydag.learners",
    "RowDecorrelator": "polydag.learners",
    "Notears": "polydag.learners",
    "NotearsLagged": "polydag.learners",
    "NotearsMLP": "polydag.learners",
    "PC": "polydag.learners",
    "Tasks": "polydag.sources",
    "Parties": "polydag.sources",
}
_MODULES = ("data", "formats", "metrics", "simulate", "sources")

__all__ = [
    "BOSS",
    "GES",
    "PC",
    "AutoDAG",
    "BayesianDiscovery",
    "Bootstrap",
    "Chains",
    "DiscreteCounts",
    "Edge",
    "EqualVariance",
    "FederatedNotears",
    "FreeStructure",
    "GaussianStats",
    "Graph",
    "Knowledge",
    "LinkedRows",
    "LinkedRowsDAG",
    "MultitaskDiscovery",
    "Network",
    "Notears",
    "NotearsLagged",
    "NotearsMLP",
    "Parties",
    "Privacy",
    "Regimes",
    "RowDecorrelator",
    "Series",
    "Similarity",
    "Tasks",
    "data",
    "formats",
    "metrics",
    "simulate",
    "sources",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"polydag.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'polydag' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
