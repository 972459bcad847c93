"""Run folders: a result written to disk so that a person can read it and a program repeat it.

Everything is written into a hidden folder beside the wanted one, which is renamed at the end: a full disk or
Ctrl-C leaves nothing half-written. While a study runs, `<folder>.partial` holds its log and the pieces from
which an interrupted one can be resumed.
"""

from polydag.runs.files import CONFIG, GRAPH, write
from polydag.runs.folders import last_partial, new_folder, next_free, partial, require_free
from polydag.runs.performing import Recorded, perform, read_config

__all__ = [
    "CONFIG",
    "GRAPH",
    "Recorded",
    "last_partial",
    "new_folder",
    "next_free",
    "partial",
    "perform",
    "read_config",
    "require_free",
    "write",
]
