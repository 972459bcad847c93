"""What a study reads, and the source that it becomes."""
