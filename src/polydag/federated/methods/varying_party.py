"""A party's side of a shared graph with coefficients of its own, computed from its own covariance S."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polydag.arrays import Array, Index, Mask
from polydag.federated.models.linear_party import LinearParty
from polydag.federated.party_data.unit_checks import log_scales
from polydag.federated.protocol.checks import Task
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Ask, State

_TINY = 1e-12  # relative to a variance


def ridge_weights(S: Array, ridge: Array) -> Array:
    """Column j: `argmin_w ½ (e_j − w)ᵀ S (e_j − w) + ½ Σ_i R_ij w_i²`; zero where R is infinite."""
    d = len(S)
    free = np.isfinite(ridge.T)  # row j: the possible parents of j
    # A column that may not enter gets a unit equation of its own, so that all variables are solved at once.
    matrices = np.where(free[:, :, None] & free[:, None, :], S, 0.0)
    diagonal = np.where(free, np.where(free, ridge.T, 0.0) + _floor(S), 1.0)
    matrices[:, np.arange(d), np.arange(d)] += diagonal
    right = np.where(free, S, 0.0)
    return np.ascontiguousarray(np.linalg.solve(matrices, right[:, :, None])[:, :, 0].T)


def _floor(S: Array) -> Array:
    """A ridge that keeps the equations solvable with few rows and many parents, or no rows at all."""
    variance = S.diagonal()
    return _TINY * np.where(variance > 0, variance, 1.0)


def by_group(covariances: Array, group: Index, ridge: Array) -> Array:
    """`ridge_weights`, each variable with the covariance of its group."""
    weights = np.zeros_like(ridge)
    for g, S in enumerate(covariances):
        scored = group == g
        weights[:, scored] = ridge_weights(S, ridge)[:, scored]
    return weights


def family_losses(S: Array, targets: Index, parents: Mask) -> Array:
    """The residual variance of each target on each set of parents."""
    found = np.empty(len(targets))
    for k, (j, own) in enumerate(zip(targets, parents, strict=True)):
        inside = np.flatnonzero(own)
        A = S[np.ix_(inside, inside)] + np.diag(_floor(S)[inside])
        b = S[inside, j]
        found[k] = max(S[j, j] - b @ np.linalg.solve(A, b), 0.0) if len(inside) else S[j, j]
    return found


@dataclass(frozen=True, eq=False)
class VaryingParty(LinearParty):
    """Answers questions about coefficients of its own, which it keeps."""

    def tasks(self) -> dict[str, Task]:
        """The questions that it answers."""
        return {
            "own spread": Task(self._own_spread, {"group": "d"}, ("columns", "scatter")),
            "ridge": Task(self._ridge, {"ridge": "ldd", "group": "d", "rows": "g"}),
            "refit": Task(self._refit, {"targets": "f", "parents": "fd", "group": "d"}),
            "own weights": Task(self._own_weights, {"adjacency": "dd", "group": "d", "rows": "g"}),
        }

    def own_covariance(self, group: Index) -> Array:
        """Per group: the covariance about this party's own means."""
        return np.array([gram / max(n, 1.0) for n, gram in self._own_grams(group)])

    def _own_grams(self, group: Index) -> list[tuple[float, Array]]:
        d = len(self.names)
        found = []
        for g in range(int(group.max()) + 1):
            parts = self.rows_for(g, {"group": group})
            n = float(sum(part.n for part in parts))
            mean = sum((part.n * part.mean for part in parts), start=np.zeros(d)) / max(n, 1.0)
            gram = np.zeros((d, d))
            for part in parts:
                gram += part.scatter + part.n * np.outer(part.mean - mean, part.mean - mean)
            found.append((n, gram))
        return found

    def _own_spread(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        grams = self._own_grams(ask.arrays["group"])
        deviations = self.deviations()
        squares = np.array([np.where(deviations > 0, gram.diagonal(), 0.0) for _, gram in grams])
        scales = log_scales(self.n_rows, deviations)
        found = {"rows": np.array([n for n, _ in grams]), "squares": squares, "log_scales": scales}
        return state, found | (
            {"scatter": np.array([gram for _, gram in grams])} if ask.meta["scatter"] else {}
        )

    def _by_column(self, ask: Ask, weights: Array) -> Array:
        """Weights times this party's share of the rows that score each variable."""
        group = ask.arrays["group"]
        own = np.array([n for n, _ in self._own_grams(group)])
        return np.asarray(weights * (own / np.maximum(ask.arrays["rows"], 1.0))[group])

    def _ridge(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """Squared coefficients under a given ridge penalty, weighted by rows."""
        group = ask.arrays["group"]
        covariance = self.own_covariance(group)
        squares = [by_group(covariance, group, ridge) ** 2 for ridge in ask.arrays["ridge"]]
        return state, {"squared weights": self._by_column(ask, np.array(squares))}

    def _refit(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """Residual sums of squares of families, with this party's own coefficients."""
        group, targets = ask.arrays["group"], ask.arrays["targets"]
        squares = np.empty(len(targets))
        for g, (_, gram) in enumerate(self._own_grams(group)):
            mine = group[targets] == g
            parents = ask.arrays["parents"][mine].astype(bool)
            squares[mine] = family_losses(gram, targets[mine], parents)
        return state, {"residual squares": squares}

    def _own_weights(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """This party's coefficients of a graph, weighted by rows."""
        weights = self.own_weights(ask.arrays["group"], ask.arrays["adjacency"].astype(bool))
        return state, {"weights": self._by_column(ask, weights)}

    def own_weights(self, group: Index, adjacency: Mask) -> Array:
        """This party's own coefficients of a graph, which it keeps."""
        ridge = np.where(adjacency, 0.0, np.inf)
        return by_group(self.own_covariance(group), group, ridge)
