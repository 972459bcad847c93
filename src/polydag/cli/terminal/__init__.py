"""What is written to the terminal: results, errors, progress, and what Ctrl-C leaves."""
