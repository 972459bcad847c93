"""The likelihood of held-out rows as a scorer of scikit-learn.

A method `score` would collide with the parameter of that name, which says what a search maximises.

>>> from sklearn.model_selection import GridSearchCV
>>> from polydag import BOSS, simulate
>>> X = simulate.linear(simulate.dag(5, n_edges=5, random_state=0), n=200, random_state=1)
>>> search = GridSearchCV(BOSS(), {"penalty": [0.5, 2, 50]}, scoring=held_out_log_likelihood, cv=3).fit(X)
>>> search.best_params_
{'penalty': 2}
"""

from __future__ import annotations

from typing import Any

from polydag.learners.base import StructureLearner


def held_out_log_likelihood(learner: StructureLearner, X: Any, y: None = None) -> float:
    """The mean log density of the rows of X under a fitted learner; larger is better. `y` is ignored."""
    return learner.log_likelihood(X)
