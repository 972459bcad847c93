"""Demonstrations on simulated data, one file each: a study, the naive answer, and the truth."""

from polydag.cli.demos.registry import DEMOS, Answer, Outcome, run

__all__ = ["DEMOS", "Answer", "Outcome", "run"]
