"""What the coordinator can make of the messages it receives: a site's covariance, and the rows behind it.

The attacker is the coordinator: it runs the study as it should and keeps every message. It tries to recover
the first site's share of the pooled covariance, and the rows behind it as far as a covariance tells them (up
to a rotation). Beside its error, relative in the Frobenius norm, stands that of a guess from the sums alone:
the pooled covariance, divided evenly.

In the open, ADMM's messages give `S_k = (ρ2 W − β_k − ρ2 B_k)(B_k − I)⁻¹` exactly, and moments show it
outright. Masked messages are read as the numbers that their words stand for; the best of all rounds and their
mean are tried, and neither may beat the guess. Under differential privacy the sum itself is noisy.

The last attack is on what masks do not hide: the *opened* sums of masked ADMM, over all rounds. They are sums
of non-linear functions of the sites' covariances, which least squares fits to them from several starts:
covariances of as many rows as a site has, drawn from the pooled one. The error is that of the worst site,
under the best assignment of the covariances found to sites. Would it help if sites rounded their parameters?
The error that then remains, to first order, stands in `leakage_rounding`.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import itertools
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from keeping import keep, machine
from party_fits import over_parties
from scipy.optimize import least_squares

from polydag import simulate
from polydag.federated import Federation
from polydag.federated.party_data.triangles import symmetric
from polydag.federated.protocol.messages import CONTRIBUTION, Arrays, Message
from polydag.federated.protocol.storage import resume as resuming
from polydag.federated.protocol.sums import SecureSum, narrow_of
from polydag.privacy.masking.coordinator import add_masked
from polydag.privacy.masking.ring import NARROW, WIDE
from polydag.privacy.settings import Privacy

D, K, N = 8, 5, 60
VICTIM = "site 1"


class Listening:
    """The coordinator's ear: questions and answers of a study, in their order."""

    def __init__(self) -> None:
        self.asked: list[Message] = []
        self.answered: list[Message] = []

    def __call__(self, message: Message) -> list[Message]:
        if message.phase == "ask" and message.recipient == VICTIM:
            self.asked.append(message)
        if message.phase == CONTRIBUTION and message.sender == VICTIM:
            self.answered.append(message)
        return [message]


def overheard(parts: list[pd.DataFrame], privacy: Privacy, **settings: Any) -> tuple[Listening, Arrays]:
    """A study as the coordinator hears it, and what it ends with."""
    ear, real, ends = Listening(), resuming.run, []

    def run(*args: Any, **more: Any) -> Federation:
        ends.append(real(*args, **more, carry=ear))
        return ends[-1]

    resuming.run = run  # type: ignore[assignment]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            over_parties(parts, privacy, **settings)
    finally:
        resuming.run = real
    return ear, ends[-1].coordinator.result


def share(parts: list[pd.DataFrame], about: np.ndarray) -> np.ndarray:
    """What is attacked: the victim's scatter about the common mean, divided by all rows."""
    rows = parts[0].to_numpy() - about
    return rows.T @ rows / sum(map(len, parts))


def read(message: Message, name: str) -> np.ndarray | None:
    """The numbers of an array as the attacker reads them; masked ones as what their words stand for."""
    if name not in message.arrays:
        return None
    array = message.arrays[name]
    if array.dtype != np.uint64:
        return np.asarray(array, dtype=float)
    return (NARROW if len(array) == 1 else WIDE).decode(array)


def from_admm(ear: Listening) -> list[np.ndarray]:
    """`S_k` from every pair of consecutive rounds, in the lane of the smallest penalty.

    The message is `p = relax B + (1 − relax) W + u` with `u` the scaled multiplier: 0 in the first round, and
    then known from the message before.
    """
    found: list[np.ndarray] = []
    before: tuple[np.ndarray, float] | None = None
    scale = None
    for ask, answer in zip(ear.asked, ear.answered, strict=True):
        if ask.meta["task"] != "consensus":
            continue
        scale = ask.arrays.get("scale", scale)
        parameters = read(answer, "parameters")
        assert parameters is not None
        assert scale is not None
        W, p, rho = ask.arrays["W"][-1], parameters[-1], float(ask.arrays["rho"][-1])
        relax = float(ask.meta["relax"])
        u = np.zeros_like(W) if before is None else before[1] / rho * (before[0] - W)
        B = (p - u - (1 - relax) * W) / relax
        before = (p, rho)
        # (S/s_i s_j + ρ) B = ρ (W − u) + S/s_i: in units where weights are s_i W_ij; S/s_i = T s_j.
        left = np.diag(scale) - B
        if np.linalg.cond(left) < 1e12:
            T = rho * (B - W + u) @ np.linalg.inv(left)
            found.append((T + T.T) / 2 * np.outer(scale, scale))
    return found


def error(estimate: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(estimate - truth) / np.linalg.norm(truth))


def rows_error(estimate: np.ndarray, truth: np.ndarray) -> float:
    """Of the rows up to a rotation: the symmetric root is all that a covariance tells of them."""
    return error(root(estimate), root(truth))


def root(matrix: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def from_moments(ear: Listening, centre: np.ndarray) -> list[np.ndarray]:
    """The statistics that were sent, about the common centre."""
    found = []
    for answer in ear.answered:
        n, sums, scatter = (read(answer, f"{name}[]") for name in ("rows", "sums", "scatter"))
        if n is not None and sums is not None and scatter is not None:
            shift = np.outer(sums, centre)
            scatter = symmetric(scatter, D)
            found.append((scatter - shift - shift.T + n[0] * np.outer(centre, centre)) / (K * N))
    return found


def attacks(seed: int) -> list[dict[str, Any]]:
    dag = simulate.dag(D, expected_edges=D, random_state=seed)
    rows = simulate.linear(dag, n=K * N, random_state=seed + 1)
    parts = [rows.iloc[k * N : (k + 1) * N] for k in range(K)]
    centre = rows.to_numpy().mean(axis=0)
    truth = share(parts, centre)
    guess = np.cov(rows.to_numpy().T, bias=True) / K
    tried: list[tuple[str, str, str, list[np.ndarray]]] = []
    for protection in ("none", "masked"):
        ear, _ = overheard(parts, Privacy(mode=protection), threshold=0.3)
        estimates = from_admm(ear)
        tried.append(("admm", protection, f"best of {len(estimates)} rounds", estimates))
        tried.append(("admm", protection, "mean of all rounds", [np.mean(estimates, axis=0)]))
        ear, _ = overheard(parts, Privacy(mode=protection), method="moments")
        tried.append(("moments", protection, "as sent", from_moments(ear, centre)))
    for epsilon in (1.0, 10.0):
        _, end = overheard(parts, Privacy(epsilon=epsilon, bounds=(-20.0, 20.0)), method="moments")
        noisy = end["scatter[]"] / end["rows[]"][0] / K
        tried.append(("moments", f"epsilon {epsilon:g}", "the noisy sum, divided", [noisy]))
    found = []
    for method, protection, attack, estimates in tried:
        errors = [error(each, truth) for each in estimates]
        best = estimates[int(np.argmin(errors))]
        found.append(
            {
                "seed": seed,
                "method": method,
                "protection": protection,
                "attack": attack,
                "covariance_error": f"{min(errors):.3g}",
                "rows_error": f"{rows_error(best, truth):.3g}",
                "guess_error": f"{error(guess, truth):.3g}",
            }
        )
    return found


@dataclass(frozen=True, eq=False)
class Opened:
    """What a run of masked ADMM opens in one lane: questions and sums, round by round."""

    questions: list[tuple[np.ndarray, float, float]]
    sums: np.ndarray
    scale: np.ndarray

    def first(self, rounds: int | None) -> Opened:
        """What the first rounds open."""
        return replace(self, questions=self.questions[:rounds], sums=self.sums[:rounds])

    def predicted(self, T: np.ndarray) -> np.ndarray:
        """The sums if the sites' scaled covariances were T, of shape (..., K, d, d)."""
        pending, before, found = None, 1.0, []
        for W, rho, relax in self.questions:
            u = np.zeros_like(T) if pending is None else before / rho * (pending - W)
            B = np.linalg.solve(T + rho * np.eye(len(W)), T * self.scale + rho * (W - u))
            pending, before = relax * B + (1 - relax) * W + u, rho
            found.append(pending.sum(axis=-3))
        return np.stack(found, axis=-3)


def opened_sums(parts: list[pd.DataFrame], **settings: Any) -> tuple[list[Opened], np.ndarray]:
    """The sums of every lane as the coordinator opens them, and the centre of the rows."""
    asked: dict[int, Message] = {}
    sent: dict[int, list[Arrays]] = {}
    real = resuming.run

    def hear(message: Message) -> list[Message]:
        if message.phase == "ask":
            asked[message.round] = message
        if message.phase == CONTRIBUTION:
            sent.setdefault(message.round, []).append(message.arrays)
        return [message]

    resuming.run = lambda *args, **more: real(*args, **more, carry=hear)  # type: ignore[assignment]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            over_parties(parts, Privacy(), threshold=0.3, **settings)
    finally:
        resuming.run = real
    rounds = [number for number in sorted(asked) if asked[number].meta["task"] == "consensus"]
    first = asked[rounds[0]].arrays
    lanes: list[Opened] = []
    for lane in range(len(asked[rounds[0]].arrays["rho"])):
        questions, sums = [], []
        for number in rounds:
            ask = asked[number]
            total = SecureSum(len(parts), narrow_of(ask.meta)).decode(add_masked(sent[number]))
            sums.append(total["parameters"][lane])
            W, rho = ask.arrays["W"][lane], float(ask.arrays["rho"][lane])
            questions.append((W, rho, float(ask.meta["relax"])))
        lanes.append(Opened(questions, np.array(sums), first["scale"]))
    return lanes, first["centre"][0]


@dataclass(frozen=True, eq=False)
class Target:
    """A run under attack: what it opened, and what is sought, the sites' scaled covariances."""

    opened: list[Opened]
    truth: np.ndarray

    @classmethod
    def of(cls, seed: int, K: int, d: int, rounds: int | None = None, lanes: int = 1) -> Target:
        """A run over K sites with d columns; its first rounds, or all of them."""
        dag = simulate.dag(d, expected_edges=d, random_state=seed)
        rows = simulate.linear(dag, n=K * N, random_state=seed + 1)
        parts = [rows.iloc[k * N : (k + 1) * N] for k in range(K)]
        penalty = {"lambda_": 0.1} if lanes == 1 else {}
        opened, centre = opened_sums(parts, **penalty)
        unit = np.outer(opened[0].scale, opened[0].scale) * len(rows)
        shifted = [part.to_numpy() - centre for part in parts]
        return cls(
            [each.first(rounds) for each in opened[:lanes]], np.array([X.T @ X / unit for X in shifted])
        )

    @property
    def pooled(self) -> np.ndarray:
        return np.asarray(self.truth.sum(axis=0))

    @property
    def equations(self) -> int:
        return sum(each.sums.size for each in self.opened)

    @property
    def guess_error(self) -> float:
        return max(error(self.pooled / len(self.truth), own) for own in self.truth)

    def start(self, covariances: np.ndarray) -> np.ndarray:
        """Covariances as a vector: the entries of their Cholesky factors."""
        low = np.tril_indices(len(self.pooled))
        return np.concatenate([np.linalg.cholesky(each)[low] for each in covariances])

    def matrices(self, x: np.ndarray) -> np.ndarray:
        """The covariances of vectors."""
        K, d = self.truth.shape[:2]
        low = np.tril_indices(d)
        roots = np.zeros((*x.shape[:-1], K, d, d))
        roots[..., low[0], low[1]] = x.reshape(*x.shape[:-1], K, len(low[0]))
        return np.asarray(roots @ np.swapaxes(roots, -1, -2))

    def residuals(self, x: np.ndarray) -> np.ndarray:
        """How far the sums are from those that covariances would give."""
        T = self.matrices(x)
        each = [(own.predicted(T) - own.sums).reshape(*x.shape[:-1], -1) for own in self.opened]
        return np.concatenate(each, axis=-1)

    def slopes(self, x: np.ndarray) -> np.ndarray:
        """The derivatives of the residuals."""
        h = 1e-6 * np.maximum(np.abs(x), 1e-2)
        both = self.residuals(np.concatenate([x + np.diag(h), x - np.diag(h)]))
        return ((both[: len(x)] - both[len(x) :]) / (2 * h[:, None])).T

    def fitted(self, starts: int, seed: int) -> np.ndarray:
        """The covariances that fit the opened sums best, from several random starts."""
        K, d = self.truth.shape[:2]
        rng, root_, best = np.random.default_rng(seed), np.linalg.cholesky(self.pooled / K), None
        for _ in range(starts):
            draws = rng.normal(size=(K, max(N, 2 * d), d)) @ root_.T
            x = self.start(np.swapaxes(draws, 1, 2) @ draws / draws.shape[1])
            tight = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15}
            found = least_squares(self.residuals, x, self.slopes, max_nfev=150, **tight)
            best = found if best is None or found.cost < best.cost else best
            if best.cost < 1e-15 * len(best.fun):  # as exact as the fixed point is
                break
        assert best is not None
        return self.matrices(best.x)

    def error_after_rounding(self, grid: float) -> float:
        """The error of the worst site if parameters were rounded to a grid, to first order at the truth."""
        x = self.start(self.truth)
        back = np.linalg.pinv(self.slopes(x), rcond=1e-12) * grid * np.sqrt(len(self.truth) / 12)
        h = 1e-6 * np.maximum(np.abs(x), 1e-2)
        both = self.matrices(np.concatenate([x + np.diag(h), x - np.diag(h)]))
        change = (both[: len(x)] - both[len(x) :]) / (2 * h[:, None, None, None])
        spread = np.einsum("akij,an->kijn", change, back)
        sizes = np.sqrt((spread**2).sum(axis=(1, 2, 3)))
        return float(max(sizes / np.linalg.norm(self.truth, axis=(1, 2))))


def opened_attack(
    seed: int, K: int, d: int, rounds: int | None = None, lanes: int = 1, starts: int = 12
) -> dict[str, Any]:
    """The attack on the opened sums, over the first rounds or all of them."""
    target = Target.of(seed, K, d, rounds, lanes)
    found = target.fitted(starts, seed)
    orders = itertools.permutations(range(K))
    return {
        "seed": seed, "sites": K, "d": d, "lanes": lanes, "rounds": len(target.opened[0].questions),
        "equations": target.equations, "unknowns": K * d * (d + 1) // 2,
        "covariance_error": min(max(map(error, found[list(order)], target.truth)) for order in orders),
        "guess_error": target.guess_error,
    }  # fmt: skip


def rounding(seeds: int) -> list[dict[str, Any]]:
    """What an attack would still find if sites rounded their parameters, at the first rounds and at all."""
    found = []
    for K, d, rounds, seed in itertools.product((3, 5), (5, 10), (5, None), range(seeds)):
        target = Target.of(seed, K, d, rounds)
        row = {"seed": seed, "sites": K, "d": d, "rounds": len(target.opened[0].questions)}
        errors = {f"error_at_{grid:g}": target.error_after_rounding(grid) for grid in (1e-4, 1e-3, 1e-2)}
        found.append({**row, **errors, "guess_error": target.guess_error})
    frame = pd.DataFrame(found)
    frame["rounds"] = frame["rounds"].where(frame["rounds"] <= 10, "all")
    print("if sites rounded their parameters: median errors of the worst site, relative")
    print(frame.drop(columns="seed").groupby(["sites", "d", "rounds"], sort=False).median().to_string())
    return [
        {name: f"{value:.3g}" if isinstance(value, float) else value for name, value in row.items()}
        for row in found
    ]


CASES: list[tuple[int, int, int | None, int]] = [
    *((3, 3, rounds, 1) for rounds in (2, 5, 10, None)),
    *((3, 5, rounds, 1) for rounds in (5, 10, None)),
    (3, 5, 10, 5), (3, 8, None, 1), (4, 3, None, 1), (4, 5, None, 1), (5, 3, None, 1), (5, 5, None, 1),
]  # fmt: skip


def opened_attacks(seeds: int) -> list[dict[str, Any]]:
    """Over numbers of sites, columns, rounds and lanes."""
    found = [
        opened_attack(seed, K, d, rounds, lanes) for K, d, rounds, lanes in CASES for seed in range(seeds)
    ]
    frame = pd.DataFrame(found)
    print(f"opened sums of masked ADMM, {seeds} seeds; median errors of the worst site, relative")
    keys = ["sites", "d", "lanes", "rounds", "unknowns"]
    frame["rounds"] = frame["rounds"].where(frame["rounds"] <= 10, "all")
    medians = frame.groupby(keys, sort=False)[["equations", "covariance_error", "guess_error"]].median()
    medians["solved"] = frame.groupby(keys, sort=False)["covariance_error"].agg(
        lambda each: (each < 1e-4).sum()
    )
    print(medians.to_string(float_format="%.2g"))
    for row in found:
        row |= {name: f"{row[name]:.3g}" for name in ("covariance_error", "guess_error")}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="What the coordinator can reconstruct")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--opened-seeds", type=int, default=3, help="of attacks on opened sums; 0 for none")
    parser.add_argument("--no-save", action="store_true", help="print the figures only")
    chosen = parser.parse_args()
    opened, rounded = (
        (opened_attacks(chosen.opened_seeds), rounding(chosen.opened_seeds))
        if chosen.opened_seeds
        else ([], [])
    )
    found = [row for seed in range(chosen.seeds) for row in attacks(seed)]
    frame = pd.DataFrame(found)
    frame["attack"] = frame["attack"].str.replace(r"best of \d+ rounds", "best of all rounds", regex=True)
    errors = frame.columns[frame.columns.str.endswith("_error")]
    frame[errors] = frame[errors].astype(float)
    print(f"{K} sites with {N} rows of {D} columns, {chosen.seeds} seeds; median errors, relative")
    print(frame.groupby(["method", "protection", "attack"], sort=False)[list(errors)].median().to_string())
    plain = frame[(frame["method"] == "admm") & (frame["protection"] == "none")]
    best = plain[plain["attack"] == "best of all rounds"]["covariance_error"].max()
    hidden = frame[frame["protection"] == "masked"]
    beaten = int((hidden["covariance_error"] < hidden["guess_error"]).sum())
    print(f"plain ADMM gives the covariance away to {best:.1e} at worst")
    print(f"masked: {beaten} of {len(hidden)} attacks beat the guess from the sums")
    if not chosen.no_save:
        place = machine("polydag", "cryptography", "opendp")
        keep("leakage", found, place)
        if opened:
            keep("leakage_opened", opened, place)
            keep("leakage_rounding", rounded, place)


if __name__ == "__main__":
    main()
