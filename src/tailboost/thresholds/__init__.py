"""Selection of decision rules on confusion counts, for any linear rate: candidates, program, select."""

from tailboost.thresholds._belief import Belief, Calibration, GroupModel
from tailboost.thresholds._candidates import Member, Pool, charges, decide
from tailboost.thresholds._choice import ROWS, SOLVED, Selection, seeded, select, selected, within_budget
from tailboost.thresholds._games import play
from tailboost.thresholds._lines import ROUNDING, RateLine, RateTable, below_noise, rate_lines
from tailboost.thresholds._pool import Growth, grow, solve
from tailboost.thresholds._program import SLIGHT, Master, Program, mixed
from tailboost.thresholds._table import Singles, Table, plain_state, spread

__all__ = [
    "ROUNDING",
    "ROWS",
    "SLIGHT",
    "SOLVED",
    "Belief",
    "Calibration",
    "GroupModel",
    "Growth",
    "Master",
    "Member",
    "Pool",
    "Program",
    "RateLine",
    "RateTable",
    "Selection",
    "Singles",
    "Table",
    "below_noise",
    "charges",
    "decide",
    "grow",
    "mixed",
    "plain_state",
    "play",
    "rate_lines",
    "seeded",
    "select",
    "selected",
    "solve",
    "spread",
    "within_budget",
]
