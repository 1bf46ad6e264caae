"""A line of candidates, along which a descent moves from one to a better one."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from tailboost.core import Array, Floats, Ints

NO_NUMBERS: Any = np.zeros(0)


class Reached(NamedTuple):
    """A candidate on the way of a descent. One by weights of classes has its answers to the n rows."""

    candidate: Array
    costs: Sequence[Floats] = ()  # expected costs of each action, shape (n,) each
    actions: Ints = NO_NUMBERS  # shape (n,): the action of least expected cost
    least: Floats = NO_NUMBERS  # shape (n,): this cost


class Line(NamedTuple):
    """T candidates. From each to the next one few of the W × A confusion counts change.

    Of the changes only sums from one candidate to another one count, so the first row may be any.
    """

    to: Callable[[int], Reached]  # returns a candidate by its number
    here: int  # number of the candidate that was reached
    rows: Ints | slice  # the w rows of the counts (W, A) that may change
    changes: (
        Floats | csr_array
    )  # shape (T, w × A): of these, to each candidate from the one before
