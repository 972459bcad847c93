"""Posterior of every edge."""
