"""What defines a classifier's game: units, rule, combiner, demand, and how long it is played."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tailboost.boosting.cross_fitting import Goal, Scheme
from tailboost.boosting.game import Game, Player, Response, Stop, StopKind, Stopping, Turn, Units
from tailboost.boosting.targets import DECIMALS
from tailboost.core.array_types import Floats
from tailboost.selection.combiners import Combiner


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
class Demand:
    """The weighted loss at which a learner stops growing."""

    weighted_loss: float  # ``Σ_k w_k ℓ_k`` that is good enough
    # Whether the game ends if the fully grown learner misses it (the weak-learning condition, ½ − γ). If that
    # happens in round 1, the game keeps this one round.
    required: bool = False

    def goal(self, w: Floats, units: Units) -> Goal:
        """Return how far a weighted loss is above the demand: 0 or less is good enough."""
        return lambda losses, answers: self._distance(float(w @ units.losses(losses)))

    def _distance(self, weighted_loss: float) -> float:
        return round(weighted_loss - self.weighted_loss, DECIMALS)

    def refusal(self, t: int, weighted_loss: float) -> Stop | None:
        """Return why round ``t`` does not count, or None."""
        if not self.required or self._distance(weighted_loss) <= 0:
            return None
        return Stop(
            StopKind.LEARNER,
            f"the weak-learning condition was not met in round {t}: the learner, fully grown, has "
            f"weighted loss {weighted_loss:.4g}, above ½ − γ = {self.weighted_loss:.4g}"
            + ("; class_loss='error' is a game without it" if t == 1 else ""),
        )


@dataclass(frozen=True)
class Plan:
    """Everything that defines a classifier's game."""

    units: Units  # what gets weight
    rule: Player[Any]  # the weight player
    combiner: Combiner  # turns the hypotheses into one classifier
    demand: Demand | None = None  # how far a learner is grown; without one learners are fitted whole

    def respond(self, scheme: Scheme, game: Game[Any], turn: Turn) -> Response | Stop:
        """Fit the learner to the player's weights, grown as far as the demand asks."""
        demand = self.demand
        if demand is not None and turn.t == 2:
            refusal = demand.refusal(1, game.trace.rounds[0].weighted_loss)
            if refusal is not None:
                return refusal
        goal = None if demand is None else demand.goal(turn.w, self.units)
        response = ask(scheme, self.units, turn.u, turn.seed, goal)
        if demand is not None and turn.t > 1:
            refusal = demand.refusal(turn.t, float(turn.w @ self.units.losses(response.losses)))
            if refusal is not None:
                return refusal
        return response


def ask(scheme: Scheme, units: Units, u: Floats, seed: int, goal: Goal | None) -> Response:
    """Fit for a density of the rows; in games over groups the player's losses come from the judged rows."""
    if not units.grouped:
        return scheme(u, seed, goal)
    judged = scheme.selection_rows
    by_answers = None if goal is None else (lambda losses, answers: goal(judged.wrong(answers), answers))
    response = scheme(u, seed, by_answers)
    return replace(response, losses=judged.wrong(response.answers))


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


def tied_by(eta: float | str) -> str:
    """Name η where it depends on the number of rounds; empty where it does not."""
    return "eta='theory'" if eta == "theory" else ""
