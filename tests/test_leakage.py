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
    assert leakage.opened_attack(1, K=3, d=5)["covariance_error"] < 1e-5
    few = leakage.opened_attack(0, K=3, d=3, rounds=1, starts=3)  # fewer equations than unknowns
    assert few["equations"] < few["unknowns"]
    assert few["covariance_error"] > 1e-2
    target = leakage.Target.of(0, K=3, d=3)  # rounding to two digits leaves a tenth of the error of a guess
    assert target.error_after_rounding(1e-2) < 0.2 * target.guess_error
    assert target.error_after_rounding(1e-2) == pytest.approx(100 * target.error_after_rounding(1e-4))
