"""How HLL sketches lie in bytes, as Apache DataSketches has it: what reading and writing agree on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]
Number = int | np.int64

VERSION, FAMILY = 1, 7
LIST, SET, HLL = 0, 1, 2
HLL_4, HLL_6, HLL_8 = 0, 1, 2
LIST_START, SET_START, HLL_START = 8, 12, 40
LIST_WORDS, SET_WORDS, HLL_WORDS = 2, 3, 10
LIST_BITS, SET_BITS = 3, 5
"""The least sizes of the two forms' arrays, where they are not compact."""
COMPACT, OUT_OF_ORDER = 8, 16
KEY_BITS, KEY_MASK = 26, (1 << 26) - 1
ESCAPED = 15
"""In HLL_4 a register that does not fit is among the exceptions at the end."""
MAX_VALUE = 63
DENSE, REFUSED = -1, -2
"""Instead of the number of coupons: where registers are kept, and what is no sketch."""
