"""Transfer between tasks: how much it helps or hurts, and what it costs.

    python benchmarks/multitask.py transfer [--seeds 10]      results/multitask_transfer.csv
    python benchmarks/multitask.py speed [--only NAME ...]    results/multitask.csv
    python benchmarks/multitask.py joint [--only NAME ...]    results/multitask_joint.csv
    python benchmarks/multitask.py study                      results/multitask_study.csv

"transfer": two tasks of n = 8, 37 and 150 variables with 3 levels, drawn from linear models over one order of
the variables: identical graphs, related ones (each lacks a fifth of the common edges) and unrelated ones.
Posteriors are exact given that order, which takes no sampling at any n, and for n = 8 also over all orders.
Edges are judged against the true graph over all pairs in the order: average precision, ROC area, and the mean
log loss of the probabilities in bits (smaller is better).

"speed": CPU time on one thread, code compiled before the clock starts, the smallest of three.

"joint": CPU time, on one thread, of joint probabilities of differences between two tasks (at most 3 parents):
exact for 20 variables, by chains for 37, with the largest R-hat of an edge and the fewest effective draws. Of
works that are left out, earlier rows are kept.

"study": section VI of the tasks paper at its size (150 regions, 33,024 and 28,416 scans, simulated), with
chains until they agree, on two processes; wall-clock time, CPU time of all processes, R-hat, effective draws.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import resource
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from keeping import RESULTS, keep, machine

from polydag import Chains, MultitaskDiscovery, simulate
from polydag.computing.progress import Step, listening
from polydag.embedded import asia
from polydag.graph import Graph
from polydag.posterior import exact_posterior, family_table, with_prior
from polydag.posterior.families.subsets import n_subsets
from polydag.posterior.families.table import FamilyTable, all_others
from polydag.posterior.transfer import Averaged, family_form, theorem1, transfer_factors
from polydag.reproduce.brain import simulated
from polydag.scores import make_score
from polydag.sources.task_statistics import pooled, task_counts

Array = np.ndarray[Any, Any]
SIZES = (8, 37, 150)
ROWS = (25, 50, 100, 200, 500)
KINDS = ("identical", "related", "unrelated")
METHODS = ("STL", "MTL, all", "MTL, truncated", "POOL")


def max_parents(n: int) -> int:
    return 2 if n > 100 else 3


def tasks(n: int, kind: str, seed: int) -> tuple[list[Graph], list[pd.DataFrame]]:
    """Two graphs over the order of the columns, and their rows cut into three levels."""
    rng = np.random.default_rng([seed, n, KINDS.index(kind)])

    def graph() -> Graph:
        found = simulate.dag(n, n_edges=round(1.2 * n), weight_range=(0.4, 1.0), random_state=rng)
        order = [found.index(name) for name in found.topological_order()]
        return Graph.from_weights(found.weights[np.ix_(order, order)], [f"x{i}" for i in range(n)])

    first = graph()
    graphs = [first, first if kind != "unrelated" else graph()]
    if kind == "related":
        keep_edges = [rng.random((n, n)) >= 0.2 for _ in graphs]
        graphs = [Graph.from_weights(np.where(k, first.weights, 0.0), first.names) for k in keep_edges]
    tables = []
    for truth in graphs:
        x = simulate.linear(truth, n=max(ROWS), random_state=rng)
        z = (x - x.mean()) / x.std()
        levels = z.apply(lambda column: pd.cut(column, [-np.inf, -0.5, 0.5, np.inf], labels=["a", "b", "c"]))
        tables.append(levels)
    return graphs, tables


def given_order(table: FamilyTable) -> Array:
    """The posterior of every edge given that variables come in the order of the table."""
    values = np.zeros_like(table.scores)
    for node in range(table.n):
        allowed = (table.members(node) < node).all(axis=1)
        scores = np.where(allowed, table.scores[node], -np.inf)
        weights = np.exp(scores - scores.max())
        values[node] = weights / weights.sum()
    return table.edge_sums(values)


def family_tables(frames: list[pd.DataFrame], top: int) -> dict[str, list[FamilyTable]]:
    """What each method computes posteriors from, one table a task."""
    counts = task_counts({str(k): frame for k, frame in enumerate(frames)}, "k2", None)
    plain = [family_table(make_score("k2", part), top) for part in counts]
    own = [with_prior(table) for table in plain]
    together = with_prior(family_table(make_score("k2", pooled(counts)), top))
    return {
        "STL": own,
        "MTL, all": family_form(own, plain, Averaged("all")),
        "MTL, truncated": family_form(own, plain, Averaged("truncated")),
        "POOL": [together, together],
    }


def judged(truth: Graph, P: Array, pairs: Array) -> tuple[float, float, float]:
    from sklearn.metrics import average_precision_score, roc_auc_score

    y, p = truth.adjacency[pairs], np.clip(P[pairs], 1e-12, 1 - 1e-12)
    loss = -np.log2(np.where(y, p, 1 - p)).mean()
    return float(average_precision_score(y, p)), float(roc_auc_score(y, p)), float(loss)


def transfer(seeds: int) -> None:
    rows = []
    for n in SIZES:
        top = max_parents(n)
        ordered, every = np.triu(np.ones((n, n), dtype=bool), 1), ~np.eye(n, dtype=bool)
        for kind in KINDS:
            found: dict[tuple[str, int, str], list[tuple[float, float, float]]] = {}
            for seed in range(seeds if n < 100 else max(seeds // 3, 2)):
                graphs, tables = tasks(n, kind, seed)
                for size in ROWS if n < 100 else ROWS[::2]:
                    for method, own in family_tables([t.iloc[:size] for t in tables], top).items():
                        for truth, table in zip(graphs, own, strict=True):
                            key = ("the true order", size, method)
                            found.setdefault(key, []).append(judged(truth, given_order(table), ordered))
                            if n == 8:
                                P = exact_posterior(table).probabilities
                                key = ("all orders", size, method)
                                found.setdefault(key, []).append(judged(truth, P, every))
            for (over, size, method), values in found.items():
                mean = np.mean(values, axis=0)
                rows.append({"n": n, "tasks": kind, "over": over, "rows": size, "method": method})
                rows[-1] |= {"trials": len(values), "average_precision": round(float(mean[0]), 4)}
                rows[-1] |= {"auc": round(float(mean[1]), 4), "log_loss_bits": round(float(mean[2]), 5)}
            print(pivoted([row for row in rows if row["n"] == n and row["tasks"] == kind]), flush=True)
    keep("multitask_transfer", rows, machine("numba"))


def pivoted(rows: list[dict[str, Any]]) -> str:
    frame = pd.DataFrame(rows)
    wide = frame.pivot_table(
        index=["n", "tasks", "over", "rows"], columns="method", values=["average_precision", "log_loss_bits"]
    )
    order = [(what, method) for what in ("average_precision", "log_loss_bits") for method in METHODS]
    return str(wide[order].to_string())


class Work(NamedTuple):
    """One line of the speed table: what is done, and how many CPU seconds are allowed."""

    do: Callable[[], Any]
    cpu_s: float | None
    repeats: int = 3


def random_table(n: int, top: int, seed: int) -> FamilyTable:
    scores = 3.0 * np.random.default_rng(seed).standard_normal((n, n_subsets(n - 1, top)))
    return FamilyTable(tuple(f"x{i}" for i in range(n)), all_others(n), top, scores)


def weights_work(n: int, top: int) -> Callable[[], Any]:
    table = random_table(n, top, 0)
    return lambda: transfer_factors(table, Averaged().subsets(n - 1, top))


def theorem1_work(n: int, n_tasks: int) -> Callable[[], Any]:
    tables = [random_table(n, 3, seed) for seed in range(n_tasks)]
    return lambda: theorem1(tables, tables, Averaged())


def many_tasks_work(count: int, transfer: str) -> Callable[[], Any]:
    tables = [asia().related(0.2, k).sample(60, random_state=k) for k in range(count)]
    return lambda: MultitaskDiscovery(transfer=transfer).fit(tables)


def two_groups(n: int, rows: tuple[int, int], seed: int) -> dict[str, pd.DataFrame]:
    """Rows of two linear models, of which the second lacks a fifth of the edges."""
    rng = np.random.default_rng([seed, n])
    first = simulate.dag(n, n_edges=round(1.2 * n), weight_range=(0.4, 1.0), random_state=rng)
    lacks = rng.random((n, n)) < 0.2
    second = Graph.from_weights(np.where(lacks, 0.0, first.weights), first.names)
    graphs = {"first": first, "second": second}
    return {
        name: simulate.linear(graph, n=m, random_state=rng)
        for (name, graph), m in zip(graphs.items(), rows, strict=True)
    }


# Variables, method, the most CPU-seconds, and the chains: by default, they are continued until they agree.
JOINT: dict[str, tuple[int, str, float, Chains]] = {
    "exact-20": (20, "exact", 300.0, Chains()),
    "chains-37": (37, "mcmc", 600.0, Chains()),
    "chains-37-fixed": (37, "mcmc", 600.0, Chains(n_steps=130_000, burn_in=20_000)),
}
R_HAT = 1.01  # the goal, stricter than what ends the chains


def joint(names: list[str]) -> None:
    for method in ("exact", "mcmc"):  # compiles
        chains = Chains(n_chains=2, n_steps=100)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            MultitaskDiscovery(criterion="bge", method=method, chains=chains, random_state=0).fit(
                two_groups(5, (40, 30), 0)
            )
    rows = []
    for name in names:
        n, method, bar, chains = JOINT[name]
        tables = two_groups(n, (400, 200), 1)
        start = time.process_time()
        with listening(told):
            model = MultitaskDiscovery(criterion="bge", method=method, chains=chains, random_state=0)
            model.fit(tables)
        used = time.process_time() - start
        row: dict[str, Any] = {"work": name, "variables": n, "rows": "400, 200", "method": method}
        row |= {"cpu_s": round(used, 1), "bar_cpu_s": bar, "basis": model.connections_["basis"].iloc[0]}
        diagnostics = getattr(model.posteriors_[0], "diagnostics", None)
        exact = diagnostics is None
        row["r_hat"] = "" if exact else round(float(diagnostics["r_hat"].max()), 3)
        row["bar_r_hat"] = "" if exact else R_HAT
        row["ess"] = "" if exact else round(float(diagnostics["ess"].min()))
        row["steps"] = "" if exact else int(model.history_["steps"].max())
        row["converged"] = model.converged_
        row["load"] = round(os.getloadavg()[0], 1)
        print(row, flush=True)
        rows.append(row)
    path = RESULTS / "multitask_joint.csv"
    before = pd.read_csv(path, dtype=str, keep_default_na=False).to_dict("records") if path.exists() else []
    keep("multitask_joint", [*(row for row in before if row["work"] not in names), *rows], machine("numba"))


def study() -> None:
    from joblib.externals.loky import get_reusable_executor

    frames = {
        name: pd.DataFrame(np.concatenate(group.subjects)).astype(pd.CategoricalDtype([0, 1, 2, 3]))
        for name, group in simulated().items()
    }
    wall, cpu = time.perf_counter(), cpu_of_all()
    model = MultitaskDiscovery(
        transfer="family",
        criterion="k2",
        max_parents=2,
        method="mcmc",
        max_candidates=None,
        n_jobs=2,
        random_state=0,
    )
    with warnings.catch_warnings(), listening(told):
        warnings.simplefilter("ignore")
        model.fit(frames)
    wall = time.perf_counter() - wall
    get_reusable_executor().shutdown(wait=True)
    cpu = cpu_of_all() - cpu
    print(f"wall {wall:.0f} s, CPU {cpu:.0f} s, converged {model.converged_}, load {os.getloadavg()[0]:.1f}")
    print(model.history_.to_string(index=False))
    modes = {task: found.mode_search for task, found in zip(model.tasks_, model.posteriors_, strict=True)}
    rows = model.history_.assign(mode_search=model.history_["task"].map(modes))
    rows = rows.assign(wall_s=round(wall), cpu_s=round(cpu), bar_wall_s=900)
    keep("multitask_study", rows.to_dict("records"), machine("numba"))


def told(step: Step) -> None:
    """How far it is, whenever a part is done."""
    if step.done == step.total or step.task == "modes":
        print(f"{time.strftime('%H:%M:%S')} {step.task}: {step.note}", flush=True)


def cpu_of_all() -> float:
    """CPU seconds of this process and of those that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def works() -> dict[str, Callable[[], Work]]:
    growth = {
        f"asia-{count}-tasks{name}": lambda count=count, transfer=transfer: Work(
            many_tasks_work(count, transfer), None
        )
        for transfer, name in (("family", ""), ("theorem1", "-theorem1"))
        for count in (5, 10, 20, 40)
    }
    return {
        "weights-37-4": lambda: Work(weights_work(37, 4), 1.0),
        "weights-150-2": lambda: Work(weights_work(150, 2), 0.3),
        "theorem1-12-2-tasks": lambda: Work(theorem1_work(12, 2), None),
        "theorem1-16-2-tasks": lambda: Work(theorem1_work(16, 2), 60.0, 1),
        "theorem1-12-4-tasks": lambda: Work(theorem1_work(12, 4), None),
        **growth,
    }


def speed(names: list[str], save: bool) -> None:
    weights_work(6, 2)()
    theorem1_work(6, 2)()
    many_tasks_work(2, "family")()
    rows = []
    print(f"{'work':24s}{'CPU s':>9s}{'at most':>9s}{'load':>7s}")
    for name in names:
        work = works()[name]()
        times = []
        for _ in range(work.repeats):
            start = time.process_time()
            work.do()
            times.append(time.process_time() - start)
        bar = "" if work.cpu_s is None else f"{work.cpu_s:g}"
        load = os.getloadavg()[0]
        print(f"{name:24s}{min(times):9.2f}{bar:>9s}{load:7.1f}", flush=True)
        rows.append(
            {"work": name, "cpu_s": round(min(times), 3), "bar_cpu_s": work.cpu_s, "load": round(load, 1)}
        )
    if save:
        keep("multitask", rows, machine("numba"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", choices=("transfer", "speed", "joint", "study"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", nargs="+", choices=[*works(), *JOINT], default=None)
    given = parser.parse_args()
    if given.what == "transfer":
        transfer(given.seeds)
    elif given.what == "study":
        study()
    elif given.what == "joint":
        joint(given.only or list(JOINT))
    else:
        speed(given.only or list(works()), save=given.only is None)


if __name__ == "__main__":
    main()
