"""Time series in a study: columns that say when a row was and of which series, and a graph over slices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from polydag.errors import UsageError
from polydag.losses.lagged import check_lags, slice_names
from polydag.studies.config import Config
from polydag.studies.inputs import Inputs, read_knowledge, read_with, require_known

if TYPE_CHECKING:
    from polydag.knowledge import Knowledge


def order_columns(config: Config, settings: Mapping[str, Any]) -> tuple[str, str]:
    """The columns of times and of realisations; what would tear series apart is refused."""
    check_lags(settings["lags"])
    if config.missing == "drop":
        raise UsageError("--missing drop would tear holes into time series. Use impute, or mend them first.")
    return settings["time"], settings["realisation"]


def require_known_slices(
    config: Config, knowledge: Knowledge | None, settings: Mapping[str, Any], columns: tuple[str, ...]
) -> None:
    """As `require_known`, for knowledge about time slices."""
    order = order_columns(config, settings)
    variables = [name for name in columns if name not in order]
    require_known(knowledge, slice_names(variables, settings["lags"]), config.knowledge)


def read_series(config: Config, settings: Mapping[str, Any]) -> Inputs:
    """One table of series, and the background knowledge."""
    order = order_columns(config, settings)
    if len(config.data) > 1:
        raise UsageError(
            "Time series are read from one file, in which a column tells several apart (--set "
            "realisation=NAME). Files of several parties are read with --as parties --set model=lagged."
        )
    if config.bootstrap:
        raise UsageError("--bootstrap draws rows one by one, and those of a time series follow each other.")
    sha256: dict[str, str] = {}
    knowledge = read_knowledge(config, sha256)
    table = read_with(config, config.data[0], sha256, order)
    require_known_slices(config, knowledge, settings, table.names)
    return Inputs(table, float(table.n), table.source, knowledge, sha256, table.notes)
