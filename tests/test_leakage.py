"""What the opened sums of masked ADMM give away: the attack of the benchmark succeeds."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_the_opened_sums_of_masked_admm_determine_every_covariance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "benchmarks"))
    import leakage

    found = leakage.opened_attack(0, K=3, d=3)
    assert found["covariance_error"] < 1e-5
    assert found["guess_error"] > 0.1
    assert found["equations"] > found["unknowns"]
    few = leakage.opened_attack(0, K=3, d=3, rounds=1, starts=3)  # fewer equations than unknowns
    assert few["equations"] < few["unknowns"]
    assert few["covariance_error"] > 1e-2
