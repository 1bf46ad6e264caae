"""Thresholds on models' probabilities for any linear rate: strata, belief, members, pool and choice."""

from tailboost.thresholds._belief import Belief, Calibration, GroupModel
from tailboost.thresholds._choice import SLIGHT, Choice, shared, single
from tailboost.thresholds._confidence import (
    FEW,
    LEAST_ROWS,
    REFIT,
    SPREAD,
    LimitsOutlook,
    binomial_arms,
    outlook,
)
from tailboost.thresholds._games import join_by_group, play
from tailboost.thresholds._lines import REFITTED, ROUNDING, SELECTED, RateLine, RateTable, below_noise
from tailboost.thresholds._members import Pool
from tailboost.thresholds._pool import Growth, grow, restricted
from tailboost.thresholds._program import Master, Program, mixed
from tailboost.thresholds._tally import Member, Reading, Singles, Table, Tally, charges, decide, spread

__all__ = [
    "FEW",
    "LEAST_ROWS",
    "REFIT",
    "REFITTED",
    "ROUNDING",
    "SELECTED",
    "SLIGHT",
    "SPREAD",
    "Belief",
    "Calibration",
    "Choice",
    "GroupModel",
    "Growth",
    "LimitsOutlook",
    "Master",
    "Member",
    "Pool",
    "Program",
    "RateLine",
    "RateTable",
    "Reading",
    "Singles",
    "Table",
    "Tally",
    "below_noise",
    "binomial_arms",
    "charges",
    "decide",
    "grow",
    "join_by_group",
    "mixed",
    "outlook",
    "play",
    "restricted",
    "shared",
    "single",
    "spread",
]
