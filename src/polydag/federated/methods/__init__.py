"""Federated methods, one file each: what the coordinator asks and how it reads the sums."""
