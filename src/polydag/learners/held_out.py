"""The likelihood of held-out rows: what `score` is, by which scikit-learn's searches choose."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from polydag.errors import DataError, UsageError
from polydag.graph import Graph
from polydag.regression.held_out import mean_log_likelihood
from polydag.sources.adapt import as_source
from polydag.stats import GaussianStats


class HeldOutScore:
    """Learners that learn from moments, and whose `score` is the likelihood of held-out rows.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from polydag import BOSS, simulate
    >>> X = simulate.linear(simulate.dag(5, n_edges=5, random_state=0), n=200, random_state=1)
    >>> GridSearchCV(BOSS(), {"penalty": [0.5, 2, 50]}, cv=3).fit(X).best_params_
    {'penalty': 2}
    """

    graph_: Graph
    _moments: Any

    def score(self, X: Any, y: None = None) -> float:
        """The mean log density of the rows of X, in nats per row; larger is better. `y` is ignored."""
        check_is_fitted(self)
        name = type(self).__name__
        if not isinstance(self._moments, GaussianStats):
            raise UsageError(
                f"The likelihood of held-out rows needs the moments of numbers, from which {name} has not "
                "learned here."
            )
        held_out = as_source(X).moments()
        if not isinstance(held_out, GaussianStats):
            raise UsageError("Held-out rows are those of one regime.")
        if set(held_out.names) != set(self.graph_.names):
            raise DataError(
                f"X has {len(held_out.names)} features, but {name} is expecting {self.graph_.n_nodes} "
                f"features as input. Held-out rows need the columns of the fitted ones: "
                f"{', '.join(self.graph_.names)}; got {', '.join(held_out.names)}."
            )
        return mean_log_likelihood(self.graph_, self._moments, held_out)
