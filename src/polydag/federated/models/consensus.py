"""A party's half of a round of ADMM, whatever the model: eqs. (2) and (4) of the paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from polydag.federated.protocol.messages import AnyArray, Arrays
from polydag.federated.protocol.programs import Ask, State


class ConsensusRound(NamedTuple):
    """The party's new state, its contribution to the sum, and its own parameters, which it keeps."""

    state: State
    sent: Arrays
    parameters: AnyArray


def consensus(proximal: Callable[[AnyArray, AnyArray], AnyArray], state: State, ask: Ask) -> ConsensusRound:
    """Update the multipliers for the new W, then take the party's own step, over-relaxed.

    Parameters
    ----------
    proximal : function of (C, ρ)
        `argmin loss(B) + ρ/2 ‖B − C‖²` for every penalty; the first axis of C is that of the penalties.
    """
    W, rho = ask.arrays["W"], ask.arrays["rho"]
    relax = float(ask.meta["relax"])
    lanes = (-1,) + (1,) * (W.ndim - 1)
    if "pending" in state:
        multiplier = (state["rho"] / rho).reshape(lanes) * (state["pending"] - W)
    else:
        multiplier = np.zeros_like(W)
    B = proximal(W - multiplier, rho)
    pending = relax * B + (1 - relax) * W + multiplier
    spread = ((B - W) ** 2).reshape(len(W), -1).sum(axis=1)
    return ConsensusRound(
        {**state, "pending": pending, "rho": rho}, {"parameters": pending, "spread": spread}, B
    )
