"""The forms of symmetric Dirichlet priors that are compiled; the one enumeration of them.

A prior has the same pseudocount `a` in every cell of a family's table, with r levels of the node, q
configurations of the parents, q' of them with rows, and a strength s:

- `PER_CELL`: `a = s`;
- `PER_TABLE`: `a = s / (q r)`, a table has s imaginary rows;
- `PER_OCCUPIED`: `a = s / (q' r)`, the configurations that occur share s imaginary rows.
"""

from __future__ import annotations

PER_CELL, PER_TABLE, PER_OCCUPIED = 0, 1, 2
