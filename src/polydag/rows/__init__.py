"""Row correlation: links between rows, a graphical lasso on them, block coordinate descent, decorrelation.

After Li, Padilla and Zhou (2024), "Learning Gaussian DAGs from network data", Journal of Machine Learning
Research 25; corrections to its formulas stand where they apply.
"""

from polydag.rows.dependence import DependenceTest, row_dependence
from polydag.rows.descent.block_descent import Fit, Problem, descend
from polydag.rows.descent.glasso import constrained_glasso
from polydag.rows.descent.lambda_path import Path, lambda_path
from polydag.rows.links import Links, as_links
from polydag.rows.precision import RowPrecision

__all__ = [
    "DependenceTest",
    "Fit",
    "Links",
    "Path",
    "Problem",
    "RowPrecision",
    "as_links",
    "constrained_glasso",
    "descend",
    "lambda_path",
    "row_dependence",
]
