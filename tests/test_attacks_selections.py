"""Attacks by studies on different rows of the same sites: selections, gaps, and cells of a grid."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from apart import SITES
from polydag.deployment.coordinator import CoordinatorEndpoint, new_study
from polydag.deployment.description import Column, Description, described
from polydag.deployment.own_side import Grids
from polydag.deployment.preparation import selection_of
from polydag.deployment.site import SiteEndpoint
from polydag.errors import DataError
from polydag.federated.protocol.programs import Answer
from polydag.studies.config.shapes import PartiesConfig

NAMES = ["x", *(f"y{k}" for k in range(9))]
BOSS = PartiesConfig(SITES, method="boss", seed=3)


def study_on(*filters: str) -> Description:
    columns = {name: Column() for name in NAMES}
    config = dataclasses.replace(BOSS, site_effects="none")
    return dataclasses.replace(described(config), columns=columns, filters=filters)


def complete_in(**columns: str) -> Description:
    """A study of the rows that are complete in some columns, each under a name of the study's own."""
    made = {name: Column(from_=own) for name, own in columns.items()}
    study = {**study_on().study, "missing": "drop"}
    return dataclasses.replace(study_on(), columns=made, study=study)


def pooled(folder: Path, name: str, description: Description) -> float:
    """The sum of the first column over the selected rows of all sites, as a study opens it.

    Raises where a site refuses.
    """
    study = folder / name
    kits = new_study(study, description, study)
    ends = [SiteEndpoint(kit) for kit in kits]
    inbox = [
        end.join(str(folder / f"{site}.csv"), folder / f"home-{site}", abandon=True).content
        for end, site in zip(ends, SITES, strict=True)
    ]
    coordinator = CoordinatorEndpoint(study)
    while not coordinator.finished:
        assert coordinator.receive(inbox) == []
        if coordinator.refused:
            raise DataError(f"{ends[0].refusals} {coordinator.refused}")
        answers = [end.receive(q.content) for end, q in zip(ends, coordinator.questions(), strict=False)]
        inbox = [answer.content for answer in answers if answer is not None]
    assert coordinator.state is not None
    sums = coordinator.state.program
    mean = next(np.asarray(array) for key, array in sums.items() if key.endswith("mean[]"))
    n = next(float(np.asarray(array)[1]) for key, array in sums.items() if key.endswith("rows[]"))
    return float(mean.ravel()[0] * n)


def numbered(folder: Path) -> float:
    """Tables whose rows have numbers; returns the value of x in row 71 of all sites together."""
    rng = np.random.default_rng(1)
    found = 0.0
    for site in SITES:
        rows = pd.DataFrame(rng.normal(size=(150, len(NAMES))), columns=NAMES).assign(id=np.arange(1, 151))
        rows.to_csv(folder / f"{site}.csv", index=False)
        found += float(rows.loc[rows["id"] == 71, "x"].iloc[0])
    return found


SELECTIONS = (("id <= 70",), ("id <= 20",), ("id >= 21", "id <= 71"))


def test_rows_are_not_singled_out_by_overlapping_selections(tmp_path: Path) -> None:
    """Sums over ids 1 to 70, 1 to 20, and 21 to 71 differ by one row, though all differ by many rows."""
    numbered(tmp_path)
    for number, filters in enumerate(SELECTIONS[:2]):
        pooled(tmp_path, f"study-{number}", study_on(*filters))
    with pytest.raises(DataError, match="Sums over 2 different selections of its rows"):
        pooled(tmp_path, "study-2", study_on(*SELECTIONS[2]))
    pooled(tmp_path, "study-3", study_on(*SELECTIONS[1]))  # of an earlier study


def test_without_a_limit_of_selections_a_row_would_be_singled_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from polydag.federated.protocol import site_protection

    monkeypatch.setattr(site_protection, "selection_problem", lambda *_: None)
    truth = numbered(tmp_path)
    both, first, more = (
        pooled(tmp_path, f"study-{number}", study_on(*filters)) for number, filters in enumerate(SELECTIONS)
    )
    assert first + more - both == pytest.approx(truth, abs=1e-6)


def with_gaps(folder: Path) -> pd.DataFrame:
    """Tables of which one has missing values; its rows 7 and 8 differ in which."""
    rng = np.random.default_rng(1)
    tables = [pd.DataFrame(rng.normal(size=(150, 5)), columns=["x", "z1", "z2", "z3", "z4"]) for _ in SITES]
    north = tables[0]
    north.loc[7, "z1"] = north.loc[8, "z2"] = np.nan
    north.loc[20:39, "z3"] = north.loc[30:69, "z4"] = np.nan
    for site, table in zip(SITES, tables, strict=True):
        table.to_csv(folder / f"{site}.csv", index=False)
    return north


def test_rows_are_not_singled_out_by_columns_in_which_others_lack_values(tmp_path: Path) -> None:
    """Rows with missing values are left out, so the study's columns choose rows, under whatever names."""
    with_gaps(tmp_path)
    pooled(tmp_path, "study-0", complete_in(a="x", b="z1"))
    with pytest.raises(DataError, match="Its data has changed"):  # as many rows, but others
        pooled(tmp_path, "study-1", complete_in(c="x", d="z2"))
    pooled(tmp_path, "study-2", complete_in(e="x", f="z3"))
    with pytest.raises(DataError, match="Sums over 2 different selections of its rows"):
        pooled(tmp_path, "study-3", complete_in(g="x", h="z4"))


def test_without_a_look_at_selections_columns_would_single_out_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from polydag.deployment import site as sites

    monkeypatch.setattr(sites, "selection_of", lambda *_: "")
    north = with_gaps(tmp_path)
    first = pooled(tmp_path, "study-0", complete_in(a="x", b="z1"))
    second = pooled(tmp_path, "study-1", complete_in(c="x", d="z2"))
    assert second - first == pytest.approx(north.loc[7, "x"] - north.loc[8, "x"], abs=1e-6)


LEVELS = {"x": "rank"}


def ranked() -> Description:
    return dataclasses.replace(study_on(), study={**study_on().study, "transforms": LEVELS})


def lying(monkeypatch: pytest.MonkeyPatch, shift: int) -> None:
    """The coordinator says that the counts in the cells of a grid are others."""
    from polydag.federated.methods.statistics import counts

    def advance(self: Any, state: Any, total: Any) -> Any:
        return state, Answer({name: np.roll(array, shift) for name, array in total.arrays.items()})

    monkeypatch.setattr(counts.CountsProgram, "advance", advance)


def test_rows_are_not_singled_out_by_cells_that_a_coordinator_makes_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbered(tmp_path)
    for number, shift in enumerate((0, 1, 0)):  # the last is that of an earlier study
        lying(monkeypatch, shift)
        pooled(tmp_path, f"study-{number}", ranked())
    lying(monkeypatch, 2)
    with pytest.raises(DataError, match="divided into cells in 2 ways"):
        pooled(tmp_path, "study-3", ranked())


def test_without_a_look_at_grids_any_cells_would_be_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Grids, "require", lambda *_: None)
    numbered(tmp_path)
    for shift in range(3):
        lying(monkeypatch, shift)
        pooled(tmp_path, f"study-{shift}", ranked())


def test_a_grid_that_is_divided_further_is_the_same(tmp_path: Path) -> None:
    first, second, other = ({"counts": np.array([float(k), 2.0])} for k in range(3))
    grids = Grids(tmp_path, 2)
    for chain in ([first], [first, second], [first], [other, second], [first, second, other], [other]):
        grids.require(chain)
    for chain in ([second], [first, other], [other, first]):
        with pytest.raises(DataError, match="in 2 ways"):
            grids.require(chain)


@pytest.mark.parametrize(
    "changes",
    [
        {"interventions": "x2"},
        {"discretize": "quantile:3"},
        {"discretize": "quantile:4"},
        {"transforms": {"x1": "rank"}},
        {"transforms": {"x1": "rank", "x2": "rank"}},
    ],
)
def test_what_divides_rows_counts_as_a_selection_of_them(changes: dict[str, Any]) -> None:
    """Rows in which a column names something, or in a cell of a grid, are summed apart from the others."""
    plain = described(BOSS)
    others = [
        described(dataclasses.replace(BOSS, **other))
        for other in (
            {},
            {"interventions": "x1"},
            {"discretize": "interval:3"},
            {"transforms": {"x3": "rank"}},
        )
    ]
    own = selection_of(described(dataclasses.replace(BOSS, **changes)), ())
    assert own
    assert own not in [selection_of(other, ()) for other in others]
    assert own == selection_of(described(dataclasses.replace(BOSS, **changes, seed=4, method="ges")), ())
    assert selection_of(plain, ()) == ""
