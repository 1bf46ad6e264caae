"""Linear rates of decisions: errors, costs, shares selected or passed on, and limits on them.

A rate is a mean over rows that depends on the answers alone: it is stated once and then made small, limited,
reported or certified. Rates are values: they compare equal, are hashed, pickled and written as text.
"""

from tailboost.rates._grammar import from_dict, parse, to_dict
from tailboost.rates._kinds import wrong
from tailboost.rates._make import (
    answered_error,
    cost,
    deferred,
    error,
    false_alarm,
    gap,
    largest,
    miss,
    precision,
    ratio,
    selected,
)
from tailboost.rates._measure import measure
from tailboost.rates._objective import Largest, Objective, Spread, checked_limits
from tailboost.rates._rate import GAP, Limit, Rate, Row, Sample, Terms
from tailboost.rates.strata import Strata

__all__ = [
    "GAP",
    "Largest",
    "Limit",
    "Objective",
    "Rate",
    "Row",
    "Sample",
    "Spread",
    "Strata",
    "Terms",
    "answered_error",
    "checked_limits",
    "cost",
    "deferred",
    "error",
    "false_alarm",
    "from_dict",
    "gap",
    "largest",
    "measure",
    "miss",
    "parse",
    "precision",
    "ratio",
    "selected",
    "to_dict",
    "wrong",
]
