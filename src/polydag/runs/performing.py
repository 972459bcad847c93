"""A study from its configuration to its run folder, interrupted and resumed if need be."""

from __future__ import annotations

import dataclasses
import logging
import os
import shutil
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from polydag import checkpoint, studies
from polydag.errors import DataError, UsageError
from polydag.runs.files import CONFIG, LOG, write
from polydag.runs.folders import partial, require_free, telling
from polydag.studies.config import Config, from_table, to_table
from polydag.studies.inputs import file_mark, public, require_same

if TYPE_CHECKING:
    from polydag.studies.result import Result

_log = logging.getLogger("polydag")


class Recorded(NamedTuple):
    """A configuration read from a file, and the marks of the data it was used with (if it was)."""

    config: Config
    sha256: dict[str, str]


def read_config(path: str | os.PathLike[str]) -> Recorded:
    """Read a configuration: `config.toml` of a run folder, or one written by hand with a table [study]."""
    file = Path(path)
    file = file / CONFIG if file.is_dir() else file
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not valid TOML: {error}.") from None
    study = content.get("study")
    if not isinstance(study, dict):
        raise UsageError(f"{file} has no table [study]. A configuration names data and method there.")
    marks = content.get("sha256", {})
    return Recorded(from_table(study, str(file)), {str(name): str(mark) for name, mark in marks.items()})


def perform(
    config: Config,
    out: str | os.PathLike[str],
    *,
    force: bool = False,
    resume: bool = False,
    expected: Mapping[str, str] | None = None,
    expected_by: str = "the configuration",
) -> Result:
    """Run a study and write its folder; the common path of all commands that learn.

    Parameters
    ----------
    config : Config
        The study.
    out : path
        The run folder, which must not exist (or be replaced with `force`).
    resume : bool
        Continue the interrupted run in `<out>.partial`; its seed is taken where `config` has none.
    expected : mapping of source to SHA-256, optional
        What the data has to be, as recorded in `expected_by`.
    """
    target = Path(out)
    require_free(target, force=force)
    aside = partial(target)
    config = _begun(config, aside, force=force, resume=resume)
    shape = studies.shape(config.shape)
    with telling(target):
        aside.mkdir(parents=True, exist_ok=True)
    try:
        with _logging(aside / LOG, resume):
            _log.info("%s", " ".join(f"{name}={value!r}" for name, value in _public_table(config).items()))
            if expected:  # before reading, which may stumble over what has changed
                files = [name for name in expected if Path(name).is_file()]
                require_same({name: file_mark(name) for name in files}, expected, expected_by)
            inputs = shape.load(config)
            require_same(inputs.sha256, expected or {}, expected_by)
            with checkpoint.saving(aside, _fingerprint(config, inputs.sha256)):
                result: Result = shape.run(config, inputs)
            for note in result.notes:
                _log.info("note: %s", note)
            _log.info(
                "%d edges, %s", result.graph.n_edges, "converged" if result.converged else "not converged"
            )
        write(result, target, force=force, log=(aside / LOG).read_text(encoding="utf-8"))
    except BaseException as error:
        if checkpoint.has_pieces(aside) and _would_help(error):
            error.add_note(f"What was finished is kept in {aside}: add --out {target} --resume to go on.")
        elif not checkpoint.has_pieces(aside):
            shutil.rmtree(aside, ignore_errors=True)
        raise
    shutil.rmtree(aside)
    return result


def _would_help(error: BaseException) -> bool:
    """Whether going on can end otherwise: not where settings or data are wrong, but where a disk was full."""
    wrong = isinstance(error, UsageError | DataError) and not isinstance(error.__cause__, OSError)
    return not wrong


def _begun(config: Config, aside: Path, *, force: bool, resume: bool) -> Config:
    """The configuration with its seed: the interrupted run's where it is resumed, a new one otherwise."""
    if resume:
        seed = int(checkpoint.read_fingerprint(aside)["seed"])
        return config if config.seed is not None else dataclasses.replace(config, seed=seed)
    if aside.exists():
        if not force:
            raise UsageError(
                f"{aside} is left from an interrupted run, or one that still runs. Go on with --resume, "
                "start afresh with --force, or choose another folder with --out."
            )
        shutil.rmtree(aside)
    return config.seeded()


def _public_table(config: Config) -> dict[str, Any]:
    return {**to_table(config), "data": [public(source) for source in config.data]}


def _fingerprint(config: Config, sha256: Mapping[str, str]) -> dict[str, str]:
    """What must be the same for pieces to fit: everything but who computes."""
    from polydag import __version__

    table = _public_table(config)
    for name in ("jobs", "cluster"):
        table.pop(name, None)
    marks = {f"the contents of {name}": mark for name, mark in sha256.items()}
    return {"polydag": __version__, **{name: str(value) for name, value in table.items()}, **marks}


@contextmanager
def _logging(path: Path, resume: bool) -> Iterator[None]:
    """Write the package's log to a file."""
    try:
        handler = logging.FileHandler(path, mode="a" if resume else "w", encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}.") from error
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    level = _log.level
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
    try:
        yield
    finally:
        _log.setLevel(level)
        _log.removeHandler(handler)
        handler.close()
