"""Reproduce the tables and figures of the papers, with one module per paper."""
