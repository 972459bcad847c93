"""Scores of numbers."""
