"""Configurations: their shapes, their fields, and how they are written down."""
