"""Mixtures of hypotheses: Hedge, which weighs the units of their games, its theorems, and the classifier."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from tailboost.boosting.game import Bound, Player, Round, Units, tilted
from tailboost.boosting.learning import Boosting, Learner
from tailboost.core.array_types import Array, Column, Floats, Ints, Table, UnitLosses
from tailboost.learners.foreign import model_probabilities, predict_models
from tailboost.solvers import mixture_path, worst_mean_curve


class Cumulated(NamedTuple):
    """The base measure, and the sum of the losses of all rounds, shape (m,)."""

    p: Floats
    total: Floats


@dataclass(frozen=True)
class Hedge(Player[Cumulated]):
    """w_i ∝ p_i exp(η Σ_s ℓ_i^s): Zhai et al. 2021, Algorithm 2; Saito et al. 2024, (9)."""

    eta: float

    def start(self, p: Floats) -> Cumulated:
        """Return the state without losses."""
        return Cumulated(p, np.zeros(len(p)))

    def weights(self, state: Cumulated) -> Floats:
        """Return w."""
        w, _ = tilted(state.p, self.eta * state.total)
        return w

    def update(self, state: Cumulated, losses: UnitLosses) -> Cumulated:
        """Return the state with the newest losses."""
        return Cumulated(state.p, state.total + losses)


def step_size(eta: float | str, units: Units, T: int) -> float:
    """Return η; "theory" is √(8 log n / T), that of Theorem 5 of Zhai et al. 2021."""
    if eta == "theory":
        return math.sqrt(8 * math.log(units.count) / T)
    return float(eta)


def regret_bound(clf: Any, mass: float) -> float:
    """Return V + log(1/mass)/(ηT) + η/8 of a game played by Hedge, for the mean weighted loss V.

    It bounds the mean loss of the even mixture under each v ≤ p/mass: the regret is at most KL(v ‖ p)/η +
    ηT/8.
    """
    regret = clf.eta_ / 8
    if mass < 1:  # η of "theory" is 0 for one unit
        regret -= math.log(mass) / (clf.eta_ * clf.n_iter_)
    return float(clf.weighted_losses_.mean() + regret)


def hedge_bounds(clf: Any, quantity: str, gamma: float | None = None) -> list[Bound]:
    """Return the bounds on the largest mean loss of a unit under the even mixture of a game of Hedge.

    From the losses of all rounds; and for η of "theory", if all planned rounds were played, Theorem 5 of Zhai
    et al. 2021 and, with an edge γ in each round, Theorem 1 of Saito et al. 2024 without its last step to the
    vote.
    """
    T = clf.n_iter_
    n = clf.units_.count
    largest = float(clf.game_losses_.mean(axis=0).max())
    bounds = [Bound(quantity, "V + log(1/min p)/(ηT) + η/8", regret_bound(clf, 1 / n), largest)]
    if clf.eta == "theory":
        g = float(clf.weighted_losses_.max())
        regret = math.sqrt(math.log(n) / (2 * T)) if T == clf.T_ else math.nan
        bounds.append(Bound(quantity, "g + √(log(1/min p)/(2T))", g + regret, largest))
        if gamma is not None:
            bound = 0.5 - gamma + regret if g <= 0.5 - gamma + 1e-9 else math.nan
            bounds.append(Bound(quantity, "½ − γ + √(log(1/min p)/(2T))", bound, largest))
    return bounds


# -- the classifier


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
    losses_ : ndarray of bool, shape (T, n_judged)
        Zero-one losses of the hypotheses on these rows.
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
        self, learn: Learner, rounds: Sequence[Round], ranked: Array | None = None
    ) -> None:
        """Set the attributes of a game.

        ``ranked`` are the `ranked_labels` of the rows that select λ, shape (n_judged, K), or None.
        """
        self._set_game(learn, rounds)
        self.estimators_ = [each.hypothesis.model for each in rounds]
        self.answers_ = np.array([each.hypothesis.answers for each in rounds])
        self.judged_y_ = learn.judged.y
        self.losses_ = self.answers_ != self.judged_y_
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

    def predict_distribution(self, X: Table) -> Floats:
        """Return the probability with which the rule answers each label, shape (n, K); bounds are about it.

        Of labels with equal probability, that of the hypothesis with the least mean loss, or the first of the
        ranked labels if these have weight, is raised by one unit in the last place: `predict` returns the
        largest.
        """
        X = self._checked(X)
        every = np.arange(X.shape[0])
        K = len(self.classes_)
        P = np.zeros((len(every), K))
        used = np.flatnonzero(self.estimator_weights_)
        models = [self.estimators_[t] for t in used]
        for t, labels in zip(used, predict_models(models, X), strict=True):
            P[every, labels] += self.estimator_weights_[t]
        ranked = None
        if self.rank_weights_.any():
            ranked = ranked_labels(self.estimators_, X, K)
            P[every[:, None], ranked] += self.rank_weights_
        tied = P.max(axis=1, keepdims=True) - 1e-9 < P
        rows = np.flatnonzero(tied.sum(axis=1) > 1)
        if len(rows):
            if ranked is None:
                # Sums may differ in the last digits.
                order = (self.losses_ @ self.base_).round(9).argsort(kind="stable")
                models = [self.estimators_[t] for t in order]
                ordered = np.array(list(predict_models(models, _safe_indexing(X, rows))))
            else:
                ordered = ranked[rows].T
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
        X = self._checked(X)
        weights = self.estimator_weights_ + self.rank_weights_.sum() / self.n_iter_
        return mean_probabilities(self.estimators_, weights, X, len(self.classes_))

    def staged_predict(self, X: Table) -> Iterator[Array]:
        """Yield the labels after 1, 2, … rounds, each with the λ of these rounds alone.

        Ranked labels are no candidates here: with ``rank_labels`` the last stage may differ from `predict`.
        """
        check_is_fitted(self)
        first = copy.copy(self)
        first.rank_weights_ = np.zeros(0)
        for t in range(1, self.n_iter_ + 1):
            first.losses_ = self.losses_[:t]
            first.estimators_ = self.estimators_[:t]
            first.estimator_weights_ = self._mix(first.losses_)
            yield first.predict(X)

    def _with(self, weights: Floats, alpha: float | None) -> Self:
        """Return a copy with the weights of another α, which is a parameter of some mixtures only."""
        other = copy.copy(self)._set_weights(weights)
        if hasattr(self, "alpha"):
            other.alpha = alpha
        return other

    def reweight(self, alpha: float) -> Self:
        """Return a classifier with the λ of least CVaR at α; nothing is trained.

        Zhai et al. 2021, section 3.3.
        """
        (weights,) = self.alpha_path([alpha])
        return self._with(weights, alpha)

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
            α; by default that of the classifier. Without any, the largest loss of a row is the CVaR.

        Returns
        -------
        list of (float, float, classifier)
            Error and CVaR of `predict_distribution` on the rows that select λ, and its classifier.
        """
        check_is_fitted(self)
        losses = self.candidate_losses_
        mass = getattr(self, "alpha", None) if alpha is None else alpha
        curve = worst_mean_curve(
            losses, losses @ self.base_, mass, self.base_, tolerance=1e-5, max_points=200
        )
        points = zip(curve.mean.tolist(), curve.worst.tolist(), curve.mixture, strict=True)
        return [(error, tail, self._with(weights, mass)) for error, tail, weights in points]
