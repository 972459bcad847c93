"""Array types used throughout; shapes are given in docstrings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Mask = NDArray[np.bool_]
Int = int | np.signedinteger  # an index in a kernel, where numba makes no difference between them
