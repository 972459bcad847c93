"""Differential privacy: clipping, noise and the accounting of a budget."""
