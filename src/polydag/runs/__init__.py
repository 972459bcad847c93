"""Run folders: results on disk that people can read and programs can reproduce.

All files are written into a hidden temporary folder, which is renamed at the end. A full disk or Ctrl-C thus
never leaves a half-written run folder. While a study runs, `<folder>.partial` holds its log and the finished
pieces from which an interrupted run can be resumed.
"""

from polydag.runs.execution import Recorded, perform, read_config
from polydag.runs.folders import last_partial, new_folder, next_free, partial, unfinished_run
from polydag.runs.result_files import CONFIG, GRAPH, write

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
    "unfinished_run",
    "write",
]
