"""Small networks shipped with the package, for examples, the demo and tests.

References
----------
Lauritzen, S. L. and Spiegelhalter, D. J. (1988). Local computations with probabilities on graphical
structures and their application to expert systems.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from polydag.discrete_network import DiscreteNetwork


def asia() -> DiscreteNetwork:
    """The chest clinic network: 8 variables, 8 edges (Lauritzen and Spiegelhalter 1988).

    Examples
    --------
    >>> asia()
    <DiscreteNetwork: 8 variables, 8 edges>
    """
    names = ("asia", "tub", "smoke", "lung", "bronc", "either", "xray", "dysp")
    parents = {
        "tub": ["asia"],
        "lung": ["smoke"],
        "bronc": ["smoke"],
        "either": ["lung", "tub"],
        "xray": ["either"],
        "dysp": ["bronc", "either"],
    }
    tables: dict[str, ArrayLike] = {
        "asia": [0.01, 0.99],
        "tub": [[0.05, 0.95], [0.01, 0.99]],
        "smoke": [0.5, 0.5],
        "lung": [[0.1, 0.9], [0.01, 0.99]],
        "bronc": [[0.6, 0.4], [0.3, 0.7]],
        "either": [[[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]],
        "xray": [[0.98, 0.02], [0.05, 0.95]],
        "dysp": [[[0.9, 0.1], [0.8, 0.2]], [[0.7, 0.3], [0.1, 0.9]]],
    }
    return DiscreteNetwork(dict.fromkeys(names, ("yes", "no")), parents, tables)
