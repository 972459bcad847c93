"""Jumps of parts of a network between modes: found, proposed and accepted."""
