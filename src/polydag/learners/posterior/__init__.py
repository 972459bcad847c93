"""Learners of posterior probabilities."""
