"""Additive classifiers from a game: base models weighted by their steps, or by a soft-margin program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailboost.boosting.ensemble import AdditiveEnsemble, add_vote, centred, majority_vote
from tailboost.boosting.game import Position, RoundCandidate, Watched
from tailboost.boosting.players.additive_player import Additive
from tailboost.core.array_types import Floats, ModelAnswers
from tailboost.learners.foreign import constant
from tailboost.rows.rows import Rows
from tailboost.solvers import BitLosses, soft_margin_weights
from tailboost.solvers.soft_margin import SoftMarginSolution

# Gains over the constants' value v below this multiple of 1 + |v| count as rounding errors.
ROUNDING_GAIN = 1e-7


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
        self, wrong: BitLosses, answers: list[ModelAnswers], rows: Rows, heaviest: int
    ) -> SoftMarginWeights:
        """Return the weights with the smallest error of their vote on the selection data.

        Parameters
        ----------
        wrong : BitLosses of shape (T, m)
            The losses of the base models on the training rows.
        answers : list of T ndarray of shape (n,)
            The class numbers of the base models for the selection data.
        rows : Rows
            The selection data.
        heaviest : int
            Class number of the best constant classifier.
        """
        K = len(self.class_weight)
        constant_is_wrong = rows.wrong(np.array(heaviest))
        error_of_constant = float(np.average(constant_is_wrong, weights=rows.weight))
        losses_of_constants = 1.0 - np.eye(K)  # constants × classes
        best = None
        least_error = np.inf
        refusal = ""
        for price in self.slack_prices:
            solution = self._solve(wrong, price, self.sample_weight)
            constants = self._solve(losses_of_constants, price, self.class_weight)
            vote = majority_vote(answers, solution.mixture, len(rows.y), K)
            error = float(np.average(rows.wrong(vote), weights=rows.weight))
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
            elif error < least_error:
                least_error = error
                best = SoftMarginWeights(solution.mixture, solution.gap, price, solution.value)
        if best is None:
            return self._constant_alone(len(answers), refusal)
        if least_error <= error_of_constant:
            return best
        warning = (
            f"soft margins: the vote errs on {least_error:.3g} of the held-out rows, the best "
            f"constant on {error_of_constant:.3g}"
        )
        return replace(best, warning=warning)

    def _constant_alone(self, n_models: int, refusal: str) -> SoftMarginWeights:
        """Return weights of 0 with a warning; ``refusal`` is the fault of the vote at the last price."""
        if len(self.slack_prices) == 1:
            refusal += "; C=None tries several prices"
        price = self.slack_prices[-1]
        warning = (
            f"soft margins: the best constant is used. With C={price:.3g} and "
            f"loss={self.loss!r} the best vote {refusal}. Noisy labels need a lower "
            "C with 'linear', a higher one with 'quadratic'"
        )
        return SoftMarginWeights(np.zeros(n_models), 0.0, price, warning=warning)

    def _solve(self, wrong: Any, price: float, weight: Floats) -> SoftMarginSolution:
        """Return the soft-margin weights at a price of slack, for sample weights of shape (n,)."""
        return soft_margin_weights(
            wrong, price, weight, loss=self.loss, n_classes=len(self.class_weight)
        )

    def _gains(self, value: float, value_of_constants: float) -> bool:
        """Return whether an objective is better than that of constants by more than a rounding error.

        The linear program is maximised, the quadratic one minimised.
        """
        if self.loss == "linear":
            gain = value - value_of_constants
        else:
            gain = value_of_constants - value
        return gain > ROUNDING_GAIN * (1 + abs(value_of_constants))


@dataclass(frozen=True, eq=False)
class AdditivePool:
    """The models of an additive game, which answer by their steps.

    Attributes
    ----------
    n_classes : int
        K.
    keeps : bool
        Whether losses on the training rows and answers to the selection data are kept, for `SoftMargin`.
    models : tuple
        The base models in order.
    newest : RoundCandidate or None
        The candidate of the last round.
    wrong : BitLosses or None
        Losses on the training rows.
    answers : tuple of ndarray
        Answers to the selection data.
    """

    n_classes: int
    keeps: bool = False
    models: tuple[Any, ...] = ()
    newest: RoundCandidate | None = None
    wrong: BitLosses | None = None
    answers: tuple[ModelAnswers, ...] = ()

    def joined(self, candidate: RoundCandidate) -> RoundCandidate:
        """Return the candidate, which joins as it is."""
        return candidate

    def adding(self, candidate: RoundCandidate) -> AdditivePool:
        """Return the pool with the candidate of a further round.

        Its losses and answers are kept if a program will weight the models anew.
        """
        pool = replace(self, models=(*self.models, candidate.model), newest=candidate)
        if not self.keeps:
            return pool
        wrong = self.wrong
        if wrong is None:  # before the first round
            wrong = BitLosses(len(candidate.losses))
        answers = (*self.answers, compact(candidate.answers, self.n_classes))
        return replace(pool, wrong=wrong.append(candidate.losses), answers=answers)


@dataclass(frozen=True, eq=False)
class Votes:
    """Memory of an additive game: votes on the selection data, costs, and the rounds in use.

    Attributes
    ----------
    votes : ndarray of shape (n, K)
        See `add_vote`.
    log_costs : tuple of float
        Logarithm of the cost on the training rows after each round.
    n_kept : int
        Number of the rounds in use.
    answers : ndarray or None
        Class numbers of the selection data by these rounds.
    error : float
        Error of these answers.
    """

    votes: Floats
    log_costs: tuple[float, ...] = ()
    n_kept: int = 0
    answers: ModelAnswers | None = None
    error: float = np.inf


@dataclass(frozen=True, eq=False)
class ErrorOfSteps:
    """The error of an additive classifier on the selection data after each round.

    Attributes
    ----------
    rows : Rows
        The selection data.
    player : Additive
        Who computes the cost.
    best_prefix : bool
        Whether only the rounds up to the smallest error are used.
    """

    rows: Rows
    player: Additive
    best_prefix: bool

    def start(self, pool: AdditivePool) -> Votes:
        """Return votes without voters."""
        return Votes(np.zeros((len(self.rows.y), pool.n_classes)))

    def after(self, memory: Votes, pool: AdditivePool, state: Any) -> Watched:
        """Return the error on the selection data after the newest step.

        With ``best_prefix`` the rounds in use stay those of the smallest error so far.

        Parameters
        ----------
        memory : Votes
            The votes of the steps before.
        pool : AdditivePool
            The hypotheses, with the answers of the newest.
        state : AdditiveState
            State of the player, with the newest step.
        """
        assert pool.newest is not None
        votes = memory.votes.copy()
        add_vote(votes, state.steps[-1], pool.newest.answers)
        log_costs = (*memory.log_costs, self.player.log_cost(state))
        answers = centred(votes).argmax(axis=1)
        error = float(np.average(self.rows.wrong(answers), weights=self.rows.weight))
        uses_newest = error < memory.error or not self.best_prefix
        if not uses_newest:
            return Watched(error, memory=replace(memory, votes=votes, log_costs=log_costs))
        packed_answers = compact(answers, pool.n_classes)
        with_newest = Votes(votes, log_costs, len(pool.models), packed_answers, error)
        return Watched(error, memory=with_newest)


def compact(answers: ModelAnswers, n_classes: int) -> ModelAnswers:
    """Return class numbers in few bytes."""
    return answers.astype(np.min_scalar_type(n_classes - 1))


@dataclass(frozen=True, eq=False)
class AdditiveSelection:
    """The rule of an additive game, with what is known of it on the selection data.

    Attributes
    ----------
    rows : Rows
        The selection data.
    n_classes : int
        K.
    heaviest : int
        Class number of the best constant classifier.
    ensemble : AdditiveEnsemble
        The rule.
    answers : ndarray of shape (n,)
        Its class numbers for the selection data.
    log_costs : tuple of float
        Logarithm of the cost on the training rows after each round.
    n_kept : int
        Number of rounds in use.
    decided : tuple of str
        Decisions that were taken by the error on the selection data.
    constant_alone : bool
        Whether no base model got a step.
    refit : SoftMargin or None
        Program for new weights.
    choice : SoftMarginWeights or None
        Its solution.
    """

    rows: Rows
    n_classes: int
    heaviest: int
    ensemble: AdditiveEnsemble
    answers: ModelAnswers
    log_costs: tuple[float, ...]
    n_kept: int
    decided: tuple[str, ...]
    constant_alone: bool
    refit: SoftMargin | None = None
    choice: SoftMarginWeights | None = None

    @classmethod
    def of(
        cls,
        position: Position,
        progress: ErrorOfSteps,
        heaviest: int,
        refit: SoftMargin | None = None,
    ) -> AdditiveSelection:
        """Return the rule of the rounds so far.

        Parameters
        ----------
        position : Position
            The game after a round.
        progress : ErrorOfSteps
            Has the selection data.
        heaviest : int
            Class number of the best constant classifier.
        refit : SoftMargin, optional
            The program for weights that replace the steps.
        """
        rows = progress.rows
        votes = position.memory
        pool = position.pool
        K = pool.n_classes
        steps = np.array(position.played.state.steps)
        used_rounds = np.flatnonzero(steps[: votes.n_kept] > 0)
        weights = steps[used_rounds]
        answers = votes.answers
        choice = None
        gap = 0.0
        if refit is not None and len(used_rounds):
            answers_by_round = [pool.answers[t] for t in used_rounds]
            wrong = pool.wrong.select(candidates=used_rounds)
            choice = refit.choose(wrong, answers_by_round, rows, heaviest)
            weights = choice.weights
            gap = choice.gap
            vote = majority_vote(answers_by_round, weights, len(rows.y), K)
            answers = compact(vote, K)
        models = [pool.models[t] for t in used_rounds[weights > 0]]
        ensemble = AdditiveEnsemble(models, weights[weights > 0], K, gap)
        if not models:  # the first base model was no better than a random guess
            answers = np.full(len(rows.y), heaviest)
            ensemble = AdditiveEnsemble([constant(heaviest, K)], np.ones(1), K, gap)
        return cls(
            rows=rows,
            n_classes=K,
            heaviest=heaviest,
            ensemble=ensemble,
            answers=answers,
            log_costs=votes.log_costs,
            n_kept=votes.n_kept,
            decided=_decided(progress, refit),
            constant_alone=not models,
            refit=refit,
            choice=choice,
        )

    def rule(self) -> AdditiveEnsemble:
        """Return the base models in use with their steps; the answers are their scores."""
        return self.ensemble

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


def _decided(progress: ErrorOfSteps, refit: SoftMargin | None) -> tuple[str, ...]:
    """Return the decisions of the selection data in words."""
    decided = []
    if progress.best_prefix:
        decided.append("the number of rounds")
    if refit is not None and len(refit.slack_prices) > 1:
        decided.append("the price of slack")
    return tuple(decided)
