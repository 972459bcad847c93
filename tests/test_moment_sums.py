"""What the sums of a study of moments say about single parties, beyond the pooled statistics."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import least_squares

from polydag import GaussianStats
from polydag.federated.methods.statistics.moments import Moments
from polydag.federated.models.linear_party import LinearParty
from polydag.federated.party_data.coarse import coarse
from polydag.federated.protocol import equations

pytestmark = pytest.mark.portable
NAMES = ("a", "b", "c")
SIZES, GAINS = (83.0, 120.0, 61.0), (1.1, 0.8, 1.3)


def party(n: float, scatter: np.ndarray) -> LinearParty:
    return LinearParty(GaussianStats(n, np.zeros(len(scatter)), scatter, NAMES[: len(scatter)], n))


def drawn(d: int = 3) -> list[LinearParty]:
    rng = np.random.default_rng(5)
    found = []
    for n, gain in zip(SIZES, GAINS, strict=True):
        X = gain * rng.normal(size=(int(n), d)) @ rng.normal(size=(d, d))
        found.append(party(n, (X - X.mean(axis=0)).T @ (X - X.mean(axis=0))))
    return found


def opened(parties: list[LinearParty]) -> dict[str, np.ndarray]:
    """The sums of the first question of a study with the default treatment of parties that differ."""
    names = parties[0].names
    _, ask = Moments(names, site_effects="means").begin()
    answers = [each.answer({}, ask)[1] for each in parties]
    return {name: sum(answer[name] for answer in answers) for name in answers[0]}


def exact(sums: dict[str, np.ndarray]) -> np.ndarray:
    """The sums of numbers that are not rounded coarsely, as one vector."""
    kept = [
        sums["masses"][[1, 3]], sums["means"], sums["variances"][:2], sums["overall"],
        sums["scatter[]"], sums["weighted scatter"],
    ]  # fmt: skip
    return np.concatenate([np.ravel(each) for each in kept])


def test_coarse_numbers_are_powers_and_near() -> None:
    values = np.geomspace(1e-9, 1e12, 997)
    powers = 4 * np.log2(coarse(values))
    assert np.allclose(powers, np.rint(powers), atol=1e-9)
    assert np.abs(np.log(coarse(values) / values)).max() <= np.log(2) / 8 + 1e-12
    assert not coarse(np.zeros(2)).any()


def test_what_is_rounded_does_not_change_with_a_row_or_a_digit() -> None:
    middles = np.rint(coarse(np.array(SIZES)))  # not near the end of a step
    before = [party(n, n * np.diag([1.0, 4.0, 16.0])) for n in middles]
    after = [party(each.n_rows + 1, each.stats.scatter * 1.01) for each in before]  # type: ignore[union-attr]
    first, second = opened(before), opened(after)
    assert np.allclose(first["log_scales"], second["log_scales"])
    assert first["masses"][2] == pytest.approx(second["masses"][2])
    assert np.allclose(first["variances"][2], second["variances"][2])


@pytest.mark.parametrize("d", [2, 3])
def test_sums_over_three_parties_leave_rows_and_variances_of_each_open(d: int) -> None:
    """The Jacobian of all exact sums has directions in which they stay and each party's numbers change."""
    upper = np.triu_indices(d)
    size = len(upper[0])

    def sums(at: np.ndarray) -> np.ndarray:
        parties = []
        for n, own in zip(at[:3], at[3:].reshape(3, size), strict=True):
            scatter = np.zeros((d, d))
            scatter[upper] = own
            parties.append(party(n, scatter + np.triu(scatter, 1).T))
        return exact(opened(parties))

    parties = drawn(d)
    scatters = [each.stats.scatter[upper] for each in parties]  # type: ignore[union-attr]
    at = np.concatenate([SIZES, *scatters])
    steps = 1e-5 * np.abs(at)
    columns = [
        (sums(at + step) - sums(at - step)) / (2 * step.max()) for step in np.diag(steps)
    ]  # in relative units below
    J = np.array(columns).T * np.abs(at)
    J /= np.maximum(np.abs(J).max(axis=1, keepdims=True), 1e-300)
    _, values, V = np.linalg.svd(J)
    null = V[(values > 1e-6 * values[0]).sum() :]
    assert len(null) >= len(at) - (2 * size + d + 2)
    moved = np.sqrt((null**2).sum(axis=0))
    assert (moved > 1e-3).all()  # no row count and no covariance of any party is determined


def test_exact_numbers_would_give_every_partys_rows_and_variances() -> None:
    """Three exact sums of functions of the rows, and four of the variances: why these are rounded."""
    parties = drawn()
    n = np.array(SIZES)
    rows = np.array([n.sum(), (n**2).sum(), (1 / (n - 1)).sum()])

    def of_rows(at: np.ndarray) -> np.ndarray:
        return np.array([at.sum(), (at**2).sum(), (1 / (at - 1)).sum()]) / rows - 1

    fits = [least_squares(of_rows, start) for start in itertools.permutations((50.0, 90.0, 130.0))]
    found = min(fits, key=lambda fit: fit.cost)
    assert np.allclose(np.sort(found.x), np.sort(n), rtol=1e-6)
    scatter = np.array([each.stats.scatter[0, 0] for each in parties])  # type: ignore[union-attr]

    def of_scatter(at: np.ndarray) -> np.ndarray:
        logs = np.log(at / n) / 2
        return np.array(
            [at.sum(), ((n - 1) * np.log(at / (n - 1))).sum(), (n * logs).sum(), (n * logs**2).sum()]
        )

    true = of_scatter(scatter)
    start = np.full(3, true[0] / 3) * [0.9, 1.1, 1.0]
    solved = least_squares(
        lambda log: of_scatter(np.exp(log)) / true - 1, np.log(start), xtol=1e-15, ftol=1e-15
    )
    assert np.allclose(np.exp(solved.x), scatter, rtol=1e-5)
    assert equations.equations(equations.Sum("log_scales", (3, 3))) == 0
