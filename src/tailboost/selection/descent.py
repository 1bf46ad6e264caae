"""A line of candidates, along which a descent moves from one to a better one."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tailboost.core import Array, Floats, Ints

NO_NUMBERS: Any = np.zeros(0)


class Reached(NamedTuple):
    """A candidate on the way of a descent; `ClassWeights` also keep what they computed for the n rows."""

    candidate: Array
    costs: Floats = NO_NUMBERS  # shape (A, n): expected cost of each action
    actions: Ints = NO_NUMBERS  # shape (n,): the action of least expected cost


class Line(NamedTuple):
    """T candidates on a line through the reached one, and the numerators and denominators that change."""

    to: Callable[[int], Reached]  # returns a candidate by its number
    rates: Ints | slice  # the r rates that change
    changes: Floats  # shape (T, 2, r): from the reached candidate to each
