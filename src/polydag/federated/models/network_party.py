"""A party's side of neural networks, which need rows, so the party keeps them.

The loss of a party is its share of the pooled loss: residual sums of squares over the *total* number of rows,
for rows about the *common* mean and in a common unit. Step (2) of ADMM has no closed form; a few steps of
L-BFGS from the party's last parameters suffice in a round. The noise of the mask follows from a seed that all
parties receive, so all of them average over the same draws.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from polydag.arrays import Array
from polydag.federated.models.consensus import consensus
from polydag.federated.models.linear_party import LinearParty, known_task, lane_count, require_columns
from polydag.federated.party_data.site_comparison import ADJUSTMENT, COMPARE
from polydag.federated.party_data.site_effects import Adjustment
from polydag.federated.protocol.checks import Task, question_problem
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Ask, State
from polydag.losses import LeastSquares
from polydag.losses.least_squares import scales
from polydag.losses.masked import MaskedMLP, MaskedShape, mask_noise
from polydag.losses.mlp import MLP, MLPShape
from polydag.optimize.network_steps import local_step
from polydag.stats import GaussianStats

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["mlp", "masked"]
NetworkLoss = MLP | MaskedMLP

_STEPS = 10  # of L-BFGS, in a round
_AMPLE = 2  # rows per variable from which a party's own regressions determine the size of errors
_DRAWS = 16
_CONSTANTS = {"centre": "gd", "rows": "g", "error": "", "forbidden": "dd", "seed": ""}


def network_shape(kind: Kind, d: int, hidden: int) -> MLPShape | MaskedShape:
    """The layout of the parameters of plain or masked networks."""
    return MLPShape(d, hidden) if kind == "mlp" else MaskedShape(d, hidden)


@dataclass(frozen=True, eq=False)
class NetworkParty:
    """Answers questions about rows that it keeps.

    Parameters
    ----------
    table : DataFrame
        The party's rows, all of them numbers.
    kind : {"mlp", "masked"}
        Plain networks, or masked ones.
    hidden : int
        Hidden units of each network.
    """

    table: pd.DataFrame
    kind: Kind = "mlp"
    hidden: int = 10
    _linear: LinearParty = field(init=False, repr=False)
    _losses: dict[bytes, NetworkLoss] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_linear", LinearParty(GaussianStats.from_data(self.table)))

    @property
    def n_rows(self) -> float:
        """The number of rows."""
        return self._linear.n_rows

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return self._linear.names

    @property
    def data(self) -> pd.DataFrame:
        """The rows."""
        return self.table

    def fingerprint(self) -> bytes:
        """A hash of the rows and of the kind of networks."""
        rows = np.ascontiguousarray(self.table.to_numpy(dtype=float))
        return hashlib.sha256(repr((self.names, self.kind, self.hidden)).encode() + rows.tobytes()).digest()

    def notes(self, state: State, arrays: Arrays) -> list[str]:
        """Columns whose scale here is far from that elsewhere."""
        return self._linear.notes(state, arrays)

    def deviations(self) -> Array:
        """The standard deviations of columns; zero where they are constant."""
        return self._linear.deviations()

    def answer(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """The party's contribution to the sum."""
        return known_task(self.tasks(), ask).answer(state, ask)

    def tasks(self) -> dict[str, Task]:
        """The questions that it answers; `p` counts parameters, `l` penalties."""
        return {
            COMPARE: self._linear.tasks()[COMPARE],
            "centre": self._linear.tasks()["centre"],
            "errors": Task(self._errors, {"group": "d", "centre": "gd"}),
            "consensus": Task(self._consensus, {"W": "lp", "rho": "l"}, ("relax",), _CONSTANTS),
            "average": Task(self._average, {"W": "lp", "tau": "l", **_CONSTANTS}),
            "effects": Task(self._effects, {"W": "lp"}, once=_CONSTANTS),
        }

    def objection(self, state: State, ask: Ask) -> str | None:
        """What is missing in a question or wrong with it; raises where the study has other columns."""
        task, d = known_task(self.tasks(), ask), len(self.names)
        require_columns(ask, self.names)
        sizes = {"d": d, "p": network_shape(self.kind, d, self.hidden).size, **lane_count(state)}
        return question_problem(task, state, ask, sizes)

    def _errors(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """Sums of squares about the common centre, and the mean logarithm of the errors' size times rows.

        Errors are those of a linear regression of each variable on all others, within the party.
        """
        state, sent = self._linear.answer(state, Ask("scale", ask.arrays))
        stats, d = self._linear.stats, len(self.names)
        assert isinstance(stats, GaussianStats)
        known = stats.n >= _AMPLE * (d + 1) and bool((stats.scatter.diagonal() > 0).all())
        size, weight = 0.0, 0.0
        if known:
            own = self._linear.rows_for(0, ask.arrays)[0]
            error = scales(LeastSquares.from_stats(own))["conditional"]
            size = float(np.log(error).mean() + 0.5 * np.log(own.n / (own.n - d)))
            weight = stats.n
        return state, {**sent, "log_error": np.array([size * weight]), "weight": np.array([weight])}

    def _loss(self, known: State) -> NetworkLoss:
        """The loss with the constants that the coordinator has sent, made once."""
        names = (*_CONSTANTS, ADJUSTMENT)
        key = b"".join(np.asarray(known[name]).tobytes() for name in names if name in known)
        if key not in self._losses:
            rows = self._rows(known) / float(known["error"])
            shape = network_shape(self.kind, len(self.names), self.hidden)
            total = float(known["rows"][0])
            loss: NetworkLoss
            if isinstance(shape, MaskedShape):
                noise = mask_noise(shape.d, _DRAWS, np.random.default_rng(int(known["seed"])))
                loss = MaskedMLP(rows, shape, noise, n_total=total)
            else:
                loss = MLP(rows, self.hidden, n_total=total)
            self._losses.clear()
            self._losses[key] = loss
        return self._losses[key]

    def _rows(self, known: State) -> Array:
        """The rows about the common centre, adjusted as was asked."""
        values, centre = self.table.to_numpy(dtype=float), known["centre"][0]
        if ADJUSTMENT not in known:
            return np.asarray(values - centre)
        stats = self._linear.stats
        assert isinstance(stats, GaussianStats)
        return Adjustment.of(known[ADJUSTMENT]).rows(
            values, stats, centre, self._linear.unbiased_deviations()
        )

    def _share(self, known: State) -> float:
        """This party's share of the rows."""
        return float(self._linear.rows_for(0, known)[0].n / float(known["rows"][0]))

    def proximal(self, known: State, start: Array, centre: Array, rho: Array) -> Array:
        """Steps from `start` towards `argmin loss(θ) + ρ/2 ‖θ − C‖²`, for each of several penalties."""
        loss = self._loss(known)
        _, held = loss.shape.hold(start[0], known["forbidden"].astype(bool))
        lanes = zip(start, centre, rho, strict=True)
        return np.array(
            [local_step(loss, at, near, float(r), held, max_iter=_STEPS).theta for at, near, r in lanes]
        )

    def _consensus(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """One round of ADMM."""
        known = {**state, **_constants(ask)}
        start = known.get("own", ask.arrays["W"])
        done = consensus(lambda C, rho: self.proximal(known, start, C, rho), known, ask)
        return {**done.state, "own": done.parameters}, done.sent

    def _average(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """A step from W on this party's own mean loss, weighted by its rows; no state is kept."""
        known = _constants(ask)
        W, share = ask.arrays["W"], self._share(known)
        own = self.proximal(known, W, W, ask.arrays["tau"] * share)
        return state, {"parameters": own * share, "share": np.array([share])}

    def _effects(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """This party's share of the mean squared slopes of the networks and of the mean squared residuals."""
        known = {**state, **_constants(ask)}
        loss, W = self._loss(known), ask.arrays["W"]
        share = np.array([self._share(known)])
        residuals = np.array([loss.squared_residuals(theta) for theta in W])
        sent = {"share": share, "residuals": residuals}
        if isinstance(loss, MLP):
            sent["slopes"] = np.array([loss.squared_slopes(theta) for theta in W])
        return state, sent


def _constants(ask: Ask) -> dict[str, Any]:
    """What the coordinator sends once, or every time to parties that keep no state."""
    return {name: ask.arrays[name] for name in (*_CONSTANTS, ADJUSTMENT) if name in ask.arrays}
