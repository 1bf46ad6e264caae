"""Weights given by their logarithms."""

from __future__ import annotations

import numpy as np

from tailboost.core.array_types import Floats


def normalised(log_w: Floats) -> tuple[Floats, float]:
    """Return weights with a sum of 1 and the logarithm of what their sum was; some are above −∞.

    Shifted by the largest, so that nothing overflows and not all vanish. Players ask for it in every round:
    for a thousand rows SciPy's logsumexp spends most of its time on which kind of array it was given.
    """
    top = float(log_w.max())
    w: Floats = np.exp(log_w - top)
    total = float(w.sum())
    w /= total
    return w, top + float(np.log(total))
