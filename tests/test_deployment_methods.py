"""Every method over sites that run apart gives what it gives in one process."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from apart import SITES, run_apart
from polydag import simulate, studies
from polydag.deployment.coordinator import new_study
from polydag.deployment.description import Column, described
from polydag.errors import DataError, UsageError
from polydag.federated.methods.registry import METHODS as EXCHANGES
from polydag.learners.registry import LEARNERS
from polydag.privacy import ledger
from polydag.studies.config.shapes import PartiesConfig
from polydag.studies.methods import METHODS
from polydag.studies.result import Result

SERIES = "notears-lagged"  # time series are not described to sites that run apart yet
NAMES = sorted(
    {name for name, method in METHODS.items() if "parties" in method.shapes and name != SERIES}
    | set(LEARNERS)
    | set(EXCHANGES)
)
FEW_ROUNDS: Mapping[str, Mapping[str, Any]] = {name: {"lambda_": 0.1} for name in EXCHANGES}  # one penalty
LABELS = [name for name in NAMES if name in METHODS and METHODS[name].labels]


def files(folder: Path, kind: str = "numbers", n: int = 180) -> dict[str, Path]:
    """Three tables of numbers, of labels, or with a column of labels."""
    rows = simulate.linear(simulate.dag(4, n_edges=4, random_state=1), n=n, random_state=1)
    labels = {"numbers": [], "labels": list(rows), "mixed": ["x1"]}[kind]
    rows = rows.assign(**{name: np.where(rows[name] > rows[name].median(), "hi", "lo") for name in labels})
    found = {site: folder / f"{site}.csv" for site in SITES}
    for part, file in zip(np.array_split(np.arange(n), len(SITES)), found.values(), strict=True):
        rows.iloc[part].to_csv(file, index=False)
    return found


def both(folder: Path, tables: Mapping[str, Path], method: str, **settings: Any) -> tuple[Result, Result]:
    about: dict[str, Any] = {"method": method, "seed": 3, "settings": settings}
    apart = run_apart(folder, tables, PartiesConfig(SITES, **about))
    return apart, studies.run(PartiesConfig(tuple(map(str, tables.values())), **about))


def require_same(apart: Result, together: Result, tolerance: float) -> None:
    np.testing.assert_array_equal(apart.graph.adjacency, together.graph.adjacency)
    assert apart.converged == together.converged
    for own, other in (
        (apart.coefficients, together.coefficients),
        (apart.probabilities, together.probabilities),
    ):
        assert (own is None) == (other is None)
        if own is not None and other is not None:
            np.testing.assert_allclose(np.array(own), np.array(other), rtol=0, atol=tolerance)
    pd.testing.assert_frame_equal(apart.history, together.history, rtol=0, atol=tolerance)


SLOW = {("fedavg", "none"), ("fedavg", "masked")}  # hundreds of rounds


@pytest.mark.filterwarnings("ignore::polydag.errors.ConvergenceWarning")
@pytest.mark.parametrize(
    ("method", "mode", "tolerance"),
    [
        pytest.param(name, mode, tolerance, marks=[pytest.mark.slow] if (name, mode) in SLOW else [])
        for name in NAMES
        for mode, tolerance in (("none", 0.0), ("masked", 1e-6))
    ],
)
def test_numbers(tmp_path: Path, method: str, mode: str, tolerance: float) -> None:
    """In the open bit for bit; masked, to rounding and with the same graph."""
    privacy = {"mode": mode, "quorum": 2} if mode == "masked" else {"mode": mode}
    found = both(tmp_path, files(tmp_path), method, privacy=privacy, **FEW_ROUNDS.get(method, {}))
    require_same(*found, tolerance)


@pytest.mark.parametrize("kind", ["labels", "mixed"])
@pytest.mark.parametrize("method", LABELS)
def test_labels(tmp_path: Path, method: str, kind: str) -> None:
    require_same(*both(tmp_path, files(tmp_path, kind), method, privacy={"mode": "none"}), 0.0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::polydag.errors.ConvergenceWarning")
@pytest.mark.parametrize("method", ["admm", "fedavg", "voting"])
def test_networks(tmp_path: Path, method: str) -> None:
    settings = {"model": "mlp", "lambda_": 0.1, "hidden": 2, "privacy": {"mode": "none"}}
    require_same(*both(tmp_path, files(tmp_path), method, **settings), 0.0)


@pytest.mark.filterwarnings("ignore::polydag.errors.ConvergenceWarning")
@pytest.mark.parametrize("method", ["boss", "admm"])
def test_noise_is_charged_to_the_ledgers_of_the_sites(tmp_path: Path, method: str) -> None:
    """Noise is never the same twice; the study is that of one process all the same."""
    tables = files(tmp_path, n=6000)
    few = FEW_ROUNDS.get(method, {})
    privacy = {"epsilon": 4.0, "bounds": {f"x{i}": [-20.0, 20.0] for i in range(4)}}
    found = run_apart(
        tmp_path, tables, PartiesConfig(SITES, method=method, seed=3, settings={"privacy": privacy, **few})
    )
    assert found.n is None
    for site in SITES:
        entries = ledger.read_intact(tmp_path / f"home-{site}")
        assert ledger.multipliers(entries)
        assert all(entry.multiplier > 0 for entry in entries if entry.kind == ledger.DATA)


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"method": "boss", "bootstrap": 5}, "--bootstrap: it sums the same rows with many"),
        ({"method": "boss", "groups": "ward"}, "linked rows: how rows are correlated"),
        ({"method": "boss", "missing": "impute"}, "--missing impute: means of a site's own"),
        (
            {"method": "admm", "settings": {"lambda_": "stability"}},
            "lambda_=stability: it needs sums over",
        ),
        ({"method": "boss", "settings": {"privacy": {"ledgers": "x"}}}, "ledgers: each site keeps"),
        ({"method": "boss", "columns": ("x1",)}, "option columns: "),
    ],
)
def test_what_cannot_be_between_sites_that_run_apart_is_refused_with_the_reason(
    settings: dict[str, Any], what: str
) -> None:
    with pytest.raises(UsageError, match=what):
        described(PartiesConfig(SITES, seed=3, **settings))


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"transforms": {"weight": "rank"}}, "no column weight"),
        ({"transforms": {"x": "rank"}, "settings": {"privacy": {"epsilon": 1.0}}}, "no differential privacy"),
        ({"missing": "em", "settings": {"privacy": {"epsilon": 1.0}}}, "complete rows"),
        ({"interventions": "did", "settings": {"privacy": {"epsilon": 1.0}}}, "interventions"),
        ({"settings": {"privacy": {"epsilon": 1.0}}, "labels": True}, "this study counts labels"),
    ],
)
def test_what_cannot_be_learned_from_the_columns_is_refused_before_anybody_joins(
    tmp_path: Path, settings: dict[str, Any], what: str
) -> None:
    kind = Column("discrete", levels=("a", "b")) if settings.pop("labels", False) else Column()
    description = described(PartiesConfig(SITES, method="ges", seed=3, **settings))
    description = dataclasses.replace(description, columns={"x": kind, "y": kind})
    with pytest.raises((UsageError, DataError), match=what):
        new_study(tmp_path / "study", description, tmp_path)
    assert list(tmp_path.iterdir()) == []
