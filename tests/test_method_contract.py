"""What every federated method in the registry promises; a new one is tested by being registered."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from polydag import FederatedNotears, Knowledge, Parties, Privacy, simulate
from polydag.errors import ConvergenceWarning, DataError, PolydagError
from polydag.federated.methods.registry import METHODS
from polydag.sources import InMemory

pytestmark = pytest.mark.portable

methods = pytest.mark.parametrize("method", METHODS)


@pytest.fixture(scope="module")
def tables() -> dict[str, pd.DataFrame]:
    dag = simulate.dag(5, n_edges=6, names=list("abcde"), random_state=1)
    return {f"party {k}": simulate.linear(dag, n=100 + 20 * k, random_state=k) for k in range(3)}


def fitted(method: str, tables: Any, privacy: Privacy | None = None, **settings: Any) -> Any:
    own = {} if privacy is None else {"privacy": privacy}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return FederatedNotears(method=method, random_state=0, **settings).fit(Parties(tables, **own))


@methods
def test_masks_change_nothing_but_what_is_seen(method: str, tables: dict[str, pd.DataFrame]) -> None:
    masked, in_the_open = (fitted(method, tables, Privacy(mode=mode)) for mode in ("masked", "none"))
    np.testing.assert_array_equal(masked.graph_.adjacency, in_the_open.graph_.adjacency)
    np.testing.assert_allclose(masked.raw_weights_, in_the_open.raw_weights_, rtol=1e-6, atol=1e-6)
    assert masked.graph_.is_dag
    assert set(masked.disclosure_["site"]) == set(tables)
    assert masked.disclosure_["masked"].all()
    assert not in_the_open.disclosure_["masked"].any()


@methods
def test_the_order_of_parties_changes_nothing(method: str, tables: dict[str, pd.DataFrame]) -> None:
    forwards, backwards = fitted(method, tables), fitted(method, dict(reversed(tables.items())))
    np.testing.assert_array_equal(forwards.graph_.adjacency, backwards.graph_.adjacency)
    np.testing.assert_allclose(forwards.raw_weights_, backwards.raw_weights_, rtol=1e-6, atol=1e-6)


@methods
def test_knowledge_is_honoured(method: str, tables: dict[str, pd.DataFrame]) -> None:
    free = fitted(method, tables).graph_.edges()[0]
    pairs = [(free.source, free.target), (free.target, free.source)]
    others = [name for name in "abcde" if name not in pairs[0]]
    known = Knowledge(forbidden=pairs, required=[(others[0], others[1])])
    model = fitted(method, tables, knowledge=known)
    found = {(edge.source, edge.target) for edge in model.graph_.edges()}
    assert (others[0], others[1]) in found
    assert not found & set(pairs)
    assert model.graph_.is_dag


@methods
def test_interventions_are_used_or_refused_in_words(method: str, tables: dict[str, pd.DataFrame]) -> None:
    targets = {name: [["a"] if row % 2 else [] for row in range(len(own))] for name, own in tables.items()}
    parties = {name: InMemory(own, interventions=targets[name]) for name, own in tables.items()}
    try:
        model = fitted(method, parties)
    except PolydagError as refusal:
        assert "interventions" in str(refusal)  # noqa: PT017
    else:
        assert model.graph_.names == tuple("abcde")


@methods
def test_the_odd_party_is_named(method: str, tables: dict[str, pd.DataFrame]) -> None:
    odd = {"odd": tables["party 0"].rename(columns={"c": "y"}), **tables}
    with pytest.raises(DataError, match=r"odd does not take part: .* it lacks c and has in addition y"):
        fitted(method, odd)
