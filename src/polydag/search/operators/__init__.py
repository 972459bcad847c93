"""The operators of greedy equivalence search: which sets and sources are to be scored."""
