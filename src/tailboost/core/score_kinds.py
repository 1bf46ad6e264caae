"""Kinds of scores: the range of each, and the one check of scores, in Python, as SQL and as source."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np

from tailboost.core.array_types import Column, Floats, Floats32, Mask
from tailboost.core.checks import first_numbers, is_missing, number_in_table
from tailboost.core.spelling import as_typed, how_many, number_form
from tailboost.core.written_numbers import is_percent, percent_cure

# Probabilities may be outside [0, 1] by rounding of this size.
ROUNDED = 1e-2
# Largest size of other scores. Differences and slopes between such scores are finite.
LARGEST_SCORE = 1e200
# Whole numbers up to this one are grades; up to 100 they may be percent.
LARGEST_GRADE = 10
# Of 6 to 9 digits of numbers between 1e-14 and 1e6, the powers of 10 are exact: from 1 to 1e22.
MOST_DIGITS_BEFORE = 5
MOST_ZEROS_BEHIND = 14


def cure_of_missing() -> str:
    """Return what to do with rows without a score, for messages."""
    answered = as_typed(
        "predict(…, default='human review')", "tailboost predict --default 'human review'"
    )
    selected = as_typed(
        "a rule with tb.Scores(…, missing=SCORE)", "the rule with --missing SCORE"
    )
    return f"drop them ({answered} answers such rows), or select {selected}, the score of such rows"


@dataclass(frozen=True)
class ScoreKind:
    """A kind of scores, such as probabilities, with the range of its values.

    Attributes
    ----------
    name, plural : str
        The name as in ``kind=``, and the name of several scores.
    lower, upper : float
        The range.
    remedy : str
        Advice about other numbers.
    rounding : float
        Excess over the range, taken for rounding.
    """

    name: str
    plural: str
    lower: float
    upper: float
    remedy: str
    rounding: float = 0.0

    @property
    def least(self) -> float:
        """The smallest accepted number."""
        return self.lower - self.rounding

    @property
    def most(self) -> float:
        """The largest accepted number."""
        return self.upper + self.rounding

    def contains(self, value: Any) -> TypeGuard[float]:
        """Whether a value is a number within the range, and neither text nor a boolean."""
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and self.lower <= value <= self.upper

    def check_missing(self, missing: float | None) -> None:
        """Raise ValueError if the score of rows without one is not of this kind; None is no such score."""
        if isinstance(missing, str):
            raise ValueError(
                f"missing={missing!r} is no score; predict(…, default={missing!r}) gives rows "
                "without a score this answer, and rows that select or certify need one"
            )
        if missing is not None and not self.contains(missing):
            raise ValueError(
                f"missing={missing!r} is no number between {self.lower:g} and {self.upper:g}; "
                f"{self._remedy_as_typed}"
            )

    def checked(self, scores: Column, owner: str, missing: float | None, remedy: str) -> Floats:
        """Return scores as float64 within the range.

        Parameters
        ----------
        scores : array-like of shape (n,) or (n, columns)
            The scores.
        owner, remedy : str
            Begin and end of messages.
        missing : float or None
            The score of rows without one; None refuses such rows.

        Raises
        ------
        ValueError
            If scores are no numbers, are missing, or lie outside the range. The message names rows, and has
            both faults.
        """
        values = _as_numbers(scores, owner)
        faults = []
        is_missing_score = np.isnan(values)
        if missing is not None:
            values[is_missing_score] = missing
        elif is_missing_score.any():
            rows_without_score = _rows(is_missing_score)
            n_lacking = len(rows_without_score)
            faults.append(
                f"{how_many(n_lacking, 'row')} {number_form(n_lacking, 'has', 'have')} no "
                f"score (row {first_numbers(rows_without_score)}); {cure_of_missing()}"
            )
        outside = self.words_outside(values, remedy)
        if outside:
            faults.append(outside)
        if faults:
            raise ValueError(f"{owner}: {'. The other '.join(faults)}")
        return np.clip(values, self.lower, self.upper, out=values)

    def words_outside(self, values: Floats, remedy: str) -> str:
        """Return a clause on values outside the range, with advice; empty without any. NaN is no value."""
        rows_outside = _rows((values < self.least) | (values > self.most))
        if not rows_outside:
            return ""
        return (
            f"values from {np.nanmin(values):.4g} to {np.nanmax(values):.4g} are no "
            f"{self.plural} between {self.lower:g} and {self.upper:g} (row "
            f"{first_numbers(rows_outside)}); {self._advice_outside(values, remedy)}"
        )

    @property
    def _remedy_as_typed(self) -> str:
        """The advice about other numbers, with options in a shell."""
        return re.sub(r"kind='(\w+)'", as_typed(r"kind='\1'", r"--kind \1"), self.remedy)

    def _advice_outside(self, all_values: Floats, remedy: str) -> str:
        """Return the advice about values outside the range: they may be percent, or grades."""
        values = all_values[~np.isnan(all_values)]
        are_percent = values.min() >= 0 and 1 < values.max() <= 100
        is_stated = remedy == self.remedy  # by the argument of this kind
        if is_stated:
            remedy = self._remedy_as_typed
        if self.name != "probability" or not are_percent:
            return remedy
        if not is_stated:
            return f"divide percent by 100; {remedy}"
        if (values == np.rint(values)).all():
            number = as_typed("kind='number'", "--kind number")
            remedy = f"state {number} for whole numbers, such as grades"
            if values.max() <= LARGEST_GRADE:
                return remedy
        percent = as_typed("kind='percent'", "--kind percent")
        return f"state {percent} for numbers up to 100, or {remedy.removeprefix('state ')}"

    def sql(self, score: str) -> str:
        """Return an SQL condition: true for accepted scores, otherwise false or NULL."""
        return f"{score} BETWEEN {self.least!r} AND {self.most!r}"

    def source(self, score: str) -> str:
        """Return a Python condition: true for accepted scores."""
        return f"{self.least!r} <= {score} <= {self.most!r}"


SCORE_KINDS = {
    kind.name: kind
    for kind in (
        ScoreKind(
            "probability",
            "probabilities",
            0.0,
            1.0,
            "state kind='logit' or, for any number that grows with the probability, kind='number'",
            ROUNDED,
        ),
        ScoreKind(
            "percent",
            "percent",
            0.0,
            100.0,
            "state kind='number' for any number that grows with the probability",
            100.0 * ROUNDED,
        ),
        ScoreKind(
            "logit",
            "logits",
            -LARGEST_SCORE,
            LARGEST_SCORE,
            "give infinite logits a finite value",
        ),
        ScoreKind(
            "number",
            "finite numbers",
            -LARGEST_SCORE,
            LARGEST_SCORE,
            "give infinite scores a finite value",
        ),
    )
}


def score_kind(name: object) -> ScoreKind:
    """Return the kind of a name.

    Raises
    ------
    ValueError
        If no kind has this name.
    """
    if not isinstance(name, str) or name not in SCORE_KINDS:
        raise ValueError(f"kind must be one of {list(SCORE_KINDS)}, got {name!r}")
    return SCORE_KINDS[name]


def _as_numbers(scores: Column, owner: str) -> Floats:
    """Return scores as a new float64 array of the same shape, missing values as NaN.

    Raise ValueError for text, truth values and dates; ``owner`` begins the message.
    """
    array = np.asarray(scores)
    if array.dtype.kind not in "iuf":
        for value in array.flat:  # NumPy would read True, and the text "1", as a number
            if isinstance(value, (bool, np.bool_)):
                raise ValueError(
                    f"{owner}: scores must be numbers, got the truth value {bool(value)}; give "
                    "the number behind it, such as a probability"
                )
            if isinstance(value, (str, bytes)):
                cure = "make numbers of text, as by pandas.to_numeric"
                if isinstance(value, str) and is_percent(value):
                    cure = percent_cure(value)
                raise ValueError(
                    f"{owner}: scores must be numbers, got the text {value[:40]!r}; {cure}"
                )
    if array.dtype.kind == "O":
        missing = np.frompyfunc(is_missing, 1, 1)(array).astype(bool)
        array = np.where(missing, np.nan, array)
    if array.dtype == np.float32:
        return shortest_decimals(array)
    if array.dtype.kind in "iufO":  # dates are no scores
        with suppress(OverflowError, TypeError, ValueError):
            return array.astype(np.float64)
    raise ValueError(f"{owner}: scores must be numbers, got the type {array.dtype}")


def shortest_decimals(numbers: Floats32) -> Floats:
    """Return the shortest decimals of float32 numbers, such as .415 and not .41499999165534973.

    The result has the shape of ``numbers``. Text files and databases hold a float32 number as this decimal,
    so all of them agree on a threshold.
    """
    exact = numbers.astype(np.float64)
    decimals = exact.copy()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        magnitude = np.floor(np.log10(np.abs(exact)))
        is_large_or_small = (magnitude > MOST_DIGITS_BEFORE) | (magnitude < -MOST_ZEROS_BEHIND)
        # Nine digits always tell a float32 number. Each shorter decimal that does replaces the longer
        # one; fewer than six digits are six with zeros at the end.
        for n_digits in (9, 8, 7, 6):
            power = 10.0 ** (n_digits - 1 - magnitude)
            rounded = np.rint(exact * power) / power
            is_same = rounded.astype(np.float32) == numbers
            decimals[is_same] = rounded[is_same]
    # The power of ten of such numbers is rounded itself, so their text decides; it is slower.
    others = is_large_or_small & np.isfinite(exact) & (exact != 0.0)
    decimals[others] = numbers[others].astype(str).astype(np.float64)
    return decimals


def with_shortest_decimals(table: Any) -> Any:
    """Return an array or data frame with the `shortest_decimals` in the place of float32 numbers."""
    if not hasattr(table, "iloc"):
        if table.dtype == np.float32:
            return shortest_decimals(table)
        return table
    table = table.copy(deep=False)
    for number, dtype in enumerate(table.dtypes):
        if dtype == np.float32:
            table.isetitem(number, shortest_decimals(table.iloc[:, number].to_numpy()))
    return table


def _rows(marked: Mask) -> list[int]:
    """Return the numbers of the rows with a mark in any column, in the whole table."""
    columns = tuple(range(1, marked.ndim))  # none of a vector
    rows = np.flatnonzero(marked.any(axis=columns)).tolist()
    return [number_in_table(row, len(marked)) for row in rows]
