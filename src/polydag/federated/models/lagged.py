"""The model of time series: every variable is a weighted sum of others now and before, plus noise.

The statistics are those of stacked rows (`losses.lagged`), so everything else is as for the linear model. The
past cannot be affected: its columns stay as they are and take no part in the parties' agreement. Site effects
are those of single series: each has means of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from polydag.arrays import Array
from polydag.errors import UsageError
from polydag.federated.models.interface import ModelParty, ModelSettings
from polydag.federated.models.linear import Linear
from polydag.federated.models.linear_party import LinearParty
from polydag.federated.party_data.tables import frame_of
from polydag.federated.protocol.programs import State
from polydag.graph import Graph
from polydag.knowledge import Knowledge
from polydag.losses.lagged import lagged_statistics, nothing_changes_the_past, split_lags, variables_of
from polydag.stats import GaussianStats, Regimes


@dataclass(frozen=True, eq=False)
class LaggedParty(LinearParty):
    """Answers questions about stacked rows, whose first `present` columns are those of the present."""

    present: int = 0

    def proximal(self, state: State, centre: Array, rho: Array) -> Array:
        """Eq. (8) for the columns of the present."""
        B = super().proximal(state, centre, rho)
        B[:, :, self.present :] = centre[:, :, self.present :]
        return B


class Lagged(Linear):
    """A linear model over time slices, in which edges point to the present only."""

    name: str = "lagged"
    supports_noise: bool = False

    def party(self, table: Any, settings: ModelSettings) -> ModelParty:
        """Keep the statistics of the stacked rows."""
        series = settings.series
        if isinstance(table, Regimes):
            raise UsageError("Time series under intervention are not supported: give tables of series.")
        if not isinstance(table, GaussianStats):
            table = lagged_statistics(
                frame_of(table),
                series.lags,
                time=series.time,
                realisation=series.realisation,
                baselines=settings.site_effects != "none",
            )
        return LaggedParty(table, present=len(variables_of(table.names, series.lags)))

    def knowledge(self, settings: ModelSettings, names: tuple[str, ...]) -> Knowledge | None:
        """What was given, and that nothing affects the past."""
        lags = settings.series.lags
        (settings.knowledge or Knowledge()).masks(names)  # it must be about slices that exist
        return nothing_changes_the_past(variables_of(names, lags), lags, settings.knowledge)

    def attributes(self, graph: Graph, settings: ModelSettings) -> Mapping[str, Any]:
        """Effects within a time step, and those over several."""
        within, lag_weights = split_lags(graph, settings.series.lags)
        return {"instantaneous_graph_": within, "lag_weights_": lag_weights}
