"""A line of candidates, along which a descent moves from one to a better one."""

from collections.abc import Callable
from typing import Any, NamedTuple

from scipy.sparse import csr_array

from tailboost.core import Floats, Ints


class Line(NamedTuple):
    """T candidates. From each to the next one few of the W × A confusion counts change."""

    to: Callable[
        [int], Any
    ]  # returns a candidate by its number, as `reached` of the family returns it
    here: int  # number of the candidate that was reached
    rows: Ints | slice  # the w rows of the counts (W, A) that may change
    changes: (
        Floats | csr_array
    )  # of these from the one before to each candidate, shape (T, w × A)


class RunningRates:
    """A class that model files of earlier versions name; nothing reads it."""
