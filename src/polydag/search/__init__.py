"""Searches over structures: pure functions of statistics or scores."""
