"""Columns of sources: their kinds, the levels of labels, and what several sources agree on."""
