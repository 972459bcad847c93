"""What an edge costs in scores of the BIC kind, as a penalty discount or by the extended BIC.

Schwarz's criterion charges `½ log n` for each parameter, and a penalty discount multiplies that. It does not
look at the number of variables d, although the number of false edges that a search can find grows as d². The
extended BIC (Chen and Chen 2008; Foygel and Drton 2010) charges `½ log n + γ log d`.

γ was chosen by `benchmarks/penalties.py`, on seeds other than those that it reports on.
"""

from __future__ import annotations

import math
from typing import Literal

from polydag.parameters import Either, number, one_of

GAMMA = 1.25
Penalty = float | Literal["auto"]
PENALTY = Either(one_of("auto"), number(above=0))


def edge_price(penalty: Penalty, n: float, d: int) -> float:
    """What one more parameter must gain in log-likelihood: n rows, d variables.

    A number multiplies `½ log n`; "auto" is the extended BIC.
    """
    if penalty == "auto":
        return 0.5 * math.log(n) + GAMMA * math.log(d)
    return 0.5 * penalty * math.log(n)
