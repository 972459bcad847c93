"""Draws of the order of a few variables among the places that they hold: only `_kernels`."""
