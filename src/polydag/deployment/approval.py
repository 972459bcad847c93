"""What an owner has approved: kinds of studies, remembered in the site's own folder."""

from __future__ import annotations

import hashlib
from pathlib import Path

from polydag.deployment.description import Column, Signed
from polydag.deployment.packing import read_json, write_json
from polydag.privacy.masking.keystreams import canonical
from polydag.studies.plan import plan_of

FILE = "approved.json"
_MISSING = {
    "drop": "left out",
    "em": "what is missing is expected from the rest (em)",
    "testwise": "each pair of columns is summed over the rows that have both (testwise)",
    "multiple": "what is missing is drawn several times (multiple)",
}


def kind_of(signed: Signed) -> str:
    """What studies of the same kind have in common: coordinator, sites, columns, rows, method, privacy."""
    description = signed.description.to_json()
    study = {name: value for name, value in description["study"].items() if name != "seed"}
    same = {name: value for name, value in description.items() if name not in ("study", "version")}
    return hashlib.sha256(canonical("kind", signed.coordinator.hex(), study, same)).hexdigest()


def is_approved(home: Path, signed: Signed) -> bool:
    """Whether the owner has approved this kind of study before."""
    return (home / FILE).is_file() and kind_of(signed) in read_json(home / FILE)


def approve(home: Path, signed: Signed) -> None:
    """Remember that the owner approves this kind of study."""
    known = read_json(home / FILE) if (home / FILE).is_file() else []
    write_json(home / FILE, sorted({*known, kind_of(signed)}))


def in_words(signed: Signed) -> list[str]:
    """A study's description for the owner of a site."""
    description = signed.description
    plan = plan_of(description.config)
    privacy = plan.privacy
    assert privacy is not None
    if not privacy.masked:
        protected = "NOT MASKED: the coordinator reads every site's numbers"
    elif privacy.epsilon is not None:
        protected = f"under masks, with noise (epsilon = {privacy.epsilon:g}, delta = {privacy.delta:g})"
    else:
        protected = "under masks: the coordinator reads sums over the sites"
    lines = [
        f"Study {signed.study[:12]}…, of the coordinator with the key {signed.coordinator.hex()[:16]}….",
        f"Sites: {', '.join(description.sites)}.",
        f"Method: {description.config.method}. Numbers leave {protected}.",
        f"The graph {'stays with the coordinator' if description.keeps_graph else 'goes to all sites'}.",
    ]
    config = description.config
    if config.intervention_columns:
        lines.append(f"What was set by intervention: as in {', '.join(config.intervention_columns)}.")
    if changed := [f"{name} ({how})" for name, how in config.transforms.items()]:
        lines.append(f"Changed before the sums: {', '.join(changed)}.")
    if config.discretize is not None:
        lines.append(f"Numbers are cut into levels: {config.discretize}.")
    if config.missing != "error":
        lines.append(f"Rows with missing values: {_MISSING[config.missing]}.")
    if plan.is_time_series:
        order = (plan.series["time"], plan.series["realisation"])
        lines.append(f"Rows are in order of time: as in {' and '.join(order)}, if there are such columns.")
    if not description.columns:
        return [
            *lines,
            "Columns: those that all sites have; their names, kinds and labels are sent on joining.",
        ]
    lines.append(f"Columns: {'; '.join(_in_words(name, own) for name, own in description.columns.items())}.")
    if description.filters:
        lines.append(f"Rows: those with {' and '.join(description.filters)}.")
    return lines


def _in_words(name: str, column: Column) -> str:
    own = f" (your column {column.from_})" if column.from_ not in ("", name) else ""
    unit = f" in {column.unit}" if column.unit else ""
    span = f", from {column.range[0]:g} to {column.range[1]:g}" if column.range else ""
    levels = f", one of {', '.join(column.levels)}" if column.levels else ""
    return f"{name}{own}{unit}{span}{levels}"
