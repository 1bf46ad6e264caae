"""Kinds of scores: the range of each, the one check of scores, and the shortest decimals of numbers."""

from contextlib import suppress
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np

from tailboost.core.array_types import Array, Column, Floats
from tailboost.core.data_classes import frozen_value
from tailboost.core.labels import as_array, is_missing

# Given probabilities may be outside [0, 1] by rounding of this size, as in text of two decimals.
ROUNDED = 1e-2
# Largest size of other scores. Differences and slopes between such scores are finite.
MOST = 1e200
# Numbers from 1e-14 to 1e6 have 6 to 9 digits after multiplication by a power of 10 that is exact, from 1 to
# 1e22.
_MOST_DIGITS_BEFORE = 5
_MOST_ZEROS_BEHIND = 14
# NumPy rounds to fewer decimals: this power of ten is infinite.
_TOO_MANY_DECIMALS = 309
NARROW = (np.float16, np.float32)  # types with fewer digits than Python's numbers


@frozen_value
class ScoreKind:
    """A kind of scores, such as probabilities, with the range of its values.

    Attributes
    ----------
    name, plural : str
        The name as in ``kind=``, and the name of several scores.
    lower, upper : float
        The range.
    accepted_from, accepted_to : float
        The smallest and largest accepted numbers: an excess over the range is taken for rounding.
    """

    name: str
    plural: str
    lower: float
    upper: float
    accepted_from: float
    accepted_to: float

    def contains(self, value: Any) -> bool:
        """Return whether a value is a number within the range, and neither text nor a boolean."""
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        return is_number and self.lower <= value <= self.upper

    def check_missing(self, missing: float | None) -> None:
        """Raise ValueError if the score of rows without one is not of this kind; None is no such score."""
        if missing is not None and not self.contains(missing):
            raise ValueError(
                f"missing={missing!r} is no {self.name} from {self.lower:g} to {self.upper:g}"
            )

    def turned(self, score: float) -> float:
        """Return the largest score of the other label in rows whose score is at least this one.

        Of a logit s it is −s. Other scores s and q of two labels sum to the upper end u, and one of them was
        computed from the other, in one of three ways. For the probability s = 0.9, for example:

        - q was rounded from u − s, and is 0.09999999999999998;
        - q is the decimal u − s, as in a text: 0.1;
        - s was rounded from u − q. The largest q whose rounded u − q is at least s is 0.10000000000000002.

        The result is the largest q of all. For s below u/2, the rounded u − s has fewer digits than s: scores
        s that differ by less than 2⁻⁵³ u may have the same q.
        """
        score = float(score)  # a number of NumPy is printed with its type
        if self.name == "logit":
            return -score
        rounded = self.upper - score
        in_decimals = Decimal(repr(self.upper)) - Decimal(repr(score))
        # The largest q whose rounded u − q is at least s: from half a step of s above u − s downwards.
        largest = rounded + (score - np.nextafter(score, 0.0)) / 2
        while self.upper - largest < score:
            largest = np.nextafter(largest, 0.0)
        return float(max(rounded, in_decimals, largest))

    def checked(self, scores: Column, owner: object, missing: float | None) -> Floats:
        """Return a column of scores as float64 within the range, shape (n,).

        Parameters
        ----------
        scores : array-like of shape (n,) or (n, 1)
            The scores.
        owner : object
            Its text begins messages.
        missing : float or None
            The score of rows without one; None refuses such rows.

        Raises
        ------
        ValueError
            If scores are no numbers, are missing, or lie outside the range, or a row has several.
        """
        shape = np.shape(scores)
        if np.prod(shape[1:]) != 1:
            raise ValueError(
                f"{owner}: a row has one score, but the scores have the shape {shape}; "
                "give the column of the score"
            )
        values = _as_numbers(np.ravel(as_array(scores)), owner)
        lacks_score = np.isnan(values)
        if missing is not None:
            values[lacks_score] = missing
        elif lacks_score.any():
            raise ValueError(
                f"{owner}: rows have no score, the first is row {lacks_score.argmax()}, counted from 0; "
                "state their score by missing=, or in predict their answer by default="
            )
        if ((values < self.accepted_from) | (values > self.accepted_to)).any():
            advice = "; kind= may be probability, percent, logit, or number, for any numbers"
            if self.upper == MOST:
                advice = ""
            raise ValueError(
                f"{owner}: values from {np.nanmin(values):.4g} to {np.nanmax(values):.4g} are no "
                f"{self.plural} between {self.lower:g} and {self.upper:g}{advice}"
            )
        return values.clip(self.lower, self.upper)


SCORE_KINDS = {
    "probability": ScoreKind("probability", "probabilities", 0.0, 1.0, -ROUNDED, 1.0 + ROUNDED),
    "percent": ScoreKind("percent", "percent", 0.0, 100.0, -1.0, 101.0),
    "logit": ScoreKind("logit", "logits", -MOST, MOST, -MOST, MOST),
    "number": ScoreKind("number", "finite numbers", -MOST, MOST, -MOST, MOST),
}


def score_kind(name: Any) -> ScoreKind:
    """Return the kind of a name; raise ValueError if no kind has this name."""
    if name not in [*SCORE_KINDS]:  # also one without a hash
        raise ValueError(f"kind must be one of {list(SCORE_KINDS)}, got {name!r}")
    return SCORE_KINDS[name]


def _as_numbers(array: Array, owner: object) -> Floats:
    """Return scores as a new float64 array, shape (n,), missing values as NaN.

    Raise ValueError for text, truth values and dates; ``owner`` begins the message.
    """
    if array.dtype.kind == "O":
        # A narrow number is the decimal that it prints, as in a column of its own type.
        entries = [
            float(str(each)) if isinstance(each, NARROW) else each for each in array.tolist()
        ]
        # NumPy would read True, and the text "1", as a number.
        odd = [entry for entry in entries if isinstance(entry, bool | np.bool_ | str | bytes)]
        if odd:
            fault = f"got {odd[0]!r}"
            try:
                np.array(odd, float)
            except (
                ValueError
            ) as failure:  # names the first that reads as no number, such as "n/a"
                fault = str(failure)
            raise ValueError(f"{owner}: scores must be numbers: {fault}")
        array = np.fromiter((np.nan if is_missing(each) else each for each in entries), object)
    if array.dtype in NARROW:
        return shortest_decimals(array)
    if array.dtype.kind in "iufO":
        with suppress(OverflowError, TypeError, ValueError):
            return array.astype(float)
    raise ValueError(f"{owner}: scores must be numbers, got the type {array.dtype}")


def shortest_decimals(numbers: Array) -> Floats:
    """Return the shortest decimals of float32 or float16 numbers, such as .415 and not .41499999165534973.

    The result has the shape of ``numbers``. Text files and databases hold such a number as this decimal, so
    all of them agree on a threshold.
    """
    exact = numbers.astype(float)
    decimals = exact.copy()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        magnitude = np.floor(np.log10(np.abs(exact)))  # not finite for 0, NaN and infinity
        # Nine digits always tell a float32 number. Each shorter decimal that does replaces the longer one.
        # Fewer than six digits are six with zeros at the end.
        for n_digits in range(9, 5, -1):
            power = 10.0 ** (n_digits - 1 - magnitude)
            rounded = np.rint(exact * power) / power
            is_same = rounded.astype(numbers.dtype) == numbers
            decimals[is_same] = rounded[is_same]
    # The power of ten of other numbers is rounded itself, and float16 has fewer digits. Their text decides,
    # which takes 8 times as long.
    others = (magnitude > _MOST_DIGITS_BEFORE) | (magnitude < -_MOST_ZEROS_BEHIND)
    others |= numbers.dtype == np.float16
    others &= exact != 0.0
    decimals[others] = numbers[others].astype(str).astype(float)
    return decimals


def decimals_between(low: Floats, high: Floats) -> Floats:
    """Return the shortest decimal strictly between two numbers, shape (m,).

    Among equally short decimals, the one nearest to the middle is returned. If none of at most 308 digits
    after the point lies between, the result is the larger number: a range contains its lower end.

    Parameters
    ----------
    low, high : ndarray of shape (m,)
        The pairs of numbers. For equal numbers the result is this number.
    """
    middle = low / 2 + high / 2
    result = high.copy()
    is_open = low < high
    largest = np.abs([low, high]).max(initial=1.0)
    for digits in range(-int(np.log10(largest)) - 1, _TOO_MANY_DECIMALS):
        with np.errstate(over="ignore", invalid="ignore"):
            decimal = np.round(middle, digits) + 0.0  # + 0.0 makes −0.0 a 0.0
        inside = is_open & (low < decimal) & (decimal < high)
        result[inside] = decimal[inside]
        is_open &= ~inside
        if not is_open.any():
            break
    return result
