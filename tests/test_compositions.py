"""Sources within sources: every learner gets what two steps by hand give, on the command line too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

from polydag import (
    BOSS,
    GES,
    PC,
    BayesianDiscovery,
    LinkedRows,
    MultitaskDiscovery,
    NotearsLagged,
    NotearsMLP,
    Parties,
    Tasks,
    embedded,
    formats,
    simulate,
)
from polydag.cli.main import app
from polydag.errors import DataWarning, UsageError
from polydag.learners import LEARNERS
from polydag.studies import PartiesConfig, TableConfig, TasksConfig
from polydag.studies.methods import names
from polydag.studies.plan import plan_of

pytestmark = pytest.mark.portable

NUMBERS = {name: learner() for name, learner in LEARNERS.items()} | {
    "posterior": BayesianDiscovery(criterion="bge"),
    "posterior over DAGs": BayesianDiscovery(criterion="bge", over="dags", max_parents=2),
    "boss with bge": BOSS(criterion="bge"),
}
LABELS = {
    "auto": LEARNERS["auto"](),
    "boss": BOSS(max_parents=2),
    "ges": GES(max_parents=2),
    "pc": PC(max_conditioning=2),
    "posterior": BayesianDiscovery(max_parents=2),
}
MIXED = {name: LEARNERS[name]() for name in ("auto", "boss", "ges", "pc")} | {
    "boss with cg": BOSS(criterion="cg", max_parents=2),
    "pc with cg": PC(test="cg", max_conditioning=1),
    "posterior": BayesianDiscovery(criterion="dg", max_parents=2),
}
WARD = 0.5


def of_all(learners: Mapping[str, Any]) -> Any:
    return pytest.mark.parametrize("learner", learners.values(), ids=learners.keys())


def wards(n: int, seed: int, d: int = 6) -> pd.DataFrame:
    """Numbers of patients, four to a ward, in units of their own."""
    dag = simulate.dag(d, n_edges=d, names=list("abcdefgh"[:d]), random_state=3)
    rows = simulate.linked(dag, row_covariance=simulate.clusters("equi", n, 4, base=WARD), random_state=seed)
    scaled = rows * np.geomspace(0.1, 10, d) + np.linspace(-50, 50, d)
    return scaled.assign(ward=[row // 4 for row in range(n)])


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return wards(240, 1).drop(columns="ward")


@pytest.fixture(scope="module")
def labels() -> pd.DataFrame:
    return embedded.asia().sample(600, random_state=0)


@pytest.fixture(scope="module")
def mixed(table: pd.DataFrame) -> pd.DataFrame:
    cut = table.assign(a=np.where(table["a"] > table["a"].median(), "high", "low"))
    return cut.assign(d=pd.cut(table["d"], 3, labels=["x", "y", "z"]).astype(str))


def thirds(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Three parties of 1/2, 1/4 and 1/4 of the rows; no ward is in two of them."""
    n = len(rows)
    return {"north": rows[: n // 2], "south": rows[n // 2 : 3 * n // 4], "west": rows[3 * n // 4 :]}


def in_wards(rows: pd.DataFrame) -> LinkedRows:
    return LinkedRows(rows, groups="ward", correlation=WARD)


def assert_same(learner: Any, first: Any, second: Any, tolerance: float = 1e-8) -> None:
    """The same graph, and everything that is estimated to within rounding."""
    one, two = clone(learner).fit(first), clone(learner).fit(second)
    assert one.graph_.names == two.graph_.names
    assert np.array_equal(one.graph_.adjacency, two.graph_.adjacency)
    np.testing.assert_allclose(one.raw_weights_, two.raw_weights_, rtol=tolerance, atol=1e-12)
    if hasattr(one, "posterior_"):
        np.testing.assert_allclose(
            one.posterior_.probabilities, two.posterior_.probabilities, rtol=0, atol=tolerance
        )


def probabilities(model: MultitaskDiscovery) -> list[Any]:
    """Edge probabilities of every task."""
    return [own.probabilities for own in model.posteriors_]


@of_all(NUMBERS)
def test_parties_of_the_parts_of_a_table_are_the_table(learner: Any, table: pd.DataFrame) -> None:
    assert_same(learner, Parties(thirds(table), site_effects="none"), table)


@of_all(LABELS)
def test_parties_of_the_parts_of_a_table_of_labels_are_the_table(learner: Any, labels: pd.DataFrame) -> None:
    assert_same(learner, Parties(thirds(labels)), labels)


@of_all(MIXED)
def test_parties_of_the_parts_of_a_mixed_table_are_the_table(learner: Any, mixed: pd.DataFrame) -> None:
    assert_same(learner, Parties(thirds(mixed), site_effects="none"), mixed)


def test_parties_of_series_are_the_series() -> None:
    sample = simulate.lagged(4, n_steps=60, n_realisations=3, random_state=0)
    parts = {f"patient {k}": part for k, part in sample.data.groupby("realisation")}
    assert_same(NotearsLagged(), Parties(parts), sample.data)


@of_all(NUMBERS)
def test_linked_rows_within_parties_are_the_whole_decorrelated_at_once(learner: Any) -> None:
    rows = wards(240, 2)
    parties = {party: in_wards(part) for party, part in thirds(rows).items()}
    assert_same(learner, Parties(parties, site_effects="none"), in_wards(rows))


@of_all(NUMBERS)
def test_linked_rows_are_their_moments_given_by_hand(learner: Any) -> None:
    linked = in_wards(wards(160, 3))
    assert_same(learner, linked, linked.moments())


@of_all(NUMBERS)
def test_parties_of_linked_rows_are_moments_added_by_hand(learner: Any) -> None:
    parties = {party: in_wards(part) for party, part in thirds(wards(240, 4)).items()}
    by_hand = reduce(add, (own.moments() for own in parties.values()))
    assert_same(learner, Parties(parties, site_effects="none"), by_hand)


@of_all(NUMBERS)
def test_the_order_of_parties_changes_nothing(learner: Any) -> None:
    parties = {party: in_wards(part) for party, part in thirds(wards(240, 5)).items()}
    assert_same(learner, Parties(parties), Parties(dict(reversed(parties.items()))))


@pytest.mark.parametrize("transfer", ["learned", "family", "theorem1", "none", "pool"])
def test_tasks_of_linked_rows_and_of_parties_are_two_steps_by_hand(transfer: str) -> None:
    learner = MultitaskDiscovery(transfer=transfer, criterion="bge", max_parents=2)
    linked = {"controls": in_wards(wards(160, 6, d=4)), "patients": in_wards(wards(160, 7, d=4))}
    moments = {task: own.moments() for task, own in linked.items()}
    parties = {
        task: Parties(
            {p: in_wards(part) for p, part in thirds(wards(160, seed, d=4)).items()}, site_effects="none"
        )
        for task, seed in (("controls", 6), ("patients", 7))
    }
    wanted = probabilities(clone(learner).fit(Tasks(moments)))
    for tasks in (linked, parties):
        found = probabilities(clone(learner).fit(Tasks(tasks)))
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-8)


def test_parties_as_tasks_are_the_parties_by_themselves() -> None:
    parties = {party: in_wards(part) for party, part in thirds(wards(160, 8, d=4)).items()}
    with pytest.warns(DataWarning, match="leave it unmasked"):
        tasks = Parties(parties).as_tasks()
    learner = MultitaskDiscovery(criterion="bge", max_parents=2)
    found, wanted = clone(learner).fit(tasks), clone(learner).fit(Tasks(parties))
    np.testing.assert_allclose(probabilities(found), probabilities(wanted), rtol=0, atol=1e-8)
    assert set(found.disclosure_["site"]) == set(parties)


@pytest.mark.parametrize(
    ("fit", "words"),
    [
        (lambda t: NotearsMLP().fit(Parties(thirds(t))), "rows stay with their parties"),
        (lambda t: BOSS().fit(Parties({"north": t[:40], "south": t[40:]})), "at least 3 sites"),
        (
            lambda t: BayesianDiscovery(criterion="bge", method="exact", memory=1e-6).fit(t),
            "needs .* can be used",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name(fit: Any, words: str) -> None:
    with pytest.raises(Exception, match=words) as refusal:
        fit(wards(160, 1))
    assert type(refusal.value).__module__ == "polydag.errors"


# On the command line


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, pd.DataFrame]:
    """Three files of patients in wards, in the working folder."""
    monkeypatch.chdir(tmp_path)
    tables = {f"{party}.csv": wards(80, seed, d=5) for seed, party in enumerate(("north", "south", "west"))}
    for name, rows in tables.items():
        rows.to_csv(name, index=False)
    return tables


def fitted(*options: str) -> Path:
    done = CliRunner().invoke(app, ["fit", *options, "--groups", "ward", "--seed", "1", "--out", "run", "-q"])
    assert done.exit_code == 0, done.output
    return Path("run")


def assert_edges(file: Path, posterior: Any) -> None:
    """A file of edges has the probabilities of a posterior."""
    wanted = posterior.edges if hasattr(posterior, "edges") else posterior.posterior_.edges
    found = pd.read_csv(file).set_index(["source", "target"])["probability"]
    assert len(found)
    np.testing.assert_allclose(found, [wanted.loc[pair] for pair in found.index], atol=1e-6)


@pytest.mark.parametrize("method", ["boss", "ges", "pc", "equal-variance", "notears", "auto"])
def test_parties_of_linked_rows_with_any_method(method: str, files: dict[str, pd.DataFrame]) -> None:
    run = fitted("--as", "parties", *files, "--method", method)
    linked = {Path(name).stem: LinkedRows(pd.read_csv(name), groups="ward", random_state=1) for name in files}
    wanted = LEARNERS[method](random_state=1).fit(Parties(linked)).graph_
    assert np.array_equal(formats.read(run / "graph.json").adjacency, wanted.adjacency)
    assert (run / "disclosure.json").exists()


def test_a_posterior_over_parties_of_linked_rows(files: dict[str, pd.DataFrame]) -> None:
    run = fitted("--as", "parties", *files, "--method", "posterior")
    linked = {Path(name).stem: LinkedRows(pd.read_csv(name), groups="ward", random_state=1) for name in files}
    assert_edges(run / "edges.csv", BayesianDiscovery(criterion="bge", random_state=1).fit(Parties(linked)))


@pytest.mark.parametrize("given", ["files", "column"])
def test_tasks_of_linked_rows(given: str, files: dict[str, pd.DataFrame]) -> None:
    named = {Path(name).stem: rows for name, rows in files.items()}
    pd.concat(rows.assign(clinic=name) for name, rows in named.items()).to_csv("all.csv", index=False)
    data = [*files] if given == "files" else ["all.csv", "--task-column", "clinic"]
    run = fitted("--as", "tasks", *data)
    linked = {name: LinkedRows(pd.read_csv(f"{name}.csv"), groups="ward", random_state=1) for name in named}
    wanted = MultitaskDiscovery(criterion="bge", random_state=1).fit(Tasks(linked))
    for name, posterior in zip(named, wanted.posteriors_, strict=True):
        assert_edges(run / f"edges-{name}.csv", posterior)


def refusal(config: Any) -> str:
    """Why a study cannot be planned; empty if it can."""
    try:
        plan_of(config)
    except UsageError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("shape", [TableConfig, PartiesConfig, TasksConfig])
@pytest.mark.parametrize("method", names())
def test_every_method_is_known_in_every_shape(method: str, shape: Any) -> None:
    """It learns from the shape, or a message names it and the shape, and says what to do instead."""
    data = ("a.csv",) if shape is TableConfig else ("a.csv", "b.csv", "c.csv")
    extra = {"groups": "ward", "order": ("x", "y")} if method == "bcd" else {}
    said = refusal(shape(data=data, method=method, **extra))
    if said:
        assert said.startswith(f"{method} works with --as ")
        assert f"not with --as {shape.shape}. " in said
        assert re.search(r"[Uu]se |--", said.partition(f"not with --as {shape.shape}. ")[2])
