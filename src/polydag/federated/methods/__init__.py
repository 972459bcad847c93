"""Federated methods, each one object in the registry `METHODS`.

A method builds its program (what the coordinator asks), the parties' sides, and reads the result
(`interface`); `fitting` runs one. `moments`, `counts` and `private.moments` sum statistics for learners of
one table.
"""
