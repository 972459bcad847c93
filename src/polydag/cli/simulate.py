"""`polydag simulate`: data with a known truth."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polydag.cli.options import Debug, Force, Out, Quiet, Seed

if TYPE_CHECKING:
    import pandas as pd

    from polydag.graph import Graph

NAME = "simulate"
SIMULATED = Path("simulated")


class Kind(StrEnum):
    """What is drawn."""

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
    """The shape of the errors."""

    gaussian = "gaussian"
    exponential = "exponential"
    gumbel = "gumbel"
    uniform = "uniform"
    laplace = "laplace"


class RowKind(StrEnum):
    """How rows of one cluster go together."""

    toeplitz = "toeplitz"
    equi = "equi"
    star = "star"
    ar = "ar"


def command(
    kind: Annotated[Kind, typer.Argument(help="The model that data is drawn from.")] = Kind.linear,
    rows: Annotated[int, typer.Option("--rows", "-n", min=2, help="Rows (times, for lagged).")] = 1000,
    variables: Annotated[int, typer.Option("--variables", "-d", min=1, help="Variables.")] = 20,
    edges: Annotated[
        float | None, typer.Option("--edges", min=0, help="Expected edges; twice the variables by default.")
    ] = None,
    graph: Annotated[Shape, typer.Option("--graph", help="Erdős–Rényi or scale-free.")] = Shape.er,
    network: Annotated[
        Path | None,
        typer.Option(
            "--network", help="The model instead of a random one: a graph file with weights, or .bif."
        ),
    ] = None,
    noise: Annotated[Noise, typer.Option("--noise", help="The errors' shape (linear).")] = Noise.gaussian,
    standardize: Annotated[
        bool, typer.Option("--standardize", help="Bring columns to mean 0 and variance 1 (linear).")
    ] = False,
    lags: Annotated[int, typer.Option("--lags", min=1, help="How far back effects reach (lagged).")] = 1,
    row_kind: Annotated[
        RowKind, typer.Option("--row-kind", help="Correlation within a cluster of rows (linked).")
    ] = RowKind.toeplitz,
    cluster: Annotated[int, typer.Option("--cluster", min=1, help="Rows in a cluster (linked).")] = 20,
    out: Out = None,
    seed: Seed = None,
    force: Force = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Draw data from a known graph: writes data.csv and truth.json.

    Beside them lags.csv (lagged) or clusters.csv (linked). Discrete data is drawn from --network FILE.bif, by
    default from the asia network.

    Example: polydag simulate linear --variables 20 --rows 1000 --seed 1 --out sim
    """
    import secrets

    from polydag import runs
    from polydag.cli.output import note
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


def write(
    folder: Path,
    frame: pd.DataFrame,
    truth: Graph,
    record: dict[str, Any],
    extra: dict[str, pd.DataFrame],
    *,
    force: bool = False,
) -> None:
    """Write a folder of simulated data."""
    import tomli_w

    from polydag import formats, runs

    with runs.new_folder(folder, force=force) as hidden:
        frame.to_csv(hidden / "data.csv", index=False)
        formats.write(truth, hidden / "truth.json")
        (hidden / runs.CONFIG).write_text(tomli_w.dumps(record), encoding="utf-8")
        for name, table in extra.items():
            table.to_csv(hidden / name, index=False)


def draw(options: dict[str, Any]) -> tuple[pd.DataFrame, Graph, dict[str, pd.DataFrame]]:
    """The data, the truth, and tables beside them."""
    import numpy as np

    from polydag import simulate

    kind, n = options["kind"], options["rows"]
    rng = np.random.default_rng(options["seed"])
    if kind == "discrete":
        return _discrete(options["network"], n, rng)
    if kind == "lagged":
        return _lagged(options, rng)
    truth = _graph(options, rng)
    if kind == "mlp":
        return simulate.mlp(truth, n=n, random_state=rng), truth, {}
    if kind == "linear":
        asked = {"noise": options["noise"], "standardize": options["standardize"]}
        return simulate.linear(truth, n=n, random_state=rng, **asked), truth, {}
    return _linked(truth, options, rng)


def _graph(options: dict[str, Any], rng: Any) -> Graph:
    from polydag import formats, simulate

    if options["network"] is not None:
        return formats.read(options["network"])
    d = options["variables"]
    edges = min(2.0 * d, d * (d - 1) / 2) if options["edges"] is None else options["edges"]
    return simulate.dag(d, expected_edges=edges, kind=options["graph"], random_state=rng)


def _discrete(path: str | None, n: int, rng: Any) -> tuple[pd.DataFrame, Graph, dict[str, pd.DataFrame]]:
    from polydag import formats, simulate
    from polydag.embedded import asia

    network = asia() if path is None else formats.read_network(path)
    return simulate.discrete(network, n=n, random_state=rng), network.graph, {}


def _lagged(options: dict[str, Any], rng: Any) -> tuple[pd.DataFrame, Graph, dict[str, pd.DataFrame]]:
    import numpy as np
    import pandas as pd

    from polydag import simulate

    sample = simulate.lagged(
        options["variables"],
        n_steps=options["rows"],
        n_lags=options["lags"],
        expected_edges=options["edges"],
        random_state=rng,
    )
    names = sample.instantaneous.names
    effects = [
        (lag, names[i], names[j], float(matrix[i, j]))
        for lag, matrix in enumerate(sample.lags, start=1)
        for i, j in np.argwhere(matrix)
    ]
    table = pd.DataFrame(effects, columns=["lag", "source", "target", "weight"])
    return sample.data, sample.instantaneous, {"lags.csv": table}


def _linked(
    truth: Graph, options: dict[str, Any], rng: Any
) -> tuple[pd.DataFrame, Graph, dict[str, pd.DataFrame]]:
    import pandas as pd

    from polydag import simulate

    n, size = options["rows"], options["cluster"]
    blocks = simulate.clusters(options["row_kind"], n, size, random_state=rng)
    frame = simulate.linked(truth, row_covariance=blocks, random_state=rng)
    members = pd.DataFrame({"row": range(1, n + 1), "cluster": [1 + row // size for row in range(n)]})
    return frame, truth, {"clusters.csv": members}
