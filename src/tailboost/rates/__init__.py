"""Linear rates of decisions: errors, costs, selection rates and deferral rates, and limits on them.

A rate is a mean over rows that depends only on the answers. The same expression serves as objective, limit,
report and certificate. Rates are values: they compare equal, and can be hashed, pickled and written as text.
"""

from tailboost.core.exceptions import InfeasibleLimitsError as InfeasibleLimitsError
from tailboost.rates.grammar import checked_limits as checked_limits
from tailboost.rates.grammar import checked_rates as checked_rates
from tailboost.rates.grammar import limits_to_keep as limits_to_keep
from tailboost.rates.grammar import parse
from tailboost.rates.make import (
    Largest,
    Spread,
    answered_error,
    cost,
    custom,
    deferred,
    error,
    f_score,
    false_alarm,
    fnr,
    fpr,
    gap,
    jaccard,
    largest,
    miss,
    npv,
    precision,
    ratio,
    recall,
    representation,
    selected,
    sensitivity,
    specificity,
    tnr,
    tpr,
)
from tailboost.rates.make import Objective as Objective
from tailboost.rates.make import as_objective as as_objective
from tailboost.rates.rate import ABOVE as ABOVE
from tailboost.rates.rate import AT_LEAST as AT_LEAST
from tailboost.rates.rate import AT_MOST as AT_MOST
from tailboost.rates.rate import BELOW as BELOW
from tailboost.rates.rate import GAP as GAP
from tailboost.rates.rate import RATIO as RATIO
from tailboost.rates.rate import ROUNDING as ROUNDING
from tailboost.rates.rate import Expression as Expression
from tailboost.rates.rate import Inequality as Inequality
from tailboost.rates.rate import Limit, Rate, measure
from tailboost.rates.rate import Terms as Terms
from tailboost.rates.strata import Answered as Answered
from tailboost.rates.strata import Sample, Strata

__all__ = [
    "Largest",
    "Limit",
    "Rate",
    "Sample",
    "Spread",
    "Strata",
    "answered_error",
    "cost",
    "custom",
    "deferred",
    "error",
    "f_score",
    "false_alarm",
    "fnr",
    "fpr",
    "gap",
    "jaccard",
    "largest",
    "measure",
    "miss",
    "npv",
    "parse",
    "precision",
    "ratio",
    "recall",
    "representation",
    "selected",
    "sensitivity",
    "specificity",
    "tnr",
    "tpr",
]
