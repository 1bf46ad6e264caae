"""Additive classifiers f = Σ a_t h_t: the player that takes the steps, and the classifier."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import softmax
from sklearn.dummy import DummyClassifier

from tailboost.boosting.game import Bound, Hypothesis, Player
from tailboost.boosting.learning import Boosting, Learner, coded
from tailboost.core.array_types import Array, Column, Floats, Table, UnitLosses
from tailboost.core.checks import check_length, positions
from tailboost.core.exceptions import warn_user
from tailboost.learners.foreign import predict_models

# Shorter steps count as none: at chance, and at a kink, rounding gives a tiny one.
LEAST_STEP = 1e-10


class Steps(NamedTuple):
    """State of an additive classifier f = Σ a_s h_s.

    Attributes
    ----------
    p, margins : ndarray of shape (n,)
        Base measure of the rows, and m_i = Σ a_s z_i^s.
    u : ndarray of shape (n,)
        Weights for the learner at these margins, not normalised.
    steps, log_costs : tuple of float
        Step of each round, and the logarithm of the cost after it.
    over : bool
        Whether the game ends: the labels of the last hypothesis are all right.
    """

    p: Floats
    margins: Floats
    u: Floats
    steps: tuple[float, ...] = ()
    log_costs: tuple[float, ...] = ()
    over: bool = False


@dataclass(frozen=True)
class Additive(Player[Steps], ABC):
    """f ← f + a h, where z = 1 on rows on which h is right and −1/(K−1) on others, or z = h_y for real h.

    An algorithm is a cost of the margins: its weights for the learner, and its best step along a hypothesis.
    Without errors the cost falls with the length of the step, so no step is best: such a hypothesis gets the
    longest step so far, and labels that are all right end the game.
    """

    n_classes: int

    @abstractmethod
    def weigh(self, margins: Floats, p: Floats) -> tuple[Floats, float]:
        """Return u, shape (n,), and the logarithm of the cost."""

    @abstractmethod
    def step(self, z: Floats, state: Steps) -> float:
        """Return the best step along a hypothesis that errs; at most 0 if none lowers the cost."""

    def start(self, p: Floats) -> Steps:
        """Return the state with margins of 0."""
        zero = np.zeros(len(p))
        u, _ = self.weigh(zero, p)
        return Steps(p, zero, u)

    def weights(self, state: Steps) -> Floats:
        """Return u, normalised."""
        return state.u / state.u.sum()

    def update(self, state: Steps, losses: UnitLosses) -> Steps:
        """Return the state after the best step; step 0 leaves the margins."""
        has_labels = losses.dtype == bool
        z = 1 - 2.0 * losses
        if has_labels:
            z = np.where(losses, -1 / (self.n_classes - 1), 1.0)
        flawless = bool((z >= 0).all() and z.any())
        if flawless:
            a = max(state.steps, default=1.0)
        else:
            a = self.step(z, state)
        if not LEAST_STEP < a < np.inf:
            return state._replace(steps=(*state.steps, 0.0))
        margins = state.margins + a * z
        u, log_cost = self.weigh(margins, state.p)
        costs = (*state.log_costs, log_cost)
        return Steps(state.p, margins, u, (*state.steps, a), costs, flawless and has_labels)


def sums(x: Floats, z: Floats) -> Floats:
    """Return Σ_I x and Σ_J x, over the rows I where a hypothesis is right, z > 0, and the others J."""
    return np.array([x[z > 0].sum(), x[z <= 0].sum()])


def closed_step(right: float, wrong: float, K: int) -> float:
    """Return ((K−1)/K) log((K−1) right/wrong), the a of least right·e^(−a) + wrong·e^(a/(K−1))."""
    with np.errstate(divide="ignore"):  # without a right or a wrong row
        return float((K - 1) / K * np.log((K - 1) * right / wrong))


class AdditiveClassifier(Boosting):
    """argmax_k f_k(x) with f = Σ_t a_t h_t; the scores of a hypothesis are 1 for its label, else −1/(K−1).

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    estimators_ : list
        The hypotheses with a step; the best constant if the first has none.
    estimator_weights_ : ndarray of shape (T,)
        The steps a.
    log_costs_ : ndarray of shape (T,)
        Logarithm of the cost on the rows of the fit after each round.
    bounds_ : list of Bound
        For two classes, the cost bounds the mean of e^(−m), and so the share of training errors. There is
        none for more classes, or if rounds were left out.
    n_iter_, weighted_losses_, game_losses_, player_, units_
        As in `MixtureClassifier`.
    """

    # The formula of the bound, and the power of the cost in it.
    _cost_bound = "", 1.0

    def _set_rule(
        self,
        learn: Learner,
        rounds: Sequence[Hypothesis],
        state: Steps,
        weights: Sequence[float] | Floats,
    ) -> None:
        """Set the hypotheses with weights, or the best constant.

        ``state`` is the last one of the game, and ``weights`` are those of the first hypotheses.
        """
        self._set_game(learn, rounds)
        self.log_costs_ = np.array(state.log_costs)
        used = np.flatnonzero(weights)
        self.estimators_ = [rounds[t].model for t in used.tolist()]
        self.estimator_weights_ = np.array(weights)[used]
        if not len(used):
            warn_user("no hypothesis is better than the best constant, which answers instead")
            rows = learn.rows
            self.estimators_ = [DummyClassifier().fit(rows.X, rows.y, rows.weight)]
            self.estimator_weights_ = np.ones(1)
        formula, power = self._cost_bound
        self.bounds_ = []
        if formula and len(self.classes_) == 2 and len(weights) == len(rounds):
            last = self.log_costs_[-1] if len(self.log_costs_) else np.nan
            bound = float(np.exp(power * last))
            achieved = float(state.p @ (state.margins <= 0))
            self.bounds_.append(Bound("training error", formula, bound, achieved))

    def _staged_scores(self, X: Table) -> Iterator[Floats]:
        """Yield f after 1, 2, … hypotheses, shape (n, K)."""
        X = self._checked(X)
        f = np.zeros((X.shape[0], len(self.classes_)))
        answers = predict_models(self.estimators_, X)
        for a, h in zip(self.estimator_weights_, answers, strict=True):
            f = f + a * coded(h, len(self.classes_))
            yield f

    def _scores(self, X: Table) -> Floats:
        *_, f = self._staged_scores(X)
        return f

    def staged_decision_function(self, X: Table) -> Iterator[Floats]:
        """Yield `decision_function` after 1, 2, … hypotheses."""
        for f in self._staged_scores(X):
            yield f[:, 1] if f.shape[1] == 2 else f

    def decision_function(self, X: Table) -> Floats:
        """Return f, shape (n, K); for two classes that of ``classes_[1]``, shape (n,)."""
        *_, f = self.staged_decision_function(X)
        return f

    def margins(self, X: Table, y: Column) -> Floats:
        """Return the score of the true class of each row, shape (n,); positive is right for two classes."""
        scores = self._scores(X)
        check_length(y, "y", len(scores))
        return scores[np.arange(len(scores)), positions(y, self.classes_, "y")]

    def predict(self, X: Table) -> Array:
        """Return the label of the largest score, shape (n,)."""
        answers = self._scores(X).argmax(axis=1)
        return self.classes_[answers]

    def staged_predict(self, X: Table) -> Iterator[Array]:
        """Yield `predict` after 1, 2, … hypotheses."""
        for f in self._staged_scores(X):
            yield self.classes_[f.argmax(axis=1)]

    def predict_proba(self, X: Table) -> Floats:
        """Return the softmax of the scores, not calibrated, shape (n, K)."""
        return softmax(self._scores(X), axis=1)
