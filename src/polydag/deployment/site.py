"""A site's endpoint: it joins a study, and answers the coordinator's envelopes.

The site's own folder (`home`) holds its identity, its ledger over all studies, and the state of the current
one; nobody but the owner can read it. The kit holds the study's description and the site's settings.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from polydag.deployment import envelopes, sharing
from polydag.deployment.description import Column, Description, Signed, require_same_version
from polydag.deployment.envelopes import Header
from polydag.deployment.learning import LearnerProgram
from polydag.deployment.own_side import Grids, own_side
from polydag.deployment.packing import packed, read_entries, read_json, unpacked, write_json
from polydag.deployment.preparation import (
    StudyTable,
    declared,
    holding,
    prepared,
    selection_of,
    used_columns,
    with_recipe,
)
from polydag.errors import DataError, UsageError
from polydag.federated.methods.registry import METHODS
from polydag.federated.protocol.messages import ANSWER, ASK, COORDINATOR, JOIN, REFUSED, Message
from polydag.federated.protocol.programs import Ask
from polydag.federated.protocol.storage.site_folder import IDENTITY, SiteFolder
from polydag.privacy import policy as policies
from polydag.privacy.masking.identities import Identity, kept_identity
from polydag.privacy.masking.keystreams import derive_key
from polydag.privacy.policy import Policy
from polydag.studies.plan import plan_of

if TYPE_CHECKING:
    from polydag.privacy.settings import Privacy

KIT, SETTINGS, FINAL, CURRENT = "kit.json", "site.json", "final.json", "study.json"
MIN_ROWS = 10


def encryption_keys(identity: Identity) -> tuple[bytes, bytes]:
    """The X25519 key that belongs to an identity: its private and its public part."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    private = derive_key(identity.secret, "encryption")
    return private, X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def _privacy_of(description: Description) -> Privacy:
    found = plan_of(description.config).privacy
    assert found is not None
    return found


def _state_of(path: Path) -> dict[str, Any]:
    """Which study a site's own folder is in, and whether it has ended."""
    return read_entries(path, study=str, finished=bool)


def _sound(final: Any) -> Signed:
    """The final description in a question, which must bring an identity for each of its sites."""
    if not isinstance(final, dict) or set(final) != {"study", "directory"}:
        raise DataError("the question brings no description")
    signed, directory = Signed.of(final["study"]), final["directory"]
    hexadecimal = isinstance(directory, dict) and all(
        isinstance(key, str) and re.fullmatch("[0-9a-f]{64}", key) for key in directory.values()
    )
    sites = tuple(sorted(signed.description.sites))
    if not hexadecimal or tuple(sorted(directory)) != sites or len(set(directory.values())) < len(sites):
        raise DataError("the question does not bring one identity for each site")
    return signed


def _require_agreement(message: Message, description: Description) -> None:
    """Raise where the sites, groups, quorum or recovery of a study are not those that were described."""
    if message.phase != JOIN:
        return
    told, described = message.meta.get("agreement"), LearnerProgram(description).agreement.to_json()
    if not isinstance(told, Mapping) or {**told, "study": described["study"]} != described:
        raise DataError("the sites are to agree on something else than the study's description says")


@dataclass(frozen=True)
class File:
    """A file to be sent."""

    name: str
    content: bytes


@dataclass(frozen=True)
class Question:
    """What an envelope from the coordinator holds, once it is known to be genuine."""

    number: int
    words: dict[str, Any]
    messages: list[Message]

    @property
    def about_data(self) -> bool:
        """Whether numbers computed from rows would leave with the answer."""
        return any(message.phase == ASK for message in self.messages)


class SiteEndpoint:
    """A site that has its kit.

    In a `with` block the site's folder stays open between questions, with its rows in memory, and no other
    program can use it.

    Parameters
    ----------
    kit : path
        The folder with the study's description for this site.
    """

    def __init__(self, kit: str | Path) -> None:
        self.kit = Path(kit)
        self._open: tuple[tuple[Any, ...], SiteFolder] | None = None
        self._held = False
        if not (self.kit / KIT).is_file():
            raise UsageError(f"{self.kit} is not a site's kit: it has no {KIT}.")
        content = read_entries(self.kit / KIT, study=dict, site=str, token=str)
        self.signed = Signed.of(content["study"])
        require_same_version(self.signed.description)
        self.name, self._token = str(content["site"]), str(content["token"])
        self.notes: tuple[str, ...] = ()
        self.refusals: tuple[str, ...] = ()
        self.outcome = sharing.where(self.kit)

    @property
    def settings(self) -> dict[str, Any]:
        """What the owner said on joining."""
        if not (self.kit / SETTINGS).is_file():
            raise UsageError(f"{self.name} has not joined: run polydag site join {self.kit} --data FILE.")
        return read_entries(self.kit / SETTINGS, data=str, query=(str, type(None)), home=str, solvable=bool)

    @property
    def home(self) -> Path:
        """The site's own folder."""
        return Path(self.settings["home"])

    @property
    def identity(self) -> Identity:
        """The site's identity."""
        return kept_identity(self.home / IDENTITY)

    def join(
        self,
        source: str,
        home: str | Path,
        *,
        query: str | None = None,
        abandon: bool = False,
        solvable: bool = False,
    ) -> File:
        """Check the data and join; returns the file for the coordinator.

        Reasons that do not depend on the data, those of the owner's policy, are sent to the coordinator.
        Without a policy file, `solvable` is what the owner allows (see `polydag.privacy.policy.Policy`).
        """
        folder = Path(home)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder.chmod(0o700)
        except OSError as error:
            raise DataError(f"{folder} cannot be written: {error.strerror or error}.") from error
        identity = kept_identity(folder / IDENTITY)
        self._require_idle(folder, abandon=abandon)
        description = self.signed.description
        policy = self._policy(folder, solvable=solvable)
        self._require_coordinator(policy, folder)
        refusal = self._policy_problem(with_recipe(description, self.kit), policy)
        words: dict[str, Any] = {"token": self._token, "key": encryption_keys(identity)[1].hex()}
        if refusal:
            words["refused"] = refusal
            self.refusals = (refusal,)
        else:
            table = prepared(with_recipe(description, self.kit), source, query, released=policy.columns)
            # Under noise the number of rows does not matter: a refusal would say something about it.
            if _privacy_of(description).epsilon is None and table.n < (least := policy.min_rows):
                raise DataError(f"There are {table.n} rows; at least {least} are asked for (min_rows).")
            if not description.columns:
                words["columns"] = declared(description, table, policy.min_rows)
                words["order"] = list(words["columns"])
            if description.asks_for_holdings:
                words["holding"] = holding(description, table, policy.min_rows)
            source = str(Path(source).resolve()) if Path(source).exists() else source
            place = {"data": source, "query": query, "home": str(folder.resolve())}
            write_json(self.kit / SETTINGS, {**place, "solvable": solvable})
        return self._file(envelopes.JOIN, 0, words, [], identity)

    def _require_idle(self, home: Path, *, abandon: bool) -> None:
        known = home / CURRENT
        if not known.is_file():
            return
        other = _state_of(known)
        if other["study"] == self.signed.study or other["finished"]:
            return
        if not abandon:
            raise UsageError(
                f"{home} is in the middle of study {other['study'][:12]}…. Finish it, or give it up with "
                "--abandon: what has left the site stays in its ledger."
            )
        write_json(known, {**other, "finished": True})

    @staticmethod
    def _policy(home: Path, *, solvable: bool) -> Policy:
        if (home / policies.FILE).is_file():
            return policies.read_policy(home)
        return Policy(min_rows=MIN_ROWS, solvable=solvable)

    def _require_coordinator(self, policy: Policy, home: Path) -> None:
        if policy.directory.get(COORDINATOR, self.signed.coordinator) != self.signed.coordinator:
            raise DataError(
                f"the study is signed by another coordinator than the one in {home / policies.FILE}"
            )

    @staticmethod
    def _policy_problem(description: Description, policy: Policy) -> str | None:
        """What in the study's description the owner's policy does not allow."""
        privacy = _privacy_of(description)
        if policy.directory and not privacy.masked:
            return "its policy allows numbers under masks only"
        if policy.directory and (strangers := set(description.sites) - set(policy.directory)):
            return f"its policy does not know the site {min(strangers)}"
        other = [name for name in used_columns(description) if name not in policy.columns]
        if policy.columns and other:
            return f"its owner does not release the column {other[0]}"
        if len(description.sites) < policy.min_sites and privacy.masked:
            return f"its policy asks for sums over at least {policy.min_sites} sites"
        if policy.budget is not None and privacy.epsilon is None:
            return "its policy allows numbers with noise only: the study needs epsilon"
        if policy.budget is not None and (privacy.epsilon or 0) > policy.budget.epsilon:
            return f"its policy allows epsilon up to {policy.budget.epsilon:g}"
        if privacy.quorum is not None and privacy.quorum < policy.quorum:
            return f"its policy asks for a quorum of {policy.quorum}"
        if policy.solvable or not privacy.masked or privacy.epsilon is not None:
            return None
        config = description.config
        if config.method in METHODS:
            return (
                f"its owner does not allow {config.method}, whose sums over many rounds can be solved for "
                "single sites (solvable): use a learner of moments, such as boss, or epsilon"
            )
        if config.site_effects == "random":
            return (
                "its owner does not allow site_effects='random', whose sums can be solved for single sites' "
                "means (solvable): use 'means' or 'none'"
            )
        return None

    def preview(self, envelope: bytes) -> list[str]:
        """What would leave if a question were answered, in words; nothing leaves, and nothing is stored."""
        return self.preview_of(self.opened(envelope))

    def preview_of(self, question: Question) -> list[str]:
        """What would leave if a question were answered, in words."""
        _, description = self._final(question.words)
        found = [f"Question {question.number} of the study {self.signed.study[:12]}…, from the coordinator."]
        if not (self.home / policies.FILE).is_file():
            found.append(
                f"There is no {policies.FILE} in {self.home}: this site trusts the "
                f"coordinator on who the other sites are."
            )
        for message in question.messages:
            if message.phase == ASK:
                found += self._asked_in_words(message, description)
            elif message.phase == ANSWER:
                brings = " The question brings the graph." if question.words.get("graph") else ""
                found.append(f"The study is finished. Nothing leaves.{brings}")
            else:
                found.append(f"{message.phase}: keys for masked sums, which say nothing about rows.")
        return found

    def _asked_in_words(self, message: Message, description: Description) -> list[str]:
        side, state = own_side(description, self.name, self._table(description)), dict[str, Any]()
        if self._open is not None:
            side, state = self._open[1].site.local, dict(self._open[1].state.local)
        over = message.meta.get("over")
        under = f"masked: only their sum over {', '.join(over)} can be read" if over else "NOT MASKED"
        meta = {name: value for name, value in message.meta.items() if name != "task"}
        lines = [
            f"It asks for {message.meta.get('task')!r} of {side.n_rows:g} rows and the columns "
            f"{', '.join(side.names)}."
        ]
        if hasattr(side, "noise"):
            return [*lines, f"Numbers leave with noise, {under}."]
        ask = Ask(str(message.meta.get("task", "")), message.arrays, meta)
        try:
            if why := side.objection(state, ask):
                return [*lines, f"It would be refused: {why}."]
            _, arrays = side.answer(state, ask)
        except DataError as error:
            return [*lines, f"It would be refused: {error}"]
        except KeyError:
            return [*lines, f"What leaves depends on earlier rounds; {under}."]
        return [
            *lines,
            f"These arrays leave, {under}:",
            *(
                f"  {name}: {'×'.join(map(str, array.shape)) or '1'} numbers"
                f"{f', from {array.min():.4g} to {array.max():.4g}' if array.size else ''}"
                for name, array in arrays.items()
            ),
        ]

    def receive(self, envelope: bytes) -> File | None:
        """Answer a question; the answer is on the disk before it is returned. None where there is none."""
        return self.answer(self.opened(envelope))

    def opened(self, envelope: bytes) -> Question:
        """What an envelope holds; a `DataError` says why it is not a question to this site."""
        header, words, messages = self._opened(envelope)
        _, description = self._final(words)
        for message in messages:
            _require_agreement(message, description)
        return Question(header.number, words, messages)

    def answer(self, question: Question) -> File | None:
        """Answer a question; a `DataError` says what keeps this site from answering, such as a full disk."""
        try:
            replies = self._replies(question)
        finally:
            if not self._held:
                self._close()
        if not replies:
            return None
        return self._file(envelopes.ANSWER, question.number, {}, replies, self.identity)

    def _replies(self, question: Question) -> list[Message]:
        final, description = self._final(question.words, keep=True)
        folder = self._folder(final, description)
        replies = folder.step(question.messages)
        if folder.state.phase == ANSWER and folder.state.round:
            self.outcome = self._kept(question.words, description)
            write_json(self.home / CURRENT, {"study": self.signed.study, "finished": True})
        self.notes = folder.state.notes
        self.refusals = folder.state.refusals
        refused = [reply for reply in replies if reply.phase == REFUSED]
        return refused[-1:] or replies

    def _kept(self, words: Mapping[str, Any], description: Description) -> str:
        """Keep the graph that the last question brings; returns what the owner should know of it."""
        if description.keeps_graph:
            return "The graph stays with the coordinator."
        return sharing.keep(words.get("graph"), self.kit)

    def _folder(self, final: Mapping[str, Any], description: Description) -> SiteFolder:
        """The site's folder, open for this study under the owner's present policy."""
        policy = self._policy_for(final, description)
        settings = self.settings
        about = (final, policy, self.home, settings["data"], settings["query"])
        if self._open is not None and self._open[0] == about:
            return self._open[1]
        self._close()
        table = self._table(description)
        masked, selection = _privacy_of(description).masked, selection_of(description, table.gaps)
        grids = Grids(self.home, policy.selections) if masked else None
        side = own_side(description, self.name, table, grids)
        folder = SiteFolder(self.home, self.name, side, policy, masked=masked, selection=selection)
        try:
            if (
                not (self.home / CURRENT).is_file()
                or _state_of(self.home / CURRENT)["study"] != self.signed.study
            ):
                self._require_idle(self.home, abandon=False)
                folder.begin_study()
                write_json(self.home / CURRENT, {"study": self.signed.study, "finished": False})
        except BaseException:
            folder.close()
            raise
        self._open = (about, folder)
        return folder

    def _policy_for(self, final: Mapping[str, Any], description: Description) -> Policy:
        """The owner's policy, with the identities of this study."""
        directory = {name: bytes.fromhex(key) for name, key in final["directory"].items()}
        policy = self._policy(self.home, solvable=self.settings["solvable"])
        self._require_coordinator(policy, self.home)
        for name, key in directory.items() if policy.directory else ():
            if policy.directory.get(name) != key:
                raise DataError(f"the identity of {name} is not the one in {self.home / policies.FILE}")
        if policy.directory and not _privacy_of(description).masked:
            raise DataError(f"{self.home / policies.FILE} allows numbers under masks only")
        policy = dataclasses.replace(policy, directory={**directory, COORDINATOR: self.signed.coordinator})
        if policy.budget is None and (allowance := _privacy_of(description).allowance) is not None:
            policy = dataclasses.replace(policy, budget=allowance)
        return policy

    def _close(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def __enter__(self) -> Self:
        self._held = True
        return self

    def __exit__(self, *error: object) -> None:
        self._held = False
        self._close()

    @property
    def finished(self) -> bool:
        """Whether the study has ended here."""
        if not (self.kit / SETTINGS).is_file() or not (self.home / CURRENT).is_file():
            return False
        current = _state_of(self.home / CURRENT)
        return bool(current["study"] == self.signed.study and current["finished"])

    def _table(self, description: Description) -> StudyTable:
        settings = self.settings
        own = with_recipe(description, self.kit)
        released = self._policy(self.home, solvable=False).columns
        return prepared(own, settings["data"], settings["query"], released=released)

    def _opened(self, envelope: bytes) -> tuple[Header, dict[str, Any], list[Message]]:
        header = envelopes.header_of(envelope)
        expected = Header(
            self.signed.study,
            envelopes.QUESTION,
            header.number,
            COORDINATOR,
            self.name,
            self.signed.coordinator.hex(),
        )
        private, _ = encryption_keys(self.identity)
        words, messages = unpacked(envelopes.opened(envelope, expected=expected, private=private))
        return header, words, messages

    def _final(self, words: dict[str, Any], *, keep: bool = False) -> tuple[dict[str, Any], Description]:
        """The final description and the directory, as the first question brought them."""
        path = self.kit / FINAL
        if path.is_file():
            stored: dict[str, Any] = read_json(path)
            if words.get("final", stored) != stored:
                raise DataError("the coordinator sends another description than before")
        elif "final" not in words:
            raise DataError("an earlier question is missing: it brings the study's columns and identities")
        else:
            stored = words["final"]
        final = _sound(stored)
        if (final.coordinator, final.nonce) != (self.signed.coordinator, self.signed.nonce):
            raise DataError("the description is not that of this study")
        first = self.signed.description
        open_columns = dataclasses.replace(final.description, columns=first.columns, holdings={})
        settled = dataclasses.replace(final.description, holdings={})
        if open_columns != first or (first.columns and settled != first):
            raise DataError("the description was changed after this site had joined")
        if not first.columns and any(
            column != Column(column.kind, levels=column.levels)
            for column in final.description.columns.values()
        ):
            raise DataError("the description says how columns are made, which was open when this site joined")
        if bytes.fromhex(stored["directory"][self.name]) != self.identity.public:
            raise DataError("the coordinator has another identity for this site")
        if keep and not path.is_file():
            write_json(path, stored)
        return stored, final.description

    def _file(
        self, kind: str, number: int, words: dict[str, Any], messages: list[Message], identity: Identity
    ) -> File:
        header = Header(self.signed.study, kind, number, self.name, COORDINATOR, identity.public.hex())
        content = packed(words, messages)
        return File(header.file_name, envelopes.sealed(header, content, identity, self.signed.encryption))
