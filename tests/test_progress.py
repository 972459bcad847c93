"""Progress reports reach the listener, and only inside its block."""

from __future__ import annotations

import pytest

from polydag.computing.progress import Step, listening, report


def test_reports_reach_the_innermost_listener_only() -> None:
    outer: list[Step] = []
    inner: list[Step] = []
    report("before", 1)
    with listening(outer.append):
        report("scores", 1, 10)
        with listening(inner.append):
            report("search", 5, note="still going")
        report("scores", 2, 10, "half-way")
    report("after", 1)
    assert outer == [Step("scores", 1, 10, ""), Step("scores", 2, 10, "half-way")]
    assert inner == [Step("search", 5, None, "still going")]


def test_an_error_inside_ends_the_listening() -> None:
    seen: list[Step] = []
    with pytest.raises(RuntimeError, match="stop"), listening(seen.append):
        raise RuntimeError("stop")
    report("later", 1)
    assert seen == []
