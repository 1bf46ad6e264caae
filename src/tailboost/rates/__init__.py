"""Rates of decisions: errors, costs, selection rates, deferral, predictive values, and limits on them.

A rate is a ratio of counts of rows by true label and answer, or a mean of their costs or losses. The same
expression serves as objective, limit, report and certificate. Rates are values: they compare equal, and can
be hashed, pickled and written as text.

`rate` has the rates, `make` the functions that make them, `limit` gaps, ratios and limits, and `stated`
their grammar as text. `strata` and `subgroups` have what is counted. `bounds` has confidence bounds, and is
imported by its own name.
"""

# The error of limits that no rule keeps: a user who catches it looks for it here.
from tailboost.core import InfeasibleLimitsError as InfeasibleLimitsError
from tailboost.rates.limit import *
from tailboost.rates.make import *
from tailboost.rates.rate import *
from tailboost.rates.stated import *
from tailboost.rates.strata import *
from tailboost.rates.subgroups import *

# The names for users. Other wings import all names of these files from here.
__all__ = sorted(
    [*FUNCTIONS, "Limit", "Rate", "Sample", "Statistic", "Strata", "measure", "parse"]
)


def __dir__() -> list[str]:
    return __all__
