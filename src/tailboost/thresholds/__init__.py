"""Selection of decision rules on confusion counts, for any linear rate: candidates, program, select."""

from __future__ import annotations

from tailboost.thresholds._belief import Calibration, GroupModel, StratumProbabilities
from tailboost.thresholds._candidates import Candidate, Pool, decide, expected_costs
from tailboost.thresholds._choice import (
    ROWS,
    SOLVED,
    Selection,
    overall_errors,
    seeded,
    select,
    selected,
    within_budget,
)
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
from tailboost.thresholds._lines import REFITTED, SELECTED, RateLine, RateTable, below_noise
from tailboost.thresholds._pool import Growth, grow, play, solve
from tailboost.thresholds._program import SLIGHT, Master, Program, mixed
from tailboost.thresholds._table import (
    AnySelectionData,
    RemoteSelectionData,
    SelectionData,
    Singles,
    plain_state,
    spread,
)

__all__ = [
    "FEW",
    "LEAST_ROWS",
    "REFIT",
    "REFITTED",
    "ROWS",
    "SELECTED",
    "SLIGHT",
    "SOLVED",
    "SPREAD",
    "AnySelectionData",
    "Calibration",
    "Candidate",
    "GroupModel",
    "Growth",
    "LimitsOutlook",
    "Master",
    "Pool",
    "Program",
    "RateLine",
    "RateTable",
    "RemoteSelectionData",
    "Selection",
    "SelectionData",
    "Singles",
    "StratumProbabilities",
    "below_noise",
    "binomial_arms",
    "confident",
    "decide",
    "expected_costs",
    "fold_spread",
    "grow",
    "mixed",
    "outlook",
    "overall_errors",
    "plain_state",
    "play",
    "seeded",
    "select",
    "selected",
    "solve",
    "spread",
    "within_budget",
]
