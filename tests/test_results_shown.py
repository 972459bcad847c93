"""Numbers of edges as the command line shows them."""

from __future__ import annotations

import pytest

from polydag.cli.results import _number
from polydag.studies.result import EdgeRow


@pytest.mark.parametrize(
    ("weight", "shown"),
    [
        (0.37123, "0.371"),
        (-27.5891, "-27.589"),
        (0.0, "0.000"),
        (0.00052, "0.00052"),
        (-0.0000313, "-3.1e-05"),
    ],
)
def test_no_weight_is_rounded_to_nothing(weight: float, shown: str) -> None:
    edge = EdgeRow("a", "b", weight, 0.4, 0.000044, 0.4, None, None, directed=True)
    assert f"]{shown}[" in _number(edge, "weight")
    assert _number(edge, "standard_error") == "4.4e-05"
