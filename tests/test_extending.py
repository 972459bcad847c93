"""The examples of docs/extending.md keep the contracts that the package's own classes are tested for."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import test_learners
import test_studies
from polydag.learners import LEARNERS
from test_learners import dag, table  # noqa: F401  (fixtures of the contract tests)

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(module: str, name: str) -> Any:
    """A class of a file in `examples/`."""
    spec = importlib.util.spec_from_file_location(module, EXAMPLES / f"{module}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return getattr(loaded, name)


def contract(module: Any, argument: str) -> list[Any]:
    """The tests of a module that are repeated for every registered class, which they take as `argument`."""
    found = [
        pytest.param(test, id=name)
        for name, test in vars(module).items()
        if name.startswith("test_") and argument in inspect.signature(test).parameters
    ]
    assert found, f"{module.__name__} has no tests that take {argument}"
    return found


@pytest.mark.parametrize("test", contract(test_learners, "make"))
def test_the_learner_keeps_the_contract(test: Callable[..., None], request: pytest.FixtureRequest) -> None:
    needs = set(inspect.signature(test).parameters) - {"make"}
    fixtures = {name: request.getfixturevalue(name) for name in needs}
    test(make=example("sort_regress", "SortRegress"), **fixtures)


def test_the_learner_runs_as_a_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LEARNERS, "sort-regress", example("sort_regress", "SortRegress"))
    test_studies.test_every_learner_of_the_registry_can_be_run("sort-regress", tmp_path)
