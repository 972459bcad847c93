"""Best order score search with grow-shrink trees (Andrews et al. 2023)."""
