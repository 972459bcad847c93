"""Learners for rows that depend on each other."""
