"""Data from outside: tables (CSV, Parquet, Arrow, SQL), background knowledge, and what to look at first.

Another file format is one small module with a `FORMAT` and one line in `polydag.data.sources`.
"""

from polydag.data.check import CheckReport, check
from polydag.data.knowledge import read_knowledge
from polydag.data.reading import from_frame, gaussian_stats, read
from polydag.data.table import Kind, Missing, Table

__all__ = [
    "CheckReport",
    "Kind",
    "Missing",
    "Table",
    "check",
    "from_frame",
    "gaussian_stats",
    "read",
    "read_knowledge",
]
