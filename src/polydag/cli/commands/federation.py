"""`polydag federation`: make a study for sites that run apart."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from polydag.cli.options import Debug
from polydag.cli.study_options import given_options, with_study_options

NAME = "federation"
HELP = "Make a study for sites that run apart."


@with_study_options("method", "settings", "seed", "site_effects")
def init(
    *,
    study: Annotated[Path, typer.Argument(help="The coordinator's folder of the study, which is made.")],
    sites: Annotated[str, typer.Option("--sites", help="The names of the sites, as north,south,west.")],
    columns: Annotated[
        Path | None,
        typer.Option("--columns", help="A TOML file with the study's columns, their units and ranges."),
    ] = None,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Sites leave out rows with missing values.")
    ] = False,
    kits: Annotated[
        Path | None, typer.Option("--kits", help="Where the kits are written; beside the study by default.")
    ] = None,
    debug: Debug = False,
    **options: Any,
) -> None:
    """Describe a study, sign it, and write one kit for each site.

    Example: polydag federation init study --sites north,south,west --method boss
    """
    from polydag.cli.options import column_list
    from polydag.cli.output import out
    from polydag.deployment.coordinator import new_study
    from polydag.deployment.description import described
    from polydag.studies.config.changes import new_study as configured
    from polydag.studies.config.shapes import PartiesConfig

    names = column_list(sites)
    config = configured("parties", {**given_options(options), "data": names}).seeded()
    assert isinstance(config, PartiesConfig)
    description = described(
        config, None if columns is None else str(columns), "drop" if drop_missing else "error"
    )
    for kit in new_study(study, description, kits or study.parent):
        out().print(f"{kit}: give it to its site, over a channel that nobody else can read.", markup=False)


COMMANDS = {"init": init}
