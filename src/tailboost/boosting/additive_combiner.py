"""Combiner of additive classifiers: base models weighted by their steps, or by a soft-margin program."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost.boosting.ensemble import AdditiveEnsemble, add_vote, centred, voted
from tailboost.boosting.game import Game, Response
from tailboost.boosting.players.additive_player import AdditivePlayer
from tailboost.core.array_types import Floats
from tailboost.learners.foreign import constant
from tailboost.rows.rows import Rows
from tailboost.solvers import BitLosses, soft_margin_weights
from tailboost.solvers.soft_margin import SoftMarginSolution

# Gains over the constants' value v below this multiple of 1 + |v| count as rounding errors.
LEAST_GAIN = 1e-7


@dataclass(frozen=True)
class SoftMarginWeights:
    """New weights of the base models, and the facts about their solution."""

    weights: Floats  # shape (T,): all 0 if the best constant is used
    gap: float  # duality gap of the program
    price: float  # C
    value: float | None = None  # optimum of the program; None if the best constant is used
    warning: str = ""


@dataclass(frozen=True)
class SoftMargin:
    """Soft-margin program over the training rows, at the best of several prices C of the slack.

    Weights are rejected in two cases: if they gain nothing over the best mixture of constants in the
    program's objective, or if their vote errs on more of the training rows than the best constant. If the
    base models err on many rows, an optimum may be unrelated to the labels.
    """

    # Values of C, per unit of sample weight, in order of preference.
    slack_prices: tuple[float, ...]
    sample_weight: Floats  # shape (m,): sample weights of the rows
    class_weight: Floats  # shape (K,): the same, summed within each class
    loss: str  # {"linear", "quadratic"}: RLP or RQP
    held_out: bool  # whether no base model was fitted on the selection data

    def choose(
        self, wrong: BitLosses, answers: list[NDArray[Any]], rows: Rows, constant: int
    ) -> SoftMarginWeights:
        """Return the weights with the smallest error of their vote on ``rows``, the selection data.

        ``wrong`` are the losses (T, m) on the training rows, ``answers`` the T class numbers for the
        selection data, and ``constant`` is the class number of the best constant classifier.
        """
        K = len(self.class_weight)
        error_of_constant = float(
            np.average(rows.wrong(np.array(constant)), weights=rows.weight)
        )
        best = None
        least = np.inf
        refusal = ""
        for price in self.slack_prices:
            solution = self._solve(wrong, price, self.sample_weight)
            constants = self._solve(1.0 - np.eye(K), price, self.class_weight)
            error = _error(answers, solution.mixture, rows, K)
            if not self._gains(solution.value, constants.value):
                refusal = (
                    f"gains nothing: the program's objective is {solution.value:.4g}, and "
                    f"{constants.value:.4g} for the best mixture of constants"
                )
            elif error > error_of_constant and not self.held_out:
                refusal = (
                    f"errs on {error:.3g} of the training rows, the best constant on "
                    f"{error_of_constant:.3g}"
                )
            elif error < least:
                least = error
                best = SoftMarginWeights(solution.mixture, solution.gap, price, solution.value)
        if best is None:
            if len(self.slack_prices) == 1:
                hint = "; C=None tries several prices"
            else:
                hint = ""
            price = self.slack_prices[-1]
            warning = (
                f"soft margins: the best constant is used. With C={price:.3g} and loss={self.loss!r} the "
                f"best vote {refusal}{hint}. Noisy labels need a lower C with 'linear', a higher one with "
                "'quadratic'"
            )
            return SoftMarginWeights(np.zeros(len(answers)), 0.0, price, warning=warning)
        if least <= error_of_constant:
            return best
        warning = (
            f"soft margins: the vote errs on {least:.3g} of the held-out rows, the best constant on "
            f"{error_of_constant:.3g}"
        )
        return replace(best, warning=warning)

    def _solve(self, wrong: Any, price: float, weight: Floats) -> SoftMarginSolution:
        return soft_margin_weights(
            wrong, price, weight, loss=self.loss, n_classes=len(self.class_weight)
        )

    def _gains(self, value: float, over: float) -> bool:
        """Return whether ``value`` is better than ``over`` by more than a rounding error."""
        if self.loss == "linear":
            gain = value - over
        else:
            gain = over - value
        return gain > LEAST_GAIN * (1 + abs(over))


def _error(answers: list[NDArray[Any]], weights: Floats, rows: Rows, n_classes: int) -> float:
    """Return the error of a weighted vote on the selection data."""
    wrong = rows.wrong(voted(answers, weights, len(rows.y), n_classes))
    return float(np.average(wrong, weights=rows.weight))


@dataclass(frozen=True)
class Prefix:
    """The first rounds of a game, with their answers to the selection data and the error there."""

    rounds: int
    answers: NDArray[Any]
    error: float


@dataclass
class AdditiveCombiner:
    """Combine the base models by the steps of the weight player."""

    n_classes: int  # K
    # The weight player, which computes the cost.
    player: AdditivePlayer
    heaviest: int  # class number of the best constant classifier
    # Whether only the rounds up to the smallest error on the selection data are used.
    best_prefix: bool = False
    # Computes new weights of the base models in `settle`, stored in ``choice``; None keeps the steps.
    refit: SoftMargin | None = None
    rows: Rows = field(init=False)
    boosted: list[Any] = field(init=False, default_factory=list)
    log_costs: list[float] = field(init=False, default_factory=list)
    _votes: Floats = field(init=False)
    _before: Floats | None = field(
        init=False, default=None
    )  # the votes before the newest round
    _counted: int = field(init=False, default=0)
    # For `refit`: losses on the training rows, answers to the selection data.
    _wrong: BitLosses | None = field(init=False, default=None)
    _answers: list[NDArray[Any]] = field(init=False, default_factory=list)
    choice: SoftMarginWeights | None = field(init=False, default=None)
    # The last is in use. An interrupt in the newest round restores the one before.
    _prefixes: list[Prefix] = field(init=False, default_factory=list)
    answers: NDArray[Any] = field(
        init=False, repr=False
    )  # of the classifier to the selection data
    constant_alone: bool = field(init=False, default=False)  # no base model got a step

    def open(self, rows: Rows, unboosted: Callable[[], Iterable[Response]]) -> None:
        """Begin a new game with the selection data ``rows``."""
        self.rows = rows
        self._votes = np.zeros((len(rows.y), self.n_classes))

    def take(
        self, response: Response, state: Any, needs_objective: bool
    ) -> tuple[float, float]:
        """Add the newest base model; return the error of the ensemble and the gap 0."""
        self.boosted.append(response.base_model)
        votes = self._votes.copy()
        add_vote(votes, state.steps[-1], response.answers)
        self._before = self._votes
        self._votes = votes
        self._counted = self._counted + 1
        self.log_costs.append(self.player.log_cost(state))
        if self.refit is not None:
            if self._wrong is None:
                wrong = BitLosses(len(response.losses))
            else:
                wrong = self._wrong
            self._wrong = wrong.append(response.losses)
            self._answers.append(self._compact(response.answers))
        answers = centred(self._votes).argmax(axis=1)
        error = float(np.average(self.rows.wrong(answers), weights=self.rows.weight))
        if not (self.best_prefix and self._prefixes and error >= self._prefixes[-1].error):
            newest = Prefix(self._counted, self._compact(answers), error)
            self._prefixes = [*self._prefixes[-1:], newest]
        return error, 0.0

    def keep(self, n_rounds: int) -> None:
        """Keep the first ``n_rounds`` rounds. An interrupt may have left a later one half added."""
        del self.boosted[n_rounds:]
        del self.log_costs[n_rounds:]
        if self._counted > n_rounds and self._before is not None:
            self._votes = self._before
            self._counted = n_rounds
        self._before = None
        self._prefixes = [prefix for prefix in self._prefixes if prefix.rounds <= n_rounds]
        del self._answers[n_rounds:]
        if self._wrong is not None and self._wrong.shape[0] > n_rounds:
            self._wrong = self._wrong.select(candidates=np.arange(n_rounds))

    def settle(self, game: Game[Any]) -> AdditiveEnsemble:
        """Return the classifier of the rounds so far."""
        steps: Floats = np.array(game.state.steps)
        used = np.flatnonzero(steps[: self.n_kept] > 0)
        weights = steps[used]
        gap = 0.0
        if self.refit is not None and self._wrong is not None and len(used):
            answers = [self._answers[t] for t in used]
            wrong = self._wrong.select(candidates=used)
            self.choice = self.refit.choose(wrong, answers, self.rows, self.heaviest)
            weights = self.choice.weights
            gap = self.choice.gap
            self.answers = self._compact(
                voted(answers, weights, len(self.rows.y), self.n_classes)
            )
        elif self._prefixes:
            self.answers = self._prefixes[-1].answers
        members = [self.boosted[t] for t, a in zip(used, weights, strict=True) if a > 0]
        self.constant_alone = not members
        if not members:  # the first base model was no better than a random guess
            self.answers = np.full(len(self.rows.y), self.heaviest)
            return AdditiveEnsemble(
                [constant(self.heaviest, self.n_classes)], np.ones(1), self.n_classes, gap
            )
        return AdditiveEnsemble(members, weights[weights > 0], self.n_classes, gap)

    @property
    def n_kept(self) -> int:
        """Number of rounds in use."""
        if self._prefixes:
            return self._prefixes[-1].rounds
        return 0

    @property
    def log_cost(self) -> float:
        """Logarithm of the cost on the training rows after the rounds in use."""
        return self.log_costs[self.n_kept - 1]

    @property
    def training_error(self) -> float | None:
        """Error on the training rows if they are the selection data, else None."""
        if not self.rows.fitted:
            return None
        return float(np.average(self.rows.wrong(self.answers), weights=self.rows.weight))

    @property
    def decided(self) -> tuple[str, ...]:
        """Decisions that were taken by the error on the selection data, as text."""
        priced = self.refit is not None and len(self.refit.slack_prices) > 1
        return ("the number of rounds",) * self.best_prefix + ("the price of slack",) * priced

    def _compact(self, answers: NDArray[Any]) -> NDArray[Any]:
        return answers.astype(np.min_scalar_type(self.n_classes - 1))

    def snapshot(self) -> AdditiveCombiner:
        """Return a copy that further rounds do not change."""
        new = replace(self)
        vars(new).update(vars(self))
        for name in ("boosted", "log_costs", "_answers"):
            setattr(new, name, list(getattr(self, name)))
        return new
