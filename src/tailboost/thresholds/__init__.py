"""Selection of decision rules on confusion counts, for any linear rate: candidates, program, select."""

from tailboost.thresholds._belief import Belief, Calibration, GroupModel
from tailboost.thresholds._candidates import Member, Pool, charges, decide
from tailboost.thresholds._choice import ROWS, SOLVED, Selection, seeded, select, selected, within_budget
from tailboost.thresholds._confidence import (
    FEW,
    LEAST_ROWS,
    REFIT,
    SPREAD,
    LimitsOutlook,
    binomial_arms,
    confident,
    fold_spread,
    outlook,
)
from tailboost.thresholds._games import play
from tailboost.thresholds._lines import REFITTED, ROUNDING, SELECTED, RateLine, RateTable, below_noise
from tailboost.thresholds._pool import Growth, grow, solve
from tailboost.thresholds._program import SLIGHT, Master, Program, mixed
from tailboost.thresholds._table import RemoteTable, SelectionData, Singles, Table, plain_state, spread

__all__ = [
    "FEW",
    "LEAST_ROWS",
    "REFIT",
    "REFITTED",
    "ROUNDING",
    "ROWS",
    "SELECTED",
    "SLIGHT",
    "SOLVED",
    "SPREAD",
    "Belief",
    "Calibration",
    "GroupModel",
    "Growth",
    "LimitsOutlook",
    "Master",
    "Member",
    "Pool",
    "Program",
    "RateLine",
    "RateTable",
    "RemoteTable",
    "Selection",
    "SelectionData",
    "Singles",
    "Table",
    "below_noise",
    "binomial_arms",
    "charges",
    "confident",
    "decide",
    "fold_spread",
    "grow",
    "mixed",
    "outlook",
    "plain_state",
    "play",
    "seeded",
    "select",
    "selected",
    "solve",
    "spread",
    "within_budget",
]
