"""Helpers shared by the graph formats: text files, edge lists, DOT syntax and matrices."""
