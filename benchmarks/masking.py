"""The cost of masked sums: CPU time of one thread and bytes, against the number of sites.

Sites that hold a fixed d×d matrix are summed over, masked and in the open, by the same machines; the
difference is the masking, of all sites and the coordinator together. `all` is a method that needs every site
(ADMM, moments); `drop-outs` one that goes on without some (federated averaging), where secrets are shared out
every 32 rounds and every sum is opened. All messages are signed, as between organisations. Bytes are those
that one site sends. Then what writing ahead takes: the time from a question to an answer at a site that keeps
its state in a folder, less that of one that does not. Last, ADMM as a whole in one process, masked and in the
open. Targets: 0.1 CPU-seconds a round at K = 10, d = 100; 5 ms to write ahead; 1.5 times ADMM in the open at
K = 64, d = 50.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from keeping import keep, machine
from party_fits import over_parties

from polydag import simulate
from polydag.federated import Answer, Ask, Coordinator, Federation, Site, run
from polydag.federated.protocol.coordinator_masking import Masking
from polydag.federated.protocol.messages import COORDINATOR, Message
from polydag.federated.protocol.programs import State, Total
from polydag.federated.protocol.site import SiteState
from polydag.federated.protocol.site_protection import SiteProtection
from polydag.federated.protocol.storage.site_folder import IDENTITY, SiteFolder
from polydag.privacy.ledger import parse
from polydag.privacy.masking.agreement import BLOCK
from polydag.privacy.masking.identities import Identity, kept_identity
from polydag.privacy.policy import Policy
from polydag.privacy.settings import Privacy

SITES = (3, 10, 30, 64, 128, 256)
TARGETS = {("all", 10, 100): 0.1, ("drop-outs", 10, 100): 0.1}


@dataclass(frozen=True, eq=False)
class Fixed:
    """A site that always answers the same."""

    matrix: np.ndarray
    n_rows: float = 10.0
    names: tuple[str, ...] = ("x",)
    data: pd.DataFrame = field(default_factory=lambda: pd.DataFrame({"x": [0.0]}))

    def fingerprint(self) -> bytes:
        return b""

    def objection(self, state: State, ask: Ask) -> str | None:
        return None

    def answer(self, state: State, ask: Ask) -> tuple[State, Any]:
        return state, {"parameters": self.matrix}

    def notes(self, state: State, arrays: Any) -> list[str]:
        return []


@dataclass(frozen=True, eq=False)
class Again:
    """Asks for the same sum, round after round."""

    rounds: int
    tolerates_absence: bool
    d: int

    def begin(self) -> tuple[State, Ask]:
        return {"left": np.array(self.rounds)}, self._ask()

    def advance(self, state: State, total: Total) -> tuple[State, Ask | Answer]:
        left = int(state["left"]) - 1
        return {"left": np.array(left)}, self._ask() if left else Answer(total.arrays)

    def _ask(self) -> Ask:
        return Ask("same", meta={"narrow": {"parameters": [0]}}, returns={"parameters": (self.d, self.d)})


def spent(coordinator: Coordinator, sites: dict[str, Site]) -> tuple[float, float, Federation]:
    """CPU time before the first question about numbers, that of each round after the first, and the end."""
    begun: dict[int, float] = {}

    def watch(message: Message) -> list[Message]:
        if message.phase == "ask":
            begun.setdefault(message.round, time.process_time())
        return [message]

    start = time.process_time()
    end = run(coordinator, sites, carry=watch)
    return begun[1] - start, (time.process_time() - begun[2]) / (len(begun) - 1), end


def measure(kind: str, n: int, d: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    names = [f"site {k}" for k in range(n)]
    locals_ = {name: Fixed(rng.normal(size=(d, d))) for name in names}
    identities = {name: Identity() for name in (COORDINATOR, *names)}
    directory = {name: identity.public for name, identity in identities.items()}
    policy = Policy(directory)
    protected = {
        name: Site(local, protection=SiteProtection(identities[name], policy))
        for name, local in locals_.items()
    }
    open_ = {name: Site(local) for name, local in locals_.items()}
    tolerant = kind == "drop-outs"

    rounds, tries = (16, 3) if n < 50 else (4, 1)

    def cost(sites: dict[str, Site], masking: Masking | None) -> tuple[float, float, Federation]:
        again = Coordinator(Again(rounds, tolerant, d), masking=masking)
        found = [spent(again, sites) for _ in range(tries)]
        return min(each[0] for each in found), min(each[1] for each in found), found[-1][2]

    signing = Masking(identity=identities[COORDINATOR], directory=directory)
    setup, each, end = cost(protected, signing)
    _, plain, _ = cost(open_, None)
    total = sum(local.matrix for local in locals_.values())
    assert np.abs(end.coordinator.result["parameters"] - total).max() < 1e-6
    entries = parse(end.sites[names[0]].ledger)
    keys = [entry for entry in entries if entry.kind == "protocol" and not entry.name.startswith("open")]
    return {
        "kind": kind,
        "sites": n,
        "d": d,
        "setup_cpu_s": round(setup, 4),
        "masking_cpu_s_a_round": round(each - plain, 4),
        "setup_bytes": sum(entry.bytes for entry in keys),
        "bytes_a_round": sum(e.bytes for e in entries if e.round == 2),
        "open_bytes_a_round": 8 * d * d,
        "target_cpu_s": TARGETS.get((kind, n, d), ""),
    }


def write_ahead(d: int, rounds: int) -> dict[str, Any]:
    """The median time that a site of three takes for a round, with its state on the disk and without."""
    names = [f"site {k}" for k in range(3)]
    rng = np.random.default_rng(0)
    coordinator = Identity()
    taken: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as place, ExitStack() as stack:
        identities = {name: kept_identity(Path(place) / name / IDENTITY) for name in names}
        directory = {name: own.public for name, own in {**identities, COORDINATOR: coordinator}.items()}
        policy = Policy(directory)
        locals_ = {name: Fixed(rng.normal(size=(d, d))) for name in names}
        folders = {
            name: stack.enter_context(SiteFolder(Path(place) / name, name, local, policy))
            for name, local in locals_.items()
        }
        for stored in (True, False):
            sites: dict[str, Any] = {
                name: Timed(folders[name] if stored else None, folders[name].site, taken[stored])
                for name in names
            }
            program = Again(rounds, tolerates_absence=False, d=d)
            signing = Masking(identity=coordinator, directory=directory)
            end = run(Coordinator(program, masking=signing), sites)
            assert end.finished, end.coordinator.reason
    kept, plain = (1e3 * float(np.median(taken[stored][6:])) for stored in (True, False))
    print(f"write-ahead, d={d}: {kept:.1f} ms a round at a site, {plain:.1f} without it (target 5 ms more)")
    row = {"d": d, "rounds": rounds, "written_ms": round(kept, 2), "unwritten_ms": round(plain, 2)}
    return {**row, "target_ms": 5, "load": round(os.getloadavg()[0], 1)}


@dataclass(frozen=True, eq=False)
class Timed:
    """A site that notes how long each step takes, with a folder to keep its state in or without."""

    folder: SiteFolder | None
    site: Site
    taken: list[float]

    def start(self, name: str) -> SiteState:
        return SiteState(name)

    def step(self, state: SiteState, inbox: list[Message]) -> tuple[SiteState, list[Message]]:
        start = time.perf_counter()
        if self.folder is None:
            after, outbox = self.site.step(state, inbox)
        else:
            outbox = self.folder.step(inbox)
            after = self.folder.state
        self.taken.append(time.perf_counter() - start)
        return after, outbox


def whole_admm(n: int, d: int, repeats: int) -> dict[str, Any]:
    rows = simulate.linear(simulate.dag(d, expected_edges=d, random_state=0), n=256, random_state=1)
    parts = [rows.iloc[part] for part in np.array_split(np.arange(256), n)]
    best: dict[str, float] = {}
    for _ in range(repeats):
        for privacy in ("none", "masked"):
            start = time.process_time()
            model = over_parties(parts, Privacy(mode=privacy))
            best[privacy] = min(best.get(privacy, np.inf), time.process_time() - start)
    ratio = best["masked"] / best["none"]
    print(
        f"ADMM, K={n}, d={d}, {model.n_rounds_} rounds: {best['none']:.2f} CPU-s in the open, "
        f"{best['masked']:.2f} masked: {ratio:.2f} times (target 1.5)"
    )
    return {
        "sites": n, "d": d, "rounds": model.n_rounds_, "open_cpu_s": round(best["none"], 3),
        "masked_cpu_s": round(best["masked"], 3), "ratio": round(ratio, 3), "target": 1.5,
        "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description="The cost of masked sums")
    parser.add_argument("--sites", nargs="+", type=int, default=list(SITES))
    parser.add_argument("--repeats", type=int, default=3, help="of ADMM as a whole; the least counts")
    parser.add_argument("--no-table", action="store_true", help="ADMM as a whole only")
    parser.add_argument("--no-save", action="store_true", help="print the figures only")
    chosen = parser.parse_args()
    print(f"secrets are shared out every {BLOCK} rounds")
    found = []
    for kind in () if chosen.no_table else ("all", "drop-outs"):
        for n, d in [(10, 100), *((n, 50) for n in chosen.sites)]:
            row = measure(kind, n, d)
            found.append(row)
            print(
                f"{kind:9s} K={n:4d} d={d:4d}  {row['masking_cpu_s_a_round']:8.4f} CPU-s a round, setup "
                f"{row['setup_cpu_s']:7.3f}; a site sends {row['bytes_a_round']:7,d} bytes a round "
                f"({row['open_bytes_a_round']:,d} in the open), setup {row['setup_bytes']:,d}"
            )
    written = [] if chosen.no_table else [write_ahead(d, 40) for d in (50, 100)]
    ratio = [whole_admm(64, 50, chosen.repeats)]
    if not chosen.no_save:
        place = machine("polydag", "cryptography")
        if found:
            keep("masking", found, place)
            keep("masking_write_ahead", written, place)
        keep("masking_admm", ratio, place)


if __name__ == "__main__":
    main()
