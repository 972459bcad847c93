"""Reading and checking data: tables (CSV, Parquet, Arrow, SQL) and files of background knowledge.

`polydag.data.readers` has one module per file format.
"""

from polydag.data.checking.report import CheckReport, check
from polydag.data.knowledge_file import read_knowledge
from polydag.data.reading import from_frame, gaussian_stats, mixed_stats, read
from polydag.data.relationships import Relationships, read_relationships
from polydag.data.table import Kind, Missing, Table

__all__ = [
    "CheckReport",
    "Kind",
    "Missing",
    "Relationships",
    "Table",
    "check",
    "from_frame",
    "gaussian_stats",
    "mixed_stats",
    "read",
    "read_knowledge",
    "read_relationships",
]
