"""Structures of the row correlation, from one strength for all links to one for each, and the choice."""
