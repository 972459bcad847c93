"""Select the parents of a variable among candidates, and estimate their coefficients."""

from polydag.regression.coefficients import Coefficients, coefficients
from polydag.regression.elimination import Family, extended_bic_penalty, fit_graph, select_parents

__all__ = [
    "Coefficients",
    "Family",
    "coefficients",
    "extended_bic_penalty",
    "fit_graph",
    "select_parents",
]
