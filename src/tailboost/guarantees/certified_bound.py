"""A confidence bound on one rate on new rows: its numbers, and how they are printed."""

import math
from dataclasses import fields, replace
from typing import Any, Self

import numpy as np

from tailboost.core import (
    Document,
    LimitLine,
    Name,
    frozen_value,
    how_many,
    rate_words,
    stated_words,
)
from tailboost.rates import SIGNS, Rate, error, parse
from tailboost.rows import unit_name

ERROR = error()
CONSTANT = "one answer"  # method of a limit without a test
ESTIMATE = "an estimate on the rows that chose the rule"  # these rows do not bound the rate
# Φ⁻¹(.8) and Φ⁻¹(.95). A test at 5 % leaves a margin of `MARGIN` standard errors, and passes with a
# probability of .8 if there is room for `POWER` more.
POWER = 0.842
MARGIN = 1.645
CERTIFIED_WORDS = {True: "certified", False: "not certified", None: ""}


@frozen_value
class CertifiedBound:
    """Confidence bound on a rate on new rows.

    Attributes
    ----------
    rate : Rate
        The bounded rate.
    subgroup : object
        The label, the group, or the pair of both; None for all rows. Of compared subgroups "gap" or "ratio".
    sense : {"≤", "≥", ""}
        Bounded side; "" for both sides.
    target : float or None
        The limit, if there is one.
    estimate : float or None
        The rate on the given rows; None without rows to count among.
    lower, upper : float
        The bounds; the smallest and the largest possible value on a side without one. Those of a gap or ratio
        follow from both bounds of its rates.
    n : int
        Number of rows, or of clusters; for a gap or ratio rows of the smallest subgroup.
    method : str
        Name of the method.
    subgroups : tuple
        The subgroups in a gap or ratio.
    in_percent : bool
        Whether the limit was stated in percent, and the numbers are printed so.
    deferred : float or None
        The share of deferred rows in the subgroup, if the rule defers rows and the rate is not about them.
    """

    rate: Rate = ERROR
    subgroup: Name = None
    sense: str = "≤"
    target: float | None = None
    estimate: float | None = None
    lower: float = 0.0
    upper: float = 1.0
    n: int = 0
    method: str = ""
    subgroups: tuple[Name, ...] = ()
    in_percent: bool = False
    deferred: float | None = None

    # -- numbers ---------------------------------------------------------------------------------------

    @property
    def on_limited_side(self) -> float:
        """The bound on the side that is limited."""
        return self.lower if self.sense == "≥" else self.upper

    @property
    def certified(self) -> bool | None:
        """Whether the target is certified; None without a target."""
        if self.target is None:
            return None
        return SIGNS[self.sense] * (self.target - self.on_limited_side) >= 0.0

    @property
    def room(self) -> float | None:
        """The distance of the estimate from the limit, negative beyond it; None without one of them.

        It is rounded, so that a difference by rounding counts as 0.
        """
        if self.estimate is None or self.target is None:
            return None
        return SIGNS[self.sense] * round(self.target - self.estimate, 12)

    @property
    def rows_needed(self) -> int | None:
        """Rows that certify the limit with a probability of about .8, if the estimate is the true value.

        None if the limit is certified, or no number of rows would do. Distances of bounds from estimates are
        taken as proportional to 1/√n; of shares those of arcsin √share, whose noise is 1/(2√n) for any share.
        """
        if self.certified is not False or (self.room or 0.0) <= 0.0:
            return None
        numbers = np.array([self.estimate, self.on_limited_side, self.target])
        is_share = self.rate.quantity == "share" and not self.subgroups
        if is_share:
            numbers = np.arcsin(np.sqrt(numbers))
        estimate, bound, target = numbers
        to_bound = abs(bound - estimate)
        noise = POWER / (2.0 * math.sqrt(self.n)) if is_share else POWER / MARGIN * to_bound
        return math.ceil(self.n * ((to_bound + noise) / (target - estimate)) ** 2)

    def at_target(self, method: str) -> Self:
        """Return the bound at its target: a passed test certifies the target, and nothing tighter.

        One answer of the rule keeps a limit by construction, and so where there are no rows.
        """
        assert self.target is not None
        if not self.n or self.method == CONSTANT:
            method = CONSTANT
        if self.sense == "≥":
            return replace(self, lower=self.target, method=method)
        return replace(self, upper=self.target, method=method)

    # -- words -----------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Name of the subgroup."""
        return "all rows" if self.subgroup is None else unit_name(self.subgroup)

    @property
    def title(self) -> str:
        """Name of the rate with its subgroup."""
        return f"{self.rate}: {self.name}"

    @property
    def limit(self) -> str:
        """The limit as stated; empty without one."""
        if self.target is None:
            return ""
        return f"{self.sense} {stated_words(self.target, in_percent=self.in_percent)}"

    @property
    def reason(self) -> str:
        """Why a limit is not certified, or kept by construction; empty if its rows certify it."""
        if self.certified and self.method == CONSTANT:
            return "no answer of the rule there can break it"
        if self.certified is not False:
            return ""
        if not self.n:
            return "no rows"
        if self.method == ESTIMATE:
            return ESTIMATE
        if self.rows_needed is not None:
            return f"about {self.rows_needed:,} rows needed"
        if not self.room:
            return "the estimate is at the limit"
        return f"the estimate is {'below' if self.sense == '≥' else 'above'} it"

    @property
    def estimate_text(self) -> str:
        """The estimate, with the digits supported by its rows."""
        return self.in_words(self.estimate, self.n)

    @property
    def bound_text(self) -> str:
        """The certified sides."""
        lower = self.in_words(self.lower, self.n, above=False)
        upper = self.in_words(self.upper, self.n, above=True)
        if self.sense == "≥":
            return f"≥ {lower}"
        # A share is at least 0 anyway.
        if self.sense == "≤" or self.lower == 0.0:
            return f"≤ {upper}"
        return f"{lower.removesuffix(' %')} to {upper}"

    @property
    def deferred_text(self) -> str:
        """The share of deferred rows; empty without one."""
        return "" if self.deferred is None else f"{100 * self.deferred:.0f} %"

    def in_words(self, value: float | None, n: int, *, above: bool | None = None) -> str:
        """Return a value of the rate on n rows as printed; an upper or lower bound is rounded outwards."""
        return rate_words(value, n, above=above, beside=self.target, in_percent=self.in_percent)

    @property
    def limit_line(self) -> LimitLine:
        """The bound for drawings: the interval ends at the certified bounds."""
        words = f"{self.estimate_text}, bound {self.bound_text}"
        # A passed test bounds the rate by its limit alone.
        if self.on_limited_side == self.target and not self.subgroups:
            words = f"{self.estimate_text} of {how_many(self.n, 'row')}"
        return LimitLine(
            verdict=": ".join(filter(None, (CERTIFIED_WORDS[self.certified], self.reason))),
            good=self.certified,
            name=self.title,
            limit=self.limit,
            numbers=words,
            value=self.estimate,
            low=None if self.sense == "≤" else self.lower,
            high=None if self.sense == "≥" else self.upper,
            bound=self.target,
            deferred=self.deferred_text,
        )

    # -- JSON ------------------------------------------------------------------------------------------

    def to_dict(self) -> Document:
        """Return everything as plain types, for JSON; `from_dict` is the inverse."""
        return {**vars(self), "rate": repr(self.rate), "certified": self.certified}

    @classmethod
    def from_dict(cls, document: Document) -> Self:
        """Return a bound written by `to_dict`; raise KeyError, TypeError or ValueError for no bound."""
        values = {part.name: _tuples(document[part.name]) for part in fields(cls)}
        return cls(**values | {"rate": parse(values["rate"])})


def _tuples(value: Any) -> Any:
    """Return a value read from JSON, with tuples instead of lists, as in names of subgroups."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_tuples, value))
    return value
