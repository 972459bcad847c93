"""Tasks with interventions of their own, against enumeration; and statistics in place of rows."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from polydag import MultitaskDiscovery, Tasks
from polydag.posterior import with_prior
from polydag.posterior.families.subsets import n_subsets
from polydag.posterior.families.table import FamilyTable, all_others
from polydag.posterior.transfer.relatedness import DROPPED, concentrations
from polydag.scores import make_score
from polydag.sources.table import InMemory
from polydag.stats import DiscreteCounts, GaussianStats
from test_influence import chain
from test_relatedness import enumerated, structure_prior

Array = NDArray[np.float64]
NAMES = ("a", "b", "c")
SET = {"one": ["none"] * 25 + ["a"] * 15, "two": ["none"] * 10 + ["b"] * 10 + ["b+c"] * 10}


def drawn(task: str, kind: str, seed: int) -> pd.DataFrame:
    """a -> b -> c, where what was set is unrelated to its causes."""
    rng = np.random.default_rng(seed)
    found = np.zeros((len(SET[task]), 3))
    for row, what in enumerate(SET[task]):
        for i, name in enumerate(NAMES):
            before = 1.2 * found[row, i - 1] if i and name not in what.split("+") else 0.0
            found[row, i] = before + rng.standard_normal()
    frame = pd.DataFrame(found, columns=list(NAMES))
    if kind == "labels":
        return frame.apply(lambda own: np.where(own > 0, "high", "low")).astype("category")
    return frame


def bdeu(rows: pd.DataFrame, node: str, parents: list[str]) -> float:
    """By counting, with an equivalent sample size of 4."""
    cells, total = 2 ** len(parents), 0.0
    for values in itertools.product(("high", "low"), repeat=len(parents)):
        here = rows
        for parent, value in zip(parents, values, strict=True):
            here = here[here[parent] == value]
        counts = [(here[node] == value).sum() for value in ("high", "low")]
        total += math.lgamma(4 / cells) - math.lgamma(4 / cells + sum(counts))
        total += sum(math.lgamma(2 / cells + n) - math.lgamma(2 / cells) for n in counts)
    return total


def bge(rows: pd.DataFrame, node: str, parents: list[str]) -> float:
    score = make_score("bge", GaussianStats.from_data(rows))
    return float(score.local_score(NAMES.index(node), tuple(NAMES.index(p) for p in parents)))


def table_of(rows: pd.DataFrame, targets: list[str], kind: str) -> FamilyTable:
    """Every family from the rows in which its variable was not set, one by one."""
    table = FamilyTable(NAMES, all_others(3), 2, np.zeros((3, n_subsets(2, 2))))
    for i, node in enumerate(NAMES):
        seen = rows[[node not in what.split("+") for what in targets]]
        for s in range(len(table.sets)):
            parents = [NAMES[v] for v in table.parents(i, s)]
            table.scores[i, s] = (bdeu if kind == "labels" else bge)(seen, node, parents)
    return table


def by_orders(prior: FamilyTable, scores: Array) -> tuple[float, Array]:
    """The log evidence of one network, and the probability of each edge."""
    total, mass, edges = 0.0, 0.0, np.zeros((3, 3))
    for order in itertools.permutations(range(3)):
        weight, known, own = 1.0, 1.0, np.zeros((3, 3))
        for place, i in enumerate(order):
            inside = [s for s in range(len(prior.sets)) if set(prior.parents(i, s)) <= set(order[:place])]
            parts = np.exp(prior.scores[i, inside] + scores[i, inside])
            weight *= parts.sum()
            known *= np.exp(prior.scores[i, inside]).sum()
            for s, part in zip(inside, parts / parts.sum(), strict=True):
                own[list(prior.parents(i, s)), i] += part
        total, mass, edges = total + weight, mass + known, edges + weight * own
    return math.log(total / mass), edges / total


@pytest.mark.parametrize("kind", ["labels", "numbers"])
def test_interventions_of_each_task_by_enumeration(kind: str) -> None:
    rows = {task: drawn(task, kind, seed) for seed, task in enumerate(SET)}
    sources = {task: InMemory(own, interventions=SET[task]) for task, own in rows.items()}
    criterion = "bdeu" if kind == "labels" else "bge"
    model = MultitaskDiscovery(criterion=criterion).fit(Tasks(sources))
    if kind == "numbers":
        rows = {task: (own - own.mean()) / own.std(ddof=0) for task, own in rows.items()}
    tasks = [table_of(rows[task], SET[task], kind) for task in SET]
    pool = table_of(pd.concat(rows.values()), [what for own in SET.values() for what in own], kind)
    if kind == "numbers":
        margins = sum(t.scores[:, 0] for t in tasks) - pool.scores[:, 0]
        pool = pool.with_scores(pool.scores + margins[:, None])
    prior = structure_prior(tasks[0])
    own = sum(t.scores for t in tasks)
    allowed = with_prior(prior.with_scores(np.zeros_like(prior.scores)), "uniform")
    alone = [by_orders(prior, t.scores) for t in tasks]
    odds = float(np.mean(1 / (1 + concentrations(2))))
    parts: list[tuple[float, Any]] = [
        (math.log(1 - odds) + sum(e for e, _ in alone), np.array([P for _, P in alone]))
    ]
    for share, scores in (
        (0.1, pool.scores),
        (0.225, np.logaddexp(own, pool.scores) - math.log(2)),
        (0.225, own),
    ):
        evidence, P = by_orders(prior, scores)
        parts.append((math.log(odds * share) + evidence, np.array([P, P])))
    for shared in (pool, None):
        found = enumerated(prior, tasks, DROPPED, shared, [allowed] * len(tasks))
        parts.append((math.log(odds * 0.225) + float(found["log_evidence"]), found["edges"]))
    weights = np.exp([w for w, _ in parts] - np.logaddexp.reduce([w for w, _ in parts]))
    expected = sum(w * P for w, (_, P) in zip(weights, parts, strict=True))
    assert model.relatedness_.iloc[0, 1] == pytest.approx(1 - weights[0], abs=2e-4)
    for k, posterior in enumerate(model.posteriors_):
        np.testing.assert_allclose(posterior.probabilities, expected[k], atol=5e-4)


@pytest.mark.parametrize("criterion", ["bge", "bdeu"])
def test_probabilities_are_equal_from_rows_and_from_statistics(criterion: str) -> None:
    rows = {"a": 1e3 * chain(80, 0.7, 0) + 50.0, "b": chain(50, 0.3, 1)}
    if criterion == "bdeu":
        rows = {k: (own > own.median()).astype(int).astype("category") for k, own in rows.items()}
    build = GaussianStats.from_data if criterion == "bge" else DiscreteCounts.from_data
    given: dict[str, Any] = {task: build(own) for task, own in rows.items()}
    one, two = (MultitaskDiscovery(criterion=criterion).fit(Tasks(own)) for own in (rows, given))
    for first, second in zip(one.posteriors_, two.posteriors_, strict=True):
        np.testing.assert_allclose(first.probabilities, second.probabilities, atol=1e-9)
    columns = ["only in a", "only in b", "other strengths"]
    np.testing.assert_allclose(
        one.connections_.sort_values(["first", "second"])[columns],
        two.connections_.sort_values(["first", "second"])[columns],
        atol=1e-9,
    )
