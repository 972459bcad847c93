"""Learners that search graphs by scores or tests."""
