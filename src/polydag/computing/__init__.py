"""What long computations need: progress, finished pieces that are kept, and workers that may be lost."""
