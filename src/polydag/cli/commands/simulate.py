"""`polydag simulate`: data with a known truth."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from polydag.cli.options import Debug, Force, Out, Quiet, Seed

NAME = "simulate"
SIMULATED = Path("simulated")


class Kind(StrEnum):
    """The model of the data."""

    linear = "linear"
    mlp = "mlp"
    lagged = "lagged"
    discrete = "discrete"
    linked = "linked"


class Shape(StrEnum):
    """How a random DAG is drawn."""

    er = "er"
    sf = "sf"


class Noise(StrEnum):
    """The distribution of the errors."""

    gaussian = "gaussian"
    exponential = "exponential"
    gumbel = "gumbel"
    uniform = "uniform"
    laplace = "laplace"


class RowKind(StrEnum):
    """How the rows of a cluster are correlated."""

    toeplitz = "toeplitz"
    equi = "equi"
    star = "star"
    ar = "ar"


def command(
    kind: Annotated[Kind, typer.Argument(help="The model from which data is drawn.")] = Kind.linear,
    rows: Annotated[
        int, typer.Option("--rows", "-n", min=2, help="The number of rows (times, for lagged).")
    ] = 1000,
    variables: Annotated[int, typer.Option("--variables", "-d", min=1, help="The number of variables.")] = 20,
    edges: Annotated[
        float | None,
        typer.Option("--edges", min=0, help="The expected number of edges; by default two per variable."),
    ] = None,
    graph: Annotated[Shape, typer.Option("--graph", help="Erdős–Rényi (er) or scale-free (sf).")] = Shape.er,
    network: Annotated[
        Path | None,
        typer.Option("--network", help="A graph file with weights, or .bif, instead of a random model."),
    ] = None,
    noise: Annotated[
        Noise, typer.Option("--noise", help="The distribution of the errors (linear).")
    ] = Noise.gaussian,
    standardize: Annotated[
        bool, typer.Option("--standardize", help="Scale columns to mean 0 and variance 1 (linear).")
    ] = False,
    lags: Annotated[int, typer.Option("--lags", min=1, help="How far back effects reach (lagged).")] = 1,
    row_kind: Annotated[
        RowKind, typer.Option("--row-kind", help="Correlation within a cluster of rows (linked).")
    ] = RowKind.toeplitz,
    cluster: Annotated[
        int, typer.Option("--cluster", min=1, help="The number of rows in a cluster (linked).")
    ] = 20,
    out: Out = None,
    seed: Seed = None,
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Draw data from a known graph: writes data.csv and truth.json.

    Lagged effects are in lags.csv, clusters of linked rows in clusters.csv. Discrete data is drawn from
    --network FILE.bif, by default from the asia network.

    Example: polydag simulate linear --variables 20 --rows 1000 --seed 1 --out sim
    """
    import secrets

    from polydag import runs
    from polydag.cli.simulated_data import draw, write
    from polydag.cli.terminal.output import note
    from polydag.studies.result import versions

    seed = secrets.randbelow(2**31) if seed is None else seed
    options = {
        "kind": kind.value,
        "rows": rows,
        "variables": variables,
        "edges": edges,
        "graph": graph.value,
        "network": network and str(network),
        "noise": noise.value,
        "standardize": standardize,
        "lags": lags,
        "row_kind": row_kind.value,
        "cluster": cluster,
        "seed": seed,
    }
    frame, truth, extra = draw(options)
    folder = out or runs.next_free(SIMULATED, kind.value)
    record = {"simulate": {k: v for k, v in options.items() if v is not None}, "versions": versions()}
    write(folder, frame, truth, record, extra, force=force)
    size = f"{len(frame)} rows, {truth.n_nodes} variables, {truth.n_edges} edges, seed {seed}"
    note(f"Written: {folder} ({size})", quiet=quiet)
