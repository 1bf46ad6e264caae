"""What a game leaves: a mixture of hypotheses, or an additive classifier."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, _safe_indexing, get_tags
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from tailboost.boosting.game import Bound, Player, Round
from tailboost.boosting.learning import Learner, checked, coded
from tailboost.boosting.players import Steps
from tailboost.core.array_types import Array, Column, Floats, Ints, Table
from tailboost.core.checks import unpack
from tailboost.learners import HistTreeClassifier
from tailboost.learners.foreign import model_probabilities, predict_models
from tailboost.learners.named import named_learner
from tailboost.solvers import mixture_path, worst_mean_curve

COUNT = Interval(Integral, 1, None, closed="left")
NON_NEGATIVE = Interval(Real, 0, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")
SHARE = Interval(Real, 0, 1, closed="neither")
TO_ONE = Interval(Real, 0, 1, closed="right")
BELOW_ONE = Interval(Real, 0, 1, closed="left")
AUTO = StrOptions({"auto"})
THEORY = StrOptions({"theory"})


class Boosting(ClassifierMixin, BaseEstimator):
    """Base of all classifiers here: allowed parameters, the learner, and the table of a prediction."""

    _takes_regressors = False
    _default_learner: Any = HistTreeClassifier()
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict"]), str, None],
        "alpha": [TO_ONE],
        "beta": [POSITIVE, THEORY, None],
        "C": [POSITIVE, None],
        "combine": [StrOptions({"average", "mixture"})],
        "confidence": [SHARE],
        "cv": ["cv_object", StrOptions({"train"})],
        "delta": [SHARE],
        "effective_dim": [COUNT, AUTO],
        "eta": [POSITIVE, THEORY],
        "gamma": [Interval(Real, 0, 0.5, closed="right"), AUTO],
        "rank_labels": ["boolean"],
        "loss": [StrOptions({"linear", "quadratic"})],
        "n_estimators": [COUNT],
        "n_iter_no_change": [COUNT, None],
        "p": [TO_ONE],
        "radius": [NON_NEGATIVE, AUTO],
        "random_state": ["random_state"],
        "theta": [BELOW_ONE],
        "variance_weight": [Interval(Real, 0, 1, closed="both")],
    }

    def _learner(self) -> Any:
        """Return the base learner: as given, of this name, or a binned tree."""
        if self.estimator is None:
            return self._default_learner
        if isinstance(self.estimator, str):
            return named_learner(self.estimator)
        return self.estimator

    def _table(self, X: Table) -> Any:
        """Return a checked table with the columns of the fit."""
        check_is_fitted(self)
        X, _ = unpack(X)
        return checked(self, X, reset=False)

    def _set_game(self, player: Player[Any], learn: Learner, rounds: Sequence[Round]) -> None:
        """Set what is known of the game."""
        self.player_: Any = player
        self.units_ = learn.units
        self.n_iter_ = len(rounds)
        self.game_losses_ = np.array([each.hypothesis.losses for each in rounds])
        self.weighted_losses_ = np.array([each.weighted_loss for each in rounds])

    def unit_weights(self, t: int) -> Floats:
        """Return the player's weights w of round t, from 1, shape (m,)."""
        check_is_fitted(self)
        state = self.player_.start(self.units_.p)
        for losses in self.game_losses_[: t - 1]:
            state = self.player_.update(state, losses)
        return self.player_.weights(state)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        learner = self._learner()
        of_learner = get_tags(learner)
        reader = learner
        if isinstance(learner, Pipeline):
            reader = learner[0]
        tags.input_tags = get_tags(reader).input_tags
        if of_learner.classifier_tags:
            tags.classifier_tags.multi_class = of_learner.classifier_tags.multi_class
        return tags


# For classifiers whose theorem states the number of rounds.
ROUNDS_OR_AUTO = {**Boosting._parameter_constraints, "n_estimators": [COUNT, AUTO]}


# -- mixtures --------------------------------------------------------------------------------------------


def mean_probabilities(models: Sequence[Any], weights: Floats, X: Any, K: int) -> Floats:
    """Return the mean of the class probabilities of models with these weights, shape (n, K)."""
    used = np.flatnonzero(weights)
    P = np.zeros((X.shape[0], K))
    probabilities = model_probabilities([models[t] for t in used.tolist()], X, K)
    for weight, each in zip(weights[used], probabilities, strict=True):
        P += weight * each
    return P / P.sum(axis=1, keepdims=True)


def ranked_labels(models: Sequence[Any], X: Any, K: int) -> Ints:
    """Return the class numbers by their mean probability under all models, largest first, shape (n, K)."""
    P = mean_probabilities(models, np.ones(len(models)), X, K)
    return np.argsort(-P.round(9), axis=1, kind="stable")  # sums may differ in the last digits


class MixtureClassifier(Boosting):
    """Draws hypothesis t with probability λ_t and answers its label.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels.
    estimators_ : list
        The hypotheses of all rounds. They answer class numbers, as in scikit-learn's ensembles.
    estimator_weights_ : ndarray of shape (T,)
        λ, with sum 1, together with ``rank_weights_``.
    rank_weights_ : ndarray of shape (K,) or (0,)
        Weights of the labels by their mean probability under all rounds, if these are candidates.
    candidate_losses_ : ndarray of shape (T, n_judged) or (K + T, n_judged)
        Zero-one losses of all candidates on the rows that select λ, the ranked labels first.
    answers_ : ndarray of shape (T, n_judged)
        Class numbers that the hypotheses answer to the rows that select λ.
    judged_y_, base_ : ndarray of shape (n_judged,)
        Class numbers and normalised sample weights of these rows.
    n_iter_ : int
        Number of rounds.
    weighted_losses_ : ndarray of shape (T,)
        Weighted loss of each round.
    game_losses_ : ndarray of shape (T, m)
        Losses of the units in each round.
    player_, units_ : Player, Units
        The weight player, and what it weighed: `unit_weights` gives w of a round.
    """

    def _mix(self, losses: Array) -> Floats:
        """Return λ for losses of shape (t, n_judged): even."""
        return np.full(len(losses), 1 / len(losses))

    def _set_rule(
        self,
        player: Player[Any],
        learn: Learner,
        rounds: Sequence[Round],
        answers: Array,
        ranked: Array | None = None,
    ) -> None:
        """Set the attributes of a game.

        Parameters
        ----------
        player, learn, rounds
            The game.
        answers : ndarray of shape (T, n_judged)
            Class numbers that the hypotheses answer to the rows that select λ.
        ranked : ndarray of shape (n_judged, K), optional
            The `ranked_labels` of these rows.
        """
        self._set_game(player, learn, rounds)
        self.estimators_ = [each.hypothesis.model for each in rounds]
        self.answers_ = answers
        self.judged_y_ = learn.judged.y
        self.base_ = learn.judged.weight / learn.judged.weight.sum()
        self.candidate_losses_ = self.losses_
        if ranked is not None:
            ranks = self.judged_y_ != ranked.T
            self.candidate_losses_ = np.vstack([ranks, self.losses_])
        self._set_weights(self._mix(self.candidate_losses_))

    def _set_weights(self, weights: Floats) -> Self:
        """Set the weights of all candidates; return the classifier."""
        n_ranks = len(self.candidate_losses_) - self.n_iter_
        self.rank_weights_ = weights[:n_ranks]
        self.estimator_weights_ = weights[n_ranks:]
        return self

    @property
    def losses_(self) -> Array:
        """Zero-one losses of the hypotheses on the rows that select λ, shape (T, n_judged)."""
        return self.answers_ != self.judged_y_

    def predict_distribution(self, X: Table) -> Floats:
        """Return the probability with which the rule answers each label, shape (n, K); bounds are about it.

        Of labels with equal probability, that of the hypothesis with the least mean loss is raised by one
        unit in the last place: `predict` returns the largest.
        """
        return self._distribution(self._table(X), self.estimator_weights_, self.rank_weights_)

    def _distribution(self, X: Any, weights: Floats, ranks: Floats) -> Floats:
        """Return the distribution for weights of the first hypotheses, and of the ranked labels."""

        def answers(numbers: Ints, rows: Any) -> Iterator[Array]:
            return predict_models([self.estimators_[t] for t in numbers], rows)

        K = len(self.classes_)
        every = np.arange(X.shape[0])
        P = np.zeros((len(every), K))
        used = np.flatnonzero(weights)
        for t, labels in zip(used, answers(used, X), strict=True):
            P[every, labels] += weights[t]
        if ranks.any():
            P[every[:, None], ranked_labels(self.estimators_, X, K)] += ranks
        tied = P.max(axis=1, keepdims=True) - 1e-9 < P
        rows = np.flatnonzero(tied.sum(axis=1) > 1)
        if len(rows):
            mean_losses = self.losses_[: len(weights)] @ self.base_
            order = mean_losses.round(9).argsort(
                kind="stable"
            )  # sums may differ in the last digits
            ordered = np.array(list(answers(order, _safe_indexing(X, rows))))
            first = tied[rows, ordered].argmax(axis=0)  # with one of the tied labels
            top = np.nextafter(P[rows].max(axis=1), np.inf)
            P[rows, ordered[first, np.arange(len(rows))]] = top
        return P

    def predict(self, X: Table) -> Array:
        """Return the most probable label of `predict_distribution`, shape (n,)."""
        P = self.predict_distribution(X)
        return self.classes_[P.argmax(axis=1)]

    def predict_randomized(
        self, X: Table, ids: Column = None, *, random_state: int = 0
    ) -> Array:
        """Return labels drawn from `predict_distribution`, shape (n,).

        Parameters
        ----------
        X : table of shape (n, d)
            The rows.
        ids : array-like of shape (n,), optional
            An identifier of each row, from which its draw follows: the same row gets the same label again. By
            default the number of the row.
        random_state : int, default=0
            Another number gives other draws.
        """
        cumulative = self.predict_distribution(X).cumsum(axis=1)
        each = range(len(cumulative)) if ids is None else np.asarray(ids).tolist()
        texts = (f"{random_state}:{one}".encode() for one in each)
        digests = b"".join(blake2b(text, digest_size=8).digest() for text in texts)
        draws = np.frombuffer(digests, dtype="<u8") / 2.0**64
        passed = (draws[:, None] * cumulative[:, -1:] >= cumulative).sum(axis=1)
        return self.classes_[passed.clip(max=len(self.classes_) - 1)]

    def predict_proba(self, X: Table) -> Floats:
        """Return P(y | x), the λ-average of the hypotheses, shape (n, K).

        The ranked labels count as the even mixture.
        """
        X = self._table(X)
        weights = self.estimator_weights_ + self.rank_weights_.sum() / self.n_iter_
        return mean_probabilities(self.estimators_, weights, X, len(self.classes_))

    def staged_predict(self, X: Table) -> Iterator[Array]:
        """Yield the labels after 1, 2, … rounds, each with the λ of these rounds alone."""
        X = self._table(X)
        for t in range(1, self.n_iter_ + 1):
            P = self._distribution(X, self._mix(self.losses_[:t]), np.zeros(0))
            yield self.classes_[P.argmax(axis=1)]

    def _with(self, weights: Floats) -> Self:
        """Return a copy that mixes the candidates by other weights."""
        return copy.copy(self)._set_weights(weights)

    def reweight(self, alpha: float) -> Self:
        """Return a classifier with the λ of least CVaR at α; nothing is trained.

        Zhai et al. 2021, section 3.3.
        """
        (weights,) = self.alpha_path([alpha])
        other = self._with(weights)
        other.alpha = alpha
        return other

    def alpha_path(self, alphas: Sequence[float]) -> Floats:
        """Return the weights of all candidates for several α, shape (len(alphas), …)."""
        check_is_fitted(self)
        path = mixture_path(self.candidate_losses_, alphas, self.base_)
        return np.array([solution.mixture for solution in path])

    def tradeoff(self, alpha: float | None = None) -> list[tuple[float, float, Self]]:
        """Return classifiers from the least overall error to the least CVaR at α.

        Parameters
        ----------
        alpha : float in (0, 1], optional
            α; by default that of the classifier.

        Returns
        -------
        list of (float, float, classifier)
            Error and CVaR of `predict_distribution` on the rows that select λ, and its classifier.
        """
        check_is_fitted(self)
        losses = self.candidate_losses_
        mass = self.alpha if alpha is None else alpha
        curve = worst_mean_curve(
            losses, losses @ self.base_, mass, self.base_, tolerance=1e-5, max_points=200
        )
        points = zip(curve.mean.tolist(), curve.worst.tolist(), curve.mixture, strict=True)
        return [(error, tail, self._with(weights)) for error, tail, weights in points]


# -- additive classifiers --------------------------------------------------------------------------------


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
        The cost bounds the mean of e^(−m), and so the share of rows without a positive margin: for two
        classes, of training errors. It is about all rounds played.
    n_iter_, weighted_losses_, game_losses_, player_, units_
        As in `MixtureClassifier`.
    """

    # The formula of the bound, and the power of the cost in it.
    _cost_bound = "", 1.0

    def _set_rule(
        self,
        player: Player[Any],
        learn: Learner,
        rounds: Sequence[Round],
        state: Steps,
        weights: Sequence[float] | Floats,
    ) -> None:
        """Set the hypotheses with weights, or the best constant.

        ``state`` is the last one of the game, and ``weights`` are those of the first hypotheses.
        """
        self._set_game(player, learn, rounds)
        self.log_costs_ = np.array(state.log_costs)
        used = np.flatnonzero(weights)
        self.estimators_ = [rounds[t].hypothesis.model for t in used.tolist()]
        self.estimator_weights_ = np.array(weights)[used]
        if not len(used):
            rows = learn.rows
            self.estimators_ = [DummyClassifier().fit(rows.X, rows.y, rows.weight)]
            self.estimator_weights_ = np.ones(1)
        formula, power = self._cost_bound
        bound = np.nan
        if len(self.classes_) == 2 and len(self.log_costs_):
            bound = float(np.exp(power * self.log_costs_[-1]))
        self.bounds_ = []
        if formula:
            achieved = float(state.p @ (state.margins <= 0))
            self.bounds_.append(Bound("training error", formula, bound, achieved))

    def _staged_scores(self, X: Table) -> Iterator[Floats]:
        """Yield f after 1, 2, … hypotheses, shape (n, K)."""
        X = self._table(X)
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
        rows = np.arange(len(y))
        return self._scores(X)[rows, np.searchsorted(self.classes_, y)]

    def predict(self, X: Table) -> Array:
        """Return the label of the largest score, shape (n,)."""
        f = self._scores(X)
        return self.classes_[f.argmax(axis=1)]

    def staged_predict(self, X: Table) -> Iterator[Array]:
        """Yield `predict` after 1, 2, … hypotheses."""
        for f in self._staged_scores(X):
            yield self.classes_[f.argmax(axis=1)]

    def predict_proba(self, X: Table) -> Floats:
        """Return the softmax of the scores, not calibrated, shape (n, K)."""
        return softmax(self._scores(X), axis=1)
