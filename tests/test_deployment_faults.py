"""Whatever happens to processes, files and disks: the result is that of an undisturbed study."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from apart import PATIENCE, SITES, Processes, begun, run_apart, tables
from polydag.deployment import envelopes
from polydag.deployment.coordinator import CoordinatorEndpoint
from polydag.deployment.site import SiteEndpoint
from polydag.errors import DataError
from polydag.formats import graphjson
from polydag.studies.config.shapes import PartiesConfig
from polydag.studies.result import Result

BOSS = PartiesConfig(SITES, method="boss", seed=3)
KILLS = 20


def text_of(result: Result) -> str:
    assert result.coefficients is not None
    return graphjson.to_text(result.graph) + "".join(array.tobytes().hex() for array in result.coefficients)


def run_disturbed(folder: Path, config: PartiesConfig, seed: int) -> Result:
    """Every step by a new process; files are lost, delivered late, again, and in any order."""
    kits, sent = begun(folder, tables(folder), config)
    chance = random.Random(seed)
    questions: list[bytes] = []
    for _ in range(5000):
        if chance.random() < 0.4:
            coordinator = CoordinatorEndpoint(folder / "study")
            arriving = chance.sample(sent, min(len(sent), chance.randint(0, 5)))
            assert coordinator.receive(arriving) == []
            if coordinator.finished:
                return coordinator.result()
            made = [question.content for question in coordinator.questions()]
            questions += [question for question in made if chance.random() < 0.7]
        elif questions:
            question = chance.choice(questions)
            site = SITES.index(envelopes.header_of(question).recipient)
            answer = SiteEndpoint(kits[site]).receive(question)
            if answer is not None and chance.random() < 0.7:
                sent.append(answer.content)
    raise AssertionError("the study does not end")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("undisturbed")
    return text_of(run_apart(folder, tables(folder), BOSS))


@pytest.mark.parametrize("seed", range(3))
def test_no_order_of_files_and_restarts_changes_the_result(
    tmp_path: Path, undisturbed: str, seed: int
) -> None:
    assert text_of(run_disturbed(tmp_path, BOSS, seed)) == undisturbed


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_many_orders_of_files_and_restarts(tmp_path: Path, undisturbed: str, seed: int) -> None:
    assert text_of(run_disturbed(tmp_path, BOSS, 100 + seed)) == undisturbed


def test_a_site_that_does_not_return_is_named_and_may_come_back(tmp_path: Path, undisturbed: str) -> None:
    kits, joined = begun(tmp_path, tables(tmp_path), BOSS)
    coordinator = CoordinatorEndpoint(tmp_path / "study")
    coordinator.receive(joined)
    questions = coordinator.questions()
    answers = [SiteEndpoint(kit).receive(q.content) for kit, q in zip(kits, questions, strict=True)]
    contents = [answer.content for answer in answers if answer is not None]
    coordinator.receive(contents[:2])
    assert coordinator.waits_for == ("west",)
    assert CoordinatorEndpoint(tmp_path / "study").takes_part == SITES  # those that have answered, too
    assert not coordinator.goes_on_without
    coordinator.receive([], without=["west"])  # every site is needed: nobody is dropped
    assert coordinator.stopped == "No answer in round 1 (scatter) from west."
    inbox = contents[2:]
    while not coordinator.finished:
        coordinator = CoordinatorEndpoint(tmp_path / "study")
        assert coordinator.receive(inbox) == []
        answers = [
            SiteEndpoint(kit).receive(q.content) for kit, q in zip(kits, coordinator.questions(), strict=True)
        ]
        inbox = [answer.content for answer in answers if answer is not None]
    assert text_of(coordinator.result()) == undisturbed


def test_methods_that_allow_it_go_on_by_the_shares_of_the_others(tmp_path: Path) -> None:
    """With six sites in two groups, a site that drops out takes its group along, and the sum is opened."""
    sites = tuple(f"site{k}" for k in range(6))
    config = PartiesConfig(sites, method="voting", seed=3, settings={"lambda_": 0.1})
    (tmp_path / "data").mkdir()
    rows = tables(tmp_path / "data")
    files = dict(zip(sites, [*rows.values(), *rows.values()], strict=True))
    kits, inbox = begun(tmp_path, files, config)
    coordinator = CoordinatorEndpoint(tmp_path / "study")
    ends = {site: SiteEndpoint(kit) for site, kit in zip(sites, kits, strict=True)}
    for step in range(200):
        assert coordinator.receive(inbox) == []
        if coordinator.finished:
            break
        if coordinator.waits_for == ("site5",) and not inbox:
            assert coordinator.goes_on_without
            coordinator.receive([], without=["site5"])
        inbox = []
        for question in coordinator.questions():
            name = envelopes.header_of(question.content).recipient
            if name == "site5" and step > 3:  # it has joined and shared its secrets, and is gone
                continue
            answer = ends[name].receive(question.content)
            inbox += [] if answer is None else [answer.content]
    assert coordinator.finished, (coordinator.stopped, coordinator.waits_for)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    words = [mount or "mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(place)]
    if mount is None or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("no small disk can be mounted here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_at_one_site_is_waited_for(tmp_path: Path, small_disk: Path, undisturbed: str) -> None:
    files = tables(tmp_path)
    kits, joined = begun(tmp_path, files, BOSS)
    shutil.move(tmp_path / "home-north", small_disk / "home")
    settings = kits[0] / "site.json"
    settings.write_text(settings.read_text().replace(str(tmp_path / "home-north"), str(small_disk / "home")))
    coordinator = CoordinatorEndpoint(tmp_path / "study")
    inbox = joined
    ballast = small_disk / "ballast"
    with SiteEndpoint(kits[0]) as north:
        while not coordinator.finished:
            assert coordinator.receive(inbox) == []
            questions = coordinator.questions()
            with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(bytes(1024))
            with pytest.raises(DataError, match="No space left"):
                north.receive(questions[0].content)
            ballast.unlink()
            answers = [
                north.receive(questions[0].content),
                *(
                    SiteEndpoint(kit).receive(q.content)
                    for kit, q in zip(kits[1:], questions[1:], strict=True)
                ),
            ]
            inbox = [answer.content for answer in answers if answer is not None]
    assert text_of(coordinator.result()) == undisturbed


def test_a_clock_that_is_wrong_by_a_day_does_not_matter(tmp_path: Path, undisturbed: str) -> None:
    """Nothing that is sent or kept has a time, and that of files counts for nothing."""
    kits, inbox = begun(tmp_path, tables(tmp_path), BOSS)
    coordinator = CoordinatorEndpoint(tmp_path / "study")
    while not coordinator.finished:
        assert coordinator.receive(inbox) == []
        for number, path in enumerate(sorted(tmp_path.rglob("*"))):
            moved = time.time() + (-1) ** number * 86_400
            os.utime(path, (moved, moved))
        answers = [
            SiteEndpoint(kit).receive(q.content) for kit, q in zip(kits, coordinator.questions(), strict=True)
        ]
        inbox = [answer.content for answer in answers if answer is not None]
    assert text_of(coordinator.result()) == undisturbed


def killed_often(folder: Path, who: str, kills: int, seed: int) -> tuple[int, str]:
    """How often a process could be killed during one study, and the graph that it ends with."""
    chance, count = random.Random(seed), 0
    with Processes(folder, "admm", "--set", "lambda_=0.1") as processes:
        for name in (*SITES, "coordinator"):
            processes.start(name)
        end = time.monotonic() + 10 * PATIENCE
        while count < kills and processes.running["coordinator"].poll() is None:
            time.sleep(chance.uniform(0.0, 4.0))
            assert time.monotonic() < end
            if (victim := processes.running[who]).poll() is None:
                victim.kill()
                victim.communicate()
                count += 1
                processes.start(who)
        said = {name: processes.finish(name) for name in ("coordinator", *SITES)}
    assert (folder / "study/run/graph.json").is_file(), said
    assert all("The study is finished." in said[site] for site in SITES), said
    return count, (folder / "study/run/graph.json").read_text() + (folder / "study/run/edges.csv").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("who", ["north", "coordinator"])
def test_kills_at_random_moments_lose_no_run(tmp_path: Path, who: str) -> None:
    """The graph and the coefficients are those of a run that was not disturbed, bit for bit."""
    count, run = 0, 0
    plain = tmp_path / "plain"
    plain.mkdir()
    _, expected = killed_often(plain, who, 0, 0)
    while count < KILLS:
        run += 1
        folder = tmp_path / f"run-{run}"
        folder.mkdir()
        killed, found = killed_often(folder, who, KILLS - count, run)
        assert found == expected
        count += killed
