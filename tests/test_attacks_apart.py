"""Attacks on sites and a coordinator that run apart: each succeeds where its protection is taken away."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from apart import SITES, begun, run_apart, tables
from polydag.deployment import envelopes
from polydag.deployment.coordinator import CoordinatorEndpoint, new_study
from polydag.deployment.description import Column, Description, Signed, described
from polydag.deployment.envelopes import Header, sealed
from polydag.deployment.packing import packed
from polydag.deployment.site import SiteEndpoint, encryption_keys
from polydag.errors import DataError
from polydag.federated.protocol.messages import COORDINATOR
from polydag.privacy import ledger
from polydag.privacy.ledger import Ledger
from polydag.privacy.masking.identities import Identity, kept_identity
from polydag.sealed_files import write_all
from polydag.studies.config.shapes import PartiesConfig

BOSS = PartiesConfig(SITES, method="boss", seed=3)


def test_labels_that_few_rows_have_are_not_told_on_joining(tmp_path: Path) -> None:
    """A study with open columns would be told all that stands in a column of words: names, addresses."""
    rows = pd.DataFrame({"x": np.arange(60.0), "doctor": ["Jones"] * 57 + ["Adams"] * 3})
    rows.to_csv(tmp_path / "north.csv", index=False)
    kit = new_study(tmp_path / "study", described(BOSS), tmp_path)[0]
    site = SiteEndpoint(kit)
    with pytest.raises(
        DataError, match="column doctor has labels that fewer than 10 rows have, such as 'Adams'"
    ):
        site.join(str(tmp_path / "north.csv"), tmp_path / "home")
    rows.assign(doctor="Jones").to_csv(tmp_path / "other.csv", index=False)
    assert site.join(str(tmp_path / "other.csv"), tmp_path / "home")


def test_interventions_that_few_rows_name_are_not_told_on_joining(tmp_path: Path) -> None:
    """A study could name its columns after doctors, and a column of doctors as that of interventions."""
    rows = pd.DataFrame({"x": np.arange(60.0), "y": 1.0 * (np.arange(60) % 7)})
    told = rows.assign(doctor=["Jones"] * 57 + ["Adams"] * 3)
    told.to_csv(tmp_path / "north.csv", index=False)
    made = {"Jones": Column(from_="x"), "Adams": Column(from_="y")}
    description = dataclasses.replace(
        described(dataclasses.replace(BOSS, interventions="doctor")), columns=made
    )
    kit = new_study(tmp_path / "study", description, tmp_path)[0]
    with pytest.raises(DataError, match="there are 3 rows in which Adams was set; at least 10"):
        SiteEndpoint(kit).join(str(tmp_path / "north.csv"), tmp_path / "home")


class Liar:
    """A coordinator that sends a site what it likes, with its own signature."""

    def __init__(self, folder: Path) -> None:
        self.files = tables(folder)
        self.kits, joined = begun(folder, self.files, BOSS)
        self.coordinator = CoordinatorEndpoint(folder / "study")
        assert self.coordinator.receive(joined) == []
        self.site = SiteEndpoint(self.kits[0])

    def question(self, final: Any, messages: Any = ()) -> bytes:
        own = self.coordinator
        header = Header(
            own.signed.study, envelopes.QUESTION, 1, COORDINATOR, "north", own.identity.public.hex()
        )
        key = bytes.fromhex(own.joined["north"]["key"])
        return sealed(header, packed({"final": final}, messages), own.identity, key)

    def final(self, description: Description | None = None, **directory: str) -> dict[str, Any]:
        own = self.coordinator
        signed = (
            own.final
            if description is None
            else Signed.by(description, own.identity, own.signed.encryption, own.signed.nonce)
        )
        known = {name: each["identity"] for name, each in own.joined.items()}
        return {"study": signed.to_json(), "directory": {**known, **directory}}

    def refused(self, change: Any) -> str:
        """Why the site does not read the first question with its messages changed."""
        own = self.coordinator
        assert own.state is not None
        _, messages = own.machine.resume(own.state)
        first = [change(message) for message in messages if message.recipient == "north"]
        with pytest.raises(DataError) as refusal:
            self.site.receive(self.question(self.final(), own.machine.masking.signed(first)))
        return str(refusal.value)


@pytest.mark.parametrize(
    "agreement",
    [
        {"quorum": 2},
        {"recover": True},
        {"all_sites": ["north", "south", "east"]},
        {"groups": [["south", "west", "north"]]},
        {"parts": {}},
        {"more": 1},
        None,
    ],
)
def test_the_sites_agree_on_what_the_description_says(tmp_path: Path, agreement: Any) -> None:
    liar = Liar(tmp_path)

    def changed(message: Any) -> Any:
        told = message.meta["agreement"]
        told = agreement if agreement is None else {**told, **agreement}
        return dataclasses.replace(message, meta={**message.meta, "agreement": told})

    assert "something else than the study's description" in liar.refused(changed)
    assert liar.site.receive(liar.coordinator.questions()[0].content) is not None


@pytest.mark.parametrize(
    ("study", "said"),
    [
        ({"cluster": "tcp://203.0.113.1:8786"}, "sets cluster"),  # a scheduler whose messages are unpickled
        ({"knowledge": "/etc/passwd"}, "sets knowledge"),
        ({"query": "SELECT * FROM staff"}, "sets query"),
        ({"settings": {"privacy": {"ledgers": "/etc"}}}, "sets ledgers"),
        ({"settings": {"ledgers": "/etc"}}, "sets ledgers"),
        ({"settings": {"no such": 1}}, "cannot be read"),
        ({"bootstrap": 100}, "sets bootstrap"),
        ({"missing": "impute"}, "sets missing = impute"),
        ({"jobs": 1000}, "sets jobs"),
        ({"groups": "x1"}, "sets groups"),
        ({"links": "/etc/passwd", "row_ids": "x1"}, "sets links"),
        ({"covariates": ["x1"], "groups": "x1"}, "sets groups"),
        ({"columns": ["x1"]}, "sets columns"),
        ({"data": ["../north", "south", "west"]}, "is no name"),
        ({"data": [".north", "south", "west"]}, "is no name"),
        ({"shape": "table"}, "cannot be read"),
    ],
)
def test_a_description_that_sets_more_than_a_study_apart_is_not_read(
    study: dict[str, Any], said: str
) -> None:
    sound = described(BOSS)
    odd = dataclasses.replace(sound, study={**sound.study, **study})
    signed = Signed.by(odd, Identity(), bytes(32), "00")
    with pytest.raises(DataError, match=said):
        Signed.of(signed.to_json())


@pytest.mark.parametrize("text", ["", "age", "age >=", "age in 3", "__import__('os') or 1"])
def test_a_condition_that_is_none_is_not_read(text: str) -> None:
    odd = dataclasses.replace(described(BOSS), filters=(text,))
    signed = Signed.by(odd, Identity(), bytes(32), "00")
    with pytest.raises(DataError, match="is not COLUMN OPERATOR VALUE"):
        Signed.of(signed.to_json())


@pytest.mark.parametrize("column", [Column(from_="x4"), Column(factor=-1.0), Column(na=("0.1",))])
def test_open_columns_do_not_bring_a_recipe_after_joining(tmp_path: Path, column: Column) -> None:
    liar = Liar(tmp_path)
    described_later = liar.coordinator.final.description
    changed = dataclasses.replace(described_later, columns={**described_later.columns, "x0": column})
    with pytest.raises(DataError, match="how columns are made, which was open"):
        liar.site.receive(liar.question(liar.final(changed)))


@pytest.mark.parametrize(
    "directory",
    [
        {"north": "zz" * 32},
        {"north": "ab"},
        {"stranger": "ab" * 32},
        {"north": Identity().public.hex()},
        {"north": 3},
    ],
)
def test_a_directory_that_is_none_is_refused_in_words(tmp_path: Path, directory: dict[str, Any]) -> None:
    liar = Liar(tmp_path)
    with pytest.raises(DataError, match=r"one identity for each site|another identity for this site"):
        liar.site.receive(liar.question(liar.final(**directory)))
    for final in (None, 3, [], {}, {"study": {}, "directory": {}}, {"study": 1, "directory": 2, "more": 3}):
        with pytest.raises(DataError):
            liar.site.receive(liar.question(final))
    assert liar.site.receive(liar.coordinator.questions()[0].content) is not None  # nothing has happened


@pytest.mark.parametrize(
    "words",
    [
        {"key": "zz"},
        {"columns": None},
        {"columns": {}, "order": []},
        {"order": None},
        {"order": ["x1"]},
        {"order": ["x0", "x0"]},
        {"order": [{}]},
        {"columns": {"x0": 3}},
        {"columns": {"x0": {"kind": "continuous", "levels": [1]}}},
        {"columns": {"x0": {"kind": "odd", "levels": []}}},
        {"columns": {"x0": {"kind": "discrete", "levels": ["a"] * 10_000}}},
        {"token": "of another site"},
    ],
)
def test_a_site_that_joins_with_nonsense_does_not_end_the_study_of_the_others(
    tmp_path: Path, words: dict[str, Any]
) -> None:
    files = tables(tmp_path)
    kits, joined = begun(tmp_path, files, BOSS)
    coordinator = CoordinatorEndpoint(tmp_path / "study")
    identity, site = kept_identity(tmp_path / "home-north" / "identity.key"), SiteEndpoint(kits[0])
    header = Header(site.signed.study, envelopes.JOIN, 0, "north", COORDINATOR, identity.public.hex())
    columns = {"x0": {"kind": "continuous", "levels": []}}
    honest = {"token": site._token, "key": encryption_keys(identity)[1].hex(), "columns": columns}
    honest["order"] = ["x0"]
    content = packed({**honest, **words})
    envelope = sealed(header, content, identity, site.signed.encryption)
    (why,) = coordinator.receive([envelope])
    assert why.startswith("north: ")
    assert coordinator.receive(joined) == []
    assert coordinator.waits_for == SITES


def test_a_site_cannot_fill_the_memory_of_the_coordinator_with_refusals(tmp_path: Path) -> None:
    liar = Liar(tmp_path)
    coordinator = liar.coordinator
    machine, state = coordinator.machine, coordinator.state
    assert state is not None
    from polydag.federated.protocol.messages import Message

    odd = [Message("north", COORDINATOR, 7, "join") for _ in range(3000)]
    state, _ = machine.step(state, odd)
    assert len(state.refusals) <= 1000


@pytest.mark.parametrize("cut", range(1, 400, 37))
def test_a_ledger_whose_end_a_power_cut_has_torn_goes_on(tmp_path: Path, cut: int) -> None:
    """Entries are written before anything is sent, so a torn one is about nothing that has left."""
    identity = Identity()
    with Ledger(tmp_path, identity) as own:
        own.append([ledger.text_of(ledger.Entry("study", 1, ledger.DATA, "mean"))])
        before = own.entries
        size = (tmp_path / ledger.FILE).stat().st_size
        own.append([ledger.text_of(ledger.Entry("study", k, ledger.DATA, "scatter")) for k in (2, 3)])
    content = (tmp_path / ledger.FILE).read_bytes()
    torn = max(size, len(content) - cut)
    (tmp_path / ledger.FILE).write_bytes(content[:torn])
    with Ledger(tmp_path, identity) as own:
        assert own.entries == before
        own.append([ledger.text_of(ledger.Entry("study", 2, ledger.DATA, "scatter"))])
    assert ledger.first_broken(ledger.read(tmp_path), identity.public) is None


def test_after_a_disk_that_was_full_a_site_keeps_its_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of a record stays behind when the disk fills up: what is written later must not be lost."""
    files = tables(tmp_path)
    kits, joined = begun(tmp_path, files, BOSS)
    coordinator = CoordinatorEndpoint(tmp_path / "study")
    assert coordinator.receive(joined) == []
    full, chance = [True], random.Random(1)

    def on_a_full_disk(handle: int, content: bytes) -> None:
        if full[0] and len(content) > 100:
            write_all(handle, content[: chance.randrange(len(content))])
            raise OSError(28, "No space left on device")
        write_all(handle, content)

    from polydag.federated.protocol.storage import site_folder
    from polydag.privacy import ledger as ledgers

    monkeypatch.setattr(site_folder.sealed_files, "write_all", on_a_full_disk)
    monkeypatch.setattr(ledgers, "write_all", on_a_full_disk)
    with SiteEndpoint(kits[0]) as north:
        question = coordinator.questions()[0].content
        for _ in range(3):
            with pytest.raises(DataError, match="No space left"):
                north.receive(question)
        full[0] = False
        assert north.receive(question) is not None
    again = SiteEndpoint(kits[0])  # a new process, which reads the state from the disk
    repeated = again.receive(question)
    assert repeated is not None
    inbox = [repeated.content]
    inbox += [
        answer.content
        for kit, q in zip(kits[1:], coordinator.questions()[1:], strict=True)
        if (answer := SiteEndpoint(kit).receive(q.content)) is not None
    ]
    assert coordinator.receive(inbox) == []
    assert coordinator.number == 2


def test_the_owner_releases_columns(tmp_path: Path) -> None:
    """A column that is not released is neither asked for, nor the subject of a condition, nor named."""
    home = tmp_path / "home"
    home.mkdir()
    rows = pd.DataFrame(np.random.default_rng(1).normal(size=(50, 3)), columns=["x", "y", "hiv"])
    rows.to_csv(tmp_path / "north.csv", index=False)
    keys = {name: Identity().public.hex() for name in SITES}
    text = '[sums]\ngroup = ["north", "south", "west"]\nquorum = 2\n[questions]\ntasks = []\nrounds = 9\n'
    text += '[rows]\ncolumns = ["x", "y"]\n[identities]\n'
    text += "".join(f'{name} = "{key}"\n' for name, key in keys.items())

    def joined(folder: str, description: Description) -> SiteEndpoint:
        site = SiteEndpoint(new_study(tmp_path / folder, description, tmp_path / f"kit-{folder}")[0])
        (home / "policy.toml").write_text(f'{text}coordinator = "{site.signed.coordinator.hex()}"\n')
        site.join(str(tmp_path / "north.csv"), home)
        return site

    for number, (columns, filters) in enumerate(
        [
            ({"x": Column(), "hiv": Column()}, ()),
            ({"x": Column(from_="hiv")}, ()),
            ({"x": Column()}, ("hiv > 0",)),
        ]
    ):
        first = described(BOSS)
        description = dataclasses.replace(first, columns=columns, filters=filters)
        refusals = joined(f"study-{number}", description).refusals
        assert refusals == ("its owner does not release the column hiv",)
    assert joined("open", described(BOSS)).refusals == ()


def test_a_whole_study_still_ends_well(tmp_path: Path) -> None:
    assert run_apart(tmp_path, tables(tmp_path), BOSS).graph.n_edges == 5


def with_policy(home: Path, keys: dict[str, str], **rows: int) -> None:
    text = "[sums]\ngroup = []\nquorum = 2\n[questions]\ntasks = []\nrounds = 9\nsolvable = true\n[rows]\n"
    text += "".join(f"{name} = {value}\n" for name, value in rows.items()) + "[identities]\n"
    home.mkdir(parents=True, exist_ok=True)
    (home / "policy.toml").write_text(text + "".join(f'{name} = "{key}"\n' for name, key in keys.items()))


def test_a_site_with_a_policy_knows_its_coordinator_and_all_other_sites(tmp_path: Path) -> None:
    """The policy names them; a study says who they are, and its coordinator may have made them up."""
    files = tables(tmp_path)
    kits = new_study(tmp_path / "study", described(BOSS), tmp_path)
    coordinator = CoordinatorEndpoint(tmp_path / "study")
    homes = {site: tmp_path / f"home-{site}" for site in SITES}
    known = {site: kept_identity(home / "identity.key").public.hex() for site, home in homes.items()}
    known[COORDINATOR] = coordinator.identity.public.hex()
    north, home = SiteEndpoint(kits[0]), homes["north"]

    with_policy(home, {**known, COORDINATOR: Identity().public.hex()})
    with pytest.raises(DataError, match="another coordinator than the one in"):
        north.join(str(files["north"]), home)
    with_policy(home, {name: key for name, key in known.items() if name != "west"})
    north.join(str(files["north"]), home)
    assert north.refusals == ("its policy does not know the site west",)
    for wrong in ({"west": Identity().public.hex()}, {COORDINATOR: Identity().public.hex()}, {}):
        with_policy(home, known)
        north = SiteEndpoint(kits[0])
        inbox = [north.join(str(files["north"]), home, abandon=True).content]
        inbox += [
            SiteEndpoint(kit).join(str(files[site]), homes[site], abandon=True).content
            for kit, site in zip(kits[1:], SITES[1:], strict=True)
        ]
        if not coordinator.questions():
            assert coordinator.receive(inbox) == []
        with_policy(home, {**known, **wrong})
        question = coordinator.questions()[0].content
        if not wrong:
            assert north.receive(question) is not None
            continue
        with pytest.raises(DataError, match=r"is not the one in|another coordinator"):
            north.receive(question)


def test_a_site_with_a_policy_answers_under_masks_only(tmp_path: Path) -> None:
    files = tables(tmp_path)
    config = dataclasses.replace(BOSS, settings={"privacy": {"mode": "none"}})
    kits = new_study(tmp_path / "study", described(config), tmp_path)
    coordinator = CoordinatorEndpoint(tmp_path / "study")
    homes = {site: tmp_path / f"home-{site}" for site in SITES}
    known = {site: kept_identity(home / "identity.key").public.hex() for site, home in homes.items()}
    known[COORDINATOR] = coordinator.identity.public.hex()
    sites = [SiteEndpoint(kit) for kit in kits]
    with_policy(homes["north"], known)
    sites[0].join(str(files["north"]), homes["north"])
    assert sites[0].refusals == ("its policy allows numbers under masks only",)
    (homes["north"] / "policy.toml").unlink()  # or the owner writes the policy after joining
    inbox = [end.join(str(files[site]), homes[site]).content for end, site in zip(sites, SITES, strict=True)]
    assert coordinator.receive(inbox) == []
    with_policy(homes["north"], known)
    with pytest.raises(DataError, match="allows numbers under masks only"):
        sites[0].receive(coordinator.questions()[0].content)
    (homes["north"] / "policy.toml").unlink()
    assert sites[0].receive(coordinator.questions()[0].content) is not None


@pytest.mark.parametrize(("epsilon", "joins"), [(None, False), (1.0, True)])
def test_with_noise_few_rows_are_no_reason_not_to_join(
    tmp_path: Path, epsilon: float | None, joins: bool
) -> None:
    """Whether a site joins is seen; with noise it must not depend on single rows."""
    files = tables(tmp_path)
    config = dataclasses.replace(BOSS, settings={} if epsilon is None else {"epsilon": epsilon})
    kits = new_study(tmp_path / "study", described(config), tmp_path)
    known = {name: Identity().public.hex() for name in SITES}
    identity = CoordinatorEndpoint(tmp_path / "study").identity
    with_policy(tmp_path / "home", {**known, COORDINATOR: identity.public.hex()}, min_rows=51)  # it has 50
    site = SiteEndpoint(kits[0])
    if joins:
        assert site.join(str(files["north"]), tmp_path / "home")
        return
    with pytest.raises(DataError, match="There are 50 rows; at least 51"):
        site.join(str(files["north"]), tmp_path / "home")


def test_one_identity_is_not_taken_for_two_sites(tmp_path: Path) -> None:
    liar = Liar(tmp_path)
    south = liar.final()["directory"]["south"]
    with pytest.raises(DataError, match="one identity for each site"):
        liar.site.receive(liar.question(liar.final(west=south)))
