"""A compiled loop that reads IPv4 addresses: no text of Arrow is cut into pieces, none is looked at twice."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from headrace.kernel.jit import compiled

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int32]

ZERO, POINT = 48, 46
OCTETS = 4


@compiled
def read_octets(data: Bytes, offsets: Offsets, octets: Bytes) -> bool:
    """Four numbers for each text; False if one is anything but four numbers up to 255, as short as can be, and points
    between. An empty text is left: it may stand under a NULL.
    """
    for row in range(len(offsets) - 1):
        place, end = offsets[row], offsets[row + 1]
        if place == end:
            continue
        for octet in range(OCTETS):
            if octet > 0:
                if place >= end or data[place] != POINT:
                    return False
                place += 1
            begin, number = place, 0
            while place < end and place < begin + 3 and ZERO <= data[place] <= ZERO + 9:
                number = number * 10 + data[place] - ZERO
                place += 1
            if place == begin or number > 255 or (data[begin] == ZERO and place > begin + 1):
                return False
            octets[row, octet] = number
        if place != end:
            return False
    return True
