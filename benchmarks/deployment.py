"""Studies whose sites run apart, by files: rounds, bytes, and where the time goes.

Each study is run by the endpoints that `polydag site start` and `polydag coordinator run` use, one after the
other in one process, through a folder on this disk. CPU time of one thread, of the coordinator and all sites
together, is divided into transport (signing, encryption, packing, files, and states on the disk), masking
(of sites and coordinator), and mathematics (all else: reading rows, moments, the search). `bytes` are those
of the largest file that a site sends. The first study is the one with targets: three sites of 100 000 rows
and 50 columns, 10 s of computation in all, answers below 100 kB. Rows are drawn from a linear model with 2d
edges, one seed; waiting for the disk or for other programs does not count.
"""

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from keeping import keep, machine

from polydag import sealed_files, simulate
from polydag.deployment import coordinator, envelopes, site
from polydag.deployment.coordinator import CoordinatorEndpoint, new_study
from polydag.deployment.description import described
from polydag.deployment.exchange import Exchange
from polydag.deployment.site import SiteEndpoint
from polydag.federated.protocol import coordinator_masking
from polydag.federated.protocol.site_protection import SiteProtection
from polydag.federated.protocol.storage import site_folder
from polydag.studies.config.shapes import PartiesConfig

TARGETS = {"cpu_s": 10.0, "bytes": 100_000}
STUDIES = [
    ("boss", 3, 50, 100_000),
    *(("ges", k, d, 1_000) for k in (3, 8) for d in (20, 50, 200, 500)),
    *(("admm", k, d, 1_000) for k in (3, 8) for d in (20, 50)),
]
TRANSPORT: tuple[tuple[Any, str], ...] = (
    (envelopes, "sealed"),
    (envelopes, "opened"),
    (envelopes, "read_file"),
    (Exchange, "_place"),
    (site, "packed"),
    (site, "unpacked"),
    (coordinator, "packed"),
    (coordinator, "unpacked"),
    (sealed_files, "write_arrays"),
    (site_folder._Journal, "append"),
)
MASKING: tuple[tuple[Any, str], ...] = (
    (SiteProtection, "mask"),
    (SiteProtection, "prepare"),
    (coordinator_masking, "summed"),
)


@contextmanager
def timed(spent: dict[str, float]) -> Iterator[None]:
    """Add up the CPU time of transport and masking."""

    def clocked(part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            begun = time.process_time()
            try:
                return function(*args, **kwargs)
            finally:
                spent[part] = spent.get(part, 0.0) + time.process_time() - begun

        return wrapped

    with ExitStack() as stack:
        for part, places in (("transport", TRANSPORT), ("masking", MASKING)):
            for owner, name in places:
                function = clocked(part, getattr(owner, name))
                stack.enter_context(mock.patch.object(owner, name, function))
        yield


def study(folder: Path, method: str, sites: int, d: int, n: int) -> dict[str, Any]:
    """Run a study and measure it."""
    rows = simulate.linear(simulate.dag(d, n_edges=2 * d, random_state=1), n=n * sites, random_state=1)
    names = tuple(f"site{k}" for k in range(sites))
    for k, name in enumerate(names):
        rows[n * k : n * (k + 1)].to_parquet(folder / f"{name}.parquet")
    settings = {"lambda_": 0.1} if method == "admm" else {}
    config = PartiesConfig(names, method=method, seed=1, settings=settings)
    kits = new_study(folder / "study", described(config), folder)
    shared = folder / "shared"
    shared.mkdir()
    spent: dict[str, float] = {}
    begun, largest, files = time.process_time(), 0, 0
    with timed(spent), ExitStack() as stack:
        centre = CoordinatorEndpoint(folder / "study")
        at_centre = Exchange(shared, centre.signed.study)
        ends = [stack.enter_context(SiteEndpoint(kit)) for kit in kits]
        channels = [Exchange(shared, centre.signed.study) for _ in ends]
        for name, end, channel in zip(names, ends, channels, strict=True):
            channel.put(end.join(str(folder / f"{name}.parquet"), folder / f"home-{name}", solvable=True))
        while True:
            for arrived in at_centre.arrived("join", "answer"):
                assert centre.take(arrived.content) is None
            centre.receive([])
            if centre.finished:
                break
            questions = centre.questions()
            for question in questions:
                at_centre.put(question)
            at_centre.remove_others({question.name for question in questions})
            for end, channel in zip(ends, channels, strict=True):
                for arrived in channel.arrived("question", site=end.name):
                    answer = end.receive(arrived.content)
                    if answer is not None:
                        channel.put(answer)
                        channel.remove_others({answer.name})
                        largest, files = max(largest, len(answer.content)), files + 1
        found = centre.result()
    total = time.process_time() - begun
    return {
        "method": method,
        "sites": sites,
        "d": d,
        "rows_per_site": n,
        "questions": centre.number - 1,
        "bytes": largest,
        "cpu_s": round(total, 3),
        "transport": round(spent.get("transport", 0.0) / total, 3),
        "masking": round(spent.get("masking", 0.0) / total, 3),
        "mathematics": round(1 - sum(spent.values()) / total, 3),
        "edges": found.graph.n_edges,
    }


def main() -> None:
    """Print one line for each study, and keep all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the study with targets, and the small ones")
    parser.add_argument("--save", action="store_true", help="write benchmarks/results/deployment.csv")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as warm:
        study(Path(warm), "boss", 3, 5, 100)
        (Path(warm) / "again").mkdir()
        study(Path(warm) / "again", "ges", 3, 5, 100)
    found = []
    for number, (method, sites, d, n) in enumerate(STUDIES):
        if given.quick and d > 50:
            continue
        with tempfile.TemporaryDirectory() as folder:
            row = study(Path(folder), method, sites, d, n)
        row["target_cpu_s"] = TARGETS["cpu_s"] if number == 0 else None
        row["target_bytes"] = TARGETS["bytes"] if number == 0 else None
        found.append(row)
        print(row, flush=True)
    if given.save:
        keep("deployment", found, machine("polydag", "cryptography"))


if __name__ == "__main__":
    main()
