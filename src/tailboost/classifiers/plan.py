"""What defines a classifier's game: units, rule, combiner, demand, and how long it is played."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tailboost.boosting.cross_fitting import Demand
from tailboost.boosting.game import Player, Stopping, Units
from tailboost.selection.combiners import Combiner


class FitInterruptedWarning(UserWarning):
    """A fit ended early, by Ctrl-C or a time limit, and keeps the finished rounds."""


class BoundNotMetWarning(UserWarning):
    """A target or condition was missed or could not be measured; the message names the class or round."""


class SmallSubgroupsWarning(UserWarning):
    """Classes, groups or cells have too few rows to steer a fit by themselves; the message counts them."""


class LimitBelowNoiseWarning(UserWarning):
    """A limit on a rate is tighter than so few rows can show; the message names the unit and its rows."""


class UselessRuleWarning(UserWarning):
    """A rule keeps its limits and is useless; the message names the limit and the nearest useful one."""


class ConfidenceNotReachedWarning(UserWarning):
    """No rule was found whose limits hold with the confidence; the message says what holds instead."""


@dataclass(frozen=True)
class Plan:
    """Everything that defines a classifier's game."""

    units: Units  # what gets weight
    rule: Player[Any]  # the weight player
    combiner: Combiner  # combines the hypotheses into one classifier
    demand: Demand | None = None  # how far a learner is grown; without a demand learners are fitted whole


@dataclass(frozen=True)
class Schedule:
    """How long a game is played."""

    last: int  # T, the most rounds that are played, of which theorems and ``eta="theory"`` speak
    stopping: Stopping  # when further rounds are needless
    watched: bool  # whether the objective is needed after every round

    @classmethod
    def of(
        cls, n_rounds: int, patience: int | None, tol: float, max_time: float | None, verbose: Any
    ) -> Schedule:
        """Return the schedule of this many rounds, or fewer if the objective no longer falls."""
        stopping = Stopping(patience, tol, max_time, zero=None if patience is None else 0.0)
        return cls(n_rounds, stopping, watched=patience is not None or bool(verbose))
