"""Run a study from its configuration to its run folder, and resume interrupted runs."""

from __future__ import annotations

import dataclasses
import logging
import os
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from polydag import studies
from polydag.computing import checkpoint
from polydag.errors import DataError, UsageError
from polydag.runs.folders import unfinished_run
from polydag.runs.result_files import CONFIG, LOG, write
from polydag.studies.config.file import from_table, to_table
from polydag.studies.config.shapes import Config
from polydag.studies.data.addresses import public
from polydag.studies.data.inputs import file_sha256, require_same

if TYPE_CHECKING:
    from polydag.graph import Graph
    from polydag.studies.result import Result

_log = logging.getLogger("polydag")


class Recorded(NamedTuple):
    """A configuration read from a file, and the SHA-256 of the inputs of the run that wrote it, if any."""

    config: Config
    sha256: dict[str, str]


def read_config(path: str | os.PathLike[str]) -> Recorded:
    """Read a configuration: the `config.toml` of a run folder, or your own file with a table [study]."""
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
        raise UsageError(f"{file} has no table [study], which must name the data and the method.")
    sha256 = content.get("sha256", {})
    return Recorded(from_table(study, str(file)), {str(name): str(value) for name, value in sha256.items()})


def perform(
    config: Config,
    out: str | os.PathLike[str],
    *,
    force: bool = False,
    resume: bool = False,
    expected: Mapping[str, str] | None = None,
    expected_by: str = "the configuration",
    truth: Graph | None = None,
) -> Result:
    """Run a study and write its run folder.

    Parameters
    ----------
    config : Config
        The configuration of the study.
    out : path
        The run folder. It must not exist, unless `force` is given.
    force : bool
        Replace an existing run folder, and discard an interrupted run.
    resume : bool
        Continue the interrupted run in `<out>.partial`. Its seed is used if `config` has none. A run that was
        killed before it had finished any part is started again.
    expected : mapping of source to SHA-256, optional
        The SHA-256 that the inputs must have.
    expected_by : str
        Where `expected` was recorded, for messages.
    truth : Graph, optional
        The true graph, where it is known: kept in the run folder and shown in its report.
    """
    target = Path(out)
    with unfinished_run(target, resume=resume, force=force) as unfinished:
        config = _with_seed(config, unfinished)
        with logged_to(unfinished / LOG, append=resume):
            _log.info("%s", " ".join(f"{name}={value!r}" for name, value in _public_table(config).items()))
            if expected:  # checked before reading, which may fail if the data have changed
                files = [name for name in expected if Path(name).is_file()]
                require_same({name: file_sha256(name) for name in files}, expected, expected_by)
            inputs = studies.load(config)
            require_same(inputs.sha256, expected or {}, expected_by)
            with checkpoint.saving(unfinished, _fingerprint(config, inputs.sha256)):
                result = studies.run(config, inputs)
            for note in result.notes:
                _log.info("note: %s", note)
            _log.info(
                "%d edges, %s", result.graph.n_edges, "converged" if result.converged else "not converged"
            )
        log = (unfinished / LOG).read_text(encoding="utf-8")
        write(result, target, force=force, log=log, truth=truth)
        shutil.rmtree(unfinished)
    return result


def _with_seed(config: Config, unfinished: Path) -> Config:
    """The configuration with a seed: that of the interrupted run, if it came far enough, or a new one."""
    if config.seed is None and (unfinished / checkpoint.FINGERPRINT).exists():
        return dataclasses.replace(config, seed=int(checkpoint.read_fingerprint(unfinished)["seed"]))
    return config.seeded()


def _public_table(config: Config) -> dict[str, Any]:
    return {**to_table(config), "data": [public(source) for source in config.data]}


def _fingerprint(config: Config, sha256: Mapping[str, str]) -> dict[str, str]:
    """Everything that must be unchanged to resume a run; where it is computed may change."""
    from polydag import __version__

    table = _public_table(config)
    for name in ("jobs", "cluster"):
        table.pop(name, None)
    contents = {f"the contents of {name}": digest for name, digest in sha256.items()}
    return {"polydag": __version__, **{name: str(value) for name, value in table.items()}, **contents}


class _RunLog(logging.FileHandler):
    """A log in a file; if it cannot be written, the run ends with an error that says so."""

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        raise DataError(f"{self.baseFilename} cannot be written: {error}.") from error


@contextmanager
def logged_to(path: Path, *, append: bool) -> Iterator[None]:
    """Write the package's log to a file."""
    try:
        handler = _RunLog(path, mode="a" if append else "w", encoding="utf-8")
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
        with suppress(OSError):  # what could not be written is still in its buffer
            handler.close()
