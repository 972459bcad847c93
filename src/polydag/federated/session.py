"""A study over parties in one process, from its program to its result.

All that a caller needs: which sums are formed is the program's matter, how they are protected that of
`Privacy`. Sites run beside the coordinator here; between organisations each would run its own.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

import pandas as pd

from polydag.errors import DataError, DataWarning, UsageError
from polydag.federated.protection import (
    equations_statement,
    masked_statement,
    noise_statement,
    open_statement,
    opened_equations,
)
from polydag.federated.protocol.coordinator import Coordinator
from polydag.federated.protocol.coordinator_masking import Masking
from polydag.federated.protocol.disclosure import Disclosed
from polydag.federated.protocol.engine import Federation
from polydag.federated.protocol.messages import AnyArray, Arrays
from polydag.federated.protocol.programs import Local, Program
from polydag.federated.protocol.site import Site, SiteState
from polydag.federated.protocol.site_protection import SiteProtection, rows_of_parts
from polydag.federated.protocol.storage.fingerprint import fingerprint
from polydag.federated.protocol.storage.resume import run_in_pieces
from polydag.privacy import differencing, ledger
from polydag.privacy.differencing import MIN_SITES
from polydag.privacy.masking.agreement import Agreement
from polydag.privacy.masking.identities import Identity, kept_identity
from polydag.privacy.policy import Policy
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
        A description of what was protected from whom.
    notes : mapping of party to tuple of str
        What the parties noticed, such as a column in other units.
    n_rounds : int
        The number of questions that the coordinator asked.
    """

    result: Arrays
    disclosure: pd.DataFrame
    protection: str
    notes: Mapping[str, tuple[str, ...]]
    n_rounds: int


Elsewhere = Callable[[Program, Mapping[str, Local]], Outcome]
_elsewhere: ContextVar[Elsewhere | None] = ContextVar("elsewhere", default=None)


@contextmanager
def running_elsewhere(answer: Elsewhere) -> Iterator[None]:
    """Inside the block `run_study` hands its program and the parties' sides over instead of running them."""
    token = _elsewhere.set(answer)
    try:
        yield
    finally:
        _elsewhere.reset(token)


def runs_elsewhere() -> bool:
    """Whether studies are run by sites of their own, and not in this process."""
    return _elsewhere.get() is not None


def run_study(
    program: Program, sites: Mapping[str, Local], privacy: Privacy, *, min_rows: int = 1, key: str = ""
) -> Outcome:
    """Run a program over the parties' sites and keep their ledgers.

    Parties' notes are also issued as `DataWarning`; `protection` says where sums can be solved for single
    parties. Inside `checkpoint.saving`, blocks of rounds that are finished survive an interruption.

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
    if (elsewhere := _elsewhere.get()) is not None:
        return elsewhere(program, sites)
    if privacy.epsilon is not None:  # sites do not refuse then: that would say something about their rows
        _require_rows(sites, min_rows)
    with ExitStack() as stack:
        ledgers = {name: stack.enter_context(own) for name, own in _ledgers(tuple(sites), privacy).items()}
        earlier = {name: own.entries for name, own in ledgers.items()}
        agreement = None
        if privacy.masked:
            agreement = _agreement(sites, privacy, earlier, recover=program.tolerates_absence)
        coordinator, machines = _machines(program, sites, privacy, min_rows, ledgers, agreement)
        name = f"{key} {fingerprint(program)} {fingerprint(privacy)} {min_rows} {data_fingerprint(sites)}"

        def record(party: str, before: SiteState, after: SiteState) -> None:
            if party in ledgers:
                ledgers[party].append(after.ledger[len(before.ledger) :])

        federation = run_in_pieces(coordinator, machines, name, record)
    return _outcome(federation, privacy, agreement)


def _require_rows(sites: Mapping[str, Local], min_rows: int) -> None:
    for name, local in sites.items():
        if local.n_rows < min_rows:
            raise DataError(
                f"{name} has {local.n_rows:g} rows; at least {min_rows} are asked for (min_rows)."
            )


def _agreement(
    sites: Mapping[str, Local],
    privacy: Privacy,
    earlier: Mapping[str, tuple[ledger.Entry, ...]],
    *,
    recover: bool,
) -> Agreement:
    """What the sites agree on, with a default quorum that is quick to run in one process."""
    all_sites = tuple(sites)
    known = [group for chain in earlier.values() for group in ledger.own_groups(chain)]
    parts: dict[str, tuple[str, ...]] = {}
    for name, local in sites.items():
        for part in rows_of_parts(local):
            parts[part] = (*parts.get(part, ()), name)
    agreement = Agreement.default(
        "",
        all_sites,
        recover=recover,
        quorum=privacy.quorum,
        groups=differencing.groups(all_sites, known),
        parts=parts,
    )
    if privacy.quorum is None and not recover:
        agreement = replace(agreement, quorum=min(agreement.quorum, LARGEST_DEFAULT_QUORUM))
    if len(all_sites) >= MIN_SITES and (why := differencing.group_problem(all_sites, agreement.groups)):
        raise DataError(f"{why} The ledgers remember {_groups_in_words(known)}.")
    agreement.check()
    return agreement


def _groups_in_words(known: Sequence[Sequence[str]]) -> str:
    found = dict.fromkeys(", ".join(group) for group in known)
    return f"sums over the groups {'; '.join(found)}" if found else "no groups"


def _machines(
    program: Program,
    sites: Mapping[str, Local],
    privacy: Privacy,
    min_rows: int,
    ledgers: Mapping[str, ledger.Ledger],
    agreement: Agreement | None,
) -> tuple[Coordinator, dict[str, Site]]:
    """The coordinator and the sites, each with its own identity and what its ledger remembers."""
    if agreement is None:
        return Coordinator(program), {name: Site(local, min_rows) for name, local in sites.items()}
    identities = {name: ledgers[name].identity if name in ledgers else Identity() for name in sites}
    directory = {name: identity.public for name, identity in identities.items()}
    policy = Policy(directory, budget=privacy.allowance)
    machines = {}
    for name, local in sites.items():
        earlier = ledgers[name].entries if name in ledgers else ()
        machines[name] = Site(local, min_rows, SiteProtection(identities[name], policy, earlier))
    masking = Masking(agreement.quorum, agreement.groups, agreement.parts)
    return Coordinator(program, masking=masking), machines


def _summed_sets(federation: Federation) -> set[tuple[str, ...]]:
    """The sets of sites over which sums were formed, as the ledgers of this run show."""
    return {
        tuple(sites)
        for state in federation.sites.values()
        for sites in ledger.summed_sets(ledger.parse(line for line in state.ledger if ledger.SUM in line))
    }


def protection_statement(
    sets: Collection[Collection[str]],
    result: Arrays,
    disclosure: pd.DataFrame,
    privacy: Privacy,
    agreement: Agreement | None,
) -> str:
    """What was protected from whom, given the sets of sites over which sums were formed."""
    if agreement is None:
        return open_statement()
    linear = privacy.epsilon is not None or not opened_equations(disclosure)
    sentences = [masked_statement(agreement, sets, linear=linear)]
    if privacy.epsilon is not None:
        sentences.append(noise_statement(privacy, agreement))
    else:
        weights = result.get("weights")
        d = 0 if weights is None else len(weights)
        sentences.append(equations_statement(disclosure, len(agreement.all_sites), d))
    return " ".join(filter(None, sentences))


def _outcome(federation: Federation, privacy: Privacy, agreement: Agreement | None) -> Outcome:
    notes = {name: tuple(dict.fromkeys(site.notes)) for name, site in federation.sites.items() if site.notes}
    for name, own in notes.items():
        for note in own:
            warnings.warn(f"{name}: {note}", DataWarning, stacklevel=4)
    disclosure = pd.DataFrame(federation.disclosed, columns=list(Disclosed._fields))
    return Outcome(
        federation.coordinator.result,
        disclosure,
        protection_statement(
            _summed_sets(federation), federation.coordinator.result, disclosure, privacy, agreement
        ),
        notes,
        federation.coordinator.round - 1,
    )


def one_after_the_other(disclosures: list[pd.DataFrame]) -> pd.DataFrame:
    """The disclosures of several studies as one table, with their rounds numbered consecutively."""
    before = 0
    moved = []
    for table in [table for table in disclosures if len(table)] or disclosures[:1]:
        moved.append(table.assign(round=table["round"] + before))
        before = int(moved[-1]["round"].max()) if len(table) else before
    return pd.concat(moved, ignore_index=True)


def packed_disclosure(table: pd.DataFrame) -> dict[str, AnyArray]:
    """What left the sites as arrays that can be stored; `unpacked_disclosure` reads them."""
    return {f"left {name}": table[name].to_numpy(dtype=str) for name in Disclosed._fields}


def unpacked_disclosure(arrays: Arrays) -> pd.DataFrame:
    """What left the sites, from stored arrays."""
    table = pd.DataFrame({name: arrays[f"left {name}"].astype(object) for name in Disclosed._fields})
    table["masked"] = table["masked"] == "True"
    return table.astype({"round": int, "bytes": int, "masked": bool, "noise": float})


def data_fingerprint(sites: Mapping[str, Local]) -> str:
    """A hash of all parties' data, so that stored rounds are not taken for those of other data."""
    digest = hashlib.sha256()
    for name, local in sites.items():
        digest.update(name.encode() + local.fingerprint())
    return digest.hexdigest()[:16]


def _ledgers(parties: Sequence[str], privacy: Privacy) -> dict[str, ledger.Ledger]:
    """The parties' ledgers, each with the identity that is kept beside it; none where no ledgers are kept."""
    if privacy.ledgers is None:
        return {}
    folder = Path(str(privacy.ledgers))
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; ledgers are kept in a folder, one file for each party.")
    names = {party: quote(party, safe=" ") for party in parties}
    return {
        party: ledger.Ledger(folder / f"{name}.jsonl", kept_identity(folder / f"{name}.key"))
        for party, name in names.items()
    }
