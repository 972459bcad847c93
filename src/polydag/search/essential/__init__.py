"""Essential graphs under change: what searches over classes of equivalent DAGs stand on."""
