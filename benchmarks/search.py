"""GES and PC: CPU time of one thread and CPDAG SHD, beside quoted figures and installed peers.

Random DAGs with 2p edges, weights ±[0.1, 1], error sd in [0.1, 1], scaled columns, seeds 0, 1, …; BIC with
penalty discount 2. "quoted" figures are from this kind of machine when quiet, two seeds each, and are not
measured here. Peers run when they are installed in the environment of this script, on the same table: pgmpy
and causal-learn on alarm (BDeu), where they take minutes. A curve of time over p and over edges goes to
results/search_growth.csv.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import importlib.util
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from keeping import keep, machine

from polydag import Graph, metrics, simulate
from polydag.formats import read_network
from polydag.scores import make_score
from polydag.search.ges.search import ges
from polydag.search.pc import pc
from polydag.stats import DiscreteCounts, GaussianStats

Row = dict[str, Any]


class Work(NamedTuple):
    """One line of the table: a method, a size, how rows depend on each other, and the figures to beat."""

    name: str
    method: str
    p: int
    n: int
    linked: float | None
    quoted: str
    seconds: float | None
    shd: float | None
    seeds: int


WORKS = [
    Work("GES p=200 n=100", "ges", 200, 100, None,
         "Tetrad 0.7 s (SHD 272), xges 1.2 s (271), pcalg 3.8 s (280)", 0.7, 272, 10),
    Work("GES p=200 n=100, not screened", "ges-all", 200, 100, None, "as above", 0.7, 272, 10),
    Work("GES p=200 n=100, Toeplitz rows 0.3", "ges", 200, 100, 0.3,
         "Tetrad 1.7 s, xges 3.9 s, pcalg 21 s", 1.7, None, 10),
    Work("GES p=200 n=100, Toeplitz rows 0.7", "ges", 200, 100, 0.7, "as above", 1.7, None, 10),
    Work("GES p=200 n=100, Toeplitz rows 0.7, not screened", "ges-all", 200, 100, 0.7,
         "as above", 1.7, None, 10),
    Work("GES p=1000 n=300", "ges", 1000, 300, None,
         "Tetrad 3.2 s (SHD 977), xges 36 s (1099)", 3.2, 977, 10),
    Work("GES p=1000 n=300, not screened", "ges-all", 1000, 300, None, "as above", 3.2, 977, 10),
    Work("GES p=5000 n=500", "ges", 5000, 500, None, "-", None, None, 1),
    Work("PC p=200 n=100", "pc", 200, 100, None, "Tetrad 0.6 s, pcalg 1.0 s", 0.5, None, 10),
    Work("PC p=1000 n=300", "pc", 1000, 300, None,
         "Tetrad 14 s (SHD 1471), pcalg 27 s (1485)", 10.0, 1471, 10),
]  # fmt: skip

METHODS: dict[str, Callable[[GaussianStats], Any]] = {
    "ges": lambda stats: ges(stats, penalty=2.0),
    "ges-all": lambda stats: ges(stats, penalty=2.0, screen=False),
    "pc": lambda stats: pc(stats, alpha=0.01),
}


def table(p: int, n: int, edges: int, linked: float | None, seed: int) -> tuple[Graph, Any]:
    """A DAG and scaled rows of it."""
    truth = simulate.dag(p, n_edges=edges, weight_range=(0.1, 1.0), random_state=seed)
    scale, start = (0.1, 1.0), seed + 1000
    if linked is None:
        X = simulate.linear(truth, n=n, noise_scale=scale, random_state=start)
    else:
        rows = simulate.row_covariance("toeplitz", n, base=linked)
        X = simulate.linked(truth, row_covariance=rows, noise_scale=scale, random_state=start)
    return truth, (X - X.mean()) / X.std()


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def measure(work: Work, seed: int) -> Row:
    truth, X = table(work.p, work.n, 2 * work.p, work.linked, seed)
    seconds, result = timed(lambda: METHODS[work.method](GaussianStats.from_data(X)))
    found = Graph(result.adjacency, truth.names)
    return {
        "work": work.name, "p": work.p, "n": work.n, "seed": seed, "cpu_s": round(seconds, 3),
        "shd_cpdag": metrics.shd(true=truth.to_cpdag(), estimate=found), "edges": found.n_edges,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def summarise(work: Work, rows: Sequence[Row]) -> None:
    seconds = float(np.mean([row["cpu_s"] for row in rows]))
    shd = float(np.mean([row["shd_cpdag"] for row in rows]))
    best = (
        "" if work.seconds is None else f"  {work.seconds / seconds:5.1f}x within the target {work.seconds} s"
    )
    aim = "" if work.shd is None else f", target {work.shd:g}"
    print(f"{work.name}: {seconds:.2f} CPU-s (largest {max(row['cpu_s'] for row in rows):.2f}){best}")
    print(f"    SHD {shd:.1f}{aim}; {np.mean([row['edges'] for row in rows]):.0f} edges; {len(rows)} seeds; "
          f"peak {max(row['peak_mb'] for row in rows)} MB; quoted: {work.quoted}")  # fmt: skip


def growth() -> list[Row]:
    """Time over p with 2p edges, and over edges at p = 200."""
    found = []
    for p, edges in [(p, 2 * p) for p in (50, 100, 200, 400, 800, 1600)] + [
        (200, k * 200) for k in (1, 3, 4)
    ]:
        n = 300
        for seed in range(3):
            X = table(p, n, edges, None, seed)[1]
            seconds, _ = timed(lambda X=X: ges(GaussianStats.from_data(X), penalty=2.0))
            found.append({"p": p, "edges": edges, "n": n, "seed": seed, "seconds": round(seconds, 4)})
        mean = np.mean([row["seconds"] for row in found[-3:]])
        print(f"growth: p={p:5d} edges={edges:5d} {mean:7.3f} CPU-s", flush=True)
    return found


def pgmpy_ges(X: Any) -> None:
    from pgmpy.causal_discovery import GES

    GES(scoring_method="bdeu").fit(X)


def causal_learn_ges(X: Any) -> None:
    from causallearn.search.ScoreBased.GES import ges as peer

    peer(X.apply(lambda column: column.cat.codes).to_numpy(), score_func="local_score_BDeu")


PEERS = {"pgmpy": pgmpy_ges, "causallearn": causal_learn_ges}


def alarm(seeds: int, peers: bool) -> list[Row]:
    """BDeu on 10,000 rows of alarm."""
    folder = os.environ.get("POLYDAG_DATA")
    if folder is None:
        print("alarm: left out, POLYDAG_DATA is not set")
        return []
    network = read_network(Path(folder) / "bn" / "alarm.bif.gz")
    truth = network.graph.to_cpdag()
    found: list[Row] = []
    for seed in range(seeds):
        X = simulate.discrete(network, n=10_000, random_state=seed)
        seconds, result = timed(lambda X=X: ges(make_score("bdeu", DiscreteCounts.from_data(X))))
        shd = metrics.shd(true=truth, estimate=Graph(result.adjacency, truth.names))
        found.append({"contender": "polydag", "seed": seed, "cpu_s": round(seconds, 3), "shd_cpdag": shd})
        for name, run in PEERS.items() if peers and seed == 0 else ():
            if importlib.util.find_spec(name) is None:
                print(f"alarm: {name} is not installed here")
                continue
            taken = timed(lambda X=X, run=run: run(X))[0]
            found.append({"contender": name, "seed": seed, "cpu_s": round(taken, 3), "shd_cpdag": ""})
    for name in dict.fromkeys(row["contender"] for row in found):
        own = [row["cpu_s"] for row in found if row["contender"] == name]
        print(f"alarm m=10,000 BDeu, {name}: {np.mean(own):.2f} CPU-s, {len(own)} seeds")
    return found


def first_searches() -> None:
    """Compile what the searches need, or load it from the cache."""
    X = table(10, 200, 20, None, 0)[1].to_numpy()  # dependent columns: edges are added, removed and turned
    ges(GaussianStats.from_data(X))
    ges(DiscreteCounts.from_data((X > 0).astype(int)))


def main() -> None:
    parser = argparse.ArgumentParser(description="GES and PC beside quoted and installed peers")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", default="", help="works whose name contains this")
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--no-save", action="store_true", help="print the figures only")
    chosen = parser.parse_args()
    first_searches()
    for method in METHODS.values():  # what is compiled or loaded from the cache is not timed below
        method(GaussianStats.from_data(table(10, 200, 20, None, 0)[1]))
    found = []
    for work in WORKS:
        if chosen.only not in work.name:
            continue
        rows = [measure(work, seed) for seed in range(min(chosen.seeds, work.seeds))]
        summarise(work, rows)
        found += rows
    on_alarm = alarm(min(chosen.seeds, 3), not chosen.no_peer) if chosen.only in "alarm" else []
    curve = growth() if chosen.only in "growth" else []
    if not chosen.no_save:
        place = machine("polydag", "numba", "scipy")
        for name, rows in (
            ("search", found),
            ("search_alarm", on_alarm),
            ("search_growth", curve),
        ):
            if rows:
                keep(name, rows, place)


if __name__ == "__main__":
    main()
