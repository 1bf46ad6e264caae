"""Rates of decisions: errors, costs, selection rates, deferral, predictive values, and limits on them.

A rate is a ratio of counts of rows by true label and answer, or a mean of their costs or losses. The same
expression serves as objective, limit, report and certificate. Rates are values: they compare equal, and can
be hashed, pickled and written as text.
"""

from tailboost.core import InfeasibleLimitsError as InfeasibleLimitsError
from tailboost.rates.make import (
    answered_error,
    as_objective as as_objective,
    as_statistics as as_statistics,
    checked_limits as checked_limits,
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
    parse,
    precision,
    ratio,
    recall,
    representation,
    selected,
    sensitivity,
    shift,
    specificity,
    tail,
    tnr,
    tpr,
)
from tailboost.rates.rate import (
    Limit,
    Rate,
    Statistic,
    Terms as Terms,
    measure,
)
from tailboost.rates.strata import Counts as Counts, Sample, Strata

__all__ = [
    "Limit",
    "Rate",
    "Sample",
    "Statistic",
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
    "shift",
    "specificity",
    "tail",
    "tnr",
    "tpr",
]
