"""A site's side of neural networks: rows are needed, so the site keeps them.

The loss of a site is its share of the pooled one: residual sums of squares over the *total* number of rows,
of rows about the *common* mean and in a common unit. ADMM's step (2) has no closed form; a few steps of
L-BFGS from where the site stood are enough in a round. The mask's noise follows from a seed that all sites
are told, so all of them average over the same draws.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from polydag.arrays import Array
from polydag.federated.models.consensus import consensus
from polydag.federated.models.linear_site import LinearLocal, known_task, lanes_of, require_columns
from polydag.federated.models.unit_checks import log_scales
from polydag.federated.models.votes import ballots, criteria, fits_alone, with_failures
from polydag.federated.protocol.checks import Task, damage
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
_AMPLE = 2  # rows a variable from which on a site's own regressions tell the size of errors
_DRAWS = 16
_CONSTANTS = {"centre": "gd", "rows": "g", "error": "", "forbidden": "dd", "seed": ""}


def network_shape(kind: Kind, d: int, hidden: int) -> MLPShape | MaskedShape:
    """The parameters of plain or masked networks."""
    return MLPShape(d, hidden) if kind == "mlp" else MaskedShape(d, hidden)


@dataclass(frozen=True, eq=False)
class NetworkLocal:
    """Answers questions about rows that it keeps.

    Parameters
    ----------
    table : DataFrame
        The site's rows, all of them numbers.
    kind : {"mlp", "masked"}
        Plain networks, or masked ones.
    hidden : int
        Hidden units of each network.
    learner : estimator, optional
        What learns from this site alone, for voting.
    """

    table: pd.DataFrame
    kind: Kind = "mlp"
    hidden: int = 10
    learner: Any = None
    _linear: LinearLocal = field(init=False, repr=False)
    _losses: dict[bytes, NetworkLoss] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_linear", LinearLocal(GaussianStats.from_data(self.table)))

    @property
    def n_rows(self) -> float:
        """How many rows there are."""
        return self._linear.n_rows

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return self._linear.names

    @property
    def data(self) -> pd.DataFrame:
        """The rows."""
        return self.table

    def mark(self) -> bytes:
        """A mark of the rows and of the kind of networks."""
        rows = np.ascontiguousarray(self.table.to_numpy(dtype=float))
        return hashlib.sha256(repr((self.names, self.kind, self.hidden)).encode() + rows.tobytes()).digest()

    def told(self, state: State, arrays: Arrays) -> list[str]:
        """Votes that could not be cast, and columns whose scale here is far from that elsewhere."""
        return self._linear.told(state, arrays)

    def answer(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """What the site adds to the sum that was asked for."""
        return known_task(self.tasks(), ask).answer(state, ask)

    def tasks(self) -> dict[str, Task]:
        """What it can be asked; `p` are parameters, `l` lanes."""
        return {
            "centre": self._linear.tasks()["centre"],
            "errors": Task(self._errors, {"group": "d", "centre": "gd"}),
            "consensus": Task(self._consensus, {"W": "lp", "rho": "l"}, ("relax",), _CONSTANTS),
            "average": Task(self._average, {"W": "lp", "tau": "l", **_CONSTANTS}),
            "effects": Task(self._effects, {"W": "lp"}, once=_CONSTANTS),
            "vote": Task(self._vote, meta=("columns",)),
            "weighed votes": Task(self._weighed_votes, {"lambdas": "l"}, ("columns",)),
        }

    def objection(self, state: State, ask: Ask) -> str | None:
        """What is missing in a question, or wrong with it; raises where the study is of other columns."""
        task, d = known_task(self.tasks(), ask), len(self.names)
        require_columns(ask, self.names)
        sizes = {"d": d, "p": network_shape(self.kind, d, self.hidden).size, **lanes_of(state)}
        return damage(task, state, ask, sizes)

    def _errors(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """Sums of squares about the common centre; and the mean logarithm of the errors' size, times rows.

        Errors are those of linear regression of each variable on all others, within the site.
        """
        state, sent = self._linear.answer(state, Ask("scale", ask.arrays))
        stats, d = self._linear.stats, len(self.names)
        assert isinstance(stats, GaussianStats)
        known = stats.n >= _AMPLE * (d + 1) and bool((stats.scatter.diagonal() > 0).all())
        size, weight = 0.0, 0.0
        if known:
            error = scales(LeastSquares.from_stats(stats))["conditional"]
            size = float(np.log(error).mean() + 0.5 * np.log(stats.n / (stats.n - d)))
            weight = stats.n
        return state, {**sent, "log_error": np.array([size * weight]), "weight": np.array([weight])}

    def _loss(self, known: State) -> NetworkLoss:
        """The loss under what the coordinator has said, made once."""
        key = b"".join(np.asarray(known[name]).tobytes() for name in _CONSTANTS)
        if key not in self._losses:
            rows = (self.table.to_numpy(dtype=float) - known["centre"][0]) / float(known["error"])
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

    def proximal(self, known: State, start: Array, centre: Array, rho: Array) -> Array:
        """Towards `argmin loss(θ) + ρ/2 ‖θ − C‖²`, from `start`, in each of several lanes."""
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
        """Stateless: a step from W on this site's own mean loss, weighted by its rows."""
        known = _constants(ask)
        W, share = ask.arrays["W"], self.n_rows / float(known["rows"][0])
        own = self.proximal(known, W, W, ask.arrays["tau"] * share)
        return state, {"parameters": own * share, "share": np.array([share])}

    def _effects(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """Mean squared slopes of the networks and mean squared residuals, this site's share of both."""
        known = {**state, **_constants(ask)}
        loss, W = self._loss(known), ask.arrays["W"]
        share = np.array([self.n_rows / float(known["rows"][0])])
        residuals = np.array([loss.squared_residuals(theta) for theta in W])
        sent = {"share": share, "residuals": residuals}
        if isinstance(loss, MLP):
            sent["slopes"] = np.array([loss.squared_slopes(theta) for theta in W])
        return state, sent

    def _vote(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """The graph that the site finds by itself, at each of several penalties where these are given."""
        scales = log_scales(self.n_rows, self._linear.deviations())
        fits = fits_alone(self.learner, self.table, ask)
        found = ballots(fits, len(self.names), ask)
        return with_failures(state, fits), {**found, "log_scales": scales}

    def _weighed_votes(self, state: State, ask: Ask) -> tuple[State, Arrays]:
        """The graph at each penalty, and what its networks cost on the site's rows."""
        fits = fits_alone(self.learner, self.table, ask)
        return with_failures(state, fits), {**ballots(fits, len(self.names), ask), **criteria(fits)}


def _constants(ask: Ask) -> dict[str, Any]:
    """What the coordinator says once, or every time to a site that keeps nothing."""
    return {name: ask.arrays[name] for name in _CONSTANTS if name in ask.arrays}
