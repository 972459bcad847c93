"""A source in one file: a table that arrives in batches, such as one extract per month.

Sufficient statistics of the batches add up to those of the whole table. Any learner accepts the source, and
so do `Parties` and `Tasks`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any, Self

import numpy as np
import pandas as pd

from polydag.sources import InMemory, Source


class Batches(Source):
    """Rows in several tables with the same columns.

    Parameters
    ----------
    batches : sequence of DataFrame
        The tables, in any order.
    """

    def __init__(self, batches: Sequence[pd.DataFrame]) -> None:
        self.batches = [InMemory(batch) for batch in batches]

    @property
    def described(self) -> str:
        """Batches, in error messages."""
        return "a source of batches"

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return self.batches[0].names

    @property
    def kinds(self) -> Mapping[str, Any]:
        """Whether each column holds numbers or labels."""
        return self.batches[0].kinds

    @property
    def n(self) -> float:
        """The number of rows of all batches."""
        return sum(batch.n for batch in self.batches)

    @property
    def notes(self) -> tuple[str, ...]:
        """The number of batches, which a reader of the result should know."""
        return (f"The rows came in {len(self.batches)} batches.",)

    def moments(self) -> Any:
        """The sum of the batches' moments."""
        return reduce(add, (batch.moments() for batch in self.batches))

    def counts(self) -> Any:
        """The sum of the batches' counts."""
        return reduce(add, (batch.counts() for batch in self.batches))

    def rows(self) -> pd.DataFrame:
        """All rows, for learners that cannot do with statistics."""
        return pd.concat([batch.rows() for batch in self.batches], ignore_index=True)

    def resampled(self, rng: np.random.Generator) -> Self:
        """All rows drawn again, as one batch."""
        rows = self.rows()
        return type(self)([rows.iloc[rng.integers(0, len(rows), len(rows))]])


if __name__ == "__main__":
    from polydag import BOSS, Parties, metrics, simulate

    dag = simulate.dag(6, n_edges=6, random_state=0)
    X = simulate.linear(dag, n=600, random_state=1)
    whole = BOSS().fit(X).graph_
    months = BOSS().fit(Batches([X[:100], X[100:300], X[300:]]))
    print("SHD from the graph of the whole table:", metrics.shd(true=whole, estimate=months.graph_))
    print(*months.notes_)
    hospitals = Parties({"north": Batches([X[:100], X[100:200]]), "south": X[200:400], "west": X[400:]})
    print("The same, inside parties:", metrics.shd(true=whole, estimate=BOSS().fit(hospitals).graph_))
