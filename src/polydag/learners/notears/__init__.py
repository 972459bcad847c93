"""Learners that optimise weights under a constraint of acyclicity."""
