"""Rows with missing values: their moments, and draws of what is missing."""
