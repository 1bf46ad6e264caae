"""Linear rates of decisions: errors, costs, selection rates and deferral rates, and limits on them.

A rate is a mean over rows that depends only on the answers. The same expression serves as objective, limit,
report and certificate. Rates are values: they compare equal, and can be hashed, pickled and written as text.
"""

from tailboost.rates._grammar import checked_limits as checked_limits
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
from tailboost.rates._measure import Answered as Answered
from tailboost.rates._measure import measure
from tailboost.rates._objective import InfeasibleLimitsError as InfeasibleLimitsError
from tailboost.rates._objective import Largest, Spread
from tailboost.rates._objective import Objective as Objective
from tailboost.rates._rate import ABOVE as ABOVE
from tailboost.rates._rate import AT_MOST as AT_MOST
from tailboost.rates._rate import BELOW as BELOW
from tailboost.rates._rate import GAP as GAP
from tailboost.rates._rate import RATIO as RATIO
from tailboost.rates._rate import ROUNDING as ROUNDING
from tailboost.rates._rate import Expression as Expression
from tailboost.rates._rate import Inequality as Inequality
from tailboost.rates._rate import Limit, Rate, Sample
from tailboost.rates._rate import Terms as Terms
from tailboost.rates._rate import as_expression as as_expression
from tailboost.rates.strata import Strata

__all__ = [
    "Largest",
    "Limit",
    "Rate",
    "Sample",
    "Spread",
    "Strata",
    "answered_error",
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
