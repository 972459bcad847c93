"""DAGs of several tasks drawn together, against exact probabilities, which are tested by enumeration."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.typing import NDArray

from polydag import Knowledge, MultitaskDiscovery
from polydag.embedded import asia
from polydag.errors import UsageError
from polydag.posterior import DagSamples, with_prior
from polydag.posterior.families.subsets import n_subsets
from polydag.posterior.families.table import FamilyTable, all_others
from polydag.posterior.transfer import Averaged, Relatedness, theorem1
from polydag.posterior.transfer.common_network import CommonNetwork, prior_evidence

Array = NDArray[np.float64]
COUNT = 4000


def drawn(n: int, top: int, rng: np.random.Generator, spread: float = 1.5) -> FamilyTable:
    scores = spread * rng.standard_normal((n, n_subsets(n - 1, top)))
    return FamilyTable(tuple("abcdef"[:n]), all_others(n), top, scores)


def structure_prior(table: FamilyTable) -> FamilyTable:
    return with_prior(table.with_scores(np.zeros_like(table.scores)), "fair")


def require_frequencies(found: Array, expected: Array) -> None:
    """Within four standard errors, and one draw for probabilities near 0 or 1."""
    error = np.sqrt(expected * (1 - expected) / COUNT)
    np.testing.assert_array_less(np.abs(found - expected), 4 * error + 2 / COUNT)


def frequencies(dags: NDArray[np.bool_]) -> dict[str, Array]:
    """The quantities of `JointEdges` from draws of shape (tasks, count, n, n)."""
    alone = dags & (dags.sum(axis=0) == 1)
    return {
        "edges": dags.mean(axis=1),
        "unique": alone.mean(axis=1),
        "together": (dags[:, None] & dags[None]).mean(axis=2),
        "shared": dags.all(axis=0).mean(axis=0),
        "some": dags.any(axis=0).mean(axis=0),
    }


@pytest.mark.parametrize("mechanisms", [False, True])
@pytest.mark.parametrize("ruled_out", [False, True])
def test_draws_around_a_common_network(mechanisms: bool, ruled_out: bool) -> None:
    rng = np.random.default_rng(0)
    tasks = [drawn(5, 2, rng) for _ in range(3)]
    prior = structure_prior(tasks[0])
    allowed = prior.with_scores(np.zeros_like(prior.scores))
    if ruled_out:
        masks = Knowledge(forbidden=[("a", "b")], required=[("c", "d")]).masks(prior.names)
        allowed = with_prior(allowed, "uniform", masks=masks)
        prior = prior.with_scores(prior.scores + allowed.scores)
        tasks = [task.with_scores(task.scores + allowed.scores) for task in tasks]
    shared = drawn(5, 2, rng) if mechanisms else None
    common = CommonNetwork(
        prior, tasks, 0.2, prior_evidence(prior), shared=shared, normal=[allowed] if ruled_out else ()
    )
    exact = common.edges()
    for name, value in frequencies(common.sample(COUNT, np.random.default_rng(1))).items():
        require_frequencies(value, getattr(exact, name))


@pytest.mark.parametrize("K", [2, 4])
def test_draws_of_tasks_whose_relatedness_is_learned(K: int) -> None:
    rng = np.random.default_rng(K)
    tasks = [drawn(4, 2, rng, 2.5) for _ in range(K)]
    found = Relatedness(structure_prior(tasks[0]), tasks).learn()
    dags = np.array([own.adjacency for own in found.networks.sample(COUNT, 2)])
    for name, value in frequencies(dags).items():
        require_frequencies(value, getattr(found.edges, name))
    either = dags | dags.swapaxes(2, 3)
    upper = np.triu(np.ones((4, 4), dtype=bool), 1)
    require_frequencies((either & upper).mean(axis=1), found.connections.edges)
    require_frequencies((either & upper).all(axis=0).mean(axis=0), found.connections.shared)
    np.testing.assert_allclose(found.edges.families.sum(axis=2), 1.0, atol=1e-6)


@pytest.mark.parametrize("combination", ["star", "product"])
def test_draws_in_the_form_of_theorem_1(combination: str) -> None:
    rng = np.random.default_rng(3)
    plain = [drawn(5, 2, rng) for _ in range(3)]
    own = [with_prior(table, "fair") for table in plain]
    for k, view in enumerate(theorem1(own, plain, Averaged(), combination)):
        samples = view.posterior.networks.sample(COUNT, k)  # type: ignore[union-attr]
        dags = np.array([part.adjacency for part in samples])
        require_frequencies(dags[k].mean(axis=0), view.posterior.probabilities)
        require_frequencies(dags.all(axis=0).mean(axis=0), view.shared)
        others = [j for j in range(3) if j != k]
        require_frequencies((dags[k] & ~dags[others].any(axis=0)).mean(axis=0), view.unique)
        require_frequencies((dags[k] & dags[others]).mean(axis=1), view.together)


def test_posteriors_of_tasks_have_parents_and_draws() -> None:
    rows = {f"t{k}": asia().sample(80 + 20 * k, random_state=k) for k in range(2)}
    model = MultitaskDiscovery(max_parents=2).fit(rows)
    for posterior in model.posteriors_:
        parents = posterior.parents("dysp")
        has = [float(p) for parts, p in parents.itertuples(index=False) if "bronc" in parts]
        assert sum(has) == pytest.approx(posterior.edges.loc["bronc", "dysp"], abs=1e-5)
        assert isinstance(posterior.sample_dags(50, random_state=0), DagSamples)  # type: ignore[attr-defined]
    again = pickle.loads(pickle.dumps(model))
    first, second = (m.sample_dags(100, random_state=1) for m in (model, again))
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.bits, other.bits)
    pooled = MultitaskDiscovery(transfer="pool", max_parents=2).fit(rows).sample_dags(20, random_state=0)
    np.testing.assert_array_equal(pooled[0].bits, pooled[1].bits)
    theorem = MultitaskDiscovery(transfer="theorem1", max_parents=2).fit(rows)
    with pytest.raises(UsageError, match="name one as view"):
        theorem.sample_dags(10)
    assert len(theorem.sample_dags(10, view="t1", random_state=0)) == 2
