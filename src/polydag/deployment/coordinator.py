"""The coordinator's endpoint: it makes a study, collects the sites' files, and asks the next question."""

from __future__ import annotations

import dataclasses
import hmac
import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from polydag import sealed_files
from polydag.deployment import envelopes, sharing
from polydag.deployment.description import Description, Signed, holding_of, require_same_version
from polydag.deployment.envelopes import Header
from polydag.deployment.learning import LearnerProgram, answers_of, learn
from polydag.deployment.packing import packed, read_entries, unpacked, write_json
from polydag.deployment.preparation import agreed_columns
from polydag.deployment.site import KIT, File, encryption_keys
from polydag.errors import DataError, PolydagError, UsageError
from polydag.federated.protocol.coordinator import DONE, STOPPED, Coordinator, CoordinatorState
from polydag.federated.protocol.coordinator_masking import Masking, agreement_of
from polydag.federated.protocol.disclosure import Disclosed, Noise, answer_entries, table
from polydag.federated.protocol.equations import COARSE
from polydag.federated.protocol.messages import ANSWER, ASK, CONTRIBUTION, COORDINATOR, Message, timeout
from polydag.federated.protocol.storage.states import from_arrays, to_arrays
from polydag.federated.session import Outcome, protection_statement
from polydag.privacy.ledger import text_of
from polydag.privacy.masking.identities import kept_identity
from polydag.privacy.masking.keystreams import random_bytes
from polydag.sources.gaps.moments import ALLOWED
from polydag.studies.plan import plan_of
from polydag.studies.result import Result

if TYPE_CHECKING:
    from polydag.privacy.settings import Privacy

STUDY, PRIVATE, JOINED, STATE, QUESTIONS = "study.json", "private", "joined", "state", "questions"
_MOST_COLUMNS, _MOST_LEVELS, _MOST_REGIMES = 10_000, 1_000, 1_000
_IDENTITY, _TOKENS, _LEFT, _NUMBER = "identity.key", "tokens.json", "left", "number"
_KEY = re.compile("[0-9a-f]{64}")


def _sentence(given: Any) -> str:
    """Words of a site, as one printable line of bounded length."""
    return "".join(letter for letter in str(given)[:300] if letter.isprintable())


def _declared_columns(given: Any, order: Any) -> dict[str, dict[str, Any]]:
    """The columns that a site declares, in its order; a `DataError` where they are none."""
    if not isinstance(given, dict) or not 0 < len(given) <= _MOST_COLUMNS:
        raise DataError("it does not declare columns")
    named = isinstance(order, list) and all(isinstance(name, str) for name in order)
    if not named or sorted(order) != sorted(given):
        raise DataError("it does not declare the order of its columns")
    for own in given.values():
        kind, levels = (own.get("kind"), own.get("levels")) if isinstance(own, dict) else (None, None)
        sound = isinstance(levels, list) and len(levels) <= _MOST_LEVELS
        if kind not in ("continuous", "discrete") or not sound or {*map(type, levels or ())} - {str}:
            raise DataError("it does not declare columns")
    return {name: {"kind": given[name]["kind"], "levels": given[name]["levels"]} for name in order}


def _declared_holding(given: Any) -> dict[str, Any]:
    """What a site says of its rows; a `DataError` where it says something else."""
    try:
        found = holding_of(given)
    except (KeyError, TypeError):
        raise DataError("it does not say what of its rows the study depends on") from None
    if len(found["regimes"] or ()) > _MOST_REGIMES:
        raise DataError(f"it says of more than {_MOST_REGIMES} sets of variables that they were set")
    return found


def new_study(folder: str | Path, description: Description, kits: Path) -> list[Path]:
    """Make a study's folder and one kit for each site; returns the kits."""
    path = Path(folder)
    if path.exists() and any(path.iterdir()):
        raise UsageError(f"{path} already exists. Choose another folder.")
    targets = {site: kits / f"kit-{site}" for site in description.sites}
    if taken := [target for target in targets.values() if target.exists()]:
        raise UsageError(f"{taken[0]} already exists. Choose another folder with --kits.")
    if description.columns:
        _require_learnable(description)
    (path / JOINED).mkdir(parents=True)
    (path / QUESTIONS).mkdir()
    (path / PRIVATE).mkdir(mode=0o700)
    identity = kept_identity(path / PRIVATE / _IDENTITY)
    signed = Signed.by(description, identity, encryption_keys(identity)[1], random_bytes().hex())
    tokens = {site: random_bytes().hex() for site in description.sites}
    write_json(path / PRIVATE / _TOKENS, tokens)
    for site, kit in targets.items():
        kit.mkdir(parents=True, mode=0o700)
        write_json(kit / KIT, {"site": site, "token": tokens[site], "study": signed.to_json()})
    write_json(path / STUDY, signed.to_json())
    return list(targets.values())


def _require_learnable(description: Description) -> None:
    """Raise where the method cannot learn from such columns, also with gaps and interventions if allowed."""
    held: dict[str, Any] = {"gaps": description.missing in ALLOWED, "regimes": None}
    if description.config.interventions is not None:
        held["regimes"] = [[], [next(iter(description.columns))]]
    some = dict.fromkeys(description.sites, held) if description.asks_for_holdings else {}
    LearnerProgram(dataclasses.replace(description, holdings=some)).begin()


class CoordinatorEndpoint:
    """The coordinator of a study that `new_study` has made.

    Parameters
    ----------
    folder : path
        The study's folder.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not (self.folder / STUDY).is_file():
            raise UsageError(f"{self.folder} is not a study's folder: it has no {STUDY}.")
        self.signed = Signed.read(self.folder / STUDY)
        require_same_version(self.signed.description)
        self.identity = kept_identity(self.folder / PRIVATE / _IDENTITY)
        self.state: CoordinatorState | None = None
        self.number, self.left = 0, list[dict[str, Any]]()
        if (self.folder / PRIVATE / STATE).is_file():
            arrays = sealed_files.read_arrays(self.folder / PRIVATE / STATE, "CoordinatorState")
            self.number = int(arrays.pop(_NUMBER))
            self.left = json.loads(str(arrays.pop(_LEFT)))
            self.state = from_arrays(CoordinatorState, arrays)
        self._machine: Coordinator | None = None

    @property
    def joined(self) -> dict[str, dict[str, Any]]:
        """What the sites have sent on joining."""
        files = {site: self.folder / JOINED / f"{site}.json" for site in self.signed.description.sites}
        return {
            site: read_entries(file, identity=_KEY, key=_KEY)
            for site, file in files.items()
            if file.is_file()
        }

    @property
    def finished(self) -> bool:
        """Whether all sums are there."""
        return self.state is not None and self.state.status == DONE

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The sites whose files are missing."""
        if self.state is None:
            return tuple(site for site in self.signed.description.sites if site not in self.joined)
        return self.state.missing

    @property
    def takes_part(self) -> tuple[str, ...]:
        """The sites over which the present sum goes, those that have answered among them."""
        over = self.state.over if self.state is not None else ()
        return over or self.signed.description.sites

    @property
    def stopped(self) -> str:
        """Why the study has stopped, if it has."""
        return self.state.reason if self.state is not None and self.state.status == STOPPED else ""

    @property
    def made_progress(self) -> tuple[int, ...]:
        """What changes whenever a site's file counts."""
        received = 0 if self.state is None else len(self.state.received)
        return self.number, len(self.joined), received, int(self.finished)

    @property
    def final(self) -> Signed:
        """The final description, with columns."""
        first = self.signed.description
        if first.columns and not first.asks_for_holdings:
            return self.signed
        columns = first.columns or agreed_columns({site: own["columns"] for site, own in self.joined.items()})
        told = {site: own["holding"] for site, own in self.joined.items() if first.asks_for_holdings}
        description = dataclasses.replace(first, columns=columns, holdings=told)
        return Signed.by(description, self.identity, self.signed.encryption, self.signed.nonce)

    @property
    def privacy(self) -> Privacy:
        """How sums are protected."""
        found = plan_of(self.signed.description.config).privacy
        assert found is not None
        return found

    @property
    def machine(self) -> Coordinator:
        """The state machine, once all sites have joined."""
        if self._machine is None:
            program = LearnerProgram(self.final.description)
            masking = None
            if self.privacy.masked:
                agreement = program.agreement
                directory = {site: bytes.fromhex(own["identity"]) for site, own in self.joined.items()}
                masking = Masking(
                    agreement.quorum, agreement.groups, agreement.parts, self.identity, directory
                )
            self._machine = Coordinator(program, masking=masking, pipelined=True)
        return self._machine

    @property
    def goes_on_without(self) -> bool:
        """Whether the method allows for sites that do not answer."""
        return self.state is not None and self.machine.program.tolerates_absence

    def receive(self, envelope_list: Sequence[bytes], *, without: Sequence[str] = ()) -> list[str]:
        """Take the sites' files; returns why some were refused. The state is on the disk afterwards.

        `without` names sites that will not answer: the study goes on where the method allows it.
        """
        refused = [why for envelope in envelope_list if (why := self.take(envelope)) is not None]
        if self.state is None and not self.waits_for:
            if said := {site: own["refused"] for site, own in self.joined.items() if own.get("refused")}:
                site, why = next(iter(said.items()))
                raise DataError(f"{site} does not take part: {why}.")
            state, _ = self.machine.start(self.signed.description.sites)
            self._save(state, self.number + 1)
        if without and self.state is not None:
            if other := [site for site in self.state.missing if site not in without]:
                raise UsageError(f"{', '.join(other)} may still answer: wait, or name them too.")
            self._step([timeout(self.state.round)] * self.machine.patience)
        return refused

    def take(self, envelope: bytes) -> str | None:
        """Take one file of a site; returns why it was refused, if it was."""
        try:
            messages = self._opened(envelope)
        except DataError as error:
            return str(error)
        return self._step(messages) if messages else None

    def questions(self) -> list[File]:
        """The files for the sites that have not answered; made again from the state whenever asked for."""
        if self.state is None:
            return []
        machine, state = self.machine, self.state
        if state.status == DONE:
            sites = self.signed.description.sites
            # Sites compare their units with those of the others; more of the sums is not theirs to see.
            sums = {name: array for name, array in state.result.items() if name in COARSE}
            last = Message(COORDINATOR, "", state.round, ANSWER, sums)
            messages = [dataclasses.replace(last, recipient=site) for site in sites]
            messages = messages if machine.masking is None else machine.masking.signed(messages)
        else:
            _, messages = machine.resume(state)
        by_site: dict[str, list[Message]] = {}
        for message in messages:
            by_site.setdefault(message.recipient, []).append(message)
        return [self._question(site, own) for site, own in by_site.items()]

    def _question(self, site: str, messages: list[Message]) -> File:
        header = Header(
            self.signed.study,
            envelopes.QUESTION,
            self.number,
            COORDINATOR,
            site,
            self.identity.public.hex(),
        )
        directory = {name: own["identity"] for name, own in self.joined.items()}
        words: dict[str, Any] = {"final": {"study": self.final.to_json(), "directory": directory}}
        if self.finished and not self.signed.description.keeps_graph:
            words["graph"] = self._graph
        recipient = bytes.fromhex(self.joined[site]["key"])
        content = packed(words, messages)
        return File(header.file_name, envelopes.sealed(header, content, self.identity, recipient))

    def _opened(self, envelope: bytes) -> list[Message]:
        """The messages of a site's file, if there are new ones; a `DataError` says why it is refused."""
        header = envelopes.header_of(envelope)
        sites, private = self.signed.description.sites, encryption_keys(self.identity)[0]
        if header.study != self.signed.study:
            raise DataError(f"it belongs to the study {header.study[:12]}…, not to {self.signed.study[:12]}…")
        if header.sender not in sites:
            raise DataError(f"{header.sender!r} is not a site of this study")
        known = self.joined.get(header.sender)
        joining = header.kind == envelopes.JOIN
        if known is None and not joining:
            raise DataError(f"{header.sender} has not joined")
        expected = Header(
            self.signed.study,
            envelopes.JOIN if joining else envelopes.ANSWER,
            0 if joining else header.number,
            header.sender,
            COORDINATOR,
            header.identity if known is None else known["identity"],
        )
        try:
            words, messages = unpacked(envelopes.opened(envelope, expected=expected, private=private))
            if joining:
                self._admit(header, words)
                return []
            if header.number < self.number or self._has_answered(header.sender):
                return []  # delivered late or twice
            if any(message.sender != header.sender for message in messages):
                raise DataError("it holds messages of another site")
            if self.state is None:
                raise DataError("not all sites have joined")
            return messages
        except DataError as error:
            raise DataError(f"{header.sender}: {error}") from None

    def _admit(self, header: Header, words: Mapping[str, Any]) -> None:
        tokens = read_entries(self.folder / PRIVATE / _TOKENS, **{header.sender: str})
        if not hmac.compare_digest(str(words.get("token", "")), tokens[header.sender]):
            raise DataError("it was not made with the kit of this site")
        if self.state is not None:
            return  # delivered late or twice
        if not _KEY.fullmatch(str(words.get("key", ""))):
            raise DataError("it brings no key for encryption")
        found: dict[str, Any] = {"identity": header.identity, "key": words["key"]}
        if "refused" in words:
            found["refused"] = _sentence(words["refused"])
        elif not self.signed.description.columns:
            found["columns"] = _declared_columns(words.get("columns"), words.get("order"))
        if "refused" not in words and self.signed.description.asks_for_holdings:
            found["holding"] = _declared_holding(words.get("holding"))
        write_json(self.folder / JOINED / f"{header.sender}.json", found)

    def _has_answered(self, site: str) -> bool:
        return self.state is not None and site in self.state.received

    @property
    def refused(self) -> dict[str, str]:
        """The sites that have refused the present question, with what they say."""
        if self.state is None:
            return {}
        start = f"round {self.state.round}: "
        said = [text[len(start) :] for text in self.state.refusals if text.startswith(start)]
        return {
            site: text[len(site) + 1 :]
            for site in self.state.missing
            for text in said
            if text.startswith((f"{site} refused", f"{site} does not"))
        }

    def _step(self, messages: Sequence[Message]) -> str | None:
        """Process messages; returns why one was refused, if one was."""
        assert self.state is not None
        before, number = self.state, self.number
        if before.status == STOPPED:
            before, _ = self.machine.resume(before)
        after, _ = self.machine.step(before, messages)
        new = [
            message
            for message in messages
            if message.sender in after.received and message.sender not in before.received
        ]
        moved = (after.round, after.phase) != (before.round, before.phase)
        if moved:
            new = [m for m in messages if m.sender in before.asked and m.sender not in before.received]
        self.left += [row for message in new for row in self._disclosed(message, before)]
        refused = [text for text in after.refusals if text not in before.refusals]
        self._save(after, number + 1 if moved else number)
        return next((text for text in refused if "refused a message" in text), None)

    def _disclosed(self, message: Message, state: CoordinatorState) -> list[dict[str, Any]]:
        if message.phase not in (CONTRIBUTION, state.phase):
            return []
        study = state.summing["agreement"]["study"] if state.summing else ""
        phase = ASK if message.phase == CONTRIBUTION else message.phase
        known = state.question
        entries = answer_entries(study, message, phase, known, over=len(state.over), noise=Noise())
        rows = table({message.sender: [text_of(entry) for entry in entries]})
        return [row._asdict() for row in rows]

    def _save(self, state: CoordinatorState, number: int) -> None:
        arrays = {**to_arrays(state), _NUMBER: np.array(number), _LEFT: np.array(json.dumps(self.left))}
        sealed_files.write_arrays(self.folder / PRIVATE / STATE, "CoordinatorState", arrays)
        self.state, self.number = state, number

    @cached_property
    def _graph(self) -> dict[str, Any] | None:
        """The graph for the sites; None where there is none, which `result` explains to the coordinator."""
        try:
            return sharing.shared(self.result())
        except PolydagError:
            return None

    def result(self) -> Result:
        """What the learner found; only when all sums are there."""
        return self._result

    @cached_property
    def _result(self) -> Result:
        if self.state is None or self.state.status != DONE:
            raise UsageError(f"The study is not finished: it waits for {', '.join(self.waits_for)}.")
        answers, rounds = answers_of(self.state.program)
        left = pd.DataFrame(self.left, columns=list(Disclosed._fields)).sort_values("round", kind="stable")
        agreement = agreement_of(self.state.summing) if self.state.summing else None
        outcomes, first = [], 0
        for arrays, count in zip(answers, rounds, strict=True):
            own = left[(left["round"] > first) & (left["round"] <= first + count)]
            own = own.assign(round=own["round"] - first).reset_index(drop=True)
            sets = [self.signed.description.sites]
            told = protection_statement(sets, arrays, own, self.privacy, agreement)
            outcomes.append(Outcome(arrays, own, told, {}, count))
            first += count
        found = learn(self.final.description, answers, outcomes)
        assert isinstance(found, Result)
        if self.privacy.epsilon is not None:
            return found
        rows = [float(own["rows[]"][1]) for own in answers if "rows[]" in own]
        return dataclasses.replace(found, n=rows[0]) if rows else found
