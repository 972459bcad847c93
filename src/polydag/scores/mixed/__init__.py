"""Scores of tables with numbers and labels."""
