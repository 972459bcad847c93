"""`polydag federation`: make a study for sites that run apart."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from polydag.cli.options import Debug, Transport
from polydag.cli.study_options import given_options, with_study_options
from polydag.errors import UsageError

NAME = "federation"
HELP = "Set up a study for sites that run apart."


@with_study_options(
    "method",
    "settings",
    "seed",
    "site_effects",
    "knowledge",
    "interventions",
    "missing",
    "imputations",
    "transforms",
    "discretize",
    "bootstrap",
)
def init(
    *,
    study: Annotated[Path, typer.Argument(help="The coordinator's folder for the study, which is created.")],
    sites: Annotated[str, typer.Option("--sites", help="The names of the sites, such as north,south,west.")],
    columns: Annotated[
        Path | None,
        typer.Option("--columns", help="A TOML file with the study's columns, their units and ranges."),
    ] = None,
    kits: Annotated[
        Path | None, typer.Option("--kits", help="The folder for the kits; beside the study by default.")
    ] = None,
    keep_graph: Annotated[
        bool, typer.Option("--keep-graph", help="The graph stays with the coordinator; sites get none.")
    ] = False,
    transport: Annotated[
        Transport, typer.Option("--transport", help="How files travel between the sites and the coordinator.")
    ] = Transport.files,
    server: Annotated[
        str | None,
        typer.Option("--server", help="With nvflare: the host name at which sites reach the coordinator."),
    ] = None,
    port: Annotated[int, typer.Option("--port", help="With nvflare: the coordinator's port.")] = 8002,
    debug: Debug = False,
    **options: Any,
) -> None:
    """Describe a study, sign it, and write one kit for each site.

    Examples:

    polydag federation init study --sites north,south,west --method boss
    polydag federation init study --sites north,south,west --transport nvflare --server study.example.org
    """
    from polydag.cli.options import column_list
    from polydag.cli.terminal.output import out
    from polydag.deployment.coordinator import new_study
    from polydag.deployment.description import described
    from polydag.studies.config.changes import new_study as configured
    from polydag.studies.config.shapes import PartiesConfig

    names = column_list(sites)
    config = configured("parties", {**given_options(options), "data": names}).seeded()
    assert isinstance(config, PartiesConfig)
    description = described(config, None if columns is None else str(columns), keeps_graph=keep_graph)
    if transport is Transport.nvflare:
        from polydag.deployment.flare.studies import new_flare_study

        if server is None:
            raise UsageError("--transport nvflare needs --server, the host name at which sites reach you.")
        made = new_flare_study(study, description, kits or study.parent, server, port)
    elif server is not None:
        raise UsageError("--server needs --transport nvflare.")
    else:
        made = new_study(study, description, kits or study.parent)
    for kit in made:
        out().print(f"{kit}: give it to its site, over a channel that nobody else can read.", markup=False)


def renew(
    study: Annotated[Path, typer.Argument(help="The coordinator's folder of the study.")],
    kits: Annotated[Path, typer.Option("--kits", help="A new folder for the sites' certificates.")],
    debug: Debug = False,
) -> None:
    """With nvflare: make new certificates, signed by the study's authority, before the old ones expire.

    Example: polydag federation renew study --kits renewed
    """
    from polydag.cli.terminal.output import out
    from polydag.deployment.flare.studies import renewed

    for site, folder in renewed(study, kits).items():
        out().print(f"{folder}: {site} copies it over the folder of this name in its kit.", markup=False)


COMMANDS = {"init": init, "renew": renew}
