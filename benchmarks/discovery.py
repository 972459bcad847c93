"""Family scores, exact posteriors, Markov chains: CPU time and memory, beside BEANDisco's figures (quoted).

    python benchmarks/discovery.py [--only exact-20 ...] [--repeats 3]

Every figure comes from a fresh process, on one thread where nothing else is said: CPU time of the work, and
the peak of resident memory less what the imports take. Code is compiled (or loaded from the cache) on a
tiny problem before the clock starts; what compiling everything for the first time costs is told apart.
"exact" is all of it: counts, family scores, prior, posterior of every edge and parent set. "mcmc" is one
chain alone: 2000 steps of partial-order MCMC, of which 1000 are burn-in, the probabilities of all edges at
every tenth step after it, and the diagnostics; the family scores are there already. "chains" are two of them,
of 60,000 steps. Rows are thresholded Gaussian chains, n = 37 with the arities of the alarm network; for
Markov chains they are drawn from the alarm network itself where POLYDAG_DATA is set. The smallest of the
repeats is printed, all are kept.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from keeping import keep, machine

ALARM = (
    2,
    3,
    3,
    2,
    3,
    2,
    3,
    2,
    3,
    3,
    2,
    3,
    2,
    2,
    3,
    4,
    2,
    4,
    2,
    3,
    3,
    3,
    2,
    2,
    3,
    4,
    2,
    3,
    4,
    4,
    4,
    4,
    3,
    2,
    3,
    3,
    3,
)


IMPORTS = (
    "pandas",
    "scipy.special",
    "polydag.posterior.families._layers_kernels",
    "polydag.posterior.exact._subset_lattice_kernels",
    "polydag.posterior.mcmc._bucket_orders_kernels",
    "polydag.scores.discrete.k2",
    "polydag.scores.gaussian.bge",
    "polydag.stats",
)


LENGTHS = {"mcmc": {"n_chains": 1, "n_steps": 2000}, "chains": {"n_chains": 2, "n_steps": 60_000}}
WARM_UP = 12  # variables of the tiny problem: two buckets, so that chains move


class Work(NamedTuple):
    """One line of the table: what is done, BEANDisco's figures, and what is allowed here."""

    kind: str
    score: str
    arities: tuple[int, ...]
    max_parents: int
    rows: int
    quoted: str
    cpu_s: float | None
    memory_mb: float | None
    threads: int = 1


WORKS = {
    "exact-20": Work("exact", "k2", (2,) * 20, 3, 500, "6.1 s, 357 MB", 0.6, 150),
    "exact-25": Work("exact", "k2", (2,) * 25, 3, 500, "297 s, 13.9 GB", 20, 4500),
    "exact-27": Work("exact", "k2", (2,) * 27, 3, 500, "does not fit", None, 20_000),
    "exact-20-wide": Work("exact", "k2", (2,) * 20, 3, 20_000, "", None, None),
    "best-20": Work("best", "k2", (2,) * 20, 3, 500, "", None, None),
    "families-37-k2": Work("families", "k2", ALARM, 4, 5000, "80.8 s", 5, None),
    "families-37-bdeu": Work("families", "bdeu", ALARM, 4, 5000, "80.8 s", 5, None),
    "families-37-bds": Work("families", "bds", ALARM, 4, 5000, "", None, None),
    "families-37-bge": Work("families", "bge", ALARM, 4, 5000, "", None, None),
    "families-150-k2": Work("families", "k2", (4,) * 150, 2, 33_024, "about 3 hours (the paper)", 60, None),
    "families-37-k2-2-threads": Work("families", "k2", ALARM, 4, 5000, "", None, None, 2),
    "families-150-k2-2-threads": Work("families", "k2", (4,) * 150, 2, 33_024, "", None, None, 2),
    "exact-25-2-threads": Work("exact", "k2", (2,) * 25, 3, 500, "", None, None, 2),
    "mcmc-37": Work("mcmc", "k2", ALARM, 3, 1000, "36 s", 2.5, None),
    "mcmc-37-many-rows": Work("mcmc", "k2", ALARM, 3, 10_000, "36 s", 2.5, None),
    "mcmc-150": Work("mcmc", "k2", (4,) * 150, 2, 2000, "", None, None),
    "chains-37": Work("chains", "k2", ALARM, 3, 1000, "", None, None),
    "chains-37-2-processes": Work("chains", "k2", ALARM, 3, 1000, "", None, None, 2),
}


# A file of results is written when all its works have been measured.
FILES = {"discovery": ("exact", "best", "families"), "discovery_mcmc": ("mcmc", "chains")}


def draw(work: Work) -> np.ndarray[Any, Any]:
    """Each variable leans on the one before it and on another; cut into levels of equal shares."""
    if work.kind in ("mcmc", "chains") and work.arities == ALARM and "POLYDAG_DATA" in os.environ:
        return alarm(work.rows)
    rng = np.random.default_rng(0)
    n = len(work.arities)
    z = rng.standard_normal((work.rows, n))
    for j in range(1, n):
        z[:, j] += 0.8 * z[:, j - 1] + 0.5 * z[:, rng.integers(0, j)]
        z[:, j] /= z[:, j].std()
    if work.score == "bge":
        return z
    levels = [
        np.searchsorted(np.quantile(z[:, j], np.arange(1, a) / a), z[:, j])
        for j, a in enumerate(work.arities)
    ]
    return np.column_stack(levels)


def alarm(rows: int) -> np.ndarray[Any, Any]:
    from polydag.formats import read_network

    network = read_network(Path(os.environ["POLYDAG_DATA"]) / "bn" / "alarm.bif.gz")
    drawn = network.sample(rows, random_state=0)
    return np.column_stack([drawn[name].cat.codes for name in drawn.columns])


def do(work: Work) -> dict[str, float]:
    from polydag import Chains
    from polydag.posterior import exact_posterior, family_table, mcmc_posterior, with_prior
    from polydag.scores import make_score
    from polydag.stats import DiscreteCounts, GaussianStats

    rows = draw(work)
    start = marks()
    stats = GaussianStats.from_data(rows) if work.score == "bge" else DiscreteCounts.from_data(rows)
    table = family_table(make_score(work.score, stats), work.max_parents, n_jobs=work.threads)
    if work.kind in ("mcmc", "chains"):
        scores = with_prior(table)
        start = marks()
        mcmc_posterior(
            scores,
            chains=Chains(**LENGTHS[work.kind]),
            n_jobs=work.threads,
            random_state=0,
        )
    elif work.kind != "families":
        posterior = exact_posterior(with_prior(table), n_jobs=work.threads)
        if work.kind == "best":
            start = marks()
            posterior.best_graph()
    wall, cpu = (after - before for after, before in zip(marks(), start, strict=True))
    elsewhere = work.kind == "chains" and work.threads > 1  # the time of other processes is not known here
    return {"wall_s": wall, "cpu_s": float("nan") if elsewhere else cpu}


def marks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def measure(name: str) -> dict[str, float]:
    """One figure, in this process."""
    for module in IMPORTS:
        importlib.import_module(module)
    imports = peak_memory()
    work = WORKS[name]
    _, begin = marks()
    do(work._replace(arities=work.arities[:WARM_UP], rows=50))
    first_use = marks()[1] - begin
    loaded = peak_memory()
    figures = do(work)
    return {
        **figures,
        "beyond_imports_mb": (peak_memory() - imports) / 1e6,
        "machine_code_mb": (loaded - imports) / 1e6,
        "first_use_cpu_s": first_use,
    }


def peak_memory() -> float:
    """Bytes. Linux counts the parent's memory into getrusage of a child, so its own status file is read."""
    status = Path("/proc/self/status").read_text().splitlines()
    return float(next(line for line in status if line.startswith("VmHWM")).split()[1]) * 1024


def in_fresh_process(name: str, cache: str | None = None) -> dict[str, Any]:
    environment = {**os.environ, **({"NUMBA_CACHE_DIR": cache} if cache else {})}
    load = os.getloadavg()[0]
    command = [sys.executable, __file__, "--measure", name]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return {"load": load, **json.loads(done.stdout)}


def compile_time() -> float:
    """CPU seconds of compiling for the first time what an exact posterior needs."""
    with tempfile.TemporaryDirectory() as folder:
        return float(in_fresh_process("exact-20", folder)["first_use_cpu_s"])


def run(names: list[str], repeats: int, save: bool) -> None:
    found = []
    print(
        f"{'work':28s}{'CPU s':>9s}{'at most':>9s}{'wall s':>9s}{'MB':>8s}{'at most':>9s}  BEANDisco (quoted)"
    )
    for name in names:
        work = WORKS[name]
        results = [in_fresh_process(name) for _ in range(1 if len(work.arities) == 27 else repeats)]
        found += [row(name, work, result) for result in results]
        cpu, wall, memory = (
            min(result[key] for result in results) for key in ("cpu_s", "wall_s", "beyond_imports_mb")
        )
        bars = ["" if bar is None else f"{bar:g}" for bar in (work.cpu_s, work.memory_mb)]
        print(
            f"{name:28s}{cpu:9.2f}{bars[0]:>9s}{wall:9.2f}{memory:8.0f}{bars[1]:>9s}  {work.quoted}",
            flush=True,
        )
    for file, kinds in FILES.items():
        own = [name for name, work in WORKS.items() if work.kind in kinds]
        if save and set(own) <= set(names):
            keep(file, [row for row in found if row["work"] in own], machine("numba", "scipy"))
    print(f"compiling for the first time (not counted above): {compile_time():.0f} CPU s, kept in a cache")


def row(name: str, work: Work, result: dict[str, Any]) -> dict[str, Any]:
    return {
        "work": name,
        "variables": len(work.arities),
        "max_parents": work.max_parents,
        "rows": work.rows,
        "threads": work.threads,
        "cpu_s": round(result["cpu_s"], 3),
        "wall_s": round(result["wall_s"], 3),
        "beyond_imports_mb": round(result["beyond_imports_mb"], 1),
        "of_it_machine_code_mb": round(result["machine_code_mb"], 1),
        "load": round(result["load"], 1),
        "bar_cpu_s": work.cpu_s,
        "bar_mb": work.memory_mb,
        "beandisco_quoted": work.quoted,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", choices=sorted(WORKS), default=list(WORKS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--no-save", action="store_true", help="print the figures only")
    parser.add_argument("--measure", choices=sorted(WORKS), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure)))
    else:
        run(given.only, given.repeats, save=not given.no_save)


if __name__ == "__main__":
    main()
