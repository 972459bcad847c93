"""Greedy equivalence search (Chickering 2002) with turning and interventions (Hauser and Bühlmann 2012)."""

from polydag.search.ges.engine import GESResult, Step, ges

__all__ = ["GESResult", "Step", "ges"]
