"""Additive classifiers f = Σ a_t h_t: the player that takes the steps, and the game of any such player."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import KW_ONLY, replace
from itertools import accumulate
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import softmax
from sklearn.dummy import DummyClassifier

from tailboost.boosting.game import Bound, Hypothesis, Player, play
from tailboost.boosting.learning import RoundLearner, RowBoosting
from tailboost.core import (
    Array,
    Column,
    Floats,
    Model,
    Seed,
    Table,
    check_indexes,
    check_length,
    frozen_value,
    label_column,
    parameters,
    positions,
    warn_user,
)
from tailboost.learners.foreign import class_scores, predict_models

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


@frozen_value
class Additive(Player):
    """f ← f + a h, where z = 1 on rows on which h is right and −1/(K−1) on others, or z = h_y for real h.

    An algorithm is a cost of the margins: its weights for the learner, and its best step along a hypothesis.
    `AdditiveClassifier` plays it, also if it is a class of your own. Without errors the cost falls with the
    length of the step, so no step is best: such a hypothesis gets the longest step so far, and labels that
    are all right end the game.

    ``theorem`` is the formula of a cost of which the given power bounds the mean of e^(−m); by default there
    is none. For two classes that mean bounds the share of training errors.
    """

    _: KW_ONLY
    n_classes: int = 2  # the classifier sets it

    theorem: ClassVar[tuple[str, float]] = "", 1.0

    @abstractmethod
    def weigh(self, margins: Floats, p: Floats) -> tuple[Floats, float]:
        """Return u, shape (n,), and the logarithm of the cost."""

    @abstractmethod
    def step(self, z: Floats, state: Steps) -> float:
        """Return the best step along a hypothesis that errs; at most 0 if none lowers the cost."""

    def start(self, p: Floats) -> Steps:
        """Return the state with margins of 0."""
        zero = np.zeros(len(p))
        return Steps(p, zero, self.weigh(zero, p)[0])

    def weights(self, state: Steps) -> Floats:
        """Return u, normalised."""
        return state.u / state.u.sum()

    def update(self, state: Steps, losses: Array) -> Steps:
        """Return the state after the best step; step 0 leaves the margins."""
        has_labels = losses.dtype == bool
        z = np.where(losses, -1 / (self.n_classes - 1), 1.0) if has_labels else 1 - 2.0 * losses
        flawless = bool((z >= 0).all() and z.any())
        a = max(state.steps, default=1.0) if flawless else self.step(z, state)
        if not LEAST_STEP < a < np.inf:
            return state._replace(steps=(*state.steps, 0.0))
        margins = state.margins + a * z
        u, log_cost = self.weigh(margins, state.p)
        return Steps(
            state.p,
            margins,
            u,
            (*state.steps, a),
            (*state.log_costs, log_cost),
            flawless and has_labels,
        )


@parameters
class AdditiveClassifier(RowBoosting):
    """The steps of a player along the answers of a learner: argmax_k f_k(x) with f = Σ_t a_t h_t.

    The scores of a hypothesis are 1 for its label, else −1/(K−1). `AdaBoostClassifier` and all other
    classifiers with ``decision_function`` are such games of a paper's player.

    Parameters
    ----------
    player : Additive
        The cost that the steps lower. It may be a class of your own.
    estimator : classifier or str, optional
        The learner. None is `tailboost.learners.HistTreeClassifier`.
    n_estimators : int, default=50
        Largest number of rounds. The fit ends earlier at a step a ≤ 0, or at a hypothesis without errors.
    n_iter_no_change : int, optional
        The fit ends after so many rounds without a drop of the error on validation rows, without them on the
        rows of the fit, and keeps the rounds up to the least error.
    random_state : int, RandomState or None
        Seed of the learners.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    estimators_ : list
        The hypotheses with a step; the best constant if the first has none.
    estimator_weights_ : ndarray of shape (T,)
        The steps a.
    errors_ : list of float
        Error after each round: on the validation rows, or without them on those of the fit.
    log_costs_ : ndarray of shape (T,)
        Logarithm of the cost on the rows of the fit after each round.
    bounds_ : list of Bound
        For two classes, a cost that bounds the mean of e^(−m), and so the share of training errors. There is
        none for more classes, or if rounds were left out.
    n_iter_, weighted_losses_, game_losses_, player_, units_
        As in `GameClassifier`.
    """

    player: Any
    estimator: Model = None
    _: KW_ONLY
    n_estimators: int = 50
    n_iter_no_change: int | None = None
    random_state: Seed = None

    def _run(self, learn: RoundLearner) -> None:
        """Play the game, and set the hypotheses with weights, or the best constant."""
        K = len(self.classes_)
        self.player_ = replace(self._start(learn), n_classes=K)
        self.errors_ = []
        rounds = []
        f: Any = 0.0
        n_best = 0
        for h, state in play(self.player_, learn, learn.units.p, self.n_estimators):
            a = state.steps[-1]  # f ← f + a h, if a step lowers the cost
            if a == 0:
                break
            rounds.append(h)
            f += a * class_scores(h.answers, K)
            self.errors_.append(
                float(
                    np.average(f.argmax(axis=1) != learn.judged.y, weights=learn.judged.weight)
                )
            )
            n_best = int(np.argmin(self.errors_)) + 1
            if state.over or len(rounds) - n_best >= (self.n_iter_no_change or np.inf):
                break
        kept = rounds[:n_best] if self.n_iter_no_change else rounds
        weights = self._weights(kept, state, learn)
        self._set_game(learn, rounds)
        self.log_costs_ = np.array(state.log_costs)
        used = np.flatnonzero(weights)
        self.estimators_ = [rounds[t].model for t in used]
        self.estimator_weights_ = weights[used]
        if not len(used):
            warn_user("no hypothesis is better than the best constant, which answers instead")
            rows = learn.rows
            self.estimators_ = [DummyClassifier().fit(rows.X, rows.y, rows.weight)]
            self.estimator_weights_ = np.ones(1)
        formula, power = self.player_.theorem
        self.bounds_ = []
        of_all_rounds = np.array_equal(weights, state.steps[: len(rounds)])
        if formula and K == 2 and rounds and of_all_rounds:
            bound = float(np.exp(power * state.log_costs[-1]))
            self.bounds_.append(
                Bound("training error", formula, bound, float(state.p @ (state.margins <= 0)))
            )

    def _start(self, learn: RoundLearner) -> Additive:
        """Return the player, for any number of classes."""
        return self.player

    def _weights(self, rounds: list[Hypothesis], state: Steps, learn: RoundLearner) -> Floats:
        """Return the weights of the kept rounds: their steps."""
        return np.array(state.steps[: len(rounds)])

    def _staged_scores(self, X: Table) -> Iterator[Floats]:
        """Yield f after 1, 2, … hypotheses, shape (n, K)."""
        X = self._checked(X)
        answers = predict_models(self.estimators_, X)
        yield from accumulate(
            a * class_scores(h, len(self.classes_))
            for a, h in zip(self.estimator_weights_, answers, strict=True)
        )

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
        check_indexes(X=X, y=y)
        scores = self._scores(X)
        check_length(y, "y", len(scores))
        numbers = positions(label_column(y, "y", target=True), self.classes_, "y")
        return scores[np.arange(len(scores)), numbers]

    def predict(self, X: Table) -> Array:
        """Return the label of the largest score, shape (n,)."""
        largest = self._scores(X).argmax(axis=1)  # which refuses an unfitted model
        return self.classes_[largest]

    def staged_predict(self, X: Table) -> Iterator[Array]:
        """Yield `predict` after 1, 2, … hypotheses."""
        for f in self._staged_scores(X):
            yield self.classes_[f.argmax(axis=1)]

    def predict_proba(self, X: Table) -> Floats:
        """Return the softmax of the scores, not calibrated, shape (n, K)."""
        return softmax(self._scores(X), axis=1)
