"""Repeated game between a weight player and a learner: the loop behind all boosting classifiers.

Symbols are from the literature: ``p`` is the base measure over units, ``w`` the player's weights on the
simplex, ``u = w / p`` their density, ``ℓ`` the losses of the newest base model, ``T`` the number of rounds. A
unit carries weight: it is a row (sample) or a subgroup. The game is the same for both. All objects are
frozen: a round makes a new position.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from tailboost.core.array_types import (
    Floats,
    Floats32,
    Ints,
    Mask,
    Model,
    ModelAnswers,
    UnitLosses,
)
from tailboost.core.spelling import how_many
from tailboost.rows.rows import Rows, memberships

State = TypeVar("State")

# Errors and limits are rounded to this number of decimals before a comparison. The rounding error of sums of
# weights is smaller.
DECIMALS = 9

# Largest error of rounding in the sum of a player's weights, and below 0.
WEIGHT_ERROR = 1e-6

# Largest number of units for which a game stores the weights of every round. Games over classes or groups
# have fewer units, games over samples more.
KEEP_WEIGHTS_UP_TO = 1000


@dataclass(frozen=True, eq=False)
class Units:
    """The weighed units (rows, classes, groups or cells), and the training rows in each."""

    # Shape (m,): base measure ``p`` over the units, positive, with sum 1: the player's first weights.
    base: Floats
    # Shape (m,): sample weight of the rows in each unit; the sum exceeds ``total`` if units overlap.
    weight: Floats
    total: float  # sum of the sample weights of the rows in the units
    # Shape (n,) or (n, c): unit of each row, or its c units, −1 for none. A row without a unit is outside of
    # the game. None if each row is a unit.
    index: Ints | None = None

    @classmethod
    def samples(cls, sample_weight: Floats, rows: Mask | None = None) -> Units:
        """Return the rows of a mask as units, by default all rows; the other rows are outside of the game.

        The base measure ``p`` of the units is the normalised sample weight.
        """
        index = None
        weight = sample_weight
        if rows is not None:
            place_in_mask = np.cumsum(rows) - 1
            index = np.where(rows, place_in_mask, -1)
            weight = sample_weight[rows]
        total = float(weight.sum())
        return cls(weight / total, weight, total, index)

    @classmethod
    def groups(cls, index: Ints, sample_weight: Floats) -> Units:
        """Return groups (or classes) of rows as units, with equal weight in the first round.

        Parameters
        ----------
        index : ndarray of int, shape (n,) or (n, c)
            Group of each row, or its groups by column, −1 for none. Each group needs a positive weight.
        sample_weight : ndarray of shape (n,)
            Weights of the rows.
        """
        row, unit = memberships(index)  # one entry for each row and each of its units
        unit_weight = np.bincount(unit, weights=sample_weight[row]).astype(np.float64)
        # For the total each row counts once, in the first of its units. Rows ascend.
        is_first = np.ones(len(row), dtype=bool)
        is_first[1:] = np.diff(row) != 0
        total = float(np.bincount(unit[is_first], weights=sample_weight[row[is_first]]).sum())
        uniform = np.full(len(unit_weight), 1.0 / len(unit_weight))
        return cls(uniform, unit_weight, total, index)

    @property
    def count(self) -> float:
        """``1/min p``, the n of regret bounds; the number of units if p is uniform.

        ``log n`` is the largest divergence of a distribution over the units from p. The scale of the sample
        weights has no influence.
        """
        smallest = float(self.base[self.base > 0].min())  # a tiny weight may underflow to 0
        if smallest == self.base.max():
            return float(len(self.base))
        return 1.0 / smallest

    def density(self, w: Floats) -> Floats:
        """Return the density ``u`` of the weights over all rows, shape (n,), with weighted mean 1.

        The density of a row in several units is the sum over them; the density of a row without unit is 1.
        """
        # n·w for equal sample weights, without rounding errors
        u = w * self.total / self.weight
        if self.index is None:  # each row is a unit
            return u
        in_unit = self.index >= 0
        if self.index.ndim == 1:
            return np.where(in_unit, u[self.index], 1.0)
        sums = np.where(in_unit, u[self.index], 0.0).sum(axis=1)  # over the columns of units
        return np.where(in_unit.any(axis=1), sums, 1.0)


@dataclass(frozen=True, eq=False)
class RowStakes:
    """Rows are weighed, and a candidate has a loss at each error."""

    units: Units
    grouped = False
    shrinkage = None
    indicator = False

    def losses(self, candidate: RoundCandidate) -> UnitLosses:
        """Return the loss of each weighed row."""
        return candidate.losses


@dataclass(frozen=True, eq=False)
class SubgroupStakes:
    """Subgroups are weighed, and a candidate loses its error on each, measured on the selection data.

    Attributes
    ----------
    units : Units
        The subgroups, with the training rows in each.
    y : ndarray of int, shape (n_judged,)
        Class numbers of the selection data.
    row, subgroup : ndarray of int
        Each selection row and each of its subgroups.
    fraction : ndarray
        The row's fraction of the subgroup's sample weight.
    shrinkage : ndarray of shape (m,) or None
        Factor in [0, 1] by which each error is shrunk towards the mean, see `shrunk`.
    """

    units: Units
    y: Ints
    row: Ints
    subgroup: Ints
    fraction: Floats
    shrinkage: Floats | None = None
    grouped = True
    indicator = False

    @classmethod
    def of(cls, units: Units, judged: Rows, index: Ints, pseudo_rows: float = 0.0) -> Self:
        """Return the stakes of subgroups; a subgroup without selection data has loss 0.

        Parameters
        ----------
        units : Units
            The subgroups.
        judged : Rows
            The selection data.
        index : ndarray of int, shape (n_judged,) or (n_judged, c)
            Their subgroups, −1 for none.
        pseudo_rows : float, default=0
            Errors of n rows are shrunk by the factor s/(n + s), for s pseudo-rows, see `shrunk`.
        """
        n_subgroups = len(units.base)
        row, subgroup = memberships(index)  # one entry for each row and each of its subgroups
        weight = judged.weight[row]
        subgroup_weight = np.bincount(subgroup, weights=weight, minlength=n_subgroups)
        divisors = np.where(subgroup_weight > 0, subgroup_weight, 1.0)  # 0 without rows
        shrinkage = None
        if pseudo_rows > 0:
            shrinkage = pseudo_rows / (judged.sizes(index, n_subgroups) + pseudo_rows)
        return cls(units, judged.y, row, subgroup, weight / divisors[subgroup], shrinkage)

    def means(self, candidate: RoundCandidate) -> Floats:
        """Return the error of a candidate on each subgroup, shape (m,); 0 without selection data."""
        wrong = candidate.answers != self.y
        parts_of_error = self.fraction * wrong[self.row]
        m = len(self.units.base)
        errors = np.bincount(self.subgroup, weights=parts_of_error, minlength=m)
        return errors.astype(np.float64, copy=False)

    def losses(self, candidate: RoundCandidate) -> Floats:
        """Return the errors, shrunk towards their mean."""
        return shrunk(self.means(candidate), self.shrinkage)


def shrunk(errors: Floats, factor: Floats | None) -> Floats:
    """Return the errors of units shrunk towards their mean over the units; unchanged without a factor.

    Parameters
    ----------
    errors : ndarray of shape (..., m)
        Errors of the units.
    factor : ndarray of shape (m,), optional
        Factor in [0, 1]: s/(n + s) for an error measured on n rows, with s pseudo-rows of the mean over
        subgroups. The result is linear in the errors.
    """
    if factor is None:
        return errors
    return errors + factor * (errors.mean(axis=-1, keepdims=True) - errors)


@dataclass(frozen=True, eq=False)
class TargetStakes:
    """Subgroups with allowed errors. A loss depends on the error and on the allowed error.

    Attributes
    ----------
    subgroups : SubgroupStakes
        The subgroups.
    allowed : ndarray of shape (m,)
        Allowed error of each subgroup, 1 − θ.
    measured : ndarray of bool, shape (m,)
        Whether the error of a subgroup is measured; the loss of an unmeasured one is 0.
    indicator : bool
        Whether the loss of a subgroup with error R_k is ``1[R_k ≥ 1 − θ_k]``. Otherwise the loss is R_k, or
        ``(R_k + penalty_k) / (1 + largest penalty)`` if allowed errors differ.
    """

    subgroups: SubgroupStakes
    allowed: Floats
    measured: Mask
    indicator: bool = False
    grouped = True

    @property
    def units(self) -> Units:
        """The weighed subgroups."""
        return self.subgroups.units

    @property
    def shrinkage(self) -> Floats | None:
        """Factor by which each loss is shrunk towards the mean; None shrinks nothing."""
        return self.subgroups.shrinkage

    @property
    def penalty(self) -> Floats:
        """The largest allowed error minus the allowed error of each subgroup."""
        return self.allowed.max() - self.allowed

    @property
    def differ(self) -> bool:
        """Whether allowed errors differ."""
        return bool(self.penalty.any())

    @property
    def limit(self) -> float:
        """Largest objective value within all targets: the common allowed error; 0 if errors differ."""
        if self.differ:
            return 0.0
        return float(self.allowed.max())

    def losses(self, candidate: RoundCandidate) -> Floats:
        """Return the loss ℓ_k in [0, 1] of each subgroup, shape (m,).

        The loss is 1 or 0 for an indicator. Otherwise the loss is the shrunk error, plus a penalty if
        allowed errors differ.
        """
        errors = self.subgroups.means(candidate)
        if self.indicator:
            # Rounded, so equalities survive rounding errors.
            excess = (errors - self.allowed).round(DECIMALS)
            return (excess >= 0).astype(np.float64)
        losses = (errors + self.penalty) / (1.0 + self.penalty.max())  # at most 1
        measured = self.measured
        if self.shrinkage is not None:  # towards the mean of the measured subgroups
            losses[measured] = shrunk(losses[measured], self.shrinkage[measured])
        return np.where(measured, losses, 0.0)


def tilted(base: Floats, exponent: Floats) -> tuple[Floats, float]:
    """Return weights proportional to p e^exponent with sum 1, and the logarithm of the sum of p e^exponent.

    ``base`` is p. If p is uniform, the weights equal those of e^exponent to the last bit, as in the papers.
    """
    largest = float(base.max())
    with np.errstate(divide="ignore"):  # p may be 0
        log_ratio = np.log(base / largest)  # exactly 0 for uniform p
    w, log_sum = normalised_exp(log_ratio + exponent)
    return w, log_sum + float(np.log(largest))


def normalised_exp(log_w: Floats) -> tuple[Floats, float]:
    """Return weights proportional to e^log_w with sum 1, and the logarithm of the sum of e^log_w.

    At least one entry must be above −∞. The entries are shifted by the largest, so nothing overflows.
    """
    largest = float(log_w.max())
    w = np.exp(log_w - largest)
    total = float(w.sum())
    w /= total
    return w, largest + float(np.log(total))


class StopKind:
    """Reasons for the end of a game, for decisions in code. The text is in `Stop`."""

    PLAYED = "PLAYED"  # all rounds were played
    PLATEAU = "PLATEAU"  # the objective no longer falls
    ZERO = "ZERO"  # the objective reached 0
    RULE = "RULE"  # the weight player is done
    LEARNER = "LEARNER"  # the learner does not meet its condition
    TIME = "TIME"
    INTERRUPT = "INTERRUPT"


@dataclass(frozen=True)
class Stop:
    """End of a game.

    Attributes
    ----------
    kind : str
        Reason, one of `StopKind`.
    text : str
        Reason with its numbers, for messages.
    """

    kind: str
    text: str

    @property
    def early(self) -> bool:
        """Whether the game was ended from outside (Ctrl-C, time limit), which needs a warning."""
        return self.kind in (StopKind.TIME, StopKind.INTERRUPT)


class Player(Protocol[State]):
    """Weight player: frozen hyper-parameters and pure functions."""

    def start(self, units: Units) -> State:
        """Return the state before the first round."""
        ...

    def weights(self, state: State) -> Floats:
        """Return the weights for the next round, on the simplex, shape (m,)."""
        ...

    def update(self, state: State, losses: UnitLosses) -> State:
        """Return the state after the losses of the newest base model; the old state is unchanged."""
        ...

    def gap(self, state: State) -> float:
        """Return the optimality gap of the weights' program; 0 for a closed form."""
        return 0.0

    def finished(self, state: State) -> Stop | None:
        """Return the reason to end the game, or None to continue."""
        return None

    @property
    def symbols(self) -> dict[str, str]:
        """Meaning of the symbols in printed bounds."""
        return {}


@dataclass(frozen=True, eq=False)
class RoundCandidate:
    """A base model with its answers and losses.

    Attributes
    ----------
    model : classifier
        The base model.
    losses : ndarray
        Its loss on each row weighed by a player over rows.
    answers : ndarray
        Its answers to the selection data: class numbers, shape (n_judged,), or real values.
    probabilities : ndarray of shape (n_judged, K) or None
        Class probabilities, summed over the rounds if these answer together.
    """

    model: Model
    losses: UnitLosses
    answers: ModelAnswers
    probabilities: Floats32 | None = None


@dataclass(frozen=True)
class Demand:
    """The weighted loss at which a learner stops growing.

    Attributes
    ----------
    weighted_loss : float
        ``Σ_k w_k ℓ_k`` for an end of the growth.
    required : bool
        Whether the game ends if the learner misses the demand at its largest size (the weak-learning
        condition, ½ − γ). If the learner does so in round 1, the game keeps this one round.
    without : str
        Advice: how the same classifier plays without the demand. Empty if it always has the demand.
    """

    weighted_loss: float
    required: bool = False
    without: str = ""

    def distance(self, weighted_loss: float) -> float:
        """Return how far a weighted loss is above the demand: 0 or less is good enough."""
        return round(weighted_loss - self.weighted_loss, DECIMALS)

    def refusal(self, t: int, weighted_loss: float) -> Stop | None:
        """Return the reason to drop round ``t``, counted from 1: its learner misses a required demand.

        None keeps the round.
        """
        if not self.required or self.distance(weighted_loss) <= 0:
            return None
        advice = "; give a larger learner"
        if weighted_loss < 0.5:  # every demand of a γ > 0 is below ½
            advice += " or a smaller gamma"
        if t == 1 and self.without:
            advice += f", or {self.without}"
        return Stop(
            StopKind.LEARNER,
            f"the weak-learning condition was not met in round {t}: the learner, as large as "
            f"its parameters allow, has weighted loss {weighted_loss:.4g}, above ½ − γ = "
            f"{self.weighted_loss:.4g}{advice}",
        )


def no_loss(candidate: RoundCandidate) -> float:
    """Return 0, the loss of a candidate without a demand."""
    return 0.0


@dataclass(frozen=True, eq=False)
class Request:
    """The request of a round to the learner.

    Attributes
    ----------
    density : ndarray of shape (n,)
        Density of the weights over the training rows, with mean 1 under the sample weights.
    seed : int
        Seed of the fit.
    demand : Demand or None
        When a learner has grown enough; None for a whole fit.
    weighted_loss : callable
        Weighted loss of a candidate, for the demand; 0 by default.
    refuses : callable or None
        ``refuses(rows, outputs)``, with a mask of selection rows and the outputs on them, is asked before the
        base model is fitted. The result is why the round does not count, or None.
    """

    density: Floats
    seed: int
    demand: Demand | None = None
    weighted_loss: Callable[[RoundCandidate], float] = no_loss
    refuses: Callable[[Mask, ModelAnswers], Stop | None] | None = None

    @property
    def grows(self) -> bool:
        """Whether the learner grows only until good enough."""
        return self.demand is not None

    def distance(self, candidate: RoundCandidate) -> float:
        """Return how far a candidate is from good enough; 0 without a demand."""
        if self.demand is None:
            return 0.0
        return self.demand.distance(self.weighted_loss(candidate))


@dataclass(frozen=True)
class Round:
    """Record of one round."""

    weighted_loss: float
    effective_size: float
    seconds: float
    gap: float
    value: float

    def __str__(self) -> str:
        objective = ""
        if not np.isnan(self.value):
            objective = f", objective {self.value:.4f}"
        return (
            f"weighted loss {self.weighted_loss:.4f}{objective}, effective size "
            f"{self.effective_size:.3f}"
        )


# Names of the numbers of a round.
COLUMNS = ("weighted_loss", "effective_size", "seconds", "gap", "value")


def _column(name: str) -> property:
    """Return a property with a number of all rounds, shape (T,)."""
    return property(
        lambda trace: np.array([getattr(r, name) for r in trace.rounds], dtype=np.float64)
    )


@dataclass(frozen=True, eq=False)
class Trace:
    """History of a fit, one entry per round, as arrays of shape (T,).

    Attributes
    ----------
    rounds : tuple of Round
        The records.
    unit_weights : tuple of ndarray of shape (m,) or None
        Weights of the units in each round; None if they are not stored.
    weighted_loss : ndarray of shape (T,)
        ``⟨w^t, ℓ^t⟩`` in [0, 1]: loss of the newest base model under the weights of its training.
    effective_size : ndarray of shape (T,)
        ``1 / Σ w_i²/p_i`` in (0, 1]: 1 for the base measure, small if few units carry most of the weight.
    seconds : ndarray of shape (T,)
        Wall-clock seconds of the round.
    gap : ndarray of shape (T,)
        Largest optimality gap of the solutions in the round.
    value : ndarray of shape (T,)
        Objective of the combined classifier after the round (``nan`` if there is none).
    weights : ndarray of shape (T, m) or None
        The player's weights, stored for games over few units (classes, groups).
    stop : Stop or None
        Reason for the end of the fit; None during the fit.
    stop_reason : str
        The reason as text.
    """

    rounds: tuple[Round, ...] = ()
    unit_weights: tuple[Floats, ...] | None = None
    stop: Stop | None = None

    def __len__(self) -> int:
        return len(self.rounds)

    def __iter__(self) -> Iterator[Round]:
        return iter(self.rounds)

    def __getitem__(self, place: Any) -> Any:
        """Return the record of a round, counted from 0, or the records of a slice."""
        return self.rounds[place]

    def adding(self, newest: Round, weights: Floats) -> Trace:
        """Return the history with one more round, and the weights of its units if these are stored."""
        unit_weights = self.unit_weights
        if unit_weights is not None:
            unit_weights = (*unit_weights, weights)
        return Trace((*self.rounds, newest), unit_weights)

    weighted_loss = _column("weighted_loss")
    effective_size = _column("effective_size")
    seconds = _column("seconds")
    gap = _column("gap")
    value = _column("value")

    @property
    def weights(self) -> Floats | None:  # noqa: D102 -- documented with the class
        if self.unit_weights is None:
            return None
        return np.array(self.unit_weights)

    @property
    def stop_reason(self) -> str:  # noqa: D102 -- documented with the class
        if self.stop is None:
            return ""
        return self.stop.text

    @property
    def early_end(self) -> str:
        """The reason for an end before the last round as a sentence; empty if all rounds were played."""
        if self.stop is None or self.stop.kind == StopKind.PLAYED:
            return ""
        return f"The fit ended after {how_many(len(self), 'round')}: {self.stop.text}."

    def to_dict(self) -> dict[str, Any]:
        """Return the arrays as lists with one entry per round, and ``stop_reason``."""
        columns = {name: getattr(self, name).tolist() for name in COLUMNS}
        if self.unit_weights is not None:
            columns["weights"] = [w.tolist() for w in self.unit_weights]
        return columns | {"stop_reason": self.stop_reason}


@dataclass(frozen=True)
class Schedule:
    """How long a game is played.

    Attributes
    ----------
    rounds : int
        Largest number of rounds.
    patience : int or None
        The game ends if the last ``patience`` rounds lowered the objective by at most ``tol``.
    tol : float
        Smallest counted decrease of the objective.
    max_time : float or None
        Seconds after which no new round begins.
    least : float or None
        Smallest possible objective, which ends the game.
    """

    rounds: int
    patience: int | None = None
    tol: float = 0.0
    max_time: float | None = None
    least: float | None = None

    @classmethod
    def falling(
        cls, rounds: int, patience: int | None, tol: float, max_time: float | None
    ) -> Schedule:
        """Return a schedule that ends if the objective no longer falls, or is 0."""
        if patience is None:
            return cls(rounds, None, tol, max_time)
        return cls(rounds, patience, tol, max_time, least=0.0)

    def stop(self, trace: Trace, elapsed: float) -> Stop | None:
        """Return the reason to begin no further round, or None to continue.

        ``trace`` has the rounds so far, ``elapsed`` is the number of seconds since the start of the game.
        """
        if not trace.rounds:
            return None
        n_rounds = len(trace)
        value = trace.rounds[-1].value
        if self.max_time is not None and elapsed >= self.max_time:
            words = f"time limit of {self.max_time:g} s reached after {n_rounds} rounds"
            return Stop(StopKind.TIME, words)
        if self.least is not None and value <= self.least:
            return Stop(StopKind.ZERO, f"the objective reached 0 in round {n_rounds}")
        if self.patience is not None and n_rounds > self.patience:
            earlier_least = trace.value[: -self.patience].min()
            recent_least = trace.value[-self.patience :].min()
            if earlier_least - recent_least <= self.tol:
                fell = "did not fall"
                if self.tol:
                    fell = f"fell by no more than {self.tol:g}"
                words = f"the objective {fell} in the last {self.patience} rounds"
                return Stop(StopKind.PLATEAU, words)
        return None


#: The weighed units, and the losses of a candidate on them.
Stakes = RowStakes | SubgroupStakes | TargetStakes


@dataclass(frozen=True, eq=False)
class Watched:
    """The objective after a round, the gap of its solution, and the needs of the next round."""

    value: float
    gap: float = 0.0
    memory: Any = None


@dataclass(frozen=True)
class Unwatched:
    """No objective: only the schedule's rounds and time end the game."""

    def start(self, pool: Any) -> None:
        """Return None."""

    def after(self, memory: None, pool: Any, state: Any) -> Watched:
        """Return an unknown objective."""
        return Watched(np.nan)


@dataclass(frozen=True, eq=False)
class Played:
    """A game so far: the weighed units, the player with its state, and the trace."""

    stakes: Stakes
    player: Player[Any]
    state: Any
    trace: Trace

    @property
    def units(self) -> Units:
        """The weighed units."""
        return self.stakes.units

    @property
    def n_rounds(self) -> int:
        """Number of rounds played."""
        return len(self.trace)


@dataclass(frozen=True, eq=False)
class Position:
    """A game after a round: the game so far, its candidates, and the memory of its progress."""

    played: Played
    pool: Any
    memory: Any = None

    @property
    def trace(self) -> Trace:
        """The rounds so far."""
        return self.played.trace

    @property
    def n_rounds(self) -> int:
        """Number of rounds played."""
        return len(self.trace)


@dataclass(frozen=True, eq=False)
class Game:
    """A player, a learner and a schedule.

    Attributes
    ----------
    stakes : Stakes
        The weighed units, and the losses of a candidate on them.
    player : Player
        Who weighs.
    learner : Learner
        Who answers weights with a candidate, see `tailboost.boosting.learner`.
    schedule : Schedule
        How long the game is played.
    progress : LeastTail, LargestError, LargestErrorOfVote, ErrorOfSteps or Unwatched
        The objective after each round. ``start(pool)`` returns what the first round needs of the pool before
        it, ``after(memory, pool, state)`` what is `Watched` after a round.
    demand : Demand or None
        Weighted loss up to which the learner grows; None for a whole fit.
    refuses : callable or None
        ``refuses(pool, rows, outputs)`` returns why a round after the first does not help, or None.
    """

    stakes: Stakes
    player: Player[Any]
    learner: Any
    schedule: Schedule
    progress: Any = Unwatched()
    demand: Demand | None = None
    refuses: Callable[[Any, Mask, ModelAnswers], Stop | None] | None = None

    def play(
        self,
        pool: Any,
        entropy: int,
        *,
        observe: Callable[[Position], None] = lambda position: None,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> Position:
        """Play until there is a reason to stop, and return the last position.

        Parameters
        ----------
        pool : JudgedPool
            Candidates before the first round.
        entropy : int
            Root of the seeds.
        observe : callable
            Called with the position after each round.
        interrupted : callable
            Returns whether Ctrl-C was pressed. A learner may have caught the interrupt and returned an
            unfinished model, which is dropped.

        Raises
        ------
        KeyboardInterrupt
            Only if interrupted before the end of the first round. A later interrupt keeps the finished
            rounds, and ``trace.stop`` gives the reason.
        """
        position = self.first_position(pool)
        game_start = time.perf_counter()
        try:
            while True:
                round_start = time.perf_counter()
                stop = self.reason_to_stop(position, round_start - game_start)
                if stop is not None:
                    break
                weights = self.checked_weights(position.played)
                request = self.request(position, weights, entropy)
                candidate = self.learner.fit(request)
                if interrupted():
                    raise KeyboardInterrupt
                stop = self.refusal(position.n_rounds + 1, request, candidate)
                if stop is not None:
                    break
                # One assignment: an interrupt leaves the position before or after the round.
                position = self.after_round(position, weights, candidate, round_start)
                observe(position)
        except KeyboardInterrupt:
            if not position.n_rounds:
                raise
            stop = Stop(StopKind.INTERRUPT, f"interrupted after {position.n_rounds} rounds")
        trace = replace(position.trace, stop=stop)
        return replace(position, played=replace(position.played, trace=trace))

    def checked_weights(self, played: Played) -> Floats:
        """Return the player's weights for the next round; raise ValueError if they are no distribution.

        A player may come from a user. Weights of a solver may be wrong by rounding (`WEIGHT_ERROR`).
        """
        m = len(played.units.base)
        values = np.asarray(self.player.weights(played.state))
        fault = ""
        if values.shape != (m,):
            fault = f"have the shape {values.shape}, not ({m},): one weight for each unit"
        elif values.dtype.kind not in "biuf" or not np.isfinite(values).all():
            fault = "must be finite numbers"
        elif values.min() < -WEIGHT_ERROR:
            fault = f"must be at least 0; the smallest is {values.min():.4g}"
        elif abs(values.sum() - 1.0) > WEIGHT_ERROR:
            fault = f"must have the sum 1; the sum is {values.sum():.4g}"
        if fault:
            name = type(self.player).__name__
            raise ValueError(
                f"{name}.weights in round {played.n_rounds + 1}: the weights {fault}"
            )
        return values.astype(np.float64, copy=False)

    def first_position(self, pool: Any) -> Position:
        """Return the position before the first round."""
        units = self.stakes.units
        trace = Trace()
        if self.stakes.grouped and len(units.base) <= KEEP_WEIGHTS_UP_TO:
            trace = Trace(unit_weights=())
        played = Played(self.stakes, self.player, self.player.start(units), trace)
        return Position(played, pool, self.progress.start(pool))

    def reason_to_stop(self, position: Position, elapsed: float) -> Stop | None:
        """Return the reason of the schedule, the player or the demand to begin no further round, or None.

        ``elapsed`` is the number of seconds since the start of the game.
        """
        trace = position.trace
        if len(trace) >= self.schedule.rounds:
            return Stop(StopKind.PLAYED, f"all {self.schedule.rounds} rounds played")
        stop = self.player.finished(position.played.state)
        if stop is None:
            stop = self.schedule.stop(trace, elapsed)
        # A first round below the demand is kept, and is the last.
        if stop is None and self.demand is not None and len(trace) == 1:
            stop = self.demand.refusal(1, trace.rounds[0].weighted_loss)
        return stop

    def request(self, position: Position, weights: Floats, entropy: int) -> Request:
        """Return the request to the learner in the next round.

        ``weights`` are the player's weights of the units, shape (m,). ``entropy`` is the root of the seeds.
        """
        n_rounds = position.n_rounds

        def weighted_loss(candidate: RoundCandidate) -> float:
            return float(weights @ self.stakes.losses(candidate))

        refuses = None
        if self.refuses is not None and n_rounds > 0:  # the first round always counts
            refuses = partial(self.refuses, position.pool)
        density = self.stakes.units.density(weights)
        return Request(
            density, round_seed(entropy, n_rounds), self.demand, weighted_loss, refuses
        )

    def refusal(
        self, t: int, request: Request, candidate: RoundCandidate | Stop
    ) -> Stop | None:
        """Return the reason to drop round ``t``, counted from 1, or None to keep it.

        The learner may return a reason itself, in the place of a candidate. Otherwise the candidate may miss
        the demand.
        """
        if isinstance(candidate, Stop):
            return candidate
        if self.demand is None or t == 1:  # see `reason_to_stop`
            return None
        return self.demand.refusal(t, request.weighted_loss(candidate))

    def after_round(
        self, position: Position, weights: Floats, fitted: RoundCandidate, round_start: float
    ) -> Position:
        """Return the position after a round with the learner's candidate ``fitted``.

        ``weights`` are the player's weights of the units in this round, shape (m,). ``round_start`` is the
        start of the round by ``time.perf_counter()``, in seconds.
        """
        played = position.played
        candidate = position.pool.joined(fitted)  # may answer together with earlier rounds
        losses = self.stakes.losses(candidate)
        state = self.player.update(played.state, losses)
        if state is None and played.state is not None:
            raise TypeError(
                f"{type(self.player).__name__}.update returned None; return the new state"
            )
        pool = position.pool.adding(candidate)
        watched = self.progress.after(position.memory, pool, state)
        record = Round(
            # Sums, not products of vectors, for which BLAS would start threads.
            weighted_loss=float((weights * losses).sum()),
            effective_size=float(1.0 / (weights * (weights / played.units.base)).sum()),
            seconds=time.perf_counter() - round_start,
            gap=max(watched.gap, self.player.gap(played.state)),
            value=watched.value,
        )
        trace = played.trace.adding(record, weights)
        return Position(replace(played, state=state, trace=trace), pool, watched.memory)


def round_seed(entropy: int, t: int) -> int:
    """Return the seed of round ``t`` (from 0), which depends only on the fit's entropy and ``t``."""
    return int(np.random.SeedSequence([entropy, t]).generate_state(1)[0])
