"""Which form of transfer comes nearest to pooling, or passes it, where pooling is hardest to beat.

    python benchmarks/multitask_forms.py [--rows 50] [--trials 30]    results/multitask_forms.csv

Table I of the tasks paper at one size: asia, two tasks, as many trials for each probability of deletion;
exact posteriors. Increase of the standard ROC area over pooling in per cent, mean over trials, and the winner
of the paired t-test at 5 %, over all trials and for each probability of deletion apart.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
from typing import Any

import numpy as np
from keeping import keep, machine

from polydag import MultitaskDiscovery, Similarity
from polydag.reproduce.multitask import P_DEL, benchmark, draw, truth
from polydag.reproduce.ranking import areas, paired

POOL = "pool"
FORMS: dict[str, dict[str, Any]] = {
    POOL: {"transfer": "pool"},
    "alone": {"transfer": "none"},
    "family": {},
    "family, truncated": {"similarity": Similarity(normaliser="truncated")},
    "family, lambda 0.5": {"similarity": Similarity(lambda_=0.5)},
    "family, lambda 0.9": {"similarity": Similarity(lambda_=0.9)},
    "family, lambda 0.99": {"similarity": Similarity(lambda_=0.99)},
    "theorem1": {"transfer": "theorem1"},
    "theorem1, truncated": {"transfer": "theorem1", "similarity": Similarity(normaliser="truncated")},
}


def measured(rows: int, trials: int) -> dict[str, np.ndarray[Any, Any]]:
    """The ROC area of every form, `[trial, p_del]`."""
    bench = benchmark("asia", "ours")
    found = {name: np.empty((trials, len(P_DEL))) for name in FORMS}
    for number in range(trials * len(P_DEL)):
        at = divmod(number, len(P_DEL))
        trial = draw(bench, number, P_DEL[at[1]])
        edges = truth(bench, trial).P > 0.5
        tables = [table.iloc[:rows] for table in trial.rows]
        for name, settings in FORMS.items():
            chosen = {"transfer": "family", "criterion": "k2", "max_parents": 3, **settings}
            model = MultitaskDiscovery(**chosen, method="exact").fit(tables)
            found[name][at] = areas(edges, np.array([p.probabilities for p in model.posteriors_])).auc
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=50, help="of each task")
    parser.add_argument("--trials", type=int, default=30, help="for each probability of deletion")
    chosen = parser.parse_args()
    found = measured(chosen.rows, chosen.trials)
    parts = {"all": slice(None), **{f"{p:g}": slice(k, k + 1) for k, p in enumerate(P_DEL)}}
    parts["0.3 to 0.5"] = slice(2, None)
    kept = []
    for name, areas_ in found.items():
        for p_del, part in parts.items():
            own, pool = areas_[:, part].ravel(), found[POOL][:, part].ravel()
            test = paired(own, pool, name, POOL)
            kept.append(
                {"rows": chosen.rows, "form": name, "p_del": p_del, "trials": len(own),
                 "auc": round(float(own.mean()), 4), "vs pool %": round(test.increase, 2),
                 "p": round(test.p, 4), "winner": test.winner}
            )  # fmt: skip
        told = [f"{row['p_del']} {row['vs pool %']:+.2f} {row['winner']}" for row in kept[-len(parts) :]]
        print(f"{name:20s} {kept[-len(parts)]['auc']:.4f}  " + ";  ".join(told), flush=True)
    keep("multitask_forms", kept, machine("polydag"))


if __name__ == "__main__":
    main()
