"""Saving a state: arrays as they are and the rest as JSON, in one sealed file without pickles."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

from polydag import sealed_files
from polydag.errors import DataError
from polydag.federated.protocol.messages import AnyArray, Arrays

_WORDS, _AT = "words", "array at"
T = TypeVar("T")


def to_arrays(state: Any) -> dict[str, AnyArray]:
    """A state (a frozen dataclass of words, numbers and nested mappings of arrays) as one flat mapping."""
    words: dict[str, Any] = {}
    arrays: dict[str, AnyArray] = {}
    for item in dataclasses.fields(state):
        value = getattr(state, item.name)
        if isinstance(value, Mapping):
            words[item.name] = _split(value, item.name, arrays)
        else:
            words[item.name] = value
    return {_WORDS: np.array(json.dumps(words)), **arrays}


def _split(tree: Mapping[str, Any], path: str, arrays: dict[str, AnyArray]) -> dict[str, Any]:
    """The words of a mapping; its arrays are moved to `arrays`, and their keys take their places."""
    words: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            words[name] = _split(value, f"{path}:{name}", arrays)
        elif isinstance(value, (np.ndarray, np.generic)):
            key = f"{path}:{name}"
            arrays[key] = np.asarray(value)
            words[name] = {_AT: key}
        else:
            words[name] = value
    return words


def _join(tree: dict[str, Any], arrays: Arrays) -> Any:
    if set(tree) == {_AT}:
        return arrays[tree[_AT]]
    return {name: _join(value, arrays) if isinstance(value, dict) else value for name, value in tree.items()}


def from_arrays(kind: type[T], arrays: Arrays) -> T:
    """The state restored to the last bit."""
    words = json.loads(str(arrays[_WORDS]))
    for name, value in words.items():
        if isinstance(value, dict):
            words[name] = _join(value, arrays)
        elif isinstance(value, list):
            words[name] = tuple(value)
    return kind(**words)


def save(state: Any, path: str | os.PathLike[str]) -> None:
    """Write a state; the file is complete or absent, and only its owner may read it: it may hold secrets."""
    sealed_files.write_arrays(path, type(state).__name__, to_arrays(state))


def load(kind: type[T], path: str | os.PathLike[str]) -> T:
    """Read a state that `save` wrote."""
    arrays = sealed_files.read_arrays(path, kind.__name__)
    try:
        return from_arrays(kind, arrays)
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} does not hold a saved state ({error}).") from None
