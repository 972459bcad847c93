"""Run folders: a result written to disk so that a person can read it and a program repeat it.

Everything is written into a hidden folder beside the wanted one, which is renamed at the end: a full disk or
Ctrl-C leaves nothing half-written. While a study runs, `<folder>.partial` holds its log and the pieces from
which an interrupted one can be resumed.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import logging
import os
import secrets
import shutil
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from polydag import checkpoint, studies
from polydag.errors import DataError, UsageError
from polydag.studies.config import Config, from_table, to_table
from polydag.studies.inputs import file_mark, public, require_same

if TYPE_CHECKING:
    import pandas as pd

    from polydag.studies.result import Result

GRAPH, EDGES, HISTORY, CONFIG, LOG = "graph.json", "edges.csv", "history.csv", "config.toml", "run.log"
PICTURE, SUMMARY, PRUNED = "graph.svg", "summary.txt", "pruned.csv"
MANIFEST = ".files"  # the names of what was written: --force deletes nothing else

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


def next_free(parent: str | os.PathLike[str], stem: str) -> Path:
    """The first of `stem-1, stem-2, …` that is neither there nor being written."""
    number = 1
    while _taken(Path(parent) / f"{stem}-{number}"):
        number += 1
    return Path(parent) / f"{stem}-{number}"


def last_partial(parent: str | os.PathLike[str], stem: str) -> Path:
    """The interrupted run of this name that was touched last, for --resume without --out."""
    found = [path for path in Path(parent).glob(f"{stem}-*.partial") if path.is_dir()]
    if not found:
        raise UsageError(
            f"There is nothing to resume: no interrupted run {Path(parent) / stem}-*. Name it with --out."
        )
    return max(found, key=lambda path: path.stat().st_mtime).with_suffix("")


def partial(out: Path) -> Path:
    """The folder that stands for `out` while its run is under way."""
    return out.with_name(f"{out.name}.partial")


def _taken(path: Path) -> bool:
    return path.exists() or partial(path).exists()


@contextmanager
def new_folder(out: str | os.PathLike[str], *, force: bool = False) -> Iterator[Path]:
    """A hidden folder to write into; it becomes `out` when the block ends well, and vanishes otherwise."""
    target = Path(out)
    require_free(target, force=force)
    with _telling(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        hidden = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
        try:
            yield hidden
            written = sorted(path.name for path in hidden.iterdir())
            (hidden / MANIFEST).write_text("".join(f"{name}\n" for name in written), encoding="utf-8")
            umask = os.umask(0)
            os.umask(umask)
            hidden.chmod(0o777 & ~umask)  # mkdtemp's 0700 would keep colleagues out
            _rename(hidden, target)
        finally:
            shutil.rmtree(hidden, ignore_errors=True)


def require_free(out: Path, *, force: bool = False) -> None:
    """Raise where writing to `out` would overwrite something without leave."""
    if not out.name:
        raise UsageError(f"{out} is not the name of a new folder.")
    if not out.exists():
        return
    if not out.is_dir():
        raise UsageError(f"{out} is a file. Choose another name with --out.")
    inside = sorted(path.name for path in out.iterdir())
    if not inside:
        return
    if not force:
        raise UsageError(
            f"{out} exists already. Choose another folder with --out, or replace it with --force."
        )
    manifest = out / MANIFEST
    ours = {MANIFEST, *manifest.read_text(encoding="utf-8").splitlines()} if manifest.is_file() else set()
    if strange := [name for name in inside if name not in ours]:
        raise UsageError(
            f"{out} is not replaced: it holds {strange[0]}, which is not from a run. "
            "Choose another folder with --out."
        )


def _rename(hidden: Path, target: Path) -> None:
    if not target.exists():
        hidden.replace(target)
        return
    old = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    target.replace(old)
    try:
        hidden.replace(target)
    except BaseException:
        old.replace(target)
        raise
    shutil.rmtree(old)


@contextmanager
def _telling(out: Path) -> Iterator[None]:
    """A full disk, a folder that may not be written: told as such."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{out} cannot be written: {error.strerror or error}. Nothing is left of it."
        ) from error


def write(result: Result, out: str | os.PathLike[str], *, force: bool = False, log: str = "") -> Path:
    """Write a run folder; see the module's text. Returns its path."""
    target = Path(out)
    with new_folder(target, force=force) as hidden:
        for name, text in _files(result, log).items():
            (hidden / name).write_text(text, encoding="utf-8", newline="")
    return target


def _files(result: Result, log: str) -> dict[str, str]:
    from polydag import plot
    from polydag.formats import graphjson

    return {
        GRAPH: graphjson.to_text(result.graph),
        EDGES: edges_text(result),
        HISTORY: _frame(result.history),
        CONFIG: config_text(result),
        LOG: log,
        PRUNED: _csv(("source", "target", "weight", "reason"), result.pruned),
        PICTURE: plot.svg(result.graph, result.probabilities),
        SUMMARY: summary_text(result),
        **{f"{name}.csv": _frame(table) for name, table in result.tables.items()},
        **{f"{name}.json": _json(content) for name, content in result.documents.items()},
        **{f"{name}.svg": drawn for name, drawn in result.pictures.items()},
    }


def _json(content: Any) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _frame(table: pd.DataFrame) -> str:
    text: str = table.to_csv(index=False, lineterminator="\n")
    return text


def edges_text(result: Result) -> str:
    """The edges as CSV. Where some are undirected, a fifth column says which edges are directed."""
    header = ["source", "target", "weight", "probability"]
    if not result.graph.has_undirected:
        return _csv(header, (edge[:4] for edge in result.edges))
    return _csv(
        [*header, "directed"], ((*edge[:4], "true" if edge.directed else "false") for edge in result.edges)
    )


def _csv(header: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Rows as CSV: numbers to the last bit, nothing for None."""
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()


def config_text(result: Result) -> str:
    """The configuration as used, with the marks of what was read and the versions at work."""
    import tomli_w

    study = to_table(result.config)
    tables = {"study": study, "sha256": dict(result.sha256), "versions": dict(result.versions)}
    head = (
        "# To run this again: polydag fit --config <this file>, from the folder where the paths below start."
    )
    return f"{head}\n\n{tomli_w.dumps(tables)}"


def summary_text(result: Result) -> str:
    """What was done and found, for a person."""
    graph, config = result.graph, result.config
    lines = [
        f"{config.method} on {', '.join(config.data)} ({config.shape})",
        f"{result.n:g} rows, {graph.n_nodes} variables, {graph.n_edges} edges, seed {config.seed}",
        "" if result.converged else "NOT CONVERGED: do not rely on this graph.",
        *(f"{name} = {value}" for name, value in config.settings.items()),
        *(f"{name}: {value:.6g}" for name, value in result.measures.items()),
        "",
        *_edge_lines(result),
    ]
    if result.pruned:
        lines += ["", f"{len(result.pruned)} weaker edges were taken out: see {PRUNED}."]
    if result.notes:
        lines += ["", "Notes:", *(f"- {note}" for note in result.notes)]
    return "\n".join(lines) + "\n"


def _edge_lines(result: Result) -> Iterable[str]:
    rows = [(f"{e.source} {'->' if e.directed else '--'} {e.target}", e) for e in result.edges]
    width = max((len(text) for text, _ in rows), default=0)
    for text, edge in rows:
        chance = "" if edge.probability is None else f"  p = {edge.probability:.2f}"
        yield f"{text:<{width}}  {edge.weight:8.4f}{chance}"


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
    with _telling(target):
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
        if checkpoint.has_pieces(aside) and not isinstance(error, UsageError):
            error.add_note(f"What was finished is kept in {aside}: add --out {target} --resume to go on.")
        elif not checkpoint.has_pieces(aside):
            shutil.rmtree(aside, ignore_errors=True)
        raise
    shutil.rmtree(aside)
    return result


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
    return config if config.seed is not None else dataclasses.replace(config, seed=secrets.randbelow(2**31))


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
