"""Definition of a classifier's game and its length, and the warnings of the classifiers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tailboost.boosting.additive_combiner import AdditiveCombiner
from tailboost.boosting.cross_fitting import Demand
from tailboost.boosting.game import Player, Stopping, Units
from tailboost.selection.subgroup_mixture import PoolCombiner


class FitInterruptedWarning(UserWarning):
    """A fit ended early, by Ctrl-C or a time limit, and keeps the finished rounds."""


class BoundNotMetWarning(UserWarning):
    """A limit or condition is missed or not measured; the message names the subgroup or round."""


class SmallSubgroupsWarning(UserWarning):
    """Subgroups have too few rows; the message gives their names and numbers of rows."""


class LimitBelowNoiseWarning(UserWarning):
    """A limit is tighter than the noise of so few rows; the message names the subgroup and its rows."""


class UselessRuleWarning(UserWarning):
    """A rule satisfies its limits and is useless; the message names the limit and the nearest useful rule."""


class ConfidenceNotReachedWarning(UserWarning):
    """No rule has the probability ``confidence`` for its limits; the message gives the best probability."""


@dataclass(frozen=True)
class Plan:
    """Definition of a classifier's game."""

    units: Units  # rows or subgroups that get weight
    player: Player[Any]
    combiner: PoolCombiner | AdditiveCombiner  # combines the hypotheses into one classifier
    demand: Demand | None = None  # weighted loss up to which learners grow; None fits them whole


@dataclass(frozen=True)
class Schedule:
    """How long a game is played."""

    last: int  # largest number of rounds T
    stopping: Stopping
    needs_objective: bool  # whether the objective is needed after every round

    @classmethod
    def of(
        cls, n_rounds: int, patience: int | None, tol: float, max_time: float | None, verbose: Any
    ) -> Schedule:
        """Return a schedule of ``n_rounds`` rounds, or fewer if the objective stops falling."""
        stopping = Stopping(patience, tol, max_time, zero=None if patience is None else 0.0)
        return cls(n_rounds, stopping, needs_objective=patience is not None or bool(verbose))
