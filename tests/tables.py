"""Tables of families that several tests use."""

from __future__ import annotations

import numpy as np
import pandas as pd

from polydag.posterior import family_table, with_prior
from polydag.posterior.families.subsets import n_subsets
from polydag.posterior.families.table import FamilyTable, all_others
from polydag.scores import make_score
from polydag.stats import DiscreteCounts


def random_table(n: int, top: int, seed: int, spread: float = 3.0, impossible: float = 0.0) -> FamilyTable:
    rng = np.random.default_rng(seed)
    scores = spread * rng.standard_normal((n, n_subsets(n - 1, top)))
    scores[rng.random(scores.shape) < impossible] = -np.inf
    return FamilyTable(tuple("abcdefghijklmnop"[:n]), all_others(n), top, scores)


def rugged() -> FamilyTable:
    """Scores of many rows: hundreds of nats between one family and another."""
    rng = np.random.default_rng(2)
    z = rng.standard_normal((40_000, 9))
    for j in range(1, 9):
        z[:, j] += sum(0.6 * z[:, k] for k in rng.choice(j, min(j, 3), replace=False))
    frame = pd.DataFrame(np.digitize(z / z.std(axis=0), [-1, 0, 1]), columns=list("abcdefghi"))
    frame = frame[[*"gbfiahced"]]
    return with_prior(family_table(make_score("k2", DiscreteCounts.from_data(frame)), 2))
