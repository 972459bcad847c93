"""Sites and a coordinator that run apart, with damaged files: refused by name, and no other result."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from fuzzing import cases, mutated, survives

from apart import SITES, begun, tables
from polydag.deployment.coordinator import CoordinatorEndpoint
from polydag.deployment.site import SiteEndpoint
from polydag.errors import DataError
from polydag.studies.config.shapes import PartiesConfig

pytestmark = pytest.mark.xdist_group("apart")  # one process makes the study, for all tests
NORTH, *OTHERS = SITES


class Apart:
    """A study whose sites have joined and exchanged keys; the question about their rows is on its way."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.copy = folder / "now", folder / "before"
        self.folder.mkdir()
        config = PartiesConfig(SITES, method="boss", seed=3)
        self.files = tables(folder)
        self.kits, self.joined = begun(self.folder, self.files, config)
        coordinator = CoordinatorEndpoint(self.folder / "study")
        assert coordinator.receive(self.joined) == []
        self.keys = self.answers(coordinator)
        assert coordinator.receive(self.keys) == []
        self.asked = [file.content for file in coordinator.questions()]
        shutil.copytree(self.folder, self.copy)
        self.replies = self.answers(coordinator)
        self.graph = self.learned(self.replies)

    def answers(self, coordinator: CoordinatorEndpoint) -> list[bytes]:
        """What the sites answer to the present questions."""
        questions = zip(self.kits, coordinator.questions(), strict=True)
        answers = [SiteEndpoint(kit).receive(question.content) for kit, question in questions]
        return [answer.content for answer in answers if answer is not None]

    def learned(self, replies: list[bytes]) -> np.ndarray:
        """The graph of the sums of some answers; raises where it is not finished by them."""
        coordinator = CoordinatorEndpoint(self.folder / "study")
        if why := coordinator.receive(replies):
            raise DataError("; ".join(why))
        if not coordinator.finished:
            raise DataError(f"the study waits: {coordinator.refused}")
        return coordinator.result().graph.adjacency

    def restored(self) -> None:
        """The folders as they were before the sites were asked about their rows."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.copy, self.folder)


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Apart:
    """The study, for all tests."""
    return Apart(tmp_path_factory.mktemp("apart"))


def test_damaged_files_on_their_way_are_refused(apart: Apart) -> None:
    for seed, rng in cases(60):
        files = [apart.joined, apart.asked, apart.replies][int(rng.integers(3))]
        damaged = mutated(files[0], rng)
        if damaged == files[0]:
            continue
        apart.restored()
        coordinator = CoordinatorEndpoint(apart.folder / "study")
        if files is not apart.asked:
            assert coordinator.take(damaged), f"seed {seed}"
            continue
        site = SiteEndpoint(apart.kits[0])
        assert not survives(lambda site=site, damaged=damaged: site.receive(damaged), seed), f"seed {seed}"


@pytest.mark.parametrize("whose", ["kit-north", "home-north", "study"])
def test_damage_to_own_files_is_noticed_or_changes_nothing(apart: Apart, whose: str) -> None:
    for seed, rng in cases(40):
        apart.restored()
        files = sorted(path for path in (apart.folder / whose).rglob("*") if path.is_file())
        path = files[int(rng.integers(len(files)))]
        path.write_bytes(mutated(path.read_bytes(), rng))

        def go_on(seed: int = seed, path: Path = path) -> None:
            questions = zip(apart.kits, apart.asked, strict=True)
            answers = [SiteEndpoint(kit).receive(question) for kit, question in questions]
            found = apart.learned([answer.content for answer in answers if answer is not None])
            np.testing.assert_array_equal(found, apart.graph, err_msg=f"seed {seed}, {path.name}")

        survives(go_on, seed)


@pytest.mark.parametrize("name", ["kit-north/kit.json", "kit-north/site.json", "home-north/study.json"])
def test_entries_of_a_sites_own_files_that_are_lost_or_changed_are_named(apart: Apart, name: str) -> None:
    apart.restored()
    path = apart.folder / name
    whole = json.loads(path.read_text())
    for entry in whole:
        lost = {key: value for key, value in whole.items() if key != entry}
        for damaged in (lost, {**whole, entry: 7}, [entry]):
            path.write_text(json.dumps(damaged))
            what = entry if isinstance(damaged, dict) else "it holds no entries"
            with pytest.raises(DataError, match=rf"{path.name} is damaged: .*{what}.*Restore it"):
                SiteEndpoint(apart.kits[0]).receive(apart.asked[0])


@pytest.mark.parametrize("entry", ["identity", "key"])
@pytest.mark.parametrize("value", [None, 7, "0" * 63 + "g", "00"])
def test_what_the_coordinator_has_kept_of_a_site_is_checked(apart: Apart, entry: str, value: object) -> None:
    apart.restored()
    (path,) = (apart.folder / "study").rglob("north.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), entry: value}))
    with pytest.raises(DataError, match=f"north.json is damaged: its entry '{entry}'"):
        _ = CoordinatorEndpoint(apart.folder / "study").joined


def test_deeply_nested_files_are_refused(apart: Apart) -> None:
    apart.restored()
    (apart.kits[0] / "final.json").write_text("[" * 100_000)
    with pytest.raises(DataError, match=r"final\.json cannot be read"):
        SiteEndpoint(apart.kits[0]).receive(apart.asked[0])
