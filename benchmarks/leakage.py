"""What the coordinator can make of the messages it receives: a site's covariance, and the rows behind it.

The attacker is the coordinator: it runs the study as it should and keeps every message. It tries to recover
the first site's share of the pooled covariance, and the rows behind it as far as a covariance tells them (up
to a rotation). Beside its error, relative in the Frobenius norm, stands that of a guess from the sums alone:
the pooled covariance, divided evenly.

In the open, ADMM's messages give `S_k = (ρ2 W − β_k − ρ2 B_k)(B_k − I)⁻¹` exactly, and moments show it
outright. Masked messages are read as the numbers that their words stand for; the best of all rounds and their
mean are tried, and neither may beat the guess. Under differential privacy the sum itself is noisy.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import warnings
from typing import Any

import numpy as np
import pandas as pd
from keeping import keep, machine
from party_fits import over_parties

from polydag import simulate
from polydag.federated import Federation
from polydag.federated.protocol import resume as resuming
from polydag.federated.protocol.messages import CONTRIBUTION, Arrays, Message
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


def main() -> None:
    parser = argparse.ArgumentParser(description="What the coordinator can reconstruct")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--no-save", action="store_true", help="print the figures only")
    chosen = parser.parse_args()
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
        keep("leakage", found, machine("polydag", "cryptography", "opendp"))


if __name__ == "__main__":
    main()
