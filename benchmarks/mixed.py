"""Half numbers, half labels: the degenerate Gaussian score beside what one would do without it.

Networks of average degree 2; a label of two to four levels is drawn by a multinomial logit of its parents, a
number is linear in its parents, each level of a label with an effect of its own. BOSS with its automatic
penalty; skeletons are compared, since dropping columns leaves no CPDAG over all of them. pgmpy has a
conditional Gaussian score and is not compared here yet.

- `dg`: the default for mixed columns;
- `codes`: labels as the numbers 0, 1, 2, …;
- `dummies`: an indicator for each level but the first as a variable of its own; two columns are joined where
  some of their indicators are;
- `levels`: numbers cut at their quartiles, BDeu;
- `numbers only`: label columns dropped, their edges missed.

    python benchmarks/mixed.py [--seeds 3]
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
import pandas as pd
from keeping import keep, machine

from polydag import BOSS, GES, GaussianStats, simulate
from polydag.data.discretize import discretize
from polydag.sources import InMemory
from polydag.stats.mixed import with_indicators


def table(seed: int, n: int, d: int) -> tuple[Any, pd.DataFrame, dict[str, tuple[int, ...]]]:
    """A graph, rows, and the levels of the label columns."""
    rng = np.random.default_rng(seed)
    dag = simulate.dag(d, n_edges=d, random_state=seed)
    arity = np.where(rng.permutation(d) < d // 2, rng.integers(2, 5, d), 0)
    left, ordered = set(range(d)), []
    while left:
        free = [j for j in left if not (dag.adjacency[:, j] & np.isin(np.arange(d), list(left))).any()]
        ordered += free
        left -= set(free)
    values: dict[int, np.ndarray] = {}
    for j in ordered:
        parents = np.flatnonzero(dag.adjacency[:, j])
        k = max(int(arity[j]), 1)
        signal = np.zeros((n, k))
        for i in parents:
            if arity[i]:
                signal += (rng.choice([-1, 1], (arity[i], k)) * rng.uniform(0.5, 1.5, (arity[i], k)))[
                    values[i]
                ]
            else:
                signal += np.outer(values[i], rng.choice([-1, 1], k) * rng.uniform(0.5, 1.5, k))
        if arity[j]:
            values[j] = np.argmax(signal + rng.gumbel(size=(n, k)), axis=1)
        else:
            own = signal[:, 0] + rng.normal(size=n)
            values[j] = (own - own.mean()) / own.std()
    frame = pd.DataFrame({dag.names[j]: values[j] for j in range(d)})
    levels = {dag.names[j]: tuple(range(int(arity[j]))) for j in range(d) if arity[j]}
    return dag, frame, levels


def skeletons(frame: pd.DataFrame, levels: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """What each way finds."""
    names = list(frame.columns)
    kinds: Any = {name: "discrete" if name in levels else "continuous" for name in names}
    found = {}

    def joined(model: Any) -> np.ndarray:
        A = model.graph_.adjacency
        return A | A.T

    found["dg"] = joined(BOSS().fit(InMemory(frame, kinds=kinds)))
    found["codes"] = joined(BOSS().fit(GaussianStats.from_data(frame.astype(float))))
    dummies = with_indicators(frame, levels)
    dummies = dummies.loc[:, dummies.std() > 0]
    model = BOSS().fit(GaussianStats.from_data(dummies))
    owner = np.array([names.index(str(name).partition("=")[0]) for name in dummies.columns])
    whole = np.zeros((len(names), len(names)), dtype=bool)
    for a, b in np.argwhere(joined(model)):
        whole[owner[a], owner[b]] |= owner[a] != owner[b]
    found["dummies"] = whole
    numbers = [name for name in names if name not in levels]
    cut = discretize(frame, "quantile:4", numbers)
    found["levels"] = joined(BOSS(score="bdeu").fit(cut.astype(str)))
    only = joined(BOSS().fit(GaussianStats.from_data(frame[numbers])))
    where = [names.index(name) for name in numbers]
    found["numbers only"] = np.zeros_like(whole)
    found["numbers only"][np.ix_(where, where)] = only
    return found


def main() -> None:
    """Run all settings and keep their means."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    seeds = range(100, 100 + parser.parse_args().seeds)
    rows: list[dict[str, Any]] = []
    for d in (20, 50):
        for n in (200, 1000):
            scores: dict[str, list[tuple[float, float]]] = {}
            for seed in seeds:
                dag, frame, levels = table(seed, n, d)
                true = dag.adjacency | dag.adjacency.T
                for way, found in skeletons(frame, levels).items():
                    hits = (true & found).sum()
                    f1 = 2 * hits / max(true.sum() + found.sum(), 1)
                    scores.setdefault(way, []).append(((true ^ found).sum() / 2, f1))
            for way, own in scores.items():
                rows.append({"d": d, "n": n, "way": way, "seeds": len(own),
                             "wrong_edges": round(float(np.mean([w for w, _ in own])), 1),
                             "f1": round(float(np.mean([f for _, f in own])), 2)})  # fmt: skip
                print(rows[-1])
    _, frame, levels = table(0, 1000, 100)
    kinds: Any = {name: "discrete" if name in levels else "continuous" for name in frame}
    dummies = with_indicators(frame, levels)
    spent = {}
    for way, fit in {"dg": lambda: GES().fit(InMemory(frame, kinds=kinds)),
                     "gaussian": lambda: GES().fit(GaussianStats.from_data(dummies))}.items():  # fmt: skip
        fit()  # compiles
        start = time.process_time()
        fit()
        spent[way] = time.process_time() - start
    print(f"GES, p = 100, n = 1000: mixed {spent['dg']:.2f} CPU-s, Gaussian on {dummies.shape[1]} columns "
          f"{spent['gaussian']:.2f}")  # fmt: skip
    rows.append({"d": 100, "n": 1000, "way": "CPU-s of GES, over Gaussian on indicators", "seeds": 1,
                 "wrong_edges": "", "f1": round(spent["dg"] / spent["gaussian"], 2)})  # fmt: skip
    keep("mixed", rows, machine())


if __name__ == "__main__":
    main()
