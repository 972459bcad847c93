"""Runs several Markov chains in parallel processes, in blocks that are stored, for as long as needed.

Every chain and block has its own seed, so that the draws depend neither on the number of processes nor on
interruptions. A run proceeds in rounds, each as long as all rounds before it together, which serve as its
burn-in. It ends when the chains of the last round agree (`diagnostics`) or at a given length. If they still
disagree after several rounds, each chain gets tempered replicas (`tempering`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydag.arrays import Array, Index
from polydag.computing.checkpoint import piece
from polydag.computing.progress import report
from polydag.computing.workers import reporting_lost_workers
from polydag.posterior.mcmc.chains import THINNING, Chains
from polydag.posterior.mcmc.diagnostics import CONSTANT, MAX_RHAT, UNCERTAIN, Diagnostics, diagnose
from polydag.posterior.mcmc.sampler import Record, Sampler
from polydag.posterior.mcmc.tempering import TemperedSampler

if TYPE_CHECKING:
    from polydag.computing.checkpoint import Piece

ROUNDS = 6  # after the first: 2^6 times its length in all
_EXTRA_ROUNDS = 2  # where chains agree and are only too short
BEFORE_TEMPERING = 5  # rounds that end in disagreement before chains are tempered
TEMPERATURES = 5
_BLOCKS = 10  # of a round, each stored when it is done
_MOST_DRAWS = 500  # of each chain and round
_FEWEST_DRAWS = 600  # of all chains together, however many edges there are: enough for the diagnostics
_TRACE = 2**25  # most edge probabilities that are held in memory (256 MB), beyond the fewest draws


@dataclass(frozen=True, eq=False)
class Run:
    """What the chains recorded in the last round.

    Attributes
    ----------
    states : int16 array of shape (chains, draws, n)
        Recorded states.
    log_weights : array of shape (chains, draws)
        Their log weights.
    edges : array of shape (chains, draws, n, n)
        The probability of each edge given the state; of several tasks, (chains, draws, traced).
    diagnostics : Diagnostics
        R-hat, ESS and MCSE of each of these.
    history : list of dict
        One entry for each round: steps, burn_in, draws, temperatures, acceptance, r_hat, ess, mixed.
    """

    states: NDArray[np.int16]
    log_weights: Array
    edges: Array
    diagnostics: Diagnostics
    history: list[dict[str, Any]]

    @property
    def mixed(self) -> bool:
        """Whether the chains of the last round agree."""
        return bool(self.history[-1]["mixed"])


@dataclass(frozen=True)
class Round:
    """One round: `steps` moves of each chain, recorded after every `thinning` moves (never if 0)."""

    number: int
    steps: int
    thinning: int
    temperatures: int

    @property
    def blocks(self) -> list[int]:
        """The moves of each block."""
        unit = self.thinning or 1
        units = np.diff(np.linspace(0, self.steps // unit, _BLOCKS + 1).astype(int))
        return [int(unit * count) for count in units if count]


class Draws(NamedTuple):
    """What the chains recorded in a round, with the shapes of `Run`."""

    states: NDArray[np.int16]
    log_weights: Array
    edges: Array


Positions = Sequence[Sequence[Index]] | None  # of every chain and replica; None before the first block


def run_chains(
    sampler: Sampler[Any],
    chains: Chains,
    *,
    first_round: int = 2000,
    thinning: int = 1,
    n_jobs: int = 1,
    random_state: int | None = None,
    name: str = "chains",
    starts: Sequence[Index] | None = None,
) -> Run:
    """Run chains until they agree, or for as long as the settings say.

    Parameters
    ----------
    sampler : Sampler
        The states, their weights and the moves between them.
    chains : Chains
        How many chains, and how long they are.
    first_round : int
        The length of the first round, where the length is not given.
    thinning : int
        The fewest moves between two recorded states, where the length is not given.
    n_jobs : int
        Processes (joblib; a backend set by `joblib.parallel_config` is used). The draws do not depend on it.
    random_state : int, optional
        The seed of all chains.
    name : str
        The name of the checkpoints: two runs inside one recording need different names.
    starts : sequence of int arrays of shape (n,), optional
        The position at which each chain starts; a random one by default.
    """
    from joblib import Parallel

    entropy = np.random.SeedSequence(random_state).entropy
    positions = None if starts is None else [[start] for start in starts]
    with reporting_lost_workers(), Parallel(n_jobs=n_jobs, mmap_mode="c") as parallel:
        runner = _Runner(sampler, chains.n_chains, entropy, parallel, name)
        if chains.n_steps is None:
            return _until_mixed(
                runner, chains.burn_in, max(first_round, thinning, THINNING), thinning, positions
            )
        return _fixed_length(runner, chains.n_steps, chains.burn_in, positions)


@dataclass(frozen=True)
class _Runner:
    """Runs rounds of all chains."""

    sampler: Sampler[Any]
    n_chains: int
    entropy: Any
    parallel: Any
    name: str

    def thinning(self, steps: int, least: int = 1) -> int:
        """The moves between two recorded states of a round."""
        fitting = min(_MOST_DRAWS, _TRACE // (self.n_chains * self.sampler.traced))
        most = max(_FEWEST_DRAWS // self.n_chains, fitting)
        return max(THINNING, least, -(-steps // most))

    def burn_in(self, steps: int, positions: Positions) -> Positions:
        """The positions after some moves without records."""
        for block in self._blocks(Round(0, steps, 0, 1), positions) if steps else ():
            positions = list(block["positions"])
        return positions

    def round(self, plan: Round, positions: Positions) -> tuple[Draws, float, Positions]:
        """The draws of a round, the mean acceptance, and the positions at its end."""
        blocks = list(self._blocks(plan, positions))
        states, log_weights, edges = (
            np.concatenate([block[key] for block in blocks], axis=1) for key in Draws._fields
        )
        draws = Draws(states.astype(np.int16), log_weights.astype(float), edges.astype(float))
        acceptance = float(np.mean([np.asarray(block["acceptance"], dtype=float) for block in blocks]))
        return draws, acceptance, list(blocks[-1]["positions"])

    def _blocks(self, plan: Round, positions: Positions) -> Iterator[Piece]:
        """The blocks of a round, one after the other, computed or read from checkpoints."""
        from joblib import delayed

        note = f"{plan.temperatures} temperatures" if plan.temperatures > 1 else ""
        for b, steps in enumerate(plan.blocks):

            def compute(b: int = b, steps: int = steps, positions: Positions = positions) -> Piece:
                seeds = [
                    np.random.SeedSequence(self.entropy, spawn_key=(chain, plan.number, b))
                    for chain in range(self.n_chains)
                ]
                begin: Sequence[Sequence[Index] | None] = positions or [None] * self.n_chains
                one = replace(plan, steps=steps)
                done = self.parallel(
                    delayed(run_block)(self.sampler, own, one, seed)
                    for own, seed in zip(begin, seeds, strict=True)
                )
                return {key: np.stack([part[key] for part in done]) for key in done[0]}

            found = piece(f"{self.name}-{plan.number}-{b}", compute)
            positions = list(found["positions"])
            report(f"chains, round {plan.number + 1}", b + 1, len(plan.blocks), note)
            yield found


def _fixed_length(runner: _Runner, n_steps: int, burn_in: int | None, positions: Positions) -> Run:
    discarded = n_steps // 2 if burn_in is None else burn_in
    positions = runner.burn_in(discarded, positions)
    kept = n_steps - discarded
    plan = Round(1, kept, runner.thinning(kept), 1)
    return _diagnosed(runner, plan, positions, discarded, [])[0]


def _until_mixed(
    runner: _Runner, burn_in: int | None, first: int, thinning: int, positions: Positions
) -> Run:
    done = first if burn_in is None else burn_in
    positions = runner.burn_in(done, positions)
    history: list[dict[str, Any]] = []
    temperatures = 1
    for number in range(1, ROUNDS + _EXTRA_ROUNDS + 1):
        steps = first << (number - 1)
        plan = Round(number, steps, runner.thinning(steps, thinning), temperatures)
        run, positions = _diagnosed(runner, plan, positions, done, history, constant=UNCERTAIN)
        history = run.history
        disagree = history[-1]["r_hat"] > MAX_RHAT
        if run.mixed or (number >= ROUNDS and disagree):
            break
        done += steps
        if number >= BEFORE_TEMPERING and disagree:
            temperatures = TEMPERATURES
    return replace(run, diagnostics=diagnose(run.edges))


def _diagnosed(
    runner: _Runner,
    plan: Round,
    positions: Positions,
    burn_in: int,
    history: list[dict[str, Any]],
    constant: float = CONSTANT,
) -> tuple[Run, Positions]:
    """A round with its diagnostics, and the positions at its end."""
    draws, acceptance, positions = runner.round(plan, positions)
    diagnostics = diagnose(draws.edges, constant)
    r_hat, ess = diagnostics.worst
    entry = {
        "steps": plan.steps,
        "burn_in": burn_in,
        "draws": draws.edges.shape[1],
        "temperatures": plan.temperatures,
        "acceptance": acceptance,
        "r_hat": r_hat,
        "ess": ess,
        "mixed": diagnostics.mixed,
    }
    report(f"chains, round {plan.number + 1}", 1, 1, f"R-hat {r_hat:.2f}, ESS {ess:.0f}")
    return Run(*draws, diagnostics, [*history, entry]), positions


def run_block(
    sampler: Sampler[Any], positions: Sequence[Index] | None, plan: Round, seed: np.random.SeedSequence
) -> Piece:
    """One block of one chain, with its tempered replicas.

    Returns
    -------
    dict
        positions : int array of shape (temperatures, n), at the end of the block
        states, log_weights, edges : the records, of shapes (draws, n), (draws,) and (draws, n, n);
            several tasks have their own shape of edges
        acceptance : the mean acceptance
    """
    rng = np.random.default_rng(seed)
    moves = plan.thinning or plan.steps
    chain = TemperedSampler.of(sampler, plan.temperatures, moves)
    state = chain.init([sampler.random_position(rng)] if positions is None else positions)
    records: list[Record] = []
    accepted = []
    for _ in range(plan.steps // moves):
        state, info = chain.step(rng, state)
        accepted.append(info.acceptance)
        if plan.thinning:
            records.append(sampler.record(state.replicas[0]))
    n = sampler.n
    return {
        "positions": np.stack([replica.position for replica in state.replicas]),
        "states": np.array([record.state for record in records], dtype=np.int16).reshape(-1, n),
        "log_weights": np.array([record.log_weight for record in records], dtype=float),
        "edges": np.array([record.edges for record in records], dtype=float),
        "acceptance": np.array(np.mean(accepted)),
    }
