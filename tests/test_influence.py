"""Strengths told apart from structure, and which subjects a difference rests on."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from polydag import MultitaskDiscovery, Tasks
from polydag.embedded import asia
from polydag.errors import UsageError
from polydag.learners.posterior.influence import influence
from polydag.stats import GaussianStats
from polydag.studies.findings.tasks import findings


def chain(m: int, strength: float, seed: int) -> pd.DataFrame:
    """x -> y -> z, and w by itself."""
    rng = np.random.default_rng(seed)
    x, w = rng.standard_normal((2, m))
    y = strength * x + rng.standard_normal(m)
    return pd.DataFrame({"x": x, "y": y, "z": 0.8 * y + rng.standard_normal(m), "w": w})


def mixed(m: int, strength: float, seed: int) -> pd.DataFrame:
    """The same, with a label in place of w."""
    rows = chain(m, strength, seed)
    return rows.assign(w=np.where(rows["w"] > 0, "yes", "no"))


def log_odds(model: MultitaskDiscovery, first: str, second: str, only_in: str) -> float:
    table = model.connections_.set_index(["first", "second"])
    p = float(table.loc[(first, second), f"only in {only_in}"])
    return float(np.log(p / (1.0 - p)))


@pytest.mark.parametrize(("criterion", "rows"), [("bge", chain), ("dg", mixed)])
def test_strengths_are_told_apart_from_structure(criterion: str, rows: object) -> None:
    def fitted(strength: float) -> MultitaskDiscovery:
        tables = {"a": rows(400, 0.7, 10), "b": rows(300, strength, 11)}  # type: ignore[operator]
        return MultitaskDiscovery(criterion=criterion).fit(tables)

    same, reversed_, gone = fitted(0.7), fitted(-0.7), fitted(0.0)
    for model in (same, reversed_, gone):
        parts = model.mechanisms_.set_index("variable")
        np.testing.assert_allclose(parts.sum(axis=1), 1.0)
        assert parts.loc["w", "same"] > 0.9
        altered = model.connections_["other strengths"]
        assert (altered <= model.connections_["shared"] + 1e-9).all()
    pair = ("x", "y")
    found = [m.connections_.set_index(["first", "second"]).loc[pair] for m in (same, reversed_, gone)]
    assert found[0]["other strengths"] < 0.2
    assert found[1]["other strengths"] > 0.8
    assert found[1]["only in a"] < 0.05
    assert found[2]["only in a"] > 0.8
    assert found[2]["other strengths"] < 0.2


def test_strengths_that_differ_are_said() -> None:
    tasks = Tasks({"a": chain(400, 0.7, 10), "b": chain(300, -0.7, 11)})
    words = " ".join(findings(MultitaskDiscovery(criterion="bge").fit(tasks), tasks).notes)
    assert "Most probably in all tasks, but with different strengths: x – y" in words


@pytest.mark.parametrize("criterion", ["bge", "dg"])
def test_influence_is_what_a_fit_without_the_subject_says(criterion: str) -> None:
    rows = chain if criterion == "bge" else mixed
    tables = {"a": rows(60, 0.3, 0), "b": rows(50, 0.0, 1)}
    tables["a"].loc[3, ["x", "y"]] = [3.5, 4.0]
    model = MultitaskDiscovery(criterion=criterion, max_parents=2).fit(tables)
    found = influence(model, Tasks(tables), "x", "y", only_in="a")
    assert found.attrs["log_odds"] == pytest.approx(log_odds(model, "x", "y", "a"), abs=1e-3)
    assert len(found) == 110
    assert tuple(found.iloc[0][["task", "subject"]]) == ("a", 3)
    some = found.iloc[[1, 2, 5, 50, 100, 107, 108]]
    without = []
    for row in some.itertuples():
        rest = {k: own.drop(index=row.subject) if k == row.task else own for k, own in tables.items()}
        again = MultitaskDiscovery(criterion=criterion, max_parents=2).fit(rest)
        without.append(found.attrs["log_odds"] - log_odds(again, "x", "y", "a"))
    np.testing.assert_allclose(some["influence"], without, atol=0.15, rtol=0.2)
    assert np.corrcoef(some["influence"], without)[0, 1] > 0.98


def test_influence_of_labels_and_of_subjects_with_several_rows() -> None:
    tables = {"a": asia().sample(120, random_state=1), "b": asia().related(0.4, 5).sample(80, random_state=2)}
    model = MultitaskDiscovery(max_parents=2).fit(tables)
    tasks = Tasks(tables)
    found = influence(model, tasks, "smoke", "bronc", only_in="a")
    assert found.attrs["log_odds"] == pytest.approx(log_odds(model, "smoke", "bronc", "a"), abs=1e-2)
    alike = found[found["task"] == "a"].merge(tables["a"], left_on="subject", right_index=True)
    assert alike.groupby(list(tables["a"].columns))["influence"].nunique().max() == 1
    labels = {name: np.arange(len(own)) // 4 for name, own in tables.items()}
    by_subject = influence(model, tasks, "smoke", "bronc", only_in=0, subjects=labels)
    assert set(by_subject["rows"]) == {4}
    added = found.groupby(["task", found["subject"] // 4])["influence"].sum()
    together = by_subject.set_index(["task", "subject"])["influence"].sort_index()
    assert np.corrcoef(added, together)[0, 1] > 0.98
    other = influence(model, tasks, "smoke", "bronc", only_in="b")
    assert other.attrs["log_odds"] == pytest.approx(log_odds(model, "smoke", "bronc", "b"), abs=1e-2)


def test_another_fit_forgets_what_it_does_not_learn() -> None:
    tables = {"a": chain(60, 0.3, 0), "b": chain(50, 0.0, 1)}
    model = MultitaskDiscovery(criterion="bge").fit(tables)
    assert len(model.mechanisms_) == 4
    model.set_params(transfer="none").fit(tables)
    assert not hasattr(model, "mechanisms_")
    assert not hasattr(model, "relatedness_")


def test_what_has_no_influence_is_said() -> None:
    tables = {"a": chain(60, 0.3, 0), "b": chain(50, 0.0, 1)}
    model = MultitaskDiscovery(criterion="bge").fit(tables)
    with pytest.raises(UsageError, match="v is not a variable"):
        influence(model, Tasks(tables), "x", "v", only_in="a")
    with pytest.raises(UsageError, match="fitted to a, b"):
        influence(model, Tasks({"b": tables["b"], "a": tables["a"]}), "x", "y", only_in="a")
    given = Tasks({name: GaussianStats.from_data(own) for name, own in tables.items()})
    with pytest.raises(UsageError, match="a has none"):
        influence(model, given, "x", "y", only_in="a")
    with pytest.raises(UsageError, match="50 rows, and 3 labels"):
        influence(model, Tasks(tables), "x", "y", only_in="a", subjects={"a": range(60), "b": range(3)})
    alone = MultitaskDiscovery(criterion="bge", transfer="none").fit(tables)
    with pytest.raises(UsageError, match="exact joint"):
        influence(alone, Tasks(tables), "x", "y", only_in="a")
    three = MultitaskDiscovery(criterion="bge").fit({**tables, "c": tables["a"]})
    with pytest.raises(UsageError, match="has 3"):
        influence(three, Tasks(tables), "x", "y", only_in="a")
