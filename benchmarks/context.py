"""Which mechanisms differ between two tasks: joint posteriors beside one network with a context (JCI).

    python benchmarks/context.py [--pairs 40]                                       results/context.csv

Pairs of tasks as in calibration.py: six variables, identical, the same network with other strengths, related
or unrelated; labels and numbers. A mechanism differs if a variable has other parents or other strengths. JCI
puts the task as an exogenous label into the table of all rows (`polydag.sources.context.in_context`): the
children of the task are said to differ. For numbers it is run with the degenerate Gaussian and with the
conditional Gaussian, which sees slopes; columns are standardised within each task, as the posteriors do.
"learned" says that a mechanism differs where `1 - same` is above one half.

Recall is over the mechanisms that differ, false alarms over those that do not; variables without parents in
either network have no mechanism. "union F1" is about the
connections of the union of both networks. CPU seconds are of all fits, with compiled code.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import calibration
import numpy as np
import pandas as pd
from calibration import Mask
from keeping import keep, machine

from polydag import BOSS, PC, MultitaskDiscovery, Tasks
from polydag.errors import DataError
from polydag.posterior.probabilities import either_way
from polydag.sources.context import in_context

SIZES = ((1000, 60), (300, 300))
Answer = tuple[Mask, Mask]  # variables whose mechanism differs, connections (upper triangle)


def pair_of(how: str, sizes: tuple[int, ...], kind: str, seed: int) -> tuple[Tasks, Mask, Mask, Mask]:
    """Two tasks' rows; which mechanisms differ, and which do not; the connections of either network."""
    one, two = calibration.drawn_tasks(how, sizes, kind, np.random.default_rng([seed, 5]))
    A, B = one.network, two.network
    differs = np.array([not calibration.same_mechanism([one, two], i) for i in range(len(A))])
    tables = {
        name: table(task, kind in ("weak", "strong")) for name, task in (("first", one), ("second", two))
    }
    has_parents = (A | B).any(axis=0)
    return Tasks(tables), differs & has_parents, ~differs & has_parents, np.triu(A | A.T | B | B.T, 1)


def table(task: calibration.Drawn, numbers: bool) -> pd.DataFrame:
    frame = pd.DataFrame(task.rows, columns=[f"x{i}" for i in range(len(task.network))])
    if numbers:
        return (frame - frame.mean()) / frame.std()
    return frame.apply(
        lambda column: column.astype(pd.CategoricalDtype(range(task.arities[int(column.name[1:])])))
    )


def by_context(learner: Callable[..., Any]) -> Callable[[Tasks], Answer]:
    def answer(tasks: Tasks) -> Answer:
        table, knowledge = in_context(tasks)
        graph = learner(knowledge=knowledge).fit(table).graph_
        where = graph.index("task")
        own = [graph.index(name) for name in tasks.names]
        joined = graph.adjacency | graph.adjacency.T
        return joined[where, own], np.triu(joined[np.ix_(own, own)], 1)

    return answer


def posterior(criterion: str) -> Callable[[Tasks], Answer]:
    def answer(tasks: Tasks) -> Answer:
        model = MultitaskDiscovery(criterion=criterion).fit(tasks)
        same = model.mechanisms_.set_index("variable").loc[list(tasks.names), "same"].to_numpy()
        some = np.array([either_way(p.probabilities) for p in model.posteriors_]).max(axis=0)
        return same < 0.5, np.triu(some > 0.5, 1)

    return answer


def methods(kind: str) -> dict[str, Callable[[Tasks], Answer]]:
    if kind in ("weak", "strong"):
        return {
            "learned": posterior("bge"),
            "JCI, BOSS, dg": by_context(lambda **own: BOSS(criterion="dg", **own)),
            "JCI, BOSS, cg": by_context(lambda **own: BOSS(criterion="cg", **own)),
            "JCI, PC, cg": by_context(lambda **own: PC(test="cg", **own)),
        }
    return {
        "learned": posterior("bdeu"),
        "JCI, BOSS": by_context(lambda **own: BOSS(**own)),
        "JCI, PC": by_context(lambda **own: PC(**own)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=40, help="drawn for each setting")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    out: list[dict[str, Any]] = []
    for kind in ("dirichlet 0.7", "weak"):
        for sizes in SIZES:
            for how in calibration.HOW:
                out += setting(kind, sizes, how, chosen.pairs)
    keep("context", out, machine("polydag"))


def setting(kind: str, sizes: tuple[int, int], how: str, pairs: int) -> list[dict[str, Any]]:
    said: dict[str, list[tuple[Mask, ...]]] = {name: [] for name in methods(kind)}
    seconds, refused = dict.fromkeys(said, 0.0), dict.fromkeys(said, 0)
    for number in range(pairs):
        tasks, *truth = pair_of(how, sizes, kind, number)
        for name, method in methods(kind).items():
            start = time.process_time()
            try:
                answer = method(tasks)
            except DataError:
                refused[name] += 1
                continue
            seconds[name] += time.process_time() - start
            said[name].append((*answer, *truth))
    rows = []
    for name, answers in said.items():
        found, joined, differs, same, union = (np.array([a[k] for a in answers]) for k in range(5))
        hits = (joined & union).sum()
        row = {"parameters": kind, "sizes": "/".join(map(str, sizes)), "tasks": how, "method": name}
        row |= {"pairs": len(answers), "refused": refused[name]}
        row["recall"] = round(float(found[differs].mean()), 3) if differs.any() else ""
        row["false_alarms"] = round(float(found[same].mean()), 3) if same.any() else ""
        row["union_f1"] = round(2 * float(hits) / float(joined.sum() + union.sum()), 3)
        row["cpu_s"] = round(seconds[name], 2)
        print(", ".join(f"{key} {value}" for key, value in row.items()), flush=True)
        rows.append(row)
    return rows


if __name__ == "__main__":
    main()
