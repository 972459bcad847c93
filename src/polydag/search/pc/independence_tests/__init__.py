"""Tests of independence, one file each, and sweeps of them over many conditioning sets."""
