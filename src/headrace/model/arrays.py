"""Types of numpy arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Doubles = NDArray[np.float64]
Mask = NDArray[np.bool_]
