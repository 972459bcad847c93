"""Exact sums over all orders of the variables."""
