"""Discrete networks: tables, exact inference, sampling and edge deletion, compared with full enumeration."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polydag import formats
from polydag.discrete_network import DiscreteNetwork
from polydag.embedded import asia
from polydag.errors import DataError, UsageError


def full_joint(network: DiscreteNetwork) -> np.ndarray:
    """The oracle: the joint distribution of all variables, by enumeration."""
    shape = [len(network.levels[name]) for name in network.names]
    joint = np.empty(shape)
    for cell in itertools.product(*map(range, shape)):
        value = dict(zip(network.names, cell, strict=True))
        joint[cell] = np.prod(
            [network.tables[v][tuple(value[m] for m in (*network.parents[v], v))] for v in network.names]
        )
    return joint


def marginal(network: DiscreteNetwork, joint: np.ndarray, names: list[str]) -> np.ndarray:
    axes = [network.names.index(name) for name in names]
    rest = tuple(i for i in range(joint.ndim) if i not in axes)
    table = joint.sum(axis=rest)
    return table.transpose(np.argsort(np.argsort(axes)))


@st.composite
def networks(draw: st.DrawFn) -> DiscreteNetwork:
    """A network of up to five variables with two or three labels, with zeros in the tables."""
    d = draw(st.integers(2, 5))
    names = [f"v{i}" for i in range(d)]
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    levels = {name: [str(k) for k in range(rng.integers(2, 4))] for name in names}
    parents, tables = {}, {}
    for i, name in enumerate(names):
        parents[name] = list(rng.permutation([p for p in names[:i] if rng.random() < 0.6]))
        raw = rng.gamma(0.5, size=[len(levels[m]) for m in (*parents[name], name)])
        raw *= rng.random(raw.shape) < 0.8
        raw[..., 0] += 1e-3
        tables[name] = raw / raw.sum(axis=-1, keepdims=True)
    order = list(rng.permutation(names))
    return DiscreteNetwork({name: levels[name] for name in order}, parents, tables)


@given(networks(), st.data())
@settings(max_examples=40, deadline=None)
def test_joint_equals_enumeration(network: DiscreteNetwork, data: st.DataObject) -> None:
    query = data.draw(st.lists(st.sampled_from(network.names), unique=True))
    expected = marginal(network, full_joint(network), query)
    np.testing.assert_allclose(network.joint(query), expected, atol=1e-12)


@given(networks(), st.data())
@settings(max_examples=40, deadline=None)
def test_deleted_edges_give_the_conditional_given_the_remaining_parents(
    network: DiscreteNetwork, data: st.DataObject
) -> None:
    edges = [(edge.source, edge.target) for edge in network.graph.edges()]
    gone = data.draw(st.lists(st.sampled_from(edges), unique=True)) if edges else []
    result = network.delete_edges(gone)
    assert {(e.source, e.target) for e in result.graph.edges()} == set(edges) - set(gone)
    joint = full_joint(network)
    for name in network.names:
        family = marginal(network, joint, [*result.parents[name], name])
        total = family.sum(axis=-1, keepdims=True)
        possible = np.broadcast_to(total > 0, family.shape)
        np.testing.assert_allclose(
            result.tables[name][possible], (family / np.where(total > 0, total, 1))[possible], atol=1e-12
        )
        if result.parents[name] == network.parents[name]:
            assert np.array_equal(result.tables[name], network.tables[name])


def test_asia_edge_deletion_is_the_nearest_network_by_enumeration() -> None:
    network = asia()
    joint = full_joint(network)
    assert joint.sum() == pytest.approx(1)
    gone = [("either", "dysp")]
    exact = network.delete_edges(gone)
    # P(dysp | bronc) by hand: both depend on smoke, so the marginal of either is not the right weight.
    family = marginal(network, joint, ["bronc", "dysp"])
    np.testing.assert_allclose(exact.tables["dysp"], family / family.sum(axis=1, keepdims=True), rtol=1e-12)
    weight = marginal(network, joint, ["either"])
    simple = np.einsum("bed,e->bd", network.tables["dysp"], weight)
    assert np.abs(simple - exact.tables["dysp"]).max() > 1e-3
    other = DiscreteNetwork(exact.levels, exact.parents, {**exact.tables, "dysp": simple})

    def divergence(candidate: DiscreteNetwork) -> float:
        inside = joint > 0
        return float((joint[inside] * np.log(joint[inside] / full_joint(candidate)[inside])).sum())

    assert 0 < divergence(exact) < divergence(other)


def test_a_configuration_of_probability_zero_weights_the_deleted_parent_by_its_marginal() -> None:
    network = DiscreteNetwork(
        {name: ["0", "1"] for name in "abc"},
        {"c": ["a", "b"]},
        {"a": [1.0, 0.0], "b": [0.25, 0.75], "c": [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]]},
    )
    np.testing.assert_allclose(network.delete_edges([("b", "c")]).tables["c"], [[0.25, 0.75], [0.75, 0.25]])


def test_related_deletes_each_edge_with_the_probability() -> None:
    network = asia()
    assert network.related(0.0, random_state=0) == network
    assert network.related(1.0, random_state=0).graph.n_edges == 0
    rng = np.random.default_rng(0)
    kept = [network.related(0.3, random_state=rng).graph.n_edges for _ in range(300)]
    assert np.mean(kept) == pytest.approx(8 * 0.7, abs=0.3)
    assert network.related(0.5, random_state=7) == network.related(0.5, random_state=7)
    with pytest.raises(UsageError, match="probability"):
        network.related(1.5)


def test_sample_frequencies_match_the_exact_joint_of_asia() -> None:
    network = asia()
    n = 40_000
    data = network.sample(n, random_state=0)
    codes = np.stack([data[name].cat.codes for name in network.names])
    counts = np.zeros([2] * 8)
    np.add.at(counts, tuple(codes), 1)
    expected = full_joint(network) * n
    assert counts[expected == 0].sum() == 0
    often = expected > 5
    chi2 = ((counts - expected)[often] ** 2 / expected[often]).sum()
    cells = int(often.sum())
    assert abs(chi2 - cells) < 5 * np.sqrt(2 * cells)


def test_sample_keeps_labels_in_order_and_repeats_with_the_seed() -> None:
    network = DiscreteNetwork({"z": ["low", "high", "extreme"]}, {}, {"z": [0.5, 0.5, 0.0]})
    data = network.sample(50, random_state=3)
    assert list(data["z"].cat.categories) == ["low", "high", "extreme"]
    assert not (data["z"] == "extreme").any()
    assert data.equals(network.sample(50, random_state=3))
    assert not data.equals(network.sample(50, random_state=4))
    assert len(network.sample(0, random_state=0)) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tables": {"a": [0.5, 0.5], "b": [[0.9, 0.1], [0.5, 0.4]]}}, r"b given a = no.*0\.9"),
        ({"tables": {"a": [0.5, 0.5], "b": [[0.9, 0.1], [1.5, -0.5]]}}, "b given a = no"),
        ({"tables": {"a": [0.5, 0.6], "b": [[0.9, 0.1], [0.5, 0.5]]}}, "probabilities of a must"),
        ({"tables": {"a": [0.5, 0.5], "b": [0.9, 0.1]}}, r"table of b has shape \(2,\)"),
        ({"tables": {"a": [0.5, 0.5]}}, "b has no probability table"),
        ({"parents": {"b": ["a"], "a": ["b"]}}, "cycle"),
        ({"parents": {"b": ["a", "a"]}}, "listed twice"),
        ({"parents": {"q": ["a"]}}, "q has parents but is not a variable"),
        ({"levels": {"a": ["yes", "yes"], "b": ["0", "1"]}}, "a needs at least one label, and unique ones"),
    ],
)
def test_bad_networks_say_what_is_wrong(change: dict[str, object], message: str) -> None:
    parts: dict[str, object] = {
        "levels": {"a": ["yes", "no"], "b": ["0", "1"]},
        "parents": {"b": ["a"]},
        "tables": {"a": [0.5, 0.5], "b": [[0.9, 0.1], [0.5, 0.5]]},
    }
    with pytest.raises(DataError, match=message):
        DiscreteNetwork(**{**parts, **change})


def test_networks_are_values() -> None:
    network = asia()
    assert pickle.loads(pickle.dumps(network)) == network
    with pytest.raises(ValueError, match="read-only"):
        network.tables["asia"][0] = 1.0
    with pytest.raises(DataError, match="is not an edge"):
        network.delete_edges([("xray", "asia")])
    with pytest.raises(DataError, match="not a variable"):
        network.joint(["nobody"])


def test_inference_beyond_reach_is_refused_with_the_number() -> None:
    roots = [f"r{i}" for i in range(26)]
    levels = {name: ["0", "1"] for name in [*roots, "x"]}
    chain = {f"r{i}": [f"r{i - 1}"] for i in range(1, 26)}
    tables = {name: [[0.5, 0.5]] * 2 if name in chain else [0.5, 0.5] for name in levels}
    network = DiscreteNetwork(levels, chain, tables)
    with pytest.raises(DataError, match="67,108,864 entries over 26"):
        network.joint(roots)


def test_reference_networks(reference_data) -> None:
    summary = np.genfromtxt(
        reference_data / "bn" / "summary.csv", delimiter=",", names=True, dtype=None, encoding="utf-8"
    )
    edges = np.loadtxt(reference_data / "bn" / "edges.csv", delimiter=",", dtype=str, skiprows=1)
    assert len(summary) == 11
    for row in summary:
        network = formats.read_network(reference_data / "bn" / f"{row['network']}.bif.gz")
        cpt_rows = sum(table[..., 0].size for table in network.tables.values())
        found = (len(network.names), network.graph.n_edges, network.n_parameters, cpt_rows)
        assert found == tuple(int(row[key]) for key in ("nodes", "arcs", "free_parameters", "cpt_rows"))
        own = edges[edges[:, 0] == row["network"]]
        assert {(e.source, e.target) for e in network.graph.edges()} == {(a, b) for _, a, b in own}
        assert formats.bif.network_from_text(formats.bif.network_to_text(network)) == network
        sample = network.sample(200, random_state=0)
        assert list(sample.columns) == list(network.names)
        related = network.related(0.2, random_state=0)
        assert related.graph.n_edges < network.graph.n_edges
    assert formats.read_network(reference_data / "bn" / "asia.bif.gz") == asia()
