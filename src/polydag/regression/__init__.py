"""Select the parents of a variable among candidates, from a covariance matrix."""

from polydag.regression.elimination import Family, extended_bic_penalty, fit_graph, select_parents

__all__ = ["Family", "extended_bic_penalty", "fit_graph", "select_parents"]
