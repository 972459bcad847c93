"""Methods for parties: which program a setting means, and how its answer is read."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from polydag.errors import DataWarning
from polydag.federated import Local, Program
from polydag.federated.methods import varying as own
from polydag.federated.methods.admm import Admm
from polydag.federated.methods.differential_privacy import PrivateMoments, PrivateRounds
from polydag.federated.methods.fedavg import FedAvg
from polydag.federated.methods.moments import Moments
from polydag.federated.methods.voting import NetworkVoting, Voting, VotingPath
from polydag.federated.models.interface import HISTORY
from polydag.federated.models.linear_coordinator import LinearModel
from polydag.federated.models.regime_groups import variable_groups
from polydag.federated.models.varying_site import OwnLinearLocal
from polydag.federated.protection import known_regimes
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import columns_of_most
from polydag.graph import Edge, Graph
from polydag.knowledge import Masks
from polydag.learners.party_models import FAMILIES, informed
from polydag.learners.party_networks import Networks
from polydag.learners.party_privacy import private_plan
from polydag.metrics import varsortability
from polydag.orientation import weakest_cycle_edges
from polydag.privacy import differencing as rules
from polydag.privacy.masking.agreement import LEAST
from polydag.stats import GaussianStats

if TYPE_CHECKING:
    from polydag.learners.federated import FederatedNotears

METHODS = ("admm", "moments", "voting", "fedavg", "varying")
ALONE = ("moments", "voting")  # methods that put a learner of one table to work
_ACYCLIC = 1e-5
_FEW = 5  # rows a column, below which a graph means little
Penalty = float | Literal["bic"]


class Reading(NamedTuple):
    """A program's answer as an estimator keeps it; `besides` holds attributes of one method only."""

    graph: Graph
    raw_weights: NDArray[np.float64]
    history: pd.DataFrame
    pruned: list[tuple[Edge, str]]
    converged: bool
    n_iter: int
    lambda_: float
    criterion: float
    besides: Mapping[str, Any] = {}


def alone(settings: FederatedNotears, lambda_: Penalty) -> Any:
    """What learns from a party alone, or from summed statistics; what is known it is told later."""
    if settings.learner is not None:
        return clone(settings.learner)
    return FAMILIES[settings.model].alone(settings).set_params(lambda_=lambda_)


def papers_lambda(settings: FederatedNotears) -> float:
    """The paper's penalty: that of Algorithm 1, or that of NOTEARS as published, for a party alone."""
    family = FAMILIES[settings.model]
    return family.alone_lambda if settings.method in ALONE else family.paper_lambda


def program_of(
    settings: FederatedNotears, locals_: Mapping[str, Local], masks: Masks, lambda_: Penalty
) -> Program:
    """The coordinator's side of a method."""
    names = columns_of_most(local.names for local in locals_.values())
    regimes = known_regimes(locals_.values())
    group = variable_groups(names, regimes)
    family = FAMILIES[settings.model]
    if settings.epsilon is not None:
        return _private_program(settings, names, masks, group, lambda_)
    if settings.method == "moments":
        return Moments(names, regimes)
    if settings.method == "voting":
        if settings.learner is not None:
            return Voting(names)
        if lambda_ != "bic":
            return Voting(names, lambda_)
        if isinstance(family, Networks):
            return NetworkVoting(names)
        return VotingPath(LinearModel(names, masks, group, lambda_, 0.0, settings.acyclicity))
    if settings.method == "varying":
        return own.Varying(names, masks, group, lambda_, settings.threshold, settings.acyclicity)
    model = family.model(settings, locals_, masks, lambda_)
    if settings.method == "admm":
        return Admm(model, family.schedule(settings))
    seed = 0 if settings.random_state is None else settings.random_state
    groups: tuple[tuple[str, ...], ...] = tuple((name,) for name in locals_)
    if settings.privacy == "masked":  # single sites that come and go could be told from differences
        groups = rules.groups(tuple(locals_))
    program = FedAvg(model, groups, settings.participation, seed)
    if settings.participation < 1 and program.n_asked == len(groups):
        sizes = "" if len(groups) == len(locals_) else f", asked in groups of at least {LEAST},"
        warnings.warn(
            f"participation={settings.participation:g} of {len(locals_)} parties{sizes} is all of them: "
            "every party is asked in every round.",
            DataWarning,
            stacklevel=3,
        )
    return program


def _private_program(
    settings: FederatedNotears,
    names: tuple[str, ...],
    masks: Masks,
    group: NDArray[np.int64],
    lambda_: Penalty,
) -> Program:
    plan = private_plan(settings, names)
    if settings.method == "moments":
        return PrivateMoments(names, plan=plan)
    model = LinearModel(names, masks, group, lambda_, settings.threshold, settings.acyclicity)
    return PrivateRounds(model, plan, 1.0 if settings.method == "admm" else 4.0)


def read(
    settings: FederatedNotears,
    program: Program,
    result: Arrays,
    locals_: Mapping[str, Local],
    masks: Masks,
    lambda_: Penalty,
) -> Reading:
    """What a program answered."""
    names = columns_of_most(local.names for local in locals_.values())
    if isinstance(program, Moments):
        return _from_moments(settings, program, result, lambda_)
    if isinstance(program, (Voting, VotingPath, NetworkVoting)):
        return _from_votes(settings, result, names, masks)
    if isinstance(program, own.Varying):
        return _from_varying(result, program, locals_)
    return _from_rounds(result, names, masks, settled=settings.schedule == "paper")


def follows_variances(graph: Graph, result: Arrays) -> float:
    """Varsortability by the pooled standard deviations that came out."""
    if "pooled_scale" not in result or not graph.n_edges or not graph.is_dag:
        return np.nan
    scatter = np.diag(result["pooled_scale"] ** 2)
    if len(scatter) != graph.n_nodes:
        return np.nan
    pooled = GaussianStats(1.0, np.zeros(len(scatter)), scatter, graph.names, 1.0)
    return varsortability(true=graph, stats=pooled)


def _from_moments(settings: FederatedNotears, program: Moments, result: Arrays, lambda_: Penalty) -> Reading:
    known = FAMILIES[settings.model].knowledge(settings, program.names)
    statistics = program.statistics(result)
    if isinstance(program, PrivateMoments) and statistics.n < _FEW * len(program.names):
        warnings.warn(
            f"Noise for epsilon = {settings.epsilon:g} leaves as much as {statistics.n:.0f} rows would tell: "
            "the graph means little. Take more rows, a larger epsilon, fewer columns, or give bounds=.",
            DataWarning,
            stacklevel=4,
        )
    model = informed(alone(settings, lambda_), known).fit(statistics)
    weights = model.raw_weights_ if hasattr(model, "raw_weights_") else model.graph_.weights
    gone = getattr(model, "pruned_", pd.DataFrame(columns=["source", "target", "weight", "reason"]))
    pruned = [
        (Edge(str(s), str(t), float(w)), str(r))
        for s, t, w, r in zip(gone["source"], gone["target"], gone["weight"], gone["reason"], strict=True)
    ]
    return Reading(
        model.graph_,
        weights,
        model.history_,
        pruned,
        model.converged_,
        model.n_iter_,
        float(getattr(model, "lambda_used_", np.nan)),
        float(getattr(model, "criterion_", np.nan)),
        {"learner_": model},
    )


def _from_votes(settings: FederatedNotears, result: Arrays, names: tuple[str, ...], masks: Masks) -> Reading:
    shares, mean = result["shares"], result["mean_weights"]
    found = (shares > 0.5) & ~masks.forbidden | masks.required
    pruned: list[tuple[Edge, str]] = []
    if settings.schedule != "paper":
        found = _one_way(found, shares, masks.required)
        # The edge with the fewest votes goes first, whatever its weight.
        for i, j in weakest_cycle_edges(found & ~found.T, shares, masks.required):
            found[i, j] = False
            pruned.append((Edge(names[i], names[j], float(shares[i, j])), "cycle"))
    lambda_, criterion = (float(result.get(name, np.nan)) for name in ("lambda_", "criterion"))
    history = _history(result["history"]) if "history" in result else _one_ballot(shares, lambda_)
    graph = Graph(found, names, np.where(found, mean, 0.0))
    return Reading(graph, mean, history, pruned, True, 1, lambda_, criterion, {"votes_": shares})


def _one_way(
    found: NDArray[np.bool_], shares: NDArray[np.float64], required: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Where both directions have votes enough, the one with more of them; with as many, both.

    An undirected edge of a party's graph is a vote for each direction, so both can have more than half.
    """
    fewer = (shares < shares.T) & ~required | required.T
    return found & ~(found.T & fewer)


def _one_ballot(shares: NDArray[np.float64], lambda_: float) -> pd.DataFrame:
    """The history of a single round of votes; the penalty where the parties had a common one."""
    common = {} if np.isnan(lambda_) else {"lambda_": [lambda_]}
    return pd.DataFrame({"round": [1], **common, "n_nonzero": [int((shares > 0.5).sum())]})


def _from_varying(result: Arrays, program: own.Varying, locals_: Mapping[str, Local]) -> Reading:
    adjacency = result["adjacency"].astype(bool)
    strength, names = result["raw_weights"], program.names
    weak = (strength > own.STRENGTH_LEAST) & ~adjacency
    kept_at_home = {
        name: local.own_weights(program.group, adjacency)
        for name, local in locals_.items()
        if isinstance(local, OwnLinearLocal)
    }
    history = pd.DataFrame(result["history"], columns=list(own.HISTORY)).astype({"round": int})
    return Reading(
        Graph(adjacency, names, result["weights"]),
        strength,
        history,
        [(Edge(names[i], names[j], float(strength[i, j])), "weak") for i, j in np.argwhere(weak)],
        bool(result["moved"] <= own.SETTLED and result["h"] <= own.ACYCLIC),
        int(history["round"].max()),
        float(result["lambda_"]),
        float(result["criterion"]),
        {"party_weights_": kept_at_home},
    )


def _from_rounds(result: Arrays, names: tuple[str, ...], masks: Masks, *, settled: bool) -> Reading:
    weights, raw = result["weights"], result["raw_weights"]
    gone = (raw != 0) & (weights == 0) & ~masks.required
    turned = (weights.T != 0) & (np.abs(raw) > np.abs(raw.T))
    history = _history(result["history"])
    lambda_ = float(result["lambda_"])
    settled = settled or bool(result["settled"].all())
    return Reading(
        Graph((weights != 0) | masks.required, names, weights),
        raw,
        history,
        [
            (Edge(names[i], names[j], float(raw[i, j])), "turned" if turned[i, j] else "weak")
            for i, j in np.argwhere(gone)
        ],
        bool(settled and float(result["h"]) <= _ACYCLIC),
        int(history.loc[history["lambda_"] == lambda_, "round"].max()),
        lambda_,
        float(result["criterion"]),
    )


def _history(rows: NDArray[np.float64]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(HISTORY)).astype({"round": int, "n_nonzero": int})
