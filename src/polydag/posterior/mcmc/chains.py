"""Several Markov chains side by side: in processes, in blocks that can be stored, as long as they need to be.

A `Sampler` says how one kind of state moves; what is here is the same for all. Every chain and block has a
seed of its own, so that the draws depend neither on the number of processes nor on interruptions. A run goes
in rounds, each as long as all before it together, which are its burn-in: it ends when the last round's chains
agree (`diagnostics`) or at a stated length. Where they still disagree after some rounds,
each chain gets company at higher temperatures (parallel tempering: the weights to powers below 1, states
exchanged between neighbours), of which only the first is recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from polydag.checkpoint import piece
from polydag.errors import UsageError
from polydag.posterior.mcmc.diagnostics import CONSTANT, MAX_RHAT, UNCERTAIN, Diagnostics, diagnose
from polydag.progress import report

if TYPE_CHECKING:
    from polydag.checkpoint import Piece

Array = NDArray[np.float64]

ROUNDS = 6  # after the first: 2^6 times its length in all
_MORE = 2  # rounds where chains agree, and are only too short
BEFORE_TEMPERING = 5  # rounds that end in disagreement before chains get company
TEMPERATURES = 5
_RATIO = 0.75  # of the powers of neighbouring temperatures
_BLOCKS = 10  # of a round, each stored when it is done
_THINNING = 10  # steps between draws, at least
_DRAWS = 500  # of each chain and round, at most
_FEWEST = 600  # of all chains together, however many edges there are: enough to be told good ones
_TRACE = 2**25  # probabilities of edges that are held at once, at most (256 MB) beyond these


class Recorded(NamedTuple):
    """What is kept of a state: a number for each variable, its log weight, and the edges given it.

    `edges[i, j]` is the probability of `i -> j`.
    """

    state: NDArray[np.int16]
    log_weight: float
    edges: Array


class Walker(Protocol):
    """One chain's working memory, made in the process that runs it; states are its own affair."""

    def start(self, rng: np.random.Generator) -> Any:
        """Some state to begin with."""
        ...

    def pack(self, state: Any) -> NDArray[np.int64]:
        """All there is to a state, as an array."""
        ...

    def unpack(self, packed: NDArray[np.int64]) -> Any:
        """The state again."""
        ...

    def advance(self, state: Any, power: float, steps: int, rng: np.random.Generator) -> tuple[Any, float]:
        """Move on, towards the weight to a power; the new state, and the share of accepted proposals."""
        ...

    def log_weight(self, state: Any) -> float:
        """The logarithm of the weight that `advance` takes to a power."""
        ...

    def record(self, state: Any) -> Recorded:
        """What is kept of a state."""
        ...


class Sampler(Protocol):
    """What can be sent to another process to run chains there."""

    @property
    def n(self) -> int:
        """The number of variables."""
        ...

    def walker(self) -> Walker:
        """The working memory of a chain."""
        ...


@dataclass(frozen=True)
class Length:
    """How long to run.

    Attributes
    ----------
    n_chains : int
        Independent chains.
    n_steps : int, optional
        The length of each, burn-in included; chosen by the diagnostics if not given.
    burn_in : int, optional
        Steps at the beginning that are not used; half of them by default.
    first : int
        The length of the first round where the length is chosen.
    apart : int
        Steps between two draws where the length is chosen, if that is more than between any.
    """

    n_chains: int = 4
    n_steps: int | None = None
    burn_in: int | None = None
    first: int = 2000
    apart: int = 1

    def __post_init__(self) -> None:
        if self.n_chains < 1:
            raise UsageError(f"n_chains must be at least 1; got {self.n_chains}.")
        if self.n_steps is not None and self.n_steps < 2 * _THINNING:
            raise UsageError(f"n_steps must be at least {2 * _THINNING}; got {self.n_steps}.")
        if self.burn_in is not None and self.burn_in < 0:
            raise UsageError(f"burn_in must not be negative; got {self.burn_in}.")
        if self.n_steps is not None and self.burn_in is not None and self.burn_in > self.n_steps - _THINNING:
            raise UsageError(
                f"burn_in = {self.burn_in} leaves nothing of n_steps = {self.n_steps} (which counts it)."
            )


@dataclass(frozen=True, eq=False)
class Run:
    """What chains have seen after their burn-in.

    Attributes
    ----------
    states : int array of shape (chains, draws, …)
        Recorded states.
    log_weights : array of shape (chains, draws)
        The logarithms of their weights.
    edges : array of shape (chains, draws, n, n)
        The probability of each edge given the state.
    diagnostics : Diagnostics
        Of the edges.
    history : list of dict
        One entry a round: steps, burn_in, draws, temperatures, acceptance, r_hat, ess, mixed.
    """

    states: NDArray[np.int16]
    log_weights: Array
    edges: Array
    diagnostics: Diagnostics
    history: list[dict[str, Any]]

    @property
    def mixed(self) -> bool:
        """Whether the last round's chains agree."""
        return bool(self.history[-1]["mixed"])


@dataclass(frozen=True)
class _Plan:
    """One round: `steps` of each chain in blocks, a draw after every `thinning` (none if 0)."""

    number: int
    steps: int
    thinning: int
    temperatures: int

    @property
    def blocks(self) -> list[int]:
        """The steps of each block."""
        unit = self.thinning or 1
        units = np.diff(np.linspace(0, self.steps // unit, _BLOCKS + 1).astype(int))
        return [int(unit * count) for count in units if count]


def run_chains(
    sampler: Sampler,
    length: Length,
    *,
    n_jobs: int = 1,
    random_state: int | None = None,
    name: str = "chains",
    starts: Sequence[NDArray[np.int64]] | None = None,
) -> Run:
    """Run chains until they agree, or for as long as asked.

    Parameters
    ----------
    sampler : Sampler
        The kind of state, its moves and its weight.
    length : Length
        How many chains, and how long.
    n_jobs : int
        Processes (joblib; a backend set by `joblib.parallel_config` is used). The draws do not depend on it.
    random_state : int, optional
        The seed of everything.
    name : str
        Of the checkpoints: two runs inside one recording need different names.
    starts : sequence of arrays, optional
        The state that each chain begins in, packed; any state otherwise.
    """
    from joblib import Parallel

    entropy = np.random.SeedSequence(random_state).entropy
    with Parallel(n_jobs=n_jobs, mmap_mode="c") as parallel:
        work = _Work(sampler, length.n_chains, entropy, parallel, name)
        work.states = None if starts is None else [state[None] for state in starts]
        return _chosen(work, length) if length.n_steps is None else _given(work, length)


@dataclass
class _Work:
    """What all rounds share, and where the chains are."""

    sampler: Sampler
    n_chains: int
    entropy: Any
    parallel: Any
    name: str
    states: list[Any] | None = None

    def round(self, plan: _Plan) -> tuple[Piece, float]:
        """Run a round; its draws, and the mean acceptance."""
        from joblib import delayed

        blocks: list[Piece] = []
        for b, steps in enumerate(plan.blocks):

            def compute(b: int = b, steps: int = steps) -> Piece:
                seeds = [
                    np.random.SeedSequence(self.entropy, spawn_key=(chain, plan.number, b))
                    for chain in range(self.n_chains)
                ]
                before = self.states or [None] * self.n_chains
                one = replace(plan, steps=steps)
                done = self.parallel(
                    delayed(_block)(self.sampler, state, one, seed)
                    for state, seed in zip(before, seeds, strict=True)
                )
                return {key: np.stack([part[key] for part in done]) for key in done[0]}

            found = piece(f"{self.name}-{plan.number}-{b}", compute)
            self.states = list(found["at"])
            blocks.append(found)
            report(f"chains, round {plan.number + 1}", b + 1, len(plan.blocks), _temperature_note(plan))
        keys = ("states", "log_weights", "edges")
        draws = {key: np.concatenate([block[key] for block in blocks], axis=1) for key in keys}
        return draws, float(np.mean([np.asarray(block["acceptance"], dtype=float) for block in blocks]))


def _given(work: _Work, length: Length) -> Run:
    assert length.n_steps is not None
    burn_in = length.n_steps // 2 if length.burn_in is None else length.burn_in
    if burn_in:
        work.round(_Plan(0, burn_in, 0, 1))
    kept = length.n_steps - burn_in
    plan = _Plan(1, kept, _thinning(kept, work), 1)
    return _assessed(work, plan, burn_in, [])


def _chosen(work: _Work, length: Length) -> Run:
    first = max(length.first, length.apart, _THINNING)
    burn_in = first if length.burn_in is None else length.burn_in
    if burn_in:
        work.round(_Plan(0, burn_in, 0, 1))
    done = burn_in
    history: list[dict[str, Any]] = []
    temperatures = 1
    for number in range(1, ROUNDS + _MORE + 1):
        steps = first << (number - 1)
        plan = _Plan(number, steps, _thinning(steps, work, length.apart), temperatures)
        run = _assessed(work, plan, done, history, least=UNCERTAIN)
        history = run.history
        if run.mixed or (number >= ROUNDS and run.history[-1]["r_hat"] > MAX_RHAT):
            break
        done += steps
        if number >= BEFORE_TEMPERING and run.history[-1]["r_hat"] > MAX_RHAT:
            temperatures = TEMPERATURES
    return replace(run, diagnostics=diagnose(run.edges))


def _thinning(steps: int, work: _Work, apart: int = 1) -> int:
    most = max(_FEWEST // work.n_chains, min(_DRAWS, _TRACE // (work.n_chains * work.sampler.n**2)))
    return max(_THINNING, apart, -(-steps // most))


def _assessed(
    work: _Work, plan: _Plan, burn_in: int, history: list[dict[str, Any]], least: float = CONSTANT
) -> Run:
    draws, acceptance = work.round(plan)
    edges = np.asarray(draws["edges"], dtype=float)
    diagnostics = diagnose(edges, least)
    r_hat, ess = diagnostics.worst
    entry = {
        "steps": plan.steps,
        "burn_in": burn_in,
        "draws": edges.shape[1],
        "temperatures": plan.temperatures,
        "acceptance": acceptance,
        "r_hat": r_hat,
        "ess": ess,
        "mixed": diagnostics.mixed,
    }
    report(f"chains, round {plan.number + 1}", 1, 1, f"R-hat {r_hat:.2f}, effective draws {ess:.0f}")
    states = np.asarray(draws["states"], dtype=np.int16)
    weights = np.asarray(draws["log_weights"], dtype=float)
    return Run(states, weights, edges, diagnostics, [*history, entry])


def _temperature_note(plan: _Plan) -> str:
    return f"{plan.temperatures} temperatures" if plan.temperatures > 1 else ""


def _block(sampler: Sampler, states: Any, plan: _Plan, seed: np.random.SeedSequence) -> Piece:
    """One block of one chain, with its company at other temperatures."""
    rng = np.random.default_rng(seed)
    walker = sampler.walker()
    powers = np.power(_RATIO, np.arange(plan.temperatures), dtype=np.float64)
    if states is None:
        company = [walker.start(rng)]
    else:
        # Company that is new begins where the last one is.
        company = [walker.unpack(states[min(k, len(states) - 1)]) for k in range(plan.temperatures)]
    interval = plan.thinning or plan.steps
    kept: dict[str, list[Any]] = {"states": [], "log_weights": [], "edges": []}
    accepted = []
    for turn in range(plan.steps // interval):
        for k, power in enumerate(powers):
            company[k], share = walker.advance(company[k], float(power), interval, rng)
            if k == 0:
                accepted.append(share)
        if plan.temperatures > 1:
            _exchange(company, powers, walker, turn % 2, rng)
        if plan.thinning:
            for key, value in zip(kept, walker.record(company[0]), strict=True):
                kept[key].append(value)
    n = sampler.n
    return {
        "at": np.stack([walker.pack(state) for state in company]),
        "states": np.array(kept["states"], dtype=np.int16).reshape(-1, n),
        "log_weights": np.array(kept["log_weights"], dtype=float),
        "edges": np.array(kept["edges"], dtype=float).reshape(-1, n, n),
        "acceptance": np.array(np.mean(accepted)),
    }


def _exchange(
    company: list[Any], powers: Array, walker: Walker, parity: int, rng: np.random.Generator
) -> None:
    """Propose to exchange the states of neighbouring temperatures, every other pair in turn."""
    logs = [walker.log_weight(state) for state in company]
    for k in range(parity, len(company) - 1, 2):
        gain = (powers[k] - powers[k + 1]) * (logs[k + 1] - logs[k])
        if np.log(1.0 - rng.random()) < gain:
            company[k], company[k + 1] = company[k + 1], company[k]
            logs[k], logs[k + 1] = logs[k + 1], logs[k]
