"""Solvers: pure functions from losses, penalties and starting values to weights."""
