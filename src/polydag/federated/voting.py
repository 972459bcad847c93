"""Votes (Na and Yang 2010): every site learns alone; an edge stays that more than half of them found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polydag.federated.programs import Answer, Ask, State, Total


@dataclass(frozen=True, eq=False)
class Voting:
    """The coordinator's side: the shares of votes and the mean weights among those who found an edge."""

    names: tuple[str, ...]

    @property
    def tolerates_absence(self) -> bool:
        """Whoever is there votes."""
        return True

    def begin(self) -> tuple[State, Ask]:
        """Ask for everyone's graph."""
        return {}, Ask("vote", meta={"columns": list(self.names)})

    def advance(self, state: State, total: Total) -> tuple[State, Answer]:
        """Count."""
        edges = total.arrays["edges"]
        mean = total.arrays["weights"] / np.maximum(edges, 1.0)
        return state, Answer({"shares": edges / total.n_sites, "mean_weights": mean})
