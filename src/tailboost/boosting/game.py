"""Repeated game between a weight player and a learner: the loop behind all boosting classifiers.

Symbols are those of the literature: ``p`` is the base measure over units, ``w`` the player's weights on the
simplex, ``u = w / p`` their density, ``ℓ`` the losses of the newest base model, ``T`` the number of rounds. A
unit carries weight: it is a row (sample) or a subgroup. The game is the same for both.
"""

from __future__ import annotations

import enum
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tailboost.core.array_types import Floats, Ints, Mask, Model, Stated
from tailboost.core.checks import check_number
from tailboost.core.html import html_table
from tailboost.rates.strata import plain
from tailboost.rows.group_names import GroupNames
from tailboost.rows.rows import Rows, memberships
from tailboost.rows.training_set import TrainingSet

State = TypeVar("State")

# Errors and limits are rounded to this number of decimals before a comparison. The rounding error of sums of
# weights is smaller.
DECIMALS = 9

# Largest number of units for which a game stores the weights of every round. Games over classes or groups
# have fewer units, games over samples more.
KEEP_WEIGHTS_UP_TO = 1000
# Largest number of rounds shown in a notebook: the first and the last ones.
SHOWN_ROUNDS = 20


@dataclass(frozen=True)
class Units:
    """Units that the player weights (rows, classes, groups or cells), and the training rows in each."""

    # Shape (m,): base measure ``p`` over the units, positive, with sum 1: the player's first weights.
    base: Floats
    # Shape (m,): sample weight of the rows in each unit; the sum exceeds ``total`` if units overlap.
    weight: Floats
    total: float  # sum of the sample weights of the rows in the units
    # Shape (n,) or (n, c): unit of each row, or its c units, −1 for none. A row without a unit is outside of
    # the game. None if each row is a unit.
    index: Ints | None = None
    # Three arrays of shape (n_losses,), with one entry for each measured row and each of its units: the row,
    # the unit, and the row's fraction of the unit's sample weight. None if each row is a unit.
    loss_row: Ints | None = None
    loss_index: Ints | None = None
    loss_fraction: Floats | None = None
    # Shape (m,): factor in [0, 1] by which the loss of each unit is shrunk towards the mean of all units (see
    # `shrunk`). None shrinks nothing.
    shrinkage: Floats | None = None

    @classmethod
    def samples(cls, sample_weight: Floats, rows: NDArray[np.bool_] | None = None) -> Units:
        """Return units that are rows (of ``rows``); ``p`` is the normalised sample weight."""
        if rows is None:
            index = None
        else:
            index = np.where(rows, np.cumsum(rows) - 1, -1)
        if rows is None:
            weight = sample_weight
        else:
            weight = sample_weight[rows]
        total = float(weight.sum())
        return cls(base=weight / total, weight=weight, total=total, index=index)

    @classmethod
    def groups(
        cls, index: Ints, sample_weight: Floats, loss_index: Ints, loss_weight: Floats
    ) -> Self:
        """Return units that are groups (or classes) of rows, with equal weight in the first round.

        Parameters
        ----------
        index : ndarray of int, shape (n,) or (n, c)
            Group of each row, or its groups by column, −1 for none. Each group needs a positive weight.
        sample_weight : ndarray of shape (n,)
            Weights of the rows.
        loss_index, loss_weight : ndarray
            Groups and weights of the rows whose losses are measured. A group without such rows has loss 0.
        """
        row, unit = memberships(index)
        mass: Floats = np.bincount(unit, weights=sample_weight[row]).astype(np.float64)
        # Each row counts once, in the first of its units.
        once = np.r_[True, row[1:] != row[:-1]]
        total = float(np.bincount(unit[once], weights=sample_weight[row[once]]).sum())
        loss_row, loss_unit = memberships(loss_index)
        weight = loss_weight[loss_row]
        measured = np.bincount(loss_unit, weights=weight, minlength=len(mass))
        return cls(
            base=np.full(len(mass), 1.0 / len(mass)),
            weight=mass,
            total=total,
            index=index,
            loss_row=loss_row,
            loss_index=loss_unit,
            loss_fraction=weight / np.where(measured > 0, measured, 1.0)[loss_unit],
        )

    @property
    def count(self) -> float:
        """``1/min p``, the n of regret bounds; the number of units if p is uniform.

        ``log n`` is the largest divergence of a distribution over the units from p. The scale of the sample
        weights has no influence.
        """
        least = float(self.base[self.base > 0].min())  # a tiny weight may underflow to 0
        if least == self.base.max():
            return float(len(self.base))
        return 1.0 / least

    @property
    def grouped(self) -> bool:
        """Whether units are groups (or classes) of rows."""
        return self.loss_index is not None

    def density(self, w: Floats) -> Floats:
        """Return the density ``u`` of the weights over all rows, shape (n,), with weighted mean 1.

        The density of a row in several units is the sum over them; the density of a row without unit is 1.
        """
        u: Floats = (
            w * self.total / self.weight
        )  # n·w for equal sample weights, without rounding errors
        if self.index is None:
            return u
        if self.index.ndim == 1:
            return np.where(self.index >= 0, u[self.index], 1.0)
        inside = self.index >= 0
        return np.where(
            inside.any(axis=1), np.where(inside, u[self.index], 0.0).sum(axis=1), 1.0
        )

    def means(self, row_losses: NDArray[Any]) -> Floats:
        """Return the weighted mean of row losses within each unit, shape (m,); 0 if none is measured."""
        assert self.loss_row is not None
        assert self.loss_index is not None
        assert self.loss_fraction is not None
        losses = self.loss_fraction * row_losses[self.loss_row]
        sums = np.bincount(self.loss_index, weights=losses, minlength=len(self.base))
        return sums.astype(np.float64, copy=False)

    def losses(self, row_losses: NDArray[Any]) -> NDArray[Any]:
        """Return the losses for the player: of the rows, or the shrunken means of the units."""
        if not self.grouped:
            return row_losses
        return shrunk(self.means(row_losses), self.shrinkage)


def shrinkage_factor(sizes: Floats, pseudo_rows: float) -> Floats | None:
    """Return the factor s/(n + s) for `shrunk`, for units of n rows and s pseudo-rows; None for s = 0."""
    if pseudo_rows > 0:
        return pseudo_rows / (sizes + pseudo_rows)
    return None


def shrunk(errors: Floats, factor: Floats | None) -> Floats:
    """Shrink the errors of units, shape (..., m), towards their mean over the units.

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


@dataclass(frozen=True)
class TargetSubgroups(Units):
    """Classes, groups or cells with allowed errors. The losses depend on the error and the allowed error."""

    # Shape (m,): allowed error of each subgroup, 1 − θ.
    allowed: Floats = field(default_factory=lambda: np.empty(0))
    # If True, the loss of a subgroup with error R_k is ``1[R_k ≥ 1 − θ_k]``. If False, the loss is R_k, or
    # ``(R_k + penalty_k) / (1 + largest penalty)`` if allowed errors differ.
    indicator: bool = False
    # Shape (m,): whether the error of a subgroup is measured; the loss of an unmeasured one is 0.
    measured: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=np.bool_))

    @property
    def penalty(self) -> Floats:
        """The largest allowed error minus the allowed error of each subgroup."""
        return self.allowed.max() - self.allowed

    def errors(self, row_losses: NDArray[Any]) -> Floats:
        """Measured error R_k of each subgroup; NaN without rows."""
        return np.where(self.measured, self.means(row_losses), np.nan)

    @property
    def differ(self) -> bool:
        """Whether allowed errors differ."""
        return bool(self.penalty.any())

    @property
    def limit(self) -> float:
        """Largest objective value that meets all targets: the common allowed error; 0 if they differ."""
        if self.differ:
            return 0.0
        return float(self.allowed.max())

    def losses(self, row_losses: NDArray[Any]) -> Floats:
        """Return the loss ℓ_k in [0, 1] of each subgroup, with shrunk errors unless it is an indicator."""
        R = self.means(row_losses)
        measured = self.measured
        if self.indicator:
            return ((R - self.allowed).round(DECIMALS) >= 0).astype(np.float64)
        penalty = self.allowed.max() - self.allowed
        losses = (R + penalty) / (1.0 + penalty.max())
        if self.shrinkage is not None:
            losses[measured] = shrunk(losses[measured], self.shrinkage[measured])
        return np.where(measured, losses, 0.0)


def tilted(base: Floats, exponent: Floats) -> tuple[Floats, float]:
    """Return weights proportional to p e^exponent with sum 1, and the logarithm of the sum of p e^exponent.

    For uniform p the weights are those of e^exponent to the last bit, as the papers print them.
    """
    top = float(base.max())
    with np.errstate(divide="ignore"):
        w, log_sum = normalised_exp(np.log(base / top) + exponent)
    return w, log_sum + float(np.log(top))


def normalised_exp(log_w: Floats) -> tuple[Floats, float]:
    """Return weights proportional to e^log_w with sum 1, and the logarithm of the sum of e^log_w.

    At least one entry must be above −∞. The entries are shifted by the largest, so that nothing overflows.
    """
    top = float(log_w.max())
    w: Floats = np.exp(log_w - top)
    total = float(w.sum())
    w /= total
    return w, top + float(np.log(total))


class StopKind(enum.Enum):
    """Reason for the end of a game, for decisions in code. The text is in `Stop`."""

    PLAYED = "all rounds played"
    PLATEAU = "the objective no longer falls"
    ZERO = "the objective reached 0"
    TARGET = "the target is reached"
    RULE = "the weight player is done"
    LEARNER = "the learner does not meet its condition"
    TIME = "time limit"
    INTERRUPT = "interrupted"
    CALLBACK = "stopped by a callback"


@dataclass(frozen=True)
class Stop:
    """End of a game.

    Attributes
    ----------
    kind : StopKind
        Reason, for decisions in code.
    text : str
        Reason with its numbers, for messages.
    """

    kind: StopKind
    text: str

    # Model files store no enumerations.
    def __getstate__(self) -> dict[str, str]:
        return {"kind": self.kind.name, "text": self.text}

    def __setstate__(self, state: dict[str, str]) -> None:
        object.__setattr__(self, "kind", StopKind[state["kind"]])
        object.__setattr__(self, "text", state["text"])

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

    def update(self, state: State, losses: NDArray[Any]) -> State:
        """Return the state after the losses of the newest base model; the old state is unchanged."""
        ...

    def gap(self, state: State) -> float:
        """Return the optimality gap of the program that gives the weights; 0 for a closed form."""
        return 0.0

    def finished(self, state: State) -> Stop | None:
        """Return the reason to end the game, or None to continue."""
        return None

    @property
    def symbols(self) -> dict[str, str]:
        """Meaning of the symbols in printed bounds."""
        return {}


@dataclass(frozen=True)
class Turn:
    """Input of the learner in a round."""

    t: int  # number of the round, from 1
    w: Floats  # shape (m,): weights of the units
    u: Floats  # shape (n,): density over the rows, with mean 1 under the sample weights
    seed: int


@dataclass(frozen=True)
class Response:
    """Output of the learner in a round: a base model and its losses."""

    base_model: Model
    losses: NDArray[Any]  # shape (n,): its losses for the player, see `cross_fitting.ask`
    answers: Ints  # shape (n_selection,): its class numbers for the selection data
    # Shape (n_selection, K): class probabilities, summed over the rounds if they predict together.
    probabilities: NDArray[np.float32] | None = None


Oracle = Callable[[Turn], "Response | Stop"]
# Function that adds a response to the ensemble. Arguments: the response and the player's new state. Result:
# the objective value of the ensemble and the optimality gap.
AddToEnsemble = Callable[[Response, Any], tuple[float, float]]


@dataclass(frozen=True)
class Round:
    """Record of one round."""

    weighted_loss: float
    effective_size: float
    seconds: float
    gap: float
    value: float


# Names of the numbers of a round.
COLUMNS = ("weighted_loss", "effective_size", "seconds", "gap", "value")


def _column(name: str) -> property:
    """Return a property with a number of all rounds, shape (T,)."""
    return property(
        lambda trace: np.array([getattr(r, name) for r in trace.rounds], dtype=np.float64)
    )


@dataclass
class Trace:
    """History of a fit, one entry per round, as arrays of shape (T,).

    Attributes
    ----------
    rounds : list of Round
        The records.
    unit_weights : list of ndarray of shape (m,) or None
        Weights of the units in each round; None if they are not stored.
    weighted_loss : ndarray of shape (T,)
        ``⟨w^t, ℓ^t⟩`` in [0, 1]: loss of the newest base model under the weights that trained it.
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

    rounds: list[Round] = field(default_factory=list)
    unit_weights: list[Floats] | None = None
    stop: Stop | None = None

    def __len__(self) -> int:
        return len(self.rounds)

    def __iter__(self) -> Iterator[Round]:
        return iter(self.rounds)

    weighted_loss, effective_size, seconds, gap, value = map(_column, COLUMNS)

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

    def to_dict(self) -> dict[str, Any]:
        """Return the arrays as lists with one entry per round, and ``stop_reason``."""
        columns: dict[str, Any] = {name: getattr(self, name).tolist() for name in COLUMNS}
        if self.unit_weights is not None:
            columns["weights"] = [w.tolist() for w in self.unit_weights]
        return columns | {"stop_reason": self.stop_reason}

    def _repr_html_(self) -> str:
        heads = ["round", "weighted loss", "effective size", "objective", "gap", "seconds"]
        numbers = (
            (r.weighted_loss, r.effective_size, r.value, r.gap, r.seconds) for r in self.rounds
        )
        forms = ("{:.4f}", "{:.3f}", "{:.4f}", "{:.1e}", "{:.2f}")
        rows = [
            [str(t), *(form.format(x) for form, x in zip(forms, row, strict=True))]
            for t, row in enumerate(numbers, start=1)
        ]
        half = SHOWN_ROUNDS // 2
        if len(rows) <= SHOWN_ROUNDS:
            shown = rows
        else:
            shown = [*rows[:half], *rows[-half:]]
        if len(shown) < len(rows):
            omitted = f", {len(rows) - len(shown)} in the middle omitted"
        else:
            omitted = ""
        return html_table(
            heads, shown, f"{len(rows)} rounds{omitted}. {self.stop_reason}".strip()
        )


@dataclass(frozen=True)
class Stopping:
    """Conditions that end a game before all rounds are played."""

    patience: int | None = (
        None  # stop if the last ``patience`` rounds lowered the value by at most ``tol``
    )
    tol: float = 0.0
    max_time: float | None = None  # seconds after which no new round begins
    zero: float | None = None  # smallest possible value; stop if the value reaches it
    target: float | None = None  # stop if the value is at most this
    reached: str = "all targets are met on the validation rows"  # text for a reached target

    def reason(self, trace: Trace, elapsed: float) -> Stop | None:
        """Return the reason to end the game before the next round, or None to continue."""
        if not trace.rounds:
            return None
        t = len(trace)
        value = trace.rounds[-1].value
        if self.max_time is not None and elapsed >= self.max_time:
            return Stop(
                StopKind.TIME, f"time limit of {self.max_time:g} s reached after {t} rounds"
            )
        if self.zero is not None and value <= self.zero:
            return Stop(StopKind.ZERO, f"the objective reached 0 in round {t}")
        if self.patience is not None and t > self.patience:
            before = trace.value[: -self.patience].min()
            since = trace.value[-self.patience :].min()
            if before - since <= self.tol:
                words = f"the objective fell by no more than {self.tol:g} in the last {self.patience} rounds"
                return Stop(StopKind.PLATEAU, words)
        if self.target is not None and value <= self.target:
            return Stop(StopKind.TARGET, f"{self.reached} after {t} rounds")
        return None


@dataclass
class Game(Generic[State]):
    """State of a game: the player's state and the trace so far. `play` continues the game."""

    player: Player[State]
    units: Units
    state: State
    trace: Trace

    @classmethod
    def new(cls, player: Player[State], units: Units) -> Game[State]:
        """Return a game before its first round."""
        keep = units.grouped and len(units.base) <= KEEP_WEIGHTS_UP_TO
        return cls(player, units, player.start(units), Trace(unit_weights=[] if keep else None))

    @property
    def n_rounds(self) -> int:
        """Number of rounds played."""
        return len(self.trace)

    def snapshot(self) -> Game[State]:
        """Return a copy that further rounds do not change."""
        weights = self.trace.unit_weights
        trace = Trace(
            list(self.trace.rounds), None if weights is None else list(weights), self.trace.stop
        )
        return Game(self.player, self.units, self.state, trace)

    def turn(self, entropy: int) -> Turn:
        """Return the input of the learner for the next round."""
        w = self.player.weights(self.state)
        t = self.n_rounds
        return Turn(t + 1, w, self.units.density(w), round_seed(entropy, t))

    def advance(self, w: Floats, response: Response, take: AddToEnsemble, began: float) -> None:
        """Add one round, in which the learner answered weights ``w`` with ``response``.

        The game changes in the last statement, so an interrupt leaves the game consistent. ``began`` is the
        start of the round by ``time.perf_counter()``.
        """
        losses = self.units.losses(response.losses)
        state = self.player.update(self.state, losses)
        value, gap = take(response, state)
        played = Round(
            # Sums, not products of vectors, for which BLAS would start threads.
            weighted_loss=float((w * losses).sum()),
            effective_size=float(1.0 / (w * (w / self.units.base)).sum()),
            seconds=time.perf_counter() - began,
            gap=max(gap, self.player.gap(self.state)),
            value=value,
        )
        trace = self.trace
        rounds = [*trace.rounds, played]
        if trace.unit_weights is None:
            weights = None
        else:
            weights = [*trace.unit_weights, w]
        # A statement without a call cannot be interrupted by a signal.
        self.state, trace.rounds, trace.unit_weights = state, rounds, weights


def round_seed(entropy: int, t: int) -> int:
    """Return the seed of round ``t`` (from 0), which depends only on the fit's entropy and ``t``."""
    return int(np.random.SeedSequence([entropy, t]).generate_state(1)[0])


def play(
    game: Game[State],
    oracle: Oracle,
    n_rounds: int,
    *,
    entropy: int,
    take: AddToEnsemble = lambda response, state: (np.nan, 0.0),
    stopping: Stopping | None = None,
    observe: Callable[[Game[State], Response], bool] | None = None,
    interrupted: Callable[[], bool] | None = None,
) -> None:
    """Play until ``n_rounds`` rounds are done in total, or there is a reason to stop.

    Parameters
    ----------
    game : Game
        The game. It is changed in place, one whole round at a time, and is consistent whenever the function
        ends, also by an exception.
    oracle : callable
        ``oracle(turn) -> Response``: a base model fitted for the density ``turn.u`` of the rows, or a `Stop`.
    n_rounds : int
        Total number of rounds.
    entropy : int
        Root of the seeds.
    take : callable
        ``take(response, state) -> (value, gap)`` adds the response to the ensemble, given the player's new
        state. It returns the objective of the combination and the gap of its solution.
    stopping : Stopping, optional
        Conditions to stop before ``n_rounds``.
    observe : callable
        ``observe(game, newest_response)`` is called after each round. A true result ends the game.
    interrupted : callable
        Returns whether Ctrl-C was pressed. A learner may have caught the interrupt and returned an unfinished
        model, which is dropped.

    Raises
    ------
    KeyboardInterrupt
        Only if interrupted before the end of the first round. After a later interrupt, the game keeps the
        finished rounds, and ``trace.stop`` gives the reason.
    """
    stopping = stopping or Stopping()
    player = game.player
    trace = game.trace
    began = time.perf_counter()
    trace.stop = None
    try:
        while game.n_rounds < n_rounds:
            stop = player.finished(game.state) or stopping.reason(
                trace, time.perf_counter() - began
            )
            if stop is None:
                round_began = time.perf_counter()
                turn = game.turn(entropy)
                answer = oracle(turn)
                if interrupted is not None and interrupted():
                    raise KeyboardInterrupt
                if isinstance(answer, Stop):
                    stop = answer
                else:
                    game.advance(turn.w, answer, take, round_began)
                    if observe is not None and observe(game, answer):
                        words = f"stopped by a callback after round {turn.t}"
                        stop = Stop(StopKind.CALLBACK, words)
            if stop is not None:
                trace.stop = stop
                return
        trace.stop = Stop(StopKind.PLAYED, f"all {n_rounds} rounds played")
    except KeyboardInterrupt:
        if not trace.rounds:
            raise
        trace.stop = Stop(StopKind.INTERRUPT, f"interrupted after {len(trace)} rounds")


# -- Targets of subgroups, pools of small subgroups, and the edge γ ------------------------------------------

# Values of max_error="auto"; θ in the paper is 1 − max_error.
MAX_ERRORS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
# Pseudo-rows that shrink the errors in a game towards their mean over the subgroups.
SHRINKAGE = 5.0
# ε of γ = ⌊qK⌋/K − ½ − ε.
EPSILON = 5e-4


def edge_from_share(q: float, n_units: int) -> float:
    """Return γ = ⌊qK⌋/K − ½ − ε with ε = .0005: round 1 must meet the targets of a fraction q of the classes.

    It is not positive where the indicator game is degenerate, as for K = 2 and q < 1.
    """
    return math.floor(q * n_units + 1e-9) / n_units - 0.5 - EPSILON


def is_kept(excess: Floats | float, strict: bool = False) -> Mask:
    """Return whether errors minus their targets are at most 0, or below 0 if ``strict``."""
    rounded = np.asarray(excess).round(DECIMALS)
    return np.asarray(rounded < 0 if strict else rounded <= 0)


@dataclass(frozen=True)
class NamedSubgroups:
    """The subgroups with targets: classes, groups or class × group cells, with their names."""

    kind: str  # {"class", "group", "cell"}
    names: NDArray[Any]  # shape (m,): labels, groups, or (label, group) pairs
    n_classes: int  # K
    # Shape (m,): number of the family of each subgroup. Small subgroups of one family are pooled. The cells
    # of one class are a family, and the groups of one column. Each class is a family of its own.
    family: Ints
    cells: Ints | None = None  # shape (m,): ``class + K · group`` of each cell

    @classmethod
    def of(
        cls, kind: str, rows: Rows, classes: NDArray[Any], groups: GroupNames | None
    ) -> NamedSubgroups:
        """Return the subgroups of the training rows."""
        K = len(classes)
        if kind == "class":
            return cls(kind, classes, K, np.arange(K))
        assert groups is not None
        assert rows.groups is not None
        if kind == "group":
            return cls(kind, groups.names, K, groups.column)
        cells = np.unique(memberships(cells_of(rows, K))[1])
        labels = classes.tolist()
        group_names = groups.names.tolist()
        names = np.empty(len(cells), dtype=object)
        names[:] = [(labels[cell % K], group_names[cell // K]) for cell in cells]
        return cls(kind, names, K, cells % K + K * groups.column[cells // K], cells)

    @property
    def codes(self) -> list[int]:
        """Position of each subgroup among all cells; cells without training rows are absent."""
        if self.cells is None:
            return list(range(len(self.names)))
        return self.cells.tolist()

    def with_subgroups(self, rows: Rows) -> Rows:
        """Return rows with their subgroups as groups; −1 for a cell without training rows."""
        if self.kind == "class":
            return replace(rows, groups=rows.y)
        if self.cells is None:
            return rows
        cell = cells_of(rows, self.n_classes)
        index = np.searchsorted(self.cells, cell).clip(max=len(self.cells) - 1)
        return replace(
            rows, groups=np.where(self.cells[index] == cell, index, -1).astype(np.intp)
        )


def cells_of(rows: Rows, n_classes: int) -> Ints:
    """Return ``class + K · group`` for every group of each row, shape (n,) or (n, c)."""
    assert rows.groups is not None
    return (rows.y + n_classes * rows.groups.T).T


@dataclass(frozen=True)
class Pools:
    """Pools of subgroups. Subgroups with too few rows share one weight in the game."""

    pool: Ints  # shape (m,): number of the pool of each subgroup, from 0
    # Shape (m,): effective rows of each subgroup, see `Rows.sizes`: the fewer of training and held-out rows.
    size: Floats
    least: int  # subgroups with fewer rows are small

    @classmethod
    def small(cls, named: NamedSubgroups, tables: Sequence[Rows], least: int) -> Pools:
        """Pool small subgroups of the same class or column, by their rows in each table.

        The small subgroups of a family are one pool. If this pool has fewer than ``least`` rows, the smallest
        other subgroup of the family joins it. A small subgroup alone in its family keeps its own weight.
        """
        m = len(named.names)
        numbered = [named.with_subgroups(rows) for rows in tables]
        size = np.min([r.sizes(r.groups, m) for r in numbered if r.groups is not None], axis=0)
        of = np.arange(m)
        for number in np.unique(named.family[size < least]):
            family = np.flatnonzero(named.family == number)
            small = family[size[family] < least]
            others = family[size[family] >= least]
            if size[small].sum() < least and len(others):
                small = np.append(small, others[size[others].argmin()])
            of[small] = small.min()
        return cls(np.unique(of, return_inverse=True)[1], size, least)

    @property
    def count(self) -> int:
        """Number of pools."""
        return int(self.pool.max()) + 1

    @property
    def trivial(self) -> bool:
        """Whether no subgroups are pooled."""
        return self.count == len(self.pool)

    def index(self, groups: Ints) -> Ints:
        """Return the pools of rows from their subgroups, −1 for none."""
        if self.trivial:
            return groups
        return np.where(groups >= 0, self.pool[groups], -1)

    def strictest(self, allowed: Floats) -> Floats:
        """Return the smallest target in each pool."""
        least = np.full(self.count, np.inf)
        np.fmin.at(least, self.pool, allowed)
        return np.where(np.isinf(least), np.nan, least)


def pooled_subgroups(
    kind: str,
    training: TrainingSet,
    classes: NDArray[Any],
    groups: GroupNames | None,
    least: int,
) -> tuple[NamedSubgroups, Pools]:
    """Return the subgroups of a training set and their pools, and number them as its groups."""
    named = NamedSubgroups.of(kind, training.rows, classes, groups)
    if training.validation is None:
        tables = [training.rows]
    else:
        tables = [training.rows, training.validation[1]]
    pools = Pools.small(named, tables, least)
    training.groups = named.with_subgroups(training.rows).groups
    if training.validation is not None:
        X_val, rows = training.validation
        training.validation = X_val, named.with_subgroups(rows)
    return named, pools


def allowed_errors(max_error: Stated, units: Sequence[Any], kind: str) -> Floats:
    """Return the target of each subgroup, shape (m,); NaN for ``max_error="auto"``.

    ``max_error`` is as given to the classifier; the names of cells are pairs (class, group).

    Raises
    ------
    ValueError
        If a target is not in (0, 1], a unit has none, or a target names no unit.
    """
    if not isinstance(max_error, Mapping):
        return np.full(len(units), np.nan if max_error == "auto" else float(max_error))
    max_error = {plain(key): value for key, value in max_error.items()}
    for key, value in max_error.items():
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) <= 1:
            raise ValueError(
                f"max_error: the target of {key!r} must be a number in (0, 1], got {value!r}"
            )
    named = [[unit, unit[0], None] if kind == "cell" else [unit, None] for unit in units]
    keys = [[key for key in names if key in max_error][:1] for names in named]
    unknown = set(max_error) - {None} - {key for found in keys for key in found}
    if unknown:
        name = next(key for key in max_error if key in unknown)
        raise ValueError(
            f"max_error={max_error!r}: no {kind} is called {name!r}; there are {list(units)[:20]}"
        )
    if [] in keys:
        raise ValueError(
            f"max_error={max_error!r} has no target for {kind} {units[keys.index([])]!r}; name it, or give "
            "one for the rest under the key None"
        )
    return np.array([max_error[key] for (key,) in keys], dtype=np.float64)


def checked_targets(max_error: Stated, units: Sequence[Any], kind: str) -> Floats:
    """Return the target of each subgroup, shape (m,), from stated targets.

    Raises
    ------
    ValueError, TypeError
        As `allowed_errors`, and where a single target is not a number in (0, 1].
    """
    if not isinstance(max_error, Mapping):
        max_error = check_number(max_error, "max_error", 0, 1)
    return allowed_errors(max_error, units, kind)
