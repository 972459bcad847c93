"""Sources of sufficient statistics: a shape of data each, and they nest."""

from polydag.sources.adapt import as_source
from polydag.sources.given import Given
from polydag.sources.interface import Source
from polydag.sources.linked_rows import LinkedRows
from polydag.sources.linked_stream import LinkedStream
from polydag.sources.parties import Parties
from polydag.sources.stream import Stream
from polydag.sources.table import InMemory
from polydag.sources.tasks import Tasks

__all__ = [
    "Given",
    "InMemory",
    "LinkedRows",
    "LinkedStream",
    "Parties",
    "Source",
    "Stream",
    "Tasks",
    "as_source",
]
