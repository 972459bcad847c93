"""How parties' sums are protected in one process: identities, guards, ledgers, and what to say about it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from polydag.errors import UsageError
from polydag.federated import Coordinator, Federation, Local, Program, Site
from polydag.federated.guard import Guard
from polydag.federated.masked import Masking
from polydag.privacy import ledger
from polydag.privacy.identities import Identity
from polydag.privacy.terms import Terms

if TYPE_CHECKING:
    from polydag.learners.federated import FederatedNotears

PRIVACY = ("masked", "none")


class Study(NamedTuple):
    """The machines of a study, and a sentence that says what they protect."""

    coordinator: Coordinator
    sites: dict[str, Site]
    protection: str


def study(settings: FederatedNotears, program: Program, locals_: Mapping[str, Local]) -> Study:
    """The coordinator and the sites, each with its own identity and what its ledger remembers."""
    past = {name: ledger.read_whole(_file(settings, name)) if settings.ledgers else () for name in locals_}
    last = {name: chain[-1].hash if chain else ledger.START for name, chain in past.items()}
    if settings.privacy == "none":
        sites = {name: Site(local, settings.min_rows, last=last[name]) for name, local in locals_.items()}
        return Study(Coordinator(program), sites, OPEN)
    masking = Masking(settings.quorum, settings.neighbours)
    terms = Terms.usual(
        "", tuple(locals_), recover=program.tolerates_absence,
        threshold=settings.quorum, neighbours=settings.neighbours,
    )  # fmt: skip
    terms.require_sound()
    identities = {name: Identity() for name in locals_}
    directory = {name: identity.public for name, identity in identities.items()}
    sites = {
        name: Site(
            local,
            settings.min_rows,
            Guard(identities[name], directory, sets=ledger.sets_of(past[name])),
            last[name],
        )
        for name, local in locals_.items()
    }
    return Study(Coordinator(program, masking=masking), sites, _told(terms))


OPEN = (
    "NOT PRIVATE (privacy = none): whoever adds up sees each site's numbers: no rows, but covariances can be "
    "read off them exactly."
)


def _told(terms: Terms) -> str:
    n = len(terms.members)
    return (
        f"privacy = masked: whoever adds up sees sums over the {n} sites, and no site's own numbers, even "
        f"together with up to {terms.colluding} of the sites. The sums themselves and the graph are seen."
    )


def keep_ledgers(settings: FederatedNotears, federation: Federation) -> None:
    """Put what left each site at the end of its ledger's file, where ledgers are kept."""
    if settings.ledgers:
        for name, state in federation.sites.items():
            ledger.write(_file(settings, name), state.ledger)


def _file(settings: FederatedNotears, site: str) -> Path:
    folder = Path(str(settings.ledgers))
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; ledgers are kept in a folder, one file a site.")
    return folder / f"{quote(site, safe=' ')}.jsonl"
