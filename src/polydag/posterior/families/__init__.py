"""Log scores of families (a node and its parents), as arrays, and lists sorted by score."""
