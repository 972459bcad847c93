"""The search for the parameters of a row correlation: against many starts of another method."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy.optimize import minimize

from polydag.arrays import Array, Mask
from polydag.rows import Links
from polydag.rows.likelihood.restricted import Columns
from polydag.rows.likelihood.whitening import Whitening
from polydag.rows.precision import Layout
from polydag.rows.structures import decay, exchangeable, relation
from polydag.rows.structures.interface import Structure

N, P = 100, 8


def of_many_starts(
    family: Callable[[Array], Whitening],
    bounds: Sequence[tuple[float, float]],
    starts: Sequence[Sequence[float]],
    columns: Columns,
    scored: Mask,
) -> Array:
    """The simplex method from those starts and from random ones."""
    rng = np.random.default_rng(0)
    random = [[rng.uniform(*each) for each in bounds] for _ in range(6)]

    def deviance(theta: Array) -> float:
        return min(float(columns.deviances(family(theta))[scored].sum()), 1e9)  # not positive definite

    found = [
        minimize(deviance, start, method="Nelder-Mead", bounds=list(bounds), options={"maxiter": 400})
        for start in (*starts, *random)
    ]
    return np.asarray(min(found, key=lambda each: float(each.fun)).x)


def panel(rng: np.random.Generator) -> tuple[Structure, Array]:
    """Twenty patients at five irregular times."""
    times = np.sort(rng.uniform(0, 10, (20, 5)), axis=1).ravel()
    apart = np.abs(np.subtract.outer(times, times))
    patient = np.arange(N) // 5
    Sigma = np.where(np.equal.outer(patient, patient), 0.2 + 0.8 * np.exp(-apart / 3), 0.0)
    layout = Layout.of(Links.from_groups(patient.tolist()))
    return decay.Decay(layout, times[:, None]), Sigma


def unlike_neighbours(rng: np.random.Generator) -> tuple[Structure, Array]:
    """Ten series of ten steps, whose signs alternate."""
    series, step = np.arange(N) // 10, np.arange(N) % 10
    apart = np.abs(np.subtract.outer(step, step))
    Sigma = np.where(np.equal.outer(series, series), (-0.6) ** apart, 0.0)
    layout = Layout.of(Links.from_groups(series.tolist()))
    return decay.Decay(layout, step[:, None].astype(float)), Sigma


def two_kinds(rng: np.random.Generator) -> tuple[Structure, Array]:
    """Threes in a chain of two kinds of links, near the end of what is positive definite."""
    block = np.array([[1.0, 0.75, 0.0], [0.75, 1.0, 0.6], [0.0, 0.6, 1.0]])
    first, second = np.zeros((3, 3)), np.zeros((3, 3))
    first[0, 1] = first[1, 0] = second[1, 2] = second[2, 1] = 1.0
    threes = N // 3
    ends = [(3 * k + i, 3 * k + i + 1) for k in range(threes) for i in range(2)]
    layout = Layout.of(Links.from_edges(ends, 3 * threes))
    indicators = {"one": [first] * threes, "other": [second] * threes}
    return relation.Relation(layout, indicators), np.kron(np.eye(threes), block)


def ring(rng: np.random.Generator) -> tuple[Structure, Array]:
    """A ring of neighbours."""
    layout = Layout.of(Links.from_edges([(i, (i + 1) % N) for i in range(N)], N))
    smooth = exchangeable.Smooth(exchangeable.Exchangeable(layout))
    return smooth, smooth.at(np.array([1.5, 0.2, 1.0])).blocks()[0][0]


@pytest.mark.parametrize("setting", [panel, unlike_neighbours, two_kinds, ring])
@pytest.mark.parametrize("seed", range(3))
def test_no_other_parameters_are_likelier(
    setting: Callable[[np.random.Generator], tuple[Structure, Array]],
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(seed)
    structure, Sigma = setting(rng)
    X = np.linalg.cholesky(Sigma) @ rng.standard_normal((len(Sigma), P))
    columns = Columns(X, np.ones((len(X), 1)))
    every = np.ones(P, dtype=bool)
    found = columns.deviances(structure.fit(columns, every).whitening).sum()
    monkeypatch.setattr(f"{type(structure).__module__}.best_parameters", of_many_starts)
    best = columns.deviances(structure.fit(columns, every).whitening).sum()
    assert found < best + 0.1
