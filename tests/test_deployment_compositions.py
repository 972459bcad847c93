"""What can be put together in one process gives the same between sites that run apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from apart import SITES, run_apart
from polydag import simulate, studies
from polydag.privacy import ledger
from polydag.studies.config.shapes import PartiesConfig
from test_deployment_methods import require_same
from test_party_interventions import clinic

Tables = Mapping[str, pd.DataFrame]


def numbers(n: int = 180) -> pd.DataFrame:
    return simulate.linear(simulate.dag(4, n_edges=4, random_state=1), n=n, random_state=1)


def split(rows: pd.DataFrame) -> Tables:
    """The rows in turn, one part for each site."""
    return {site: rows.iloc[k :: len(SITES)].reset_index(drop=True) for k, site in enumerate(SITES)}


def mixed() -> Tables:
    rows = numbers(360)
    return split(rows.assign(x1=np.where(rows["x1"] > 0, "hi", "lo")))


def labels() -> Tables:
    rows = numbers()
    return split(rows.apply(lambda column: np.where(column > column.median(), "hi", "lo")))


def with_gaps(tables: Tables, *sites: str) -> Tables:
    """The tables with values missing at some sites."""
    rng = np.random.default_rng(2)
    found = dict(tables)
    for site in sites:
        found[site] = tables[site].mask(rng.random(tables[site].shape) < 0.15)
    return found


def with_shift(tables: Tables) -> Tables:
    return {site: own + k for k, (site, own) in enumerate(tables.items())}


def experiments() -> Tables:
    """Numbers and labels, of which some were set."""
    rng = np.random.default_rng(0)
    parts = {site: clinic(160, rng, 0.5 * k) for k, site in enumerate(SITES)}
    return {site: rows.assign(did=did) for site, (rows, did) in parts.items()}


def counted(names: list[str]) -> Tables:
    """Some of the columns, with the rows in which one of them or nothing was set."""
    return {
        site: own.loc[own["did"].isin(["none", *names]), [*names, "did"]]
        for site, own in experiments().items()
    }


def series() -> Tables:
    """Series of several runs, with the rows in another order."""
    sample = simulate.lagged(3, n_steps=60, n_realisations=3, random_state=0)
    parts = [own for _, own in sample.data.groupby("realisation")]
    return {
        site: own.sample(frac=1.0, random_state=0).reset_index(drop=True)
        for site, own in zip(SITES, parts, strict=True)
    }


KNOWN = 'tiers = [["x0", "x1"], ["x2", "x3"]]\n'


class Case(NamedTuple):
    tables: Tables
    method: str
    options: Mapping[str, Any] = {}
    settings: Mapping[str, Any] = {}
    known: str = ""


CASES = {
    "series": Case(series(), "notears-lagged", settings={"lambda_": 0.05}),
    "cg": Case(mixed(), "boss", settings={"criterion": "cg", "max_parents": 2}),
    "cg by tests": Case(mixed(), "pc", settings={"test": "cg", "max_conditioning": 1}),
    "em": Case(with_gaps(split(numbers()), *SITES), "boss", {"missing": "em"}),
    "em, gaps at one site": Case(with_gaps(split(numbers()), "south"), "ges", {"missing": "em"}),
    "em, other means": Case(with_shift(with_gaps(split(numbers()), *SITES)), "boss", {"missing": "em"}),
    "em, mixed": Case(with_gaps(mixed(), *SITES), "boss", {"missing": "em"}),
    "test-wise": Case(with_gaps(split(numbers()), *SITES), "pc", {"missing": "testwise"}),
    "drawn": Case(with_gaps(split(numbers()), *SITES), "boss", {"missing": "multiple", "imputations": 2}),
    "dropped": Case(with_gaps(split(numbers(600)), *SITES), "boss", {"missing": "drop"}),
    "knowledge": Case(split(numbers()), "boss", known=KNOWN),
    "knowledge and em": Case(with_gaps(split(numbers()), *SITES), "ges", {"missing": "em"}, {}, KNOWN),
    "interventions": Case(counted(["dose", "stay"]), "ges", {"interventions": "did"}),
    "interventions on labels": Case(
        counted(["drug", "ill", "smoker"]), "boss", {"interventions": "did"}, {"max_parents": 2}
    ),
    "interventions on both": Case(experiments(), "boss", {"interventions": "did"}),
    "logarithm": Case(split(np.exp(numbers())), "boss", {"transforms": {"x0": "log", "x2": "log"}}),
    "ranks": Case(split(np.exp(numbers())), "boss", {"transforms": {"x0": "rank", "x3": "rank"}}),
    "levels": Case(split(numbers()), "boss", {"discretize": "quantile:3"}, {"max_parents": 2}),
    "levels by interval": Case(split(numbers()), "ges", {"discretize": "interval:2"}, {"max_parents": 2}),
    "common units": Case(with_shift(split(numbers())), "boss", {"site_effects": "means and scales"}),
    "nothing in common": Case(with_shift(split(numbers())), "boss", {"site_effects": "none"}),
    "random effects": Case(with_shift(split(numbers())), "boss", {"site_effects": "random"}),
}


def written(folder: Path, case: Case) -> tuple[dict[str, Path], dict[str, Any]]:
    """The tables and the background knowledge as files, and the options with them."""
    files = {site: folder / f"{site}.csv" for site in SITES}
    for site, own in case.tables.items():
        own.to_csv(files[site], index=False)
    options: dict[str, Any] = {"seed": 3, "method": case.method, "settings": case.settings, **case.options}
    if case.known:
        (folder / "known.toml").write_text(case.known)
        options["knowledge"] = str(folder / "known.toml")
    return files, options


@pytest.mark.filterwarnings("ignore::polydag.errors.DataWarning")
@pytest.mark.parametrize(("mode", "tolerance"), [("none", 0.0), ("masked", 1e-6)])
@pytest.mark.parametrize("name", CASES)
def test_as_in_one_process(tmp_path: Path, name: str, mode: str, tolerance: float) -> None:
    """In the open bit for bit; masked, to rounding and with the same graph; ledgers list what has left."""
    case = CASES[name]
    files, options = written(tmp_path, case)
    privacy = {"mode": mode, "quorum": 2} if mode == "masked" else {"mode": mode}
    options["settings"] = {**case.settings, "privacy": privacy}
    apart = run_apart(tmp_path, files, PartiesConfig(SITES, **options))
    require_same(apart, studies.run(PartiesConfig(tuple(map(str, files.values())), **options)), tolerance)
    arrived = apart.documents["disclosure"]["entries"]
    for site in SITES:
        entries = ledger.read_intact(tmp_path / f"home-{site}")
        left = Counter(e.shape for e in entries if e.kind in (ledger.DATA, ledger.PROTOCOL))
        assert left == Counter(row["shape"] for row in arrived if row["site"] == site)
        assert {e.masked for e in entries if e.kind == ledger.DATA} == {mode == "masked"}


def test_columns_keep_their_order(tmp_path: Path) -> None:
    """Without --columns they are those of the sites' tables, in which order a search may depend."""
    rows = numbers().rename(columns={"x0": "weight", "x1": "age", "x2": "height", "x3": "dose"})
    files, options = written(tmp_path, Case(split(rows), "boss", {}, {"privacy": {"mode": "none"}}))
    found = run_apart(tmp_path, files, PartiesConfig(SITES, **options))
    assert found.graph.names == tuple(rows)
