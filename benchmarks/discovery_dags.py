"""The posterior uniform over DAGs: effective samples per CPU second on alarm, beside sumu's Gadget.

    python benchmarks/discovery_dags.py [--peer PYTHON] [--seconds 20] [--rows 1000]

Rows are drawn from the alarm network in POLYDAG_DATA. Score BDeu (one imaginary row), fair prior, in-degree
up to 3, all other variables as candidates; Gadget has 12 candidates a node and up to 2 parents outside them,
so that it leaves a few families out, and gives a DAG after every 100 iterations.

Both samplers run two chains for about the same CPU time after a burn-in of a quarter of it, and give DAGs;
what counts is the CPU time of the chains' moves, not of scores and other preparations, nor of drawing DAGs
and edge probabilities from the states, which is told apart. Effective samples are those of arviz-stats for
the mean of each edge's indicator, over both chains, of edges with a probability between 0.05 and 0.95; the
smallest and the median edge are told, and R-hat. "averaged" is the same for edge probabilities summed over
the DAGs of each state, which is what the package reports: as many independent DAGs would be needed for the
same error.

PYTHON is an interpreter that can import sumu (its wheel need not fit this environment); it is neither built
nor needed here, and where it is missing that is printed.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from keeping import keep, machine

CHAINS = 2
PEERS = {  # candidates a node, in-degree of families outside them, coupled chains
    "sumu K=12 d=2": (12, 2, 1),
    "sumu K=12 d=2, 4 coupled chains": (12, 2, 4),
}
Array = np.ndarray[Any, Any]


def alarm(rows: int) -> Array:
    from polydag.formats import read_network

    place = os.environ.get("POLYDAG_DATA")
    if not place:
        raise SystemExit("POLYDAG_DATA is not set: the alarm network is not at hand.")
    frame = read_network(Path(place) / "bn" / "alarm.bif.gz").sample(rows, random_state=0)
    return np.column_stack([np.unique(frame[name], return_inverse=True)[1] for name in frame.columns])


def ours(data: Array, seconds: float) -> dict[str, Any]:
    """DAGs of two chains of partitions, and the edge probabilities of each state."""
    from polydag.posterior import family_table, with_prior
    from polydag.posterior.dags.partitions import PartitionSampler
    from polydag.scores import make_score
    from polydag.stats import DiscreteCounts

    score = make_score("bdeu", DiscreteCounts.from_data(data), equivalent_sample_size=1.0)
    sampler = PartitionSampler.of(with_prior(family_table(score, 3), "fair")).configured(moves=50)
    rng = np.random.default_rng(0)
    run_ours(sampler, rng, 0.0)  # compiled before the clock starts
    chains = [run_ours(sampler, np.random.default_rng(seed), seconds / CHAINS) for seed in range(CHAINS)]
    draws = min(len(dags) for dags, _, _ in chains)
    return {
        "dags": np.array([dags[:draws] for dags, _, _ in chains]),
        "averaged": np.array([edges[:draws] for _, edges, _ in chains]),
        "cpu_s": sum(cpu[0] * draws / len(dags) for dags, _, cpu in chains),
        "drawing_cpu_s": sum(cpu[1] * draws / len(dags) for dags, _, cpu in chains),
    }


def run_ours(
    sampler: Any, rng: np.random.Generator, seconds: float
) -> tuple[Array, Array, tuple[float, float]]:
    state = sampler.init(sampler.random_position(rng))
    begin = time.process_time()
    while time.process_time() - begin < seconds / 4:
        state, _ = sampler.step(rng, state)
    dags, edges = [], []
    moving = drawing = 0.0
    while not dags or moving + drawing < seconds:
        begin = time.process_time()
        state, _ = sampler.step(rng, state)
        moved = time.process_time()
        dags.append(sampler.draw_dag(rng, state.level))
        edges.append(sampler.edges(state))
        moving, drawing = moving + moved - begin, drawing + time.process_time() - moved
    return np.array(dags), np.array(edges), (moving, drawing)


def peer(data: Array, seconds: float, K: int, d: int, coupled: int) -> dict[str, Any]:
    """DAGs of two runs of Gadget; called in the interpreter that has it."""
    import sumu.gadget as peers

    full = np.full  # sumu 0.1.2 compiled by Cython 3 asks for an array of 2.0^K numbers
    np.full = lambda shape, *rest, **given: full(np.array(shape).astype(int), *rest, **given)
    chains, cpu, drawing = [], 0.0, 0.0
    for seed in range(CHAINS):
        np.random.seed(seed)  # noqa: NPY002 - the peer draws from there
        gadget = peers.Gadget(
            data=peers.Data(data.astype(np.int32)), scoref="bdeu", ess=1, max_id=3, K=K, d=d,
            cp_algo="greedy-lite", cp_path=None, mc3_chains=coupled, burn_in=0, iterations=0, thinning=1,
            tolerance=2**-32,
        )  # fmt: skip
        gadget._find_candidate_parents()
        gadget._precompute_scores_for_all_candidate_psets()
        gadget._precompute_candidate_restricted_scoring()
        gadget._precompute_candidate_complement_scoring()
        gadget._init_mcmc()
        states: list[Any] = []
        begin = time.process_time()
        while time.process_time() - begin < seconds / CHAINS / 4:
            gadget.mcmc.sample()
        begin = time.process_time()
        while not states or time.process_time() - begin < 0.5 * seconds / CHAINS:
            for _ in range(100):
                state = gadget.mcmc.sample()[0]
            states.append(state)
        moved = time.process_time()
        gadget.Rs = states
        dags = gadget._sample_dags()[0]
        cpu, drawing = cpu + moved - begin, drawing + time.process_time() - moved
        chains.append(np.array([adjacency(dag, data.shape[1]) for dag in dags]))
    draws = min(map(len, chains))
    return {"dags": np.array([dags[:draws] for dags in chains]), "cpu_s": cpu, "drawing_cpu_s": drawing}


def adjacency(families: list[Any], n: int) -> Array:
    dag = np.zeros((n, n), dtype=bool)
    for node, *parents in families:
        for parent in parents[0] if parents else ():
            dag[parent, node] = True
    return dag


def figures(name: str, found: dict[str, Any]) -> dict[str, Any]:
    from arviz_stats.base import array_stats

    dags = found["dags"].astype(float)
    p = dags.mean(axis=(0, 1))
    uncertain = (p > 0.05) & (p < 0.95)
    trace = dags[:, :, uncertain]
    ess = np.asarray(array_stats.ess(trace, chain_axis=0, draw_axis=1, method="mean"))
    r_hat = np.asarray(array_stats.rhat(trace, chain_axis=0, draw_axis=1))
    result = {
        "sampler": name,
        "cpu_s": round(found["cpu_s"], 2),
        "drawing_cpu_s": round(found["drawing_cpu_s"], 2),
        "dags": dags.shape[0] * dags.shape[1],
        "uncertain_edges": int(uncertain.sum()),
        "ess_per_cpu_s_smallest": round(float(ess.min()) / found["cpu_s"], 3),
        "ess_per_cpu_s_median": round(float(np.median(ess)) / found["cpu_s"], 3),
        "r_hat_largest": round(float(np.nanmax(r_hat)), 3),
        "averaged_per_cpu_s_smallest": "",
        "averaged_per_cpu_s_median": "",
    }
    if "averaged" in found:
        trace = found["averaged"][:, :, uncertain]
        error = np.asarray(array_stats.mcse(trace, chain_axis=0, draw_axis=1))
        worth = p[uncertain] * (1 - p[uncertain]) / error**2 / found["cpu_s"]
        result["averaged_per_cpu_s_smallest"] = round(float(worth.min()), 3)
        result["averaged_per_cpu_s_median"] = round(float(np.median(worth)), 3)
    return result


def from_peer(
    python: str, data: Array, seconds: float, settings: tuple[int, int, int]
) -> dict[str, Any] | str:
    """What the peer found, or why there is nothing."""
    if subprocess.run([python, "-c", "import sumu"], capture_output=True, check=False).returncode:
        return "missing: sumu cannot be imported"
    with tempfile.TemporaryDirectory() as folder:
        rows, result = Path(folder) / "rows.npy", Path(folder) / "found.npz"
        np.save(rows, data)
        task = json.dumps([str(rows), str(result), seconds, *settings])
        done = subprocess.run(
            [python, __file__, "--as-peer", task], capture_output=True, text=True, check=False
        )
        if done.returncode:
            return f"failed: {done.stderr.strip().splitlines()[-1]}"
        with np.load(result) as stored:
            return {"dags": stored["dags"]} | {key: float(stored[key]) for key in ("cpu_s", "drawing_cpu_s")}


def as_peer(task: str) -> None:
    rows, result, seconds, *settings = json.loads(task)
    np.savez(result, **peer(np.load(rows), seconds, *settings))


def run(python: str, seconds: float, rows: int, save: bool) -> None:
    data = alarm(rows)
    found = [figures("polydag", ours(data, seconds))]
    show(found[0])
    for name, settings in PEERS.items():
        answer = from_peer(python, data, seconds, settings)
        if isinstance(answer, str):
            print(f"{name}: {answer}")
            continue
        found.append(figures(name, answer))
        show(found[-1])
    if save:
        load = {"rows": rows, "load": round(os.getloadavg()[0], 1)}
        keep("discovery_dags", [{**row, **load} for row in found], machine("numba", "arviz-stats"))


def show(row: dict[str, Any]) -> None:
    print(json.dumps(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--peer", default=sys.executable, help="an interpreter that can import sumu")
    parser.add_argument("--seconds", type=float, default=20.0, help="CPU time of each sampler")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--no-save", action="store_true", help="print the figures only")
    parser.add_argument("--as-peer", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.as_peer:
        as_peer(given.as_peer)
    else:
        run(given.peer, given.seconds, given.rows, save=not given.no_save)


if __name__ == "__main__":
    main()
