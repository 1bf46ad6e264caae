"""Names for the arrays that travel between modules; annotations only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
#: Class numbers, row numbers: anything that indexes.
Ints = NDArray[np.intp]
#: Which rows, units or members are meant.
Mask = NDArray[np.bool_]
#: Zero-one losses, True where a hypothesis is wrong.
Bits = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
#: Fingerprints of rows.
Hashes = NDArray[np.uint64]
#: Labels or groups as the user gives them: numbers or text.
Labels = NDArray[Any]
