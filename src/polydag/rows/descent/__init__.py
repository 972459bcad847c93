"""Block coordinate descent for a DAG with linked rows: lasso, graphical lasso, and a path of λ1."""
