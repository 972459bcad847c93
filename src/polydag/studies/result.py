"""What comes out of a study."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import polydag
from polydag.arrays import Array
from polydag.graph import Edge, Graph
from polydag.printing import rounded_repr
from polydag.studies.config.shapes import Config

if TYPE_CHECKING:
    import pandas as pd

    from polydag.confidence import Confidence
    from polydag.regression import Coefficients

_PACKAGES = ("numpy", "scipy", "numba", "pandas", "scikit-learn")


class EdgeRow(NamedTuple):
    """An edge of the result; None where there is no such number.

    Attributes
    ----------
    weight, standardized, standard_error : float, optional
        The coefficient in the units of the data, in standard deviations, and its standard error.
    strength : float, optional
        The absolute partial correlation given the other parents, or what corresponds to it for labels.
    confidence : float, optional
        The probability or frequency of the edge as shown (see `Result.confidence`).
    adjacent : float, optional
        The same of an edge in any direction.
    """

    source: str
    target: str
    weight: float | None
    standardized: float | None
    standard_error: float | None
    strength: float | None
    confidence: float | None
    adjacent: float | None
    directed: bool

    def __repr__(self) -> str:
        return rounded_repr(self)


class Removed(NamedTuple):
    """An edge that was found and taken out again, and why."""

    source: str
    target: str
    weight: float
    reason: str

    def __repr__(self) -> str:
        return rounded_repr(self)


@dataclass(frozen=True, eq=False)
class Result:
    """A graph and how it came about.

    Attributes
    ----------
    config : Config
        As used: with the seed that was drawn and all settings of the method.
    n : float, optional
        The number of rows, or their weight; None under differential privacy.
    coefficients : Coefficients, optional
        The coefficients of the edges, where they are numbers.
    confidence : Confidence, optional
        The probability of each edge, its share of bootstrap resamples, or of votes.
    tables : mapping of name to DataFrame
        What else a study found; each goes to a CSV file of its name.
    documents : mapping of name to anything that JSON knows
        What is not a table; each goes to a JSON file of its name.
    mean_of : str
        What `graph` is the mean over, where it is one: "2 tasks".
    pictures : mapping of name to SVG
        Beside the graph's own picture; each goes to an SVG file of its name.
    measures : mapping
        Numbers that the method tells about its result, such as the penalty that it chose.
    sha256 : mapping of source to digest
        What was read.
    kinds : mapping of column to "continuous" or "discrete"
        What each column was taken for: numbers, or labels.
    """

    config: Config
    graph: Graph
    n: float | None
    converged: bool
    n_iter: int | None
    history: pd.DataFrame
    pruned: tuple[Removed, ...]
    measures: Mapping[str, float]
    notes: tuple[str, ...]
    sha256: Mapping[str, str]
    versions: Mapping[str, str]
    coefficients: Coefficients | None = None
    confidence: Confidence | None = None
    mean_of: str = ""
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    documents: Mapping[str, Any] = field(default_factory=dict)
    pictures: Mapping[str, str] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> str:
        """How many rows there were, in words."""
        return "rows under differential privacy" if self.n is None else f"{self.n:g} rows"

    @property
    def size(self) -> str:
        """How large the graph is, in words, and of what it is where that is not plain."""
        n = self.graph.n_edges
        mean = f" in the mean over {self.mean_of}" if self.mean_of else ""
        return f"{n} edge{'' if n == 1 else 's'}{mean}"

    @property
    def probabilities(self) -> Array | None:
        """The share of each edge, undirected ones counted half each way; None where there is none."""
        return None if self.confidence is None else self.confidence.split

    @property
    def edges(self) -> list[EdgeRow]:
        """The edges in node order."""
        return [
            EdgeRow(
                edge.source,
                edge.target,
                *self._coefficients(edge),
                *self._confidence(edge),
                edge.directed,
            )
            for edge in self.graph.edges()
        ]

    def _coefficients(self, edge: Edge) -> tuple[float | None, float | None, float | None, float | None]:
        """The coefficient, standardised, its standard error, and the strength of the edge."""
        if self.coefficients is None:
            return None, None, None, None
        i, j = self.graph.index(edge.source), self.graph.index(edge.target)
        raw, standardized, error, strength = (_known(array[i, j]) for array in self.coefficients)
        return raw, standardized, error, strength

    def _confidence(self, edge: Edge) -> tuple[float | None, float | None]:
        if self.confidence is None:
            return None, None
        i, j = self.graph.index(edge.source), self.graph.index(edge.target)
        return self.confidence.of_edge(edge), float(self.confidence.adjacent[i, j])


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def versions() -> dict[str, str]:
    """What the result was computed with."""
    return {
        "polydag": polydag.__version__,
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in _PACKAGES},
    }
