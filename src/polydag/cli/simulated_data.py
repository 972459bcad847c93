"""Simulated data by the options of `polydag simulate`, and the folder that holds it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from polydag.graph import Graph


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
