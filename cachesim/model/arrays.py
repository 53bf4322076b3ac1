"""What the arrays of the model are called: digests, positions, numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Digests = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]
