"""A site's side of time series: linear weights over time slices, of which only those into the present exist.

The statistics are those of stacked rows (`losses.lagged`), so everything else is as for any linear model. The
past is nobody's target: its columns stay where they are, and take no part in the sites' agreement.
"""

from __future__ import annotations

from dataclasses import dataclass

from polydag.federated.models.linear_site import Array, LinearLocal
from polydag.federated.protocol.programs import State


@dataclass(frozen=True, eq=False)
class LaggedLocal(LinearLocal):
    """Answers questions about stacked rows, the first `present` columns of which are the present."""

    present: int = 0

    def proximal(self, state: State, centre: Array, rho: Array) -> Array:
        """Eq. (8) for the present."""
        B = super().proximal(state, centre, rho)
        B[:, :, self.present :] = centre[:, :, self.present :]
        return B
