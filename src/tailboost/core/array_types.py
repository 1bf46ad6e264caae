"""Names of array types for annotations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: Indices: class numbers, row numbers.
Ints = NDArray[np.intp]
#: Masks of rows, subgroups or candidates.
Mask = NDArray[np.bool_]
#: Zero-one losses, True for a wrong answer.
Bits = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
#: Fingerprints of rows.
Hashes = NDArray[np.uint64]
#: Labels or groups of users: numbers or text.
Labels = NDArray[Any]
