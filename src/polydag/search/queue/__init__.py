"""A queue of scored operators, best first."""
