"""Greedy equivalence search over essential graphs (Chickering 2002; Hauser and Bühlmann 2012)."""
