"""What is found beside the graph, from one side or several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from polydag.studies.config.fields import overlaid

if TYPE_CHECKING:
    import pandas as pd

    from polydag.confidence import Confidence
    from polydag.regression import Coefficients
    from polydag.studies.result import Removed


@dataclass(frozen=True, eq=False)
class Findings:
    """What is found beside the graph; see `polydag.studies.result.Result` for what is not said here.

    Attributes
    ----------
    notes : tuple of str
        What a reader of the result should know.
    first_notes : tuple of str
        What should be read before the learner's warnings.
    settings : mapping
        What the learner chose by itself, so that a repetition does not have to choose again.
    """

    notes: tuple[str, ...] = ()
    first_notes: tuple[str, ...] = ()
    measures: Mapping[str, float] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    n_iter: int | None = None
    pruned: tuple[Removed, ...] = ()
    coefficients: Coefficients | None = None
    confidence: Confidence | None = None
    mean_of: str = ""
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    documents: Mapping[str, Any] = field(default_factory=dict)
    pictures: Mapping[str, str] = field(default_factory=dict)

    def with_more(self, other: Findings) -> Findings:
        """These findings and others, which prevail where both say something of the same."""
        return Findings(
            notes=(*self.notes, *other.notes),
            first_notes=(*self.first_notes, *other.first_notes),
            measures={**self.measures, **other.measures},
            kinds={**self.kinds, **other.kinds},
            settings=overlaid(self.settings, other.settings),
            n_iter=self.n_iter if other.n_iter is None else other.n_iter,
            pruned=(*self.pruned, *other.pruned),
            coefficients=self.coefficients if other.coefficients is None else other.coefficients,
            confidence=self.confidence if other.confidence is None else other.confidence,
            mean_of=other.mean_of or self.mean_of,
            tables={**self.tables, **other.tables},
            documents={**self.documents, **other.documents},
            pictures={**self.pictures, **other.pictures},
        )
