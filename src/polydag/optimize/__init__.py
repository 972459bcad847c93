"""Solvers: pure functions from losses, penalties and starts to weights."""
