"""Transfer between tasks: weights against mpmath, golden values, enumeration of all orders and graphs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path

import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from oracles import all_dags
from polydag.computing.progress import listening
from polydag.errors import DataError, UsageError
from polydag.posterior import exact_posterior, family_table, with_prior
from polydag.posterior.families.table import FamilyTable
from polydag.posterior.transfer import (
    Averaged,
    ByDifference,
    Fixed,
    Joint,
    TransferPrior,
    family_form,
    theorem1,
    transfer_factors,
)
from polydag.posterior.transfer.differences import from_joint
from polydag.posterior.transfer.weights import log_hyp2f1, own_marginal, pair_counts
from polydag.scores import make_score
from polydag.stats import DiscreteCounts
from tables import random_table

pytestmark = pytest.mark.portable

GOLDEN = Path(__file__).parent / "golden"
Array = NDArray[np.float64]
Weight = Callable[[int, int], float]
PRIORS = [Averaged("all"), Averaged("truncated"), Fixed(0.0), Fixed(0.6, "all"), Fixed(0.6, "truncated")]
NAMES = ["averaged", "averaged, truncated", "no transfer", "fixed", "fixed, truncated"]


def brute_weight(prior: TransferPrior, top: int) -> Weight:
    """f(u, δ) from its definition: pairs of sets counted one by one, λ integrated by mpmath."""

    def normaliser(u: int, x: mpmath.mpf) -> mpmath.mpf:
        if prior.normaliser == "all":  # type: ignore[attr-defined]
            return (3 + x) ** u
        sets = [set(s) for k in range(min(u, top) + 1) for s in itertools.combinations(range(u), k)]
        return sum(x ** len(a - b) for a in sets for b in sets)

    def weight(u: int, delta: int) -> float:
        if isinstance(prior, Fixed):
            x = 1 - mpmath.mpf(prior.lambda_)
            return float(x**delta / normaliser(u, x))
        return float(mpmath.quad(lambda x: x**delta / normaliser(u, x), [0, 1]))

    found = {(u, d): weight(u, d) for u in range(5) for d in range(min(u, top) + 1)}
    return lambda u, delta: found[u, delta]


# Weights


@pytest.mark.parametrize("u", [0, 1, 2, 7, 36, 100, 149, 196, 199])
def test_hypergeometric_function_over_the_whole_range(u: int) -> None:
    """scipy is 17 % wrong at u = 149, δ = 72, and by four powers of ten at u = 196, δ = 96."""
    with mpmath.workdps(40):
        for delta in range(u + 1):
            expected = mpmath.log(mpmath.hyp2f1(u, 1, delta + 2, mpmath.mpf(1) / 4))
            assert abs(log_hyp2f1(u, 1, delta + 2) - float(expected)) < 1e-13 * max(1.0, float(expected))


@pytest.mark.slow
def test_hypergeometric_function_at_every_size() -> None:
    with mpmath.workdps(40):
        for u in range(200):
            for delta in range(u + 1):
                expected = mpmath.log(mpmath.hyp2f1(u, 1, delta + 2, mpmath.mpf(1) / 4))
                assert abs(log_hyp2f1(u, 1, delta + 2) - float(expected)) < 1e-13 * max(1.0, float(expected))


@pytest.mark.parametrize("u", [1, 4, 36, 149, 199])
def test_subset_weights_in_closed_form(u: int) -> None:
    found = Averaged().subsets(u, 5)
    with mpmath.workdps(40):
        for p in range(6):
            for t in range(p + 1):
                exact = mpmath.beta(t + 1, p - t + 1) * mpmath.hyp2f1(u, t + 1, p + 2, mpmath.mpf(1) / 4)
                assert found[p, t] == pytest.approx(float(mpmath.log(exact / mpmath.mpf(4) ** u)), abs=1e-12)
    assert (found[np.triu_indices(6, 1)] == -np.inf).all()


@pytest.mark.parametrize(("u", "top"), [(2, 3), (7, 3), (36, 4), (149, 2), (199, 3)])
def test_subset_weights_of_the_truncated_normaliser(u: int, top: int) -> None:
    found = Averaged("truncated").subsets(u, top)
    with mpmath.workdps(30):
        counts = [mpmath.mpf(int(count)) for count in pair_counts(u, top)][::-1]
        for p in range(top + 1):
            for t in range(p + 1):

                def inside(x: mpmath.mpf, p: int = p, t: int = t) -> mpmath.mpf:
                    return x ** (p - t) * (1 - x) ** t / mpmath.polyval(counts, x)

                exact = mpmath.quad(inside, [0, *(mpmath.mpf(2) ** -k for k in range(10, -1, -1))])
                assert found[p, t] == pytest.approx(float(mpmath.log(exact)), abs=1e-12)


@given(u=st.integers(0, 6), top=st.integers(0, 3))
@settings(max_examples=20, deadline=None)
def test_pairs_of_sets_are_counted(u: int, top: int) -> None:
    sets = [set(s) for k in range(min(u, top) + 1) for s in itertools.combinations(range(u), k)]
    counts = [0] * (top + 1)
    for a, b in itertools.product(sets, sets):
        counts[len(a - b)] += 1
    assert pair_counts(u, top).tolist() == counts
    log_c = Fixed(0.3).subsets(u, top)
    for a in sets:
        total = sum(math.exp(log_c[len(a - b), 0]) for b in sets)
        assert own_marginal(log_c, u)[len(a)] == pytest.approx(math.log(total), abs=1e-12)


@pytest.mark.parametrize("prior", PRIORS, ids=NAMES)
def test_a_prior_given_as_a_function_of_the_difference(prior: TransferPrior) -> None:
    known = {u: np.exp(prior.subsets(u, 3)[:, 0]) for u in (3, 7, 40)}
    again = ByDifference(lambda u, delta: float(known[u][delta]))
    for u in known:
        a, b = np.exp(prior.subsets(u, 3)), np.exp(again.subsets(u, 3))
        np.testing.assert_allclose(b, a, rtol=1e-11, atol=1e-14 * a[0, 0])


def test_weights_that_cannot_be_are_refused() -> None:
    with pytest.raises(UsageError, match="decreasing and convex"):
        ByDifference(lambda u, delta: [1.0, 0.9, 0.1][delta]).subsets(5, 2)
    with pytest.raises(UsageError, match="lambda_ must lie between"):
        Fixed(1.2).subsets(5, 2)
    with pytest.raises(UsageError, match="normaliser must be one of all, truncated"):
        Averaged("some").subsets(5, 2)  # type: ignore[arg-type]


def test_what_a_first_edge_costs() -> None:
    """The paper's normaliser tilts λ towards 1, the more the more variables there are."""
    paper = [Averaged().subsets(u, 2) for u in (7, 36, 149)]
    assert [round(float(c[0, 0] - c[1, 0]), 1) for c in paper] == [1.1, 2.4, 3.9]


# The family form


def tasks(names: list[str], top: int) -> tuple[list[FamilyTable], list[FamilyTable]]:
    frames = [pd.read_csv(GOLDEN / f"{name}.csv") for name in names]
    levels = {c: sorted(set().union(*(frame[c] for frame in frames))) for c in frames[0].columns}
    scores = [make_score("k2", DiscreteCounts.from_data(frame, levels=levels)) for frame in frames]
    plain = [family_table(score, top) for score in scores]
    return [with_prior(table, "fair") for table in plain], plain


def test_golden_values_of_two_tasks() -> None:
    own, sources = tasks(["mtl_asia_task1", "mtl_asia_task2"], 3)
    for number, table in enumerate(family_form(own, sources, Averaged()), start=1):
        arcs = pd.read_csv(GOLDEN / f"mtl_asia_K2_task{number}_arcs_m3.csv")
        found = exact_posterior(table).probabilities[arcs["tail"], arcs["head"]]
        np.testing.assert_allclose(found, arcs["prob"], rtol=0, atol=1e-9)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 6), top=st.integers(0, 3), prior=st.sampled_from(PRIORS))
@settings(max_examples=25, deadline=None)
def test_factors_are_sums_over_all_sets_of_the_other_task(
    seed: int, n: int, top: int, prior: TransferPrior
) -> None:
    source = random_table(n, min(top, n - 1), seed, spread=200.0)
    log_c = prior.subsets(n - 1, source.max_parents)
    found = transfer_factors(source, log_c)
    for node in range(n):
        sets = [set(source.parents(node, s)) for s in range(len(source.sets))]
        for s, own in enumerate(sets):
            terms = [x + log_c[len(own - o), 0] for x, o in zip(source.scores[node], sets, strict=True)]
            assert found[node, s] == pytest.approx(float(np.logaddexp.reduce(terms)), rel=1e-12, abs=1e-11)


def edges_of(weights: Array, graphs: list[NDArray[np.bool_]]) -> Array:
    return np.einsum("g,gij->ij", weights, np.array(graphs, dtype=float))


def family_enumerated(own: FamilyTable, sources: list[FamilyTable], f: Weight, star: bool) -> Array:
    """All orders, all DAGs of one task, and all choices of parent sets of the other tasks."""
    n, top = own.n, own.max_parents
    sets = [[frozenset(own.parents(i, s)) for s in range(len(own.sets))] for i in range(n)]
    dags = [dag for dag in all_dags(n) if dag.sum(axis=0).max() <= top]
    choices = np.array(list(itertools.product(range(len(own.sets)), repeat=n)))
    likelihoods = [np.exp(source.scores[np.arange(n), choices].sum(axis=1)) for source in sources]
    weights = []
    for dag in dags:
        parents = [frozenset(np.flatnonzero(dag[:, i]).tolist()) for i in range(n)]
        orders = sum(
            not any(dag[b, a] for a, b in itertools.combinations(order, 2))
            for order in itertools.permutations(range(n))
        )
        weight = orders * math.exp(sum(own.scores[i, sets[i].index(parents[i])] for i in range(n)))
        alike = [np.array([f(n - 1, len(parents[i] - other)) for other in sets[i]]) for i in range(n)]
        each = np.array([alike[i][choices[:, i]] for i in range(n)]).prod(axis=0)
        weight *= math.prod(float(each @ said) for said in likelihoods)
        if star:
            for i in range(n):
                marginal = sum(f(n - 1, len(parents[i] - other)) for other in sets[i])
                weight /= marginal ** (len(sources) - 1)
        weights.append(weight)
    chance = np.array(weights)
    return edges_of(chance / chance.sum(), dags)


@pytest.mark.parametrize("prior", PRIORS, ids=NAMES)
@pytest.mark.parametrize(("n", "top", "others"), [(3, 2, 1), (3, 2, 2), (4, 2, 2), (4, 3, 1)])
@pytest.mark.parametrize("combination", ["product", "star"])
def test_family_form_by_enumeration(
    n: int, top: int, others: int, prior: TransferPrior, combination: str
) -> None:
    tables = [random_table(n, top, seed, spread=1.5) for seed in range(others + 1)]
    own = [with_prior(table, "fair") for table in tables]
    found = family_form(own, tables, prior, combination)
    f = brute_weight(prior, top)
    for k in range(others + 1 if n < 4 else 1):
        rest = [table for j, table in enumerate(tables) if j != k]
        expected = family_enumerated(own[k], rest, f, combination == "star")
        np.testing.assert_allclose(exact_posterior(found[k]).probabilities, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("combination", ["product", "star"])
def test_without_transfer_the_family_form_is_single_task_learning(combination: str) -> None:
    tables = [with_prior(random_table(6, 3, seed, spread=20.0), "fair") for seed in range(3)]
    for alone, biased in zip(tables, family_form(tables, tables, Fixed(0.0), combination), strict=True):
        np.testing.assert_allclose(
            exact_posterior(biased).probabilities, exact_posterior(alone).probabilities, rtol=0, atol=1e-12
        )


def test_families_ruled_out_in_the_other_tasks_too() -> None:
    tables = [random_table(5, 2, seed) for seed in range(3)]
    scores = tables[1].scores.copy()
    scores[0, 1:] = -np.inf
    tables[1] = tables[1].with_scores(scores)
    found = family_form(tables, tables, Fixed(1.0))
    # At λ = 1 a parent must be one in every other task as well; what is ruled out in one is so in all.
    assert exact_posterior(found[0]).probabilities[:, 0].max() == 0.0
    assert exact_posterior(found[1]).probabilities[:, 0].max() == 0.0


def test_the_order_of_tasks_does_not_matter() -> None:
    tables = [random_table(5, 2, seed) for seed in range(4)]
    forward = family_form(tables, tables, Averaged(), "star")
    backward = family_form(tables[::-1], tables[::-1], Averaged(), "star")[::-1]
    for a, b in zip(forward, backward, strict=True):
        np.testing.assert_allclose(a.scores, b.scores, rtol=1e-13)


def test_tables_that_do_not_fit_together() -> None:
    with pytest.raises(UsageError, match="same variables"):
        family_form([random_table(4, 2, 0), random_table(4, 1, 0)], [random_table(4, 2, 0)] * 2, Averaged())
    with pytest.raises(UsageError, match="combination must be one of product, star"):
        family_form([random_table(4, 2, 0)] * 2, [random_table(4, 2, 0)] * 2, Averaged(), "sum")


# The form of Theorem 1


def view(
    own: FamilyTable, others: list[FamilyTable], prior: TransferPrior, combination: str = "star"
) -> Joint:
    """The first task's; what it says to the others does not matter there."""
    return theorem1([own, *others], [own, *others], prior, combination)[0]


def theorem1_enumerated(
    own: FamilyTable, sources: list[FamilyTable], f: Weight, star: bool, either_way: bool = False
) -> tuple[Array, list[Array], Array, Array]:
    """All orders, and all tuples of graphs that agree with each: edges, together, unique, shared.

    `either_way` of connections, in the upper triangle, instead of edges.
    """
    n = own.n
    edges, unique, shared = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
    together = [np.zeros((n, n)) for _ in sources]
    sum_of_weights = 0.0
    for order in itertools.permutations(range(n)):
        before = {node: frozenset(order[:k]) for k, node in enumerate(order)}
        allowed = [[s for s in range(len(own.sets)) if set(own.parents(i, s)) <= before[i]] for i in range(n)]
        graphs = list(itertools.product(*allowed))
        parents = [[frozenset(own.parents(i, s)) for i, s in enumerate(graph)] for graph in graphs]
        A = np.zeros((len(graphs), n, n))
        for number, graph in enumerate(parents):
            for i, own_parents in enumerate(graph):
                A[number, list(own_parents), i] = 1.0
        if either_way:
            A = np.triu(A + A.transpose(0, 2, 1), 1)
        first = np.array([sum(own.scores[i, s] for i, s in enumerate(graph)) for graph in graphs])
        if star:
            for number, graph in enumerate(parents):
                for i in range(n):
                    options = [frozenset(own.parents(i, s)) for s in allowed[i]]
                    marginal = sum(f(len(before[i]), len(graph[i] - other)) for other in options)
                    first[number] -= (len(sources) - 1) * math.log(marginal)
        pairs = np.array(
            [
                [math.prod(f(len(before[i]), len(a[i] - b[i])) for i in range(n)) for b in parents]
                for a in parents
            ]
        )
        joint = np.exp(first)
        for source in sources:
            score = np.array([sum(source.scores[i, s] for i, s in enumerate(graph)) for graph in graphs])
            joint = joint[..., None] * (pairs * np.exp(score)).reshape(
                len(graphs), *(1,) * (joint.ndim - 1), len(graphs)
            )
        sum_of_weights += joint.sum()
        letters = "bcd"[: len(sources)]
        everyone = f"a{letters}"
        edges += np.einsum(f"{everyone},aij->ij", joint, A, optimize=True)
        for j, letter in enumerate(letters):
            together[j] += np.einsum(f"{everyone},aij,{letter}ij->ij", joint, A, A, optimize=True)
        all_of = ",".join(f"{letter}ij" for letter in everyone)
        shared += np.einsum(f"{everyone},{all_of}->ij", joint, *[A] * len(everyone), optimize=True)
        unique += np.einsum(f"{everyone},{all_of}->ij", joint, A, *[1 - A] * len(letters), optimize=True)
    return (
        edges / sum_of_weights,
        [t / sum_of_weights for t in together],
        unique / sum_of_weights,
        shared / sum_of_weights,
    )


@pytest.mark.parametrize("prior", PRIORS, ids=NAMES)
@pytest.mark.parametrize(
    ("n", "top", "others", "combination"),
    [
        (3, 2, 1, "product"),
        (4, 2, 1, "product"),
        (4, 3, 1, "product"),
        (3, 2, 2, "product"),
        (3, 2, 2, "star"),
    ],
)
def test_theorem1_by_enumeration(
    n: int, top: int, others: int, combination: str, prior: TransferPrior
) -> None:
    tables = [random_table(n, top, seed + 10, spread=1.5) for seed in range(others + 1)]
    own = with_prior(tables[0], "fair")
    found = view(own, tables[1:], prior, combination)
    edges, together, unique, shared = theorem1_enumerated(
        own, tables[1:], brute_weight(prior, top), combination == "star"
    )
    np.testing.assert_allclose(found.posterior.probabilities, edges, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.together, together, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.unique, unique, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.shared, shared, rtol=0, atol=1e-12)


@pytest.mark.parametrize("prior", PRIORS, ids=NAMES)
@pytest.mark.parametrize("combination", ["product", "star"])
def test_theorem1_of_triples_with_four_variables(combination: str, prior: TransferPrior) -> None:
    tables = [random_table(4, 2, seed + 20, spread=1.5) for seed in range(3)]
    found = view(tables[0], tables[1:], prior, combination)
    expected = theorem1_enumerated(tables[0], tables[1:], brute_weight(prior, 2), combination == "star")
    for mine, theirs in zip(
        (found.posterior.probabilities, found.together, found.unique, found.shared), expected, strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("others", [1, 2])
def test_connections_by_enumeration(others: int) -> None:
    prior = Averaged("all")
    tables = [random_table(3, 2, seed + 30, spread=1.5) for seed in range(others + 1)]
    names = tuple(f"task {k}" for k in range(others + 1))
    found = from_joint(tables[0].names, names, theorem1(tables, tables, prior)).connections()
    assert found.views is not None
    assert found.together is not None
    for k, own in enumerate(tables):
        rest = [j for j in range(len(tables)) if j != k]
        edges, together, unique, shared = theorem1_enumerated(
            own, [tables[j] for j in rest], brute_weight(prior, 2), star=True, either_way=True
        )
        np.testing.assert_allclose(found.edges[k], edges, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.unique[k], unique, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.views[k], shared, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.together[k, rest], together, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found.shared, found.views.min(axis=0))


def test_theorem1_gives_every_task_its_own_view() -> None:
    tables = [random_table(4, 2, seed + 30) for seed in range(4)]
    own = [with_prior(table, "fair") for table in tables]
    for k, found in enumerate(theorem1(own, tables, Averaged())):
        rest = [table for j, table in enumerate(tables) if j != k]
        alone = view(own[k], rest, Averaged())
        for mine, theirs in zip(
            (found.posterior.probabilities, found.together, found.unique, found.shared),
            (alone.posterior.probabilities, alone.together, alone.unique, alone.shared),
            strict=True,
        ):
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-13)


def theorem1_in_logs(own: FamilyTable, source: FamilyTable, prior: TransferPrior) -> Array:
    """One set U at a time by logarithms, for scores of any range."""
    n, full = own.n, (1 << own.n) - 1
    sets = [[frozenset(own.parents(i, s)) for s in range(len(own.sets))] for i in range(n)]
    weight = [prior.subsets(u, own.max_parents)[:, 0] for u in range(n)]

    def families(i: int, U: frozenset[int]) -> dict[int, float]:
        inside = [s for s, own_set in enumerate(sets[i]) if own_set <= U]
        return {
            s: float(
                own.scores[i, s]
                + np.logaddexp.reduce(
                    [source.scores[i, o] + weight[len(U)][len(sets[i][s] - sets[i][o])] for o in inside]
                )
            )
            for s in inside
        }

    members = [frozenset(v for v in range(n) if S >> v & 1) for S in range(full + 1)]
    table = {(i, S): families(i, members[S]) for S in range(full + 1) for i in range(n) if not S >> i & 1}
    alpha = {key: float(np.logaddexp.reduce(list(value.values()))) for key, value in table.items()}
    F, B = {0: 0.0}, {full: 0.0}
    for S in range(1, full + 1):
        F[S] = np.logaddexp.reduce([alpha[i, S ^ 1 << i] + F[S ^ 1 << i] for i in members[S]])
    for S in range(full - 1, -1, -1):
        B[S] = np.logaddexp.reduce([alpha[i, S] + B[S | 1 << i] for i in range(n) if i not in members[S]])
    P = np.zeros((n, n))
    for (i, S), own_families in table.items():
        for s, value in own_families.items():
            for v in sets[i][s]:
                P[v, i] += math.exp(value + F[S] + B[S | 1 << i] - F[full])
    return P


@pytest.mark.parametrize("prior", [Averaged(), Fixed(1.0)], ids=["averaged", "the same parents"])
@pytest.mark.parametrize("spread", [1.0, 300.0, 3000.0])
@pytest.mark.parametrize(("n", "top", "seed"), [(6, 3, 1), *((5, 2, seed) for seed in range(8))])
def test_theorem1_with_scores_of_any_range(
    n: int, top: int, seed: int, spread: float, prior: TransferPrior
) -> None:
    """Tasks may contradict each other by more than a number can hold: e^-745 is 0."""
    own, source = random_table(n, top, seed, spread), random_table(n, top, seed + 100, spread)
    found = view(own, [source], prior)
    np.testing.assert_allclose(
        found.posterior.probabilities, theorem1_in_logs(own, source, prior), rtol=0, atol=1e-10
    )


@given(seed=st.integers(0, 10**6), n=st.integers(1, 6), prior=st.sampled_from(PRIORS))
@settings(max_examples=20, deadline=None)
def test_theorem1_probabilities_add_up(seed: int, n: int, prior: TransferPrior) -> None:
    tables = [random_table(n, min(2, n - 1), seed + k) for k in range(3)]
    found = theorem1(tables, tables, prior, n_jobs=2)[0]
    families = found.posterior.family_probabilities
    assert families is not None
    np.testing.assert_allclose(families.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    P, (a, b) = found.posterior.probabilities, found.together
    np.testing.assert_allclose(P, found.unique + a + b - found.shared, rtol=0, atol=1e-12)


def test_theorem1_tells_its_progress_and_its_limits() -> None:
    seen = []
    with listening(seen.append):
        view(random_table(4, 2, 0), [random_table(4, 2, 1)], Averaged())
    assert {step.task for step in seen} == {"families given predecessors", "posterior of families"}
    with pytest.raises(UsageError, match=r"for 16 variables, 2 tasks, needs .* transfer='family'"):
        theorem1([random_table(16, 1, 0)] * 2, [random_table(16, 1, 1)] * 2, Averaged(), memory=1e6)
    blocked = random_table(3, 1, 0)
    none = blocked.with_scores(np.full_like(blocked.scores, -np.inf))
    with pytest.raises(DataError, match="No order"):
        view(none, [blocked], Averaged())
