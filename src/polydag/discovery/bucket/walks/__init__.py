"""Walks over the families that a bucket order allows: only `_kernels`."""
