"""A site's half of a round of ADMM, whatever the model: eqs. (2) and (4) of the paper."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from polydag.federated.protocol.messages import Array, Arrays
from polydag.federated.protocol.programs import Ask, State


class Round(NamedTuple):
    """The site's new state, what it adds to the sum, and its own parameters, which stay with it."""

    state: State
    sent: Arrays
    parameters: Array


def consensus(proximal: Callable[[Array, Array], Array], state: State, ask: Ask) -> Round:
    """The multipliers follow the new W, then the site's own step, over-relaxed.

    Parameters
    ----------
    proximal : function of (C, ρ)
        `argmin loss(B) + ρ/2 ‖B − C‖²` in every lane; C has the lanes first.
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
    return Round({**state, "pending": pending, "rho": rho}, {"parameters": pending, "spread": spread}, B)
