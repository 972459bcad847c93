"""Files and database addresses, and how they may be written down."""

from __future__ import annotations

import re
from pathlib import Path


def is_database(source: str) -> bool:
    """Whether a source is a database address rather than a file."""
    return "://" in source


def public(source: str) -> str:
    """A source as it may be written down: a database address without its secrets.

    Examples
    --------
    >>> public("postgresql://me:secret@host/db?sslmode=require&password=x")
    'postgresql://me@host/db?sslmode=require'
    """
    if not is_database(source):
        return source
    bare = re.sub(r"(://[^:/?#]*):[^/?#]*@", r"\1@", source)
    address, _, options = bare.partition("?")
    kept = [
        part for part in options.split("&") if part and not re.match(r"[^=]*(pass|secret|token|key)", part)
    ]
    return f"{address}?{'&'.join(kept)}" if kept else address


def stem(source: str) -> str:
    """The name of a file or database without folders and endings; "" where there is none.

    Examples
    --------
    >>> stem("data/patients.csv.gz")
    'patients'
    """
    return Path(public(source).partition("?")[0]).name.partition(".")[0]
