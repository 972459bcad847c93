"""Sites and a coordinator that exchange files through a folder that all of them see."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from apart import PATIENCE, SITES, Processes, polydag, tables
from polydag.deployment import envelopes
from polydag.deployment.coordinator import new_study
from polydag.deployment.description import described
from polydag.deployment.exchange import Exchange
from polydag.deployment.site import File, SiteEndpoint
from polydag.deployment.watching import claimed
from polydag.errors import DataError, UsageError
from polydag.studies.config.shapes import PartiesConfig


def contents(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_three_processes_find_the_graph_of_one_through_a_folder(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        kits = [json.loads((tmp_path / f"kit-{site}/kit.json").read_text()) for site in SITES]
        place = tmp_path / "exchange" / f"study-{SiteEndpoint(tmp_path / 'kit-north').signed.study[:16]}"
        place.mkdir()
        junk = {
            "join-nobody": b"\x80\x04.",
            "answer-1-north": b"POLYDAG1" + bytes(300),
            "question-1-west": b"",
        }
        for name, content in junk.items():
            (place / f"{name}.polydag").write_bytes(content)
        processes.start("coordinator")
        log, end = tmp_path / "study/run.log", time.monotonic() + PATIENCE
        while not log.is_file() or log.read_text().count("was refused") < 2:
            assert time.monotonic() < end
            time.sleep(0.1)
        for site in SITES:
            processes.start(site)
        said = {who: processes.finish(who) for who in ("coordinator", *SITES)}
    assert "boss: 5 edges among 5 variables, 150 rows" in said["coordinator"]
    assert "join-nobody.polydag was refused: it is not a polydag file" in said["coordinator"]
    assert all("The study is finished." in said[site] for site in SITES)
    fitted = ("fit", "--as", "parties", *processes.files.values(), "--method", "boss", "--seed", 3)
    polydag(*fitted, "--out", tmp_path / "one")
    assert (tmp_path / "study/run/graph.json").read_text() == (tmp_path / "one/graph.json").read_text()
    for site in SITES:
        assert f"The graph is in kit-{site}/result." in said[site]
        given = tmp_path / f"kit-{site}/result/graph.json"
        assert given.read_text() == (tmp_path / "one/graph.json").read_text()
    assert "placed question-1-north.polydag" in (tmp_path / "study/run/run.log").read_text()
    secrets = [kit["token"] for kit in kits]
    secrets += [(tmp_path / f"home-{site}/identity.key").read_text().strip() for site in SITES]
    shown = (
        "".join(said.values()).encode() + contents(tmp_path / "study/run") + contents(tmp_path / "exchange")
    )
    shown += b"".join((tmp_path / f"kit-{site}/site.log").read_bytes() for site in SITES)
    assert not [secret for secret in secrets if secret.encode() in shown or bytes.fromhex(secret) in shown]
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "home-north").iterdir()} == {0}
    assert "Finished" in polydag("coordinator", "status", tmp_path / "study")


def test_a_second_coordinator_is_refused_and_the_first_stops_when_asked(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        processes.start("coordinator")
        study = tmp_path / "study"
        end = time.monotonic() + PATIENCE
        while "A coordinator is running" not in polydag("coordinator", "status", study):
            assert time.monotonic() < end
            time.sleep(0.1)
        again = ("coordinator", "run", study, "--exchange", tmp_path / "exchange")
        assert "Another coordinator is running" in polydag(*again, code=2)
        polydag("coordinator", "stop", study)
        assert "Stopped; the study waits for north, south, west" in processes.finish("coordinator")
    assert "No coordinator is running" in polydag("coordinator", "stop", study)
    waited = polydag(*again, "--patience", 0, code=4)
    assert "the study waits for north, south, west. Run the command again to continue." in waited


def test_a_folder_that_is_no_study_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not the folder of a study"), claimed(tmp_path):
        pass


def test_a_file_is_read_when_it_is_whole_and_once(tmp_path: Path) -> None:
    channel = Exchange(tmp_path, "a" * 64)
    place = tmp_path / f"study-{'a' * 16}"
    assert list(channel.arrived("answer")) == []
    place.mkdir()
    for name in (".answer-1-north.polydag.x.tmp", "answer-1-north.polydag.part", "question-1-north.polydag"):
        (place / name).write_bytes(b"no")
    assert list(channel.arrived("answer")) == []
    (place / "answer-1-north.polydag").write_bytes(b"ha")
    (half,) = channel.arrived("answer")
    assert not channel.is_settled(half)  # it may be on its way: it is looked at again
    (place / "answer-1-north.polydag").write_bytes(b"half and half")
    (whole,) = channel.arrived("answer")
    assert whole.content == b"half and half"
    assert list(channel.arrived("answer")) == []
    os.utime(place / "answer-1-north.polydag", (time.time() - 90_000,) * 2)  # delivered again, by a clock
    (again,) = channel.arrived("answer")  # that is a day late
    assert again.content == whole.content


def test_links_pipes_and_devices_in_the_folder_are_not_read(tmp_path: Path) -> None:
    """A stranger who may write there could have a site read another file, wait, or fill its memory."""
    place = tmp_path / f"study-{'a' * 16}"
    place.mkdir()
    (tmp_path / "own").write_bytes(b"the site's own")
    (place / "question-1-north.polydag").symlink_to(tmp_path / "own")
    (place / "question-2-north.polydag").symlink_to("/dev/zero")
    os.mkfifo(place / "question-3-north.polydag")
    (place / "question-4-north.polydag").mkdir()
    with (place / "question-5-north.polydag").open("wb") as file:
        file.truncate(envelopes.LARGEST + 1)  # takes no room on the disk
    found = list(Exchange(tmp_path, "a" * 64).arrived("question", site="north"))
    assert [each.content for each in found] == [b""] * 5


def test_files_for_others_are_left_alone(tmp_path: Path) -> None:
    channel = Exchange(tmp_path, "a" * 64)
    place = tmp_path / f"study-{'a' * 16}"
    place.mkdir()
    for name in (
        "question-10-west",
        "question-9-west",
        "question-1-north-west",
        "join-west",
        "question-x-west",
    ):
        (place / f"{name}.polydag").write_bytes(b"")
    found = [each.name for each in channel.arrived("question", site="west")]
    assert found == ["question-9-west.polydag", "question-10-west.polydag"]


def test_a_file_that_disappears_is_put_back_until_it_has_served(tmp_path: Path) -> None:
    channel = Exchange(tmp_path, "a" * 64)
    channel.put(File("answer-1-north.polydag", b"one"))
    path = tmp_path / f"study-{'a' * 16}" / "answer-1-north.polydag"
    for damage in (path.unlink, lambda: path.write_bytes(b"overwritten by somebody")):
        damage()
        end = time.monotonic() + 30
        while not path.is_file() or path.read_bytes() != b"one":
            assert time.monotonic() < end
            channel.wait(active=True)
    channel.remove_others({"answer-2-north.polydag"})
    channel.wait(active=True)
    assert not path.exists()


def test_a_channel_that_is_out_of_reach_for_a_while_is_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "mounted"
    with pytest.raises(DataError, match="is not a folder"):
        Exchange(folder, "a" * 64)
    folder.mkdir()
    channel = Exchange(folder, "a" * 64)
    folder.rename(tmp_path / "away")
    folder.write_bytes(b"")
    assert list(channel.arrived("question")) == []
    channel.put(File("answer-1-north.polydag", b"one"))
    assert "mounted" in channel.trouble
    folder.unlink()
    (tmp_path / "away").rename(folder)
    end = time.monotonic() + 30
    while channel.trouble:
        assert time.monotonic() < end
        channel.wait(active=True)
    assert (folder / f"study-{'a' * 16}" / "answer-1-north.polydag").read_bytes() == b"one"


def kit_of(folder: Path) -> Path:
    config = PartiesConfig(SITES, method="boss", seed=3)
    return new_study(folder / "study", described(config), folder)[0]


def test_an_owner_approves_each_kind_of_study_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from polydag.cli import approving
    from polydag.cli.options import Approve

    site, home = SiteEndpoint(kit_of(tmp_path)), tmp_path / "home"
    (tmp_path / "later").mkdir()
    later = SiteEndpoint(kit_of(tmp_path / "later"))
    asked: list[str] = []

    def answer(question: str, **_: object) -> bool:
        asked.append(question)
        return len(asked) > 1

    monkeypatch.setattr(approving.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(approving.typer, "confirm", answer)
    with pytest.raises(Exception, match="not approved, and nothing has left"):
        approving.approved_study(site, home, Approve.once)
    approving.approved_study(site, home, Approve.once)
    approving.approved_study(site, home, Approve.once)  # remembered
    assert len(asked) == 2
    approving.approved_study(later, home, Approve.once)  # of another coordinator
    assert len(asked) == 3
    approving.approved_study(site, home, Approve.always)
    approving.approved_study(site, home, Approve.ask)
    assert len(asked) == 4


def test_without_a_terminal_nothing_is_approved(tmp_path: Path) -> None:
    files = tables(tmp_path)
    kit = kit_of(tmp_path)
    (tmp_path / "exchange").mkdir()
    words = ("site", "start", kit, "--data", files["north"], "--home", tmp_path / "home")
    said = polydag(*words, "--exchange", tmp_path / "exchange", code=2)
    assert "no terminal for the question" in said
    assert list((tmp_path / "exchange").iterdir()) == []


def test_a_site_that_does_not_take_part_tells_the_coordinator_why(tmp_path: Path) -> None:
    files, study = tables(tmp_path), tmp_path / "study"
    exchange = tmp_path / "exchange"
    exchange.mkdir()
    config = PartiesConfig(SITES, method="admm", seed=3)
    kits = new_study(study, described(config), tmp_path)
    for kit, site in zip(kits, SITES, strict=True):
        words = ("site", "start", kit, "--data", files[site], "--home", tmp_path / f"home-{site}")
        said = polydag(*words, "--approve", "always", "--exchange", exchange, code=3)
        assert "does not allow admm" in said
    said = polydag("coordinator", "run", study, "--exchange", exchange, code=3)
    assert "north does not take part: its owner does not allow admm" in said


def test_headers_show_no_more_than_they_say(tmp_path: Path) -> None:
    kit = kit_of(tmp_path)
    file = SiteEndpoint(kit).join(str(tables(tmp_path)["north"]), tmp_path / "home")
    header = envelopes.header_of(file.content)
    assert (header.sender, header.recipient, header.kind, header.number) == (
        "north",
        "coordinator",
        "join",
        0,
    )
    assert b"x0" not in file.content
