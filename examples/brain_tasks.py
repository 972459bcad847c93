"""Brain regions of several subjects, each one task: nine real ones, and simulated ones with the truth.

The data is in POLYDAG_DATA. Scans that follow each other are alike, so that a posterior from all of them is
too sure of itself: of the real ones every fifth is used.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd

from polydag import Graph, Knowledge, MultitaskDiscovery, Similarity, metrics

STEP = 5
SCANS = (50, 200)  # the first fifty of each subject, and all


def nine_subjects(folder: Path) -> None:
    """What all nine share in eight regions and a task input, which nothing acts on."""
    scans = pd.read_csv(folder / "fmri_9var_9subjects.csv.gz")
    tasks = {f"s{s}": own.drop(columns=["subject", "t"])[::STEP] for s, own in scans.groupby("subject")}
    regions = [name for name in scans.columns if name not in ("subject", "t", "I")]
    known = Knowledge(tiers=[["I"], regions])
    alone = MultitaskDiscovery(transfer="none", criterion="bge", knowledge=known).fit(tasks)
    for combination in ("product", "star"):
        model = MultitaskDiscovery(
            transfer="family",
            similarity=Similarity(combination=combination),
            criterion="bge",
            knowledge=known,
        ).fit(tasks)
        found = np.array([posterior.probabilities for posterior in model.posteriors_])
        print(f"{combination}: {found.sum() / len(tasks):.1f} edges expected in a subject", end=", ")
        print(f"alone {sum(p.probabilities.sum() for p in alone.posteriors_) / len(tasks):.1f}")
    mean = Graph.from_weights(
        np.where(found.mean(axis=0) > 0.5, found.mean(axis=0), 0.0), model.feature_names_in_
    )
    print("in most subjects (star):", ", ".join(f"{e.source} → {e.target}" for e in mean.edges()))


def netsim(folder: Path) -> None:
    """Fifteen simulated regions whose network is the same in all fifty subjects."""
    scans = pd.read_csv(folder / "netsim_sim3_50subjects.csv.gz").drop(columns="t")
    edges = pd.read_csv(folder / "netsim_sim3_edges.csv").to_numpy().tolist()
    subjects = [own.drop(columns="subject") for _, own in scans.groupby("subject")]
    truth = Graph.from_edges(list(subjects[0].columns), edges)
    pairs = Graph(truth.adjacency | truth.adjacency.T, truth.names)  # Gaussian scores see few directions
    for count in SCANS:
        print(f"\nnetsim, {len(subjects)} subjects, {count} scans of each: average precision of pairs")
        for transfer, combination in (
            ("none", "star"),
            ("family", "product"),
            ("family", "star"),
            ("pool", "star"),
        ):
            model = MultitaskDiscovery(
                transfer=transfer,
                similarity=Similarity(combination=combination),
                criterion="bge",
                max_parents=2,
            ).fit([own[:count] for own in subjects])
            areas = [
                metrics.average_precision(true=pairs, scores=p.probabilities + p.probabilities.T)
                for p in model.posteriors_
            ]
            name = f"{transfer}, {combination}" if transfer == "family" else transfer
            print(f"{name:16s} {np.mean(areas):.3f}")


def main() -> None:
    """Both sets."""
    folder = Path(os.environ["POLYDAG_DATA"]) / "fmri"
    nine_subjects(folder)
    netsim(folder)


if __name__ == "__main__":
    main()
