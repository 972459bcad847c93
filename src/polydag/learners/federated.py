"""NOTEARS over parties that keep their rows."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from polydag.acyclicity import ACYCLICITY
from polydag.errors import ConvergenceWarning, DataError, DataWarning, UsageError
from polydag.federated import Coordinator, Federation, Local, Program, Site
from polydag.federated.admm import Admm
from polydag.federated.fedavg import FedAvg
from polydag.federated.groups import variable_groups
from polydag.federated.ledger import Disclosed
from polydag.federated.messages import Arrays
from polydag.federated.model import HISTORY
from polydag.federated.moments import Moments
from polydag.federated.resuming import run_in_pieces
from polydag.federated.voting import Voting
from polydag.graph import Edge, Graph
from polydag.knowledge import Knowledge, Masks
from polydag.learners.base import StructureLearner
from polydag.learners.notears import Notears
from polydag.learners.party_models import FAMILIES, PAPER_THRESHOLD, Family, known_regimes
from polydag.learners.site_stability import one_after_the_other, stable_lambda
from polydag.stats import GaussianStats, Regimes

METHODS = ("admm", "moments", "voting", "fedavg")
ALONE_LAMBDA = 0.1  # for a party alone the paper runs NOTEARS as published, whose penalty this is
_ACYCLIC = 1e-5
Table = Any


class FederatedNotears(StructureLearner):
    """One graph from the tables of several parties, none of which shows its rows.

    All that is used of the parties is sums over them.

    Parameters
    ----------
    method : {"admm", "moments", "voting", "fedavg"}
        "moments": sums of sufficient statistics, then `learner`; the answer of pooling, in one round of
        statistics. "admm": parameters only are exchanged, over some fifty rounds; of the pooled covariances
        none are seen but those within candidate families at the end, and none at all with a number for
        `threshold`. "fedavg": as "admm", but sites keep nothing between rounds and may be missing in some.
        "voting": every party learns alone, and an edge stays that more than half of them found.
    schedule : {"default", "paper"}
        "paper" is Algorithm 1 with the paper's constants (λ = 0.01, ρ1 = ρ2 = 1e-3, γ1 = 1.75, γ2 = 1.25, up
        to 200 rounds, threshold 0.3, matrix exponential); for voting it keeps cycles.
    model : "linear"
        What a variable is of its parents.
    lambda_ : float, "bic" or "stability"
        The ℓ1 penalty; "bic" takes the best of a path, "stability" the smallest whose graph hardly changes
        over random halves of the parties. With "moments" and "voting" it is handed to the learner.
    acyclicity : {"logdet", "expm"}
        The function that measures cycles.
    threshold : float or "ebic"
        Which weights are too small to be edges: those below a number, or those without which the extended
        BIC is lower.
    learner : estimator, optional
        For "moments" and "voting": what learns from statistics; `Notears` by default.
    knowledge : Knowledge, optional
        Required and forbidden edges, tiers.
    participation : float
        For "fedavg": the share of the parties that is asked in each round.
    min_rows : int
        A party with fewer rows does not take part, and the study stops.
    privacy : "none"
        How sums are protected.
    random_state : int, optional
        For the random choices of parties.

    Attributes
    ----------
    disclosure_ : DataFrame
        site, round, name, shape, bytes, masked: every array that left a site.
    votes_ : array of shape (d, d)
        For "voting": the share of parties that found each edge.
    lambda_used_ : float
        The penalty of the result (NaN for "voting").
    criterion_ : float
        The extended BIC of the graph, where it was computed.
    n_rounds_ : int
        Questions that the coordinator asked.

    References
    ----------
    Ng, I. and Zhang, K. (2022). Towards federated Bayesian network structure learning with continuous
    optimization.
    Na, Y. and Yang, J. (2010). Distributed Bayesian network structure learning.
    McMahan, B. et al. (2017). Communication-efficient learning of deep networks from decentralized data.

    Examples
    --------
    >>> from polydag import FederatedNotears, metrics, simulate
    >>> dag = simulate.dag(8, expected_edges=10, random_state=0)
    >>> parties = [simulate.linear(dag, n=60, random_state=seed) for seed in range(5)]
    >>> model = FederatedNotears(method="admm").fit(parties)
    >>> metrics.shd(true=dag, estimate=model.graph_)
    0
    """

    disclosure_: pd.DataFrame
    votes_: NDArray[np.float64]
    lambda_used_: float
    criterion_: float
    n_rounds_: int

    def __init__(
        self,
        *,
        method: str = "admm",
        schedule: Literal["default", "paper"] = "default",
        model: Literal["linear"] = "linear",
        lambda_: float | Literal["bic", "stability"] = "bic",
        acyclicity: str = "logdet",
        threshold: float | Literal["ebic"] = "ebic",
        learner: Any = None,
        knowledge: Knowledge | None = None,
        participation: float = 1.0,
        min_rows: int = 1,
        privacy: Literal["none"] = "none",
        random_state: int | None = None,
    ) -> None:
        self.method = method
        self.schedule = schedule
        self.model = model
        self.lambda_ = lambda_
        self.acyclicity = acyclicity
        self.threshold = threshold
        self.learner = learner
        self.knowledge = knowledge
        self.participation = participation
        self.min_rows = min_rows
        self.privacy = privacy
        self.random_state = random_state

    def fit(self, X: Iterable[Table] | Mapping[str, Table], y: None = None) -> Self:
        """Learn from the parties' tables: a list, or a mapping of names to tables; `y` is ignored.

        A table is a DataFrame, an array, a `Table`, or statistics; `Regimes` where variables were set in
        some rows.
        """
        self._check_parameters()
        family = FAMILIES[self.model]
        locals_ = self._locals(X)
        names = next(iter(locals_.values())).names
        masks = family.masks(self, names)
        lambda_, disclosed = self._penalty(locals_)
        program = self._program(family, locals_, masks, lambda_)
        federation = self._run(program, locals_, f"{self.method} {lambda_} {_mark(locals_)}")
        self._tell(federation, disclosed)
        if isinstance(program, Moments):
            self._from_moments(program.statistics(federation.coordinator.result), lambda_)
        elif isinstance(program, Voting):
            self._from_votes(federation.coordinator.result, names, masks)
        else:
            self._from_rounds(federation.coordinator.result, names, masks)
        self.n_rounds_ = federation.coordinator.round - 1
        if not self.converged_:
            warnings.warn(
                f"{self.method} stopped after {self.n_rounds_} rounds before it had settled; the graph is "
                "acyclic all the same.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _check_parameters(self) -> None:
        for name, allowed in (
            ("method", METHODS),
            ("schedule", ("default", "paper")),
            ("model", tuple(FAMILIES)),
            ("acyclicity", tuple(ACYCLICITY)),
            ("privacy", ("none",)),
        ):
            if getattr(self, name) not in allowed:
                told = ", ".join(allowed)
                raise UsageError(f"{name} must be one of {told}; got {getattr(self, name)!r}.")
        for name, words in (("lambda_", ("bic", "stability")), ("threshold", ("ebic",))):
            value = getattr(self, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not (value >= 0 and np.isfinite(value) if number else value in words):
                told = " or ".join(repr(word) for word in words)
                raise UsageError(f"{name} must be {told}, or a number that is not negative; got {value!r}.")
        if self.method not in FAMILIES[self.model].methods:
            known = ", ".join(FAMILIES[self.model].methods)
            raise UsageError(f"model={self.model!r} goes with method {known}; got {self.method!r}.")
        if not 0 < self.participation <= 1:
            raise UsageError(f"participation is a share above 0 and up to 1; got {self.participation!r}.")
        if self.learner is not None and self.method not in ("moments", "voting"):
            raise UsageError(f"A learner goes with method 'moments' or 'voting', not with {self.method!r}.")

    def _locals(self, X: Iterable[Table] | Mapping[str, Table]) -> dict[str, Local]:
        """One local side a party, built from its table alone."""
        if isinstance(X, (pd.DataFrame, np.ndarray, GaussianStats, Regimes)):
            raise UsageError(
                "fit takes several tables, one a party: a list or a mapping of names to tables. "
                "For one table use Notears."
            )
        tables = dict(X) if isinstance(X, Mapping) else {f"site {i}": t for i, t in enumerate(X, start=1)}
        if not tables:
            raise DataError("There are no parties: fit takes a list of tables, one a party.")
        learner = self._alone() if self.method == "voting" else None
        result: dict[str, Local] = {}
        for name, table in tables.items():
            try:
                own = FAMILIES[self.model].local(self, table, None if learner is None else clone(learner))
            except DataError as error:
                raise DataError(f"{name}: {error}") from None
            result[str(name)] = own
        return result

    def _alone(self) -> Any:
        """What learns from statistics, with our settings where it has them."""
        learner = Notears() if self.learner is None else clone(self.learner)
        takes = learner.get_params(deep=False)
        chosen: dict[str, Any] = {}
        if self.learner is None:
            paper = self.schedule == "paper"
            lambda_ = "bic" if self.lambda_ == "stability" else self.lambda_
            chosen = {"lambda_": lambda_, "acyclicity": self.acyclicity, "threshold": self.threshold}
            if paper:
                chosen |= {"lambda_": ALONE_LAMBDA, "threshold": PAPER_THRESHOLD}
        if self.knowledge is not None and "knowledge" in takes:
            chosen["knowledge"] = self.knowledge
        return learner.set_params(**chosen)

    def _penalty(self, locals_: Mapping[str, Local]) -> tuple[float | Literal["bic"], list[pd.DataFrame]]:
        """The penalty, or how it is chosen within the study; and what left the sites for it so far."""
        if self.schedule == "paper" and self.lambda_ == "bic":
            return FAMILIES[self.model].paper_lambda, []
        if self.lambda_ == "stability":
            chosen = stable_lambda(
                self, {name: local.data for name, local in locals_.items()}, self.random_state
            )
            return chosen.lambda_, [chosen.disclosure]
        return self.lambda_, []

    def _program(
        self, family: Family, locals_: Mapping[str, Local], masks: Masks, lambda_: float | Literal["bic"]
    ) -> Program:
        names = next(iter(locals_.values())).names
        if self.method == "moments":
            regimes = known_regimes(locals_.values())
            return Moments(names, variable_groups(names, regimes), regimes)
        if self.method == "voting":
            return Voting(names)
        model = family.model(self, locals_, masks, lambda_)
        if self.method == "admm":
            return Admm(model, family.schedule(self))
        seed = 0 if self.random_state is None else self.random_state
        return FedAvg(model, tuple(locals_), self.participation, seed)

    def _run(self, program: Program, locals_: Mapping[str, Local], key: str) -> Federation:
        """Carry the study through, in one process; what is finished of it survives an interruption."""
        sites = {name: Site(local, self.min_rows) for name, local in locals_.items()}
        return run_in_pieces(Coordinator(program), sites, key)

    def _tell(self, federation: Federation, before: list[pd.DataFrame]) -> None:
        """Keep the ledger; pass on what sites noticed."""
        now = pd.DataFrame(federation.disclosed, columns=list(Disclosed._fields))
        self.disclosure_ = one_after_the_other([*before, now])
        for name, site in federation.sites.items():
            for note in dict.fromkeys(site.notes):
                warnings.warn(f"{name}: {note}", DataWarning, stacklevel=3)

    def _from_moments(
        self, stats: GaussianStats | Regimes[GaussianStats], lambda_: float | Literal["bic"]
    ) -> None:
        learner = self._alone()
        if self.learner is None and self.schedule != "paper":
            learner.set_params(lambda_=lambda_)
        model = learner.fit(stats)
        self.learner_ = model
        self.lambda_used_ = float(getattr(model, "lambda_used_", np.nan))
        self.criterion_ = float(getattr(model, "criterion_", np.nan))
        weights = model.raw_weights_ if hasattr(model, "raw_weights_") else model.graph_.weights
        gone = getattr(model, "pruned_", pd.DataFrame(columns=["source", "target", "weight", "reason"]))
        pruned = [
            (Edge(str(s), str(t), float(w)), str(r))
            for s, t, w, r in zip(gone["source"], gone["target"], gone["weight"], gone["reason"], strict=True)
        ]
        self._keep(model.graph_, raw_weights=weights, history=model.history_, pruned=pruned,
                   converged=model.converged_, n_iter=model.n_iter_)  # fmt: skip

    def _from_votes(self, result: Arrays, names: tuple[str, ...], masks: Masks) -> None:
        shares = result["shares"]
        self.votes_ = shares
        self.lambda_used_ = self.criterion_ = np.nan
        found = (shares > 0.5) & ~masks.forbidden | masks.required
        graph = Graph(found, names, np.where(found, result["mean_weights"], 0.0))
        pruned: list[tuple[Edge, str]] = []
        if self.schedule != "paper":
            # The edge with the fewest votes goes first, whatever its weight.
            acyclic, gone = Graph(found, names, np.where(found, shares, 0.0)).prune_cycles(masks.required)
            pruned = [(edge, "cycle") for edge in gone]
            graph = Graph(acyclic.adjacency, names, np.where(acyclic.adjacency, graph.weights, 0.0))
        history = [{"round": 1, "n_edges": graph.n_edges}]
        self._keep(graph, raw_weights=result["mean_weights"], history=history, pruned=pruned,
                   converged=True, n_iter=1)  # fmt: skip

    def _from_rounds(self, result: Arrays, names: tuple[str, ...], masks: Masks) -> None:
        weights, raw = result["weights"], result["raw_weights"]
        graph = Graph((weights != 0) | masks.required, names, weights)
        gone = (raw != 0) & (weights == 0) & ~masks.required
        pruned = [(Edge(names[i], names[j], float(raw[i, j])), "weak") for i, j in np.argwhere(gone)]
        self.lambda_used_ = float(result["lambda_"])
        self.criterion_ = float(result["criterion"])
        history = pd.DataFrame(result["history"], columns=list(HISTORY))
        history[["round", "n_nonzero"]] = history[["round", "n_nonzero"]].astype(int)
        mine = history["lambda_"] == self.lambda_used_
        paper = self.schedule == "paper"
        settled = bool(result["settled"].all()) or paper
        self._keep(graph, raw_weights=raw, history=history, pruned=pruned,
                   converged=bool(settled and float(result["h"]) <= _ACYCLIC),
                   n_iter=int(history.loc[mine, "round"].max()))  # fmt: skip


def _mark(locals_: Mapping[str, Local]) -> str:
    """A mark of all sites' data, so that stored rounds are not taken for those of other data."""
    digest = hashlib.sha256()
    for name, local in locals_.items():
        digest.update(name.encode() + local.mark())
    return digest.hexdigest()[:16]
