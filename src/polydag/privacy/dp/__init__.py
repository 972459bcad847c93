"""Differential privacy: clipping, whitening, noise, and the account of what was spent."""
