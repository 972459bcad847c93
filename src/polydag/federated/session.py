"""A study over parties in one process, from its program to its result.

All that a caller needs: which sums are formed is the program's matter, how they are protected that of
`Privacy`. Sites run beside the coordinator here; between organisations each would run its own.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pandas as pd

from polydag.errors import DataWarning, UsageError
from polydag.federated.protection import (
    masked_statement,
    noise_statement,
    open_statement,
    unprotected_regimes,
)
from polydag.federated.protocol.coordinator import Coordinator
from polydag.federated.protocol.coordinator_masking import Masking
from polydag.federated.protocol.disclosure import Disclosed
from polydag.federated.protocol.engine import Federation
from polydag.federated.protocol.fingerprint import fingerprint
from polydag.federated.protocol.messages import Arrays
from polydag.federated.protocol.programs import Local, Program
from polydag.federated.protocol.resume import run_in_pieces
from polydag.federated.protocol.site import Site
from polydag.federated.protocol.site_protection import SiteProtection
from polydag.privacy import ledger
from polydag.privacy.masking.agreement import Agreement
from polydag.privacy.masking.identities import Identity
from polydag.privacy.settings import Privacy

LARGEST_DEFAULT_QUORUM = 4  # a larger one takes longer, and in one process there is nobody to protect from


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a study leaves behind.

    Attributes
    ----------
    result : mapping of name to array
        The program's answer.
    disclosure : DataFrame
        site, round, name, shape, bytes, masked, noise: every array that left a site.
    protection : str
        What was protected from whom, in words.
    notes : mapping of party to tuple of str
        What the parties noticed, such as a column in other units.
    n_rounds : int
        How many questions the coordinator asked.
    """

    result: Arrays
    disclosure: pd.DataFrame
    protection: str
    notes: Mapping[str, tuple[str, ...]]
    n_rounds: int


def run_study(
    program: Program, sites: Mapping[str, Local], privacy: Privacy, *, min_rows: int = 1, key: str = ""
) -> Outcome:
    """Run a program over the parties' sites and keep their ledgers.

    Parties' notes, and sums that masks cannot protect, are also issued as `DataWarning`. Inside
    `checkpoint.saving`, blocks of rounds that are finished survive an interruption.

    Parameters
    ----------
    program : Program
        The coordinator's side of a method.
    sites : mapping of party to Local
        The parties' sides, each with its party's data.
    privacy : Privacy
        How sums are protected.
    min_rows : int
        A party with fewer rows declines to take part, which ends the study.
    key : str
        Settings, other than the program's own and those of `privacy`, on which the result depends: stored
        rounds are reused only where all of these and the data are the same.
    """
    chains = {name: _earlier_studies(privacy, name) for name in sites}
    agreement = None
    if privacy.masked:
        agreement = _agreement(tuple(sites), privacy, recover=program.tolerates_absence)
    coordinator, machines = _machines(program, sites, privacy, min_rows, chains, agreement)
    protection = _protection(sites, privacy, agreement)
    name = f"{key} {fingerprint(program)} {fingerprint(privacy)} {min_rows} {data_fingerprint(sites)}"
    federation = run_in_pieces(coordinator, machines, name)
    if privacy.ledgers is not None:
        for party, state in federation.sites.items():
            ledger.write(_ledger_file(privacy, party), state.ledger)
    return _outcome(federation, protection)


def _agreement(all_sites: tuple[str, ...], privacy: Privacy, *, recover: bool) -> Agreement:
    """What the sites agree on, with a default quorum that is quick to run in one process."""
    agreement = Agreement.default("", all_sites, recover=recover, quorum=privacy.quorum)
    if privacy.quorum is None and not recover:
        quorum = min(agreement.quorum, LARGEST_DEFAULT_QUORUM)
        agreement = Agreement.default("", all_sites, recover=recover, quorum=quorum)
    agreement.check()
    return agreement


def _machines(
    program: Program,
    sites: Mapping[str, Local],
    privacy: Privacy,
    min_rows: int,
    chains: Mapping[str, tuple[ledger.Entry, ...]],
    agreement: Agreement | None,
) -> tuple[Coordinator, dict[str, Site]]:
    """The coordinator and the sites, each with its own identity and what its ledger remembers."""
    last = {name: chain[-1].hash if chain else ledger.START for name, chain in chains.items()}
    if agreement is None:
        machines = {name: Site(local, min_rows, last_hash=last[name]) for name, local in sites.items()}
        return Coordinator(program), machines
    identities = {name: Identity() for name in sites}
    directory = {name: identity.public for name, identity in identities.items()}
    machines = {
        name: Site(
            local,
            min_rows,
            SiteProtection(
                identities[name],
                directory,
                sets=ledger.summed_sets(chains[name]),
                budget=privacy.allowance,
                spent=ledger.multipliers(chains[name]),
            ),
            last[name],
        )
        for name, local in sites.items()
    }
    return Coordinator(program, masking=Masking(agreement.quorum, tags=False)), machines


def _protection(sites: Mapping[str, Local], privacy: Privacy, agreement: Agreement | None) -> str:
    """What is protected from whom; what masks cannot protect is also a warning."""
    if agreement is None:
        return open_statement()
    sentences = [masked_statement(agreement)]
    if privacy.epsilon is not None:
        sentences.append(noise_statement(privacy, agreement))
    if exposed := unprotected_regimes(sites):
        warnings.warn(exposed, DataWarning, stacklevel=4)
        sentences.append(f"However: {exposed}")
    return " ".join(sentences)


def _outcome(federation: Federation, protection: str) -> Outcome:
    notes = {name: tuple(dict.fromkeys(site.notes)) for name, site in federation.sites.items() if site.notes}
    for name, own in notes.items():
        for note in own:
            warnings.warn(f"{name}: {note}", DataWarning, stacklevel=4)
    return Outcome(
        federation.coordinator.result,
        pd.DataFrame(federation.disclosed, columns=list(Disclosed._fields)),
        protection,
        notes,
        federation.coordinator.round - 1,
    )


def one_after_the_other(disclosures: list[pd.DataFrame]) -> pd.DataFrame:
    """The disclosures of several studies as one table, with their rounds numbered consecutively."""
    before = 0
    moved = []
    for table in disclosures:
        moved.append(table.assign(round=table["round"] + before))
        before = int(moved[-1]["round"].max()) if len(table) else before
    return pd.concat(moved, ignore_index=True)


def data_fingerprint(sites: Mapping[str, Local]) -> str:
    """A hash of all parties' data, so that stored rounds are not taken for those of other data."""
    digest = hashlib.sha256()
    for name, local in sites.items():
        digest.update(name.encode() + local.fingerprint())
    return digest.hexdigest()[:16]


def _earlier_studies(privacy: Privacy, party: str) -> tuple[ledger.Entry, ...]:
    return () if privacy.ledgers is None else ledger.read_intact(_ledger_file(privacy, party))


def _ledger_file(privacy: Privacy, party: str) -> Path:
    folder = Path(str(privacy.ledgers))
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; ledgers are kept in a folder, one file for each party.")
    return folder / f"{quote(party, safe=' ')}.jsonl"
