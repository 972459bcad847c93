"""A party's side of all linear methods: everything is computed from its own sufficient statistics.

The loss of a party is its share of the pooled loss, `½ Σ_j (e_j − w_j)ᵀ S_kj (e_j − w_j)`, with `S_kj` taken
about the *common* mean and divided by the *total* number of rows; `site_effects` says how a party's rows are
adjusted first, where a question asks for that (an array `adjustment`). Step (8) of ADMM uses one
eigendecomposition of `S_k`, computed once. Parameters are exchanged as `s_i W_ij`, where the coordinator
chooses the scale `s`: with the pooled standard deviations, ρ2 has no units.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from polydag.arrays import Array
from polydag.errors import DataError
from polydag.federated.models.consensus import consensus
from polydag.federated.party_data.regimes import regime_label, regimes_asked, require_all_rows
from polydag.federated.party_data.site_comparison import ADJUSTMENT, COMPARE, contribution
from polydag.federated.party_data.site_effects import OVERALL, Adjustment
from polydag.federated.party_data.triangles import triangle_of
from polydag.federated.party_data.unit_checks import log_scales, other_units, without_rounding
from polydag.federated.protocol.checks import Task, question_problem
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Ask, State
from polydag.stats import GaussianStats, Regimes

_CONSTANTS = {"group": "d", "centre": "gd", "rows": "g", "scale": "d"}


class Factors(NamedTuple):
    """`S_k` in scaled units, per group: eigenvalues, eigenvectors, and the linear term."""

    values: Array
    vectors: Array
    linear: Array


@dataclass(frozen=True, eq=False)
class LinearParty:
    """Answers questions about rows from their statistics.

    Parameters
    ----------
    stats : GaussianStats or Regimes
        The statistics of the party's rows, per set of intervened variables where there are any.
    """

    stats: GaussianStats | Regimes[GaussianStats]
    _factors: dict[bytes, Factors] = field(default_factory=dict, repr=False)

    @property
    def n_rows(self) -> float:
        """The number of rows."""
        return self.stats.n

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return self.stats.names

    @property
    def _parts(self) -> list[GaussianStats]:
        return [self.stats] if isinstance(self.stats, GaussianStats) else list(self.stats.parts.values())

    @property
    def _regimes(self) -> list[frozenset[str]]:
        return [frozenset()] if isinstance(self.stats, GaussianStats) else list(self.stats.parts)

    @property
    def data(self) -> GaussianStats | Regimes[GaussianStats]:
        """The statistics."""
        return self.stats

    def fingerprint(self) -> bytes:
        """A hash of the statistics."""
        regimes = [sorted(each) for each in self._regimes]
        digest = hashlib.sha256(repr((self.names, regimes, [part.n for part in self._parts])).encode())
        for part in self._parts:
            digest.update(part.mean.tobytes() + part.scatter.tobytes())
        return digest.digest()

    def answer(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """The party's contribution to the sum."""
        return known_task(self.tasks(), ask).answer(state, ask)

    def tasks(self) -> dict[str, Task]:
        """The questions that it answers; `g` counts groups, `l` penalties, `r` regimes."""
        return {
            COMPARE: Task(self._compare, {"reference": "d"}, ("columns",)),
            "centre": Task(self._centre, {"group": "d"}, ("columns",)),
            "scale": Task(self._scale, {"group": "d", "centre": "gd"}),
            "scatter": Task(
                self._scatter, {"centre": "rd", "reference": "d"}, ("columns", "regimes", "weighted")
            ),
            "consensus": Task(self._consensus, {"W": "ldd", "rho": "l"}, ("relax",), _CONSTANTS),
            "average": Task(self._average, {"W": "ldd", "tau": "l", **_CONSTANTS}),
            "losses": Task(self._losses, {"weights": "ldd"}, once=_CONSTANTS),
            "families": Task(self._families, {"pairs": "gdd"}, once=_CONSTANTS),
        }

    def objection(self, state: State, ask: Ask) -> str | None:
        """What is missing in a question or wrong with it; raises where the study has other columns."""
        task = known_task(self.tasks(), ask)
        require_columns(ask, self.names)
        why = question_problem(
            task, state, ask, {"d": len(self.names), **lane_count(state)}, infinite=("ridge",)
        )
        if (given := ask.arrays.get(ADJUSTMENT)) is not None and given.shape != (len(self.names) + 2,):
            why = why or f"{ADJUSTMENT} of shape {given.shape} does not fit"
        return why or (self._unasked(ask) if ask.task == "scatter" else None)

    def _unasked(self, ask: Ask) -> str | None:
        """Decline a question that would leave out some of the party's rows."""
        regimes = regimes_asked(ask)
        if regimes is None:
            return f"the question's regimes are {ask.meta['regimes']!r}"
        if len(regimes) != len(ask.arrays["centre"]):
            return f"{len(regimes)} regimes do not fit {len(ask.arrays['centre'])} centres"
        require_all_rows(self._regimes, regimes)
        return None

    def notes(self, state: State, arrays: Arrays) -> list[str]:
        """Columns whose scale here is far from that elsewhere."""
        if "log_scales" not in arrays:
            return []
        if arrays["log_scales"].shape != (3, len(self.names)):
            return ["the other parties' scales could not be read, so units were not compared."]
        return other_units(self.names, self.deviations(), arrays["log_scales"], self.n_rows)

    def deviations(self) -> Array:
        """The standard deviations of columns about this party's own means; zero where they are constant."""
        parts = self._parts
        squares = np.array([part.scatter.diagonal() for part in parts])
        means = np.array([np.abs(part.mean) for part in parts])
        return without_rounding(np.sqrt(squares.sum(axis=0) / self.n_rows), means.max(axis=0))

    def unbiased_deviations(self) -> Array:
        """The same with `n - 1` rows, by which columns are divided."""
        return np.asarray(self.deviations() * np.sqrt(self.n_rows / max(self.n_rows - 1, 1.0)))

    def rows_for(self, g: int, known: State) -> list[GaussianStats]:
        """The statistics of the rows that score the variables of one group, adjusted as was asked."""
        stats = self._adjusted(known)
        if isinstance(stats, GaussianStats):
            return [stats]
        name = self.names[int(np.flatnonzero(known["group"] == g)[0])]
        return [part for targets, part in stats.parts.items() if name not in targets]

    def _adjusted(self, known: State) -> GaussianStats | Regimes[GaussianStats]:
        if ADJUSTMENT not in known:
            return self.stats
        return Adjustment.of(known[ADJUSTMENT]).applied(self.stats, self.unbiased_deviations())

    def _gram(self, state: State, g: int) -> Array:
        """The group's scatter about the common centre."""
        d = len(self.names)
        total = np.zeros((d, d))
        for part in self.rows_for(g, state):
            off = part.mean - state["centre"][g]
            total += part.scatter + part.mass * np.outer(off, off)
        return total

    def _grams(self, state: State) -> Array:
        return np.array([self._gram(state, g) for g in range(len(state["centre"]))])

    def _centre(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        group = ask.arrays["group"]
        parts = [self.rows_for(g, ask.arrays) for g in range(int(group.max()) + 1)]
        n, mass = (
            np.array([sum(getattr(part, what) for part in own) for own in parts], dtype=float)
            for what in ("n", "mass")
        )
        zero = np.zeros(len(self.names))
        sums = np.array([sum((part.mass * part.mean for part in own), start=zero) for own in parts])
        # The number of directions that the rows span determines a typical eigenvalue of S_k.
        rank = np.array([min(float(n.max()), float(len(self.names)))])
        scales = log_scales(self.n_rows, self.deviations())
        return state, {"rows": n, "mass": mass, "sums": sums, "rank": rank, "log_scales": scales}

    def _compare(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """What it takes to compare the parties' means and spreads."""
        return state, self._compared(ask.arrays["reference"])

    def _compared(self, reference: Array) -> dict[str, Array]:
        observed = dict(zip(self._regimes, self._parts, strict=True)).get(frozenset())
        return contribution(observed, self.deviations(), reference)

    def _scale(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        known = _constants(ask)
        squares = np.array([gram.diagonal() for gram in self._grams(known)])
        return state, {"rows": self._own_rows(known), "squares": squares}

    def _scatter(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """The statistics about a common centre, per set of intervened variables."""
        d = len(self.names)
        stats = self._adjusted(ask.arrays)
        parts = {frozenset(): stats} if isinstance(stats, GaussianStats) else stats.parts
        sent: dict[str, Array] = {"log_scales": log_scales(self.n_rows, self.deviations())}
        sent |= self._compared(ask.arrays["reference"])
        if ask.meta["weighted"]:
            sent["weighted scatter"] = triangle_of(self._weighted_scatter())
        for regime, centre in zip(ask.meta["regimes"], ask.arrays["centre"], strict=True):
            part = parts.get(frozenset(regime))
            label = regime_label(regime)
            off = np.zeros(d) if part is None else part.mean - centre
            n, mass = (0.0, 0.0) if part is None else (part.n, part.mass)
            sent[f"rows[{label}]"] = np.array([n, mass])
            sent[f"sums[{label}]"] = mass * off
            scatter = np.zeros((d, d)) if part is None else part.scatter + mass * np.outer(off, off)
            sent[f"scatter[{label}]"] = triangle_of(scatter)
        return state, sent

    def _weighted_scatter(self) -> Array:
        """The scatter within the party, of rows divided by the party's overall spread."""
        assert isinstance(self.stats, GaussianStats)  # the coordinator asks only without interventions
        d = len(self.names)
        divided = Adjustment(1.0, OVERALL, np.zeros(d)).applied(self.stats, self.unbiased_deviations())
        assert isinstance(divided, GaussianStats)
        return divided.scatter

    def _factorised(self, state: State) -> Factors:
        """One eigendecomposition per group, computed on first use and kept."""
        names = ("group", "centre", "rows", "scale", ADJUSTMENT)
        key = b"".join(state[name].tobytes() for name in names if name in state)
        if key not in self._factors:
            scale = state["scale"]
            S = self._grams(state) / state["rows"][:, None, None]
            values, vectors = np.linalg.eigh(S / np.outer(scale, scale))
            self._factors.clear()
            self._factors[key] = Factors(np.maximum(values, 0.0), vectors, S / scale[:, None])
        return self._factors[key]

    def proximal(self, state: State, centre: Array, rho: Array) -> Array:
        """Eq. (8): `argmin loss(B) + ρ/2 ‖B − C‖²` for each of several centres C and ρ, in scaled units."""
        factors = self._factorised(state)
        B = np.empty_like(centre)
        for g, (values, V, linear) in enumerate(zip(*factors, strict=True)):
            scored = state["group"] == g
            right = linear[:, scored] + rho[:, None, None] * centre[:, :, scored]
            B[:, :, scored] = V @ ((V.T @ right) / (values[:, None] + rho[:, None, None]))
        return B

    def _consensus(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """One round of ADMM."""
        known = {**state, **_constants(ask)}
        done = consensus(lambda C, rho: self.proximal(known, C, rho), known, ask)
        return done.state, done.sent

    def _average(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """A proximal step from W on this party's own mean loss, weighted by its rows; no state is kept."""
        constants = _constants(ask)
        share = self._own_rows(constants) / constants["rows"]
        W, tau = ask.arrays["W"], ask.arrays["tau"]
        B = W.copy()
        for g, weight in enumerate(share):
            if weight > 0:  # τ times the party's share: the same step on the mean loss of its own rows
                scored = constants["group"] == g
                B[:, :, scored] = self.proximal(constants, W, tau * weight)[:, :, scored]
        columns = share[constants["group"]]
        return state, {"parameters": B * columns, "share": columns}

    def _own_rows(self, known: State) -> Array:
        """The rows that score each group; part of every sum, since parties may be missing in any of them."""
        groups = range(len(known["centre"]))
        return np.array([float(sum(part.n for part in self.rows_for(g, known))) for g in groups])

    def _losses(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """The residual sum of squares of every variable, for each of several W."""
        W = ask.arrays["weights"]
        known = {**state, **_constants(ask)}
        residual = np.eye(W.shape[1]) - W
        squares = np.empty(W.shape[:2])
        for g, gram in enumerate(self._grams(known)):
            scored = known["group"] == g
            columns = residual[:, :, scored]
            squares[:, scored] = np.einsum("lij,ik,lkj->lj", columns, gram, columns, optimize=True)
        return state, {"rows": self._own_rows(known), "squares": squares}

    def _families(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """The loss of candidate families: covariances of pairs that occur in one family, nothing else."""
        known = {**state, **_constants(ask)}
        families = self._grams(known)[ask.arrays["pairs"].astype(bool)]
        return state, {"rows": self._own_rows(known), "families": families}


def _constants(ask: Ask) -> dict[str, Any]:
    """What the coordinator sends once, or every time to parties that keep no state."""
    return {name: ask.arrays[name] for name in (*_CONSTANTS, ADJUSTMENT) if name in ask.arrays}


def known_task(tasks: Mapping[str, Task], ask: Ask) -> Task:
    """The task that answers a question."""
    if ask.task not in tasks:
        raise DataError(f"It does not know the question {ask.task!r}.")
    return tasks[ask.task]


def lane_count(state: State) -> dict[str, int]:
    """The number of penalties in the current study, as a length of shapes."""
    return {"l": len(state["pending"])} if "pending" in state else {}


def require_columns(ask: Ask, names: tuple[str, ...]) -> None:
    """Decline a study with other columns."""
    if list(ask.meta.get("columns", names)) != list(names):
        raise DataError(column_difference(tuple(ask.meta["columns"]), names))


def column_difference(expected: tuple[str, ...], found: tuple[str, ...]) -> str:
    """How a table's columns differ from those of the study, which are those of most parties."""
    here, there = set(found), set(expected)
    if here != there:
        parts = [
            f"{what} {', '.join(sorted(names))}"
            for what, names in (("lacks", there - here), ("has in addition", here - there))
            if names
        ]
        return (
            f"Its columns are not those that the study asks of every party: it {' and '.join(parts)}. "
            "Leave out what not all have (--columns on the command line), or add it."
        )
    place = next(i for i, (a, b) in enumerate(zip(expected, found, strict=True)) if a != b)
    return (
        f"Its columns are in another order: number {place + 1} is {found[place]}, in the study "
        f"{expected[place]}. Reorder them."
    )
