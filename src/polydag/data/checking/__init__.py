"""Checks of tables before anything is learned from them."""
