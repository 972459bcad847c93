"""What the coordinator can make of the messages it receives: a site's covariance, and the rows behind it.

The attacker is the coordinator: it runs the study as it should and keeps every message. It tries to recover
the first site's share of the pooled covariance, and the rows behind it as far as a covariance tells them (up
to a rotation). Beside its error, relative in the Frobenius norm, stands that of a guess from the sums alone:
the pooled covariance, divided evenly.

In the open, ADMM's messages give `S_k = (ρ2 W − β_k − ρ2 B_k)(B_k − I)⁻¹` exactly, and moments show it
outright. Masked messages are read as the numbers that their words stand for; the best of all rounds and their
mean are tried, and neither may beat the guess. Under differential privacy the sum itself is noisy.

The last attack is on what masks do not hide: the *opened* sums of masked ADMM, over all rounds. They are sums
of non-linear functions of the sites' covariances, which least squares fits to them from several starts. The
error is that of the worst site, under the best assignment of the covariances found to sites.
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

    def predicted(self, T: np.ndarray) -> np.ndarray:
        """The sums if the sites' scaled covariances were T, of shape (..., K, d, d)."""
        pending, before, found = None, 1.0, []
        for W, rho, relax in self.questions:
            u = np.zeros_like(T) if pending is None else before / rho * (pending - W)
            B = np.linalg.solve(T + rho * np.eye(len(W)), T * self.scale + rho * (W - u))
            pending, before = relax * B + (1 - relax) * W + u, rho
            found.append(pending.sum(axis=-3))
        return np.stack(found, axis=-3)


def opened_sums(parts: list[pd.DataFrame], lane: int = -1, **settings: Any) -> tuple[Opened, np.ndarray]:
    """The sums as the coordinator opens them, and the centre of the rows."""
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
    questions, sums = [], []
    for number in rounds:
        ask = asked[number]
        total = SecureSum(len(parts), narrow_of(ask.meta)).decode(add_masked(sent[number]))
        sums.append(total["parameters"][lane])
        W, rho = ask.arrays["W"][lane], float(ask.arrays["rho"][lane])
        questions.append((W, rho, float(ask.meta["relax"])))
    return Opened(questions, np.array(sums), first["scale"]), first["centre"][0]


def fitted(opened: Opened, K: int, pooled: np.ndarray, starts: int, seed: int) -> np.ndarray:
    """The covariances of K sites that fit the opened sums best, from several random starts."""
    d = len(pooled)
    low, size = np.tril_indices(d), d * (d + 1) // 2
    rng = np.random.default_rng(seed)

    def matrices(x: np.ndarray) -> np.ndarray:
        roots = np.zeros((*x.shape[:-1], K, d, d))
        roots[..., low[0], low[1]] = x.reshape(*x.shape[:-1], K, size)
        return roots @ np.swapaxes(roots, -1, -2)

    def residuals(x: np.ndarray) -> np.ndarray:
        return (opened.predicted(matrices(x)) - opened.sums).reshape(*x.shape[:-1], -1)

    def slopes(x: np.ndarray) -> np.ndarray:
        h = 1e-6 * np.maximum(np.abs(x), 1e-2)
        both = residuals(np.concatenate([x + np.diag(h), x - np.diag(h)]))
        return ((both[: len(x)] - both[len(x) :]) / (2 * h[:, None])).T

    best = None
    for _ in range(starts):
        draws = [rng.normal(size=(3 * d, d)) @ np.linalg.cholesky(pooled / K).T for _ in range(K)]
        x = np.concatenate([np.linalg.cholesky(rows.T @ rows / (3 * d))[low] for rows in draws])
        found = least_squares(residuals, x, slopes, max_nfev=200, xtol=1e-15, ftol=1e-15, gtol=1e-15)
        best = found if best is None or found.cost < best.cost else best
        if best.cost < 1e-15 * len(best.fun):  # as exact as the fixed point is
            break
    assert best is not None
    return matrices(best.x)


def opened_attack(seed: int, K: int, d: int, rounds: int | None = None, starts: int = 12) -> dict[str, Any]:
    """The attack on the opened sums of one lane, over the first rounds or all of them."""
    dag = simulate.dag(d, expected_edges=d, random_state=seed)
    rows = simulate.linear(dag, n=K * N, random_state=seed + 1)
    parts = [rows.iloc[k * N : (k + 1) * N] for k in range(K)]
    opened, centre = opened_sums(parts, lambda_=0.1)
    opened = replace(opened, questions=opened.questions[:rounds], sums=opened.sums[:rounds])
    unit = np.outer(opened.scale, opened.scale) * len(rows)
    truth = [(part.to_numpy() - centre).T @ (part.to_numpy() - centre) / unit for part in parts]
    pooled = np.sum(truth, axis=0)
    found = fitted(opened, K, pooled, starts, seed)
    orders = itertools.permutations(range(K))
    return {
        "seed": seed, "sites": K, "d": d, "rounds": len(opened.questions), "equations": opened.sums.size,
        "unknowns": K * d * (d + 1) // 2,
        "covariance_error": min(max(map(error, found[list(order)], truth)) for order in orders),
        "guess_error": max(error(pooled / K, own) for own in truth),
    }  # fmt: skip


def opened_attacks(seeds: int) -> list[dict[str, Any]]:
    """Over numbers of sites, columns and rounds."""
    cases = [(3, 3, 2), (3, 3, 5), (3, 3, 10), (3, 3, None), (3, 4, None), (4, 3, None)]
    found = [opened_attack(seed, K, d, rounds) for K, d, rounds in cases for seed in range(seeds)]
    frame = pd.DataFrame(found)
    print(f"opened sums of masked ADMM, one lane, {seeds} seeds; median errors of the worst site, relative")
    keys = ["sites", "d", "rounds", "equations", "unknowns"]
    frame["rounds"] = frame["rounds"].where(frame["rounds"] <= 10, 46)  # a whole run takes 45 or 46
    frame["equations"] = frame["rounds"] * frame["d"] ** 2
    medians = frame.groupby(keys, sort=False)[["covariance_error", "guess_error"]].median()
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
    parser.add_argument("--opened-seeds", type=int, default=3, help="of the attack on opened sums")
    parser.add_argument("--no-save", action="store_true", help="print the figures only")
    chosen = parser.parse_args()
    opened = opened_attacks(chosen.opened_seeds)
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
        keep("leakage_opened", opened, place)


if __name__ == "__main__":
    main()
