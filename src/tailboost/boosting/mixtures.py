"""A game of any player, and the mixture of its hypotheses: what it answers, and other λ for the same ones."""

import copy
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY
from functools import cache
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.model_selection import StratifiedKFold, check_cv
from sklearn.utils import murmurhash3_32
from sklearn.utils.validation import check_is_fitted

from tailboost.boosting.game import Bound, Game, Hypothesis, Player, Units, play
from tailboost.boosting.learning import Boosting, RoundLearner, RowBoosting
from tailboost.core import (
    Array,
    BoundNotMetWarning,
    Column,
    Floats,
    Ints,
    Mask,
    Model,
    Partitions,
    Seed,
    Table,
    check_length,
    n_rows_of,
    parameters,
    text,
    warn_user,
)
from tailboost.core.ranges import TO_ONE
from tailboost.learners.foreign import predict_models
from tailboost.solvers import mixture_path, worst_mean_curve

# By so much is the label of `predict` more probable than others: float32 still tells it from a tie.
FIRST = 1e-6


def mean_probabilities(models: Sequence[Any], weights: Floats, X: Table, K: int) -> Floats:
    """Return the mean of the class probabilities of base models with these weights, shape (n, K).

    Without `predict_proba` the predicted class has probability 1.
    """
    if isinstance(X, Partitions):
        return np.concatenate([mean_probabilities(models, weights, part, K) for part in X])
    prepared = cache(lambda reader: reader.transform(X))
    mean = np.zeros((n_rows_of(X), K))
    for t in np.flatnonzero(weights).tolist():
        model = models[t]
        classes: Any = slice(None)
        if hasattr(model, "predict_proba_table"):
            P = model.predict_proba_table(prepared(model.table_))
        elif hasattr(model, "predict_proba"):
            P = np.asarray(model.predict_proba(X), np.float64)
            # A classifier that some class had no row for lists those of its columns.
            classes = np.asarray(getattr(model, "classes_", np.arange(K)), np.intp)
        else:
            P = np.eye(K)[next(predict_models([model], X))]
        mean[:, classes] += weights[t] * P
    return mean / mean.sum(axis=1, keepdims=True)


def ranked_labels(models: Sequence[Any], X: Any, K: int) -> Ints:
    """Return the class numbers by their mean probability under all models, largest first, shape (K, n)."""
    P = mean_probabilities(models, np.ones(len(models)), X, K)
    return np.argsort(
        -P.round(9), axis=1, kind="stable"
    ).T  # sums may differ in the last digits


def label_shares(weights: Floats, answers: Array, K: int) -> Floats:
    """Return the weight of the answers of shape (…, n) that are each label, shape (K, n)."""
    return np.array([weights @ (answers == k) for k in range(K)])


def _counted(weights: Floats) -> Ints:
    """Return the numbers of the hypotheses with weight, and of the first, which decides ties."""
    return np.union1d(0, np.flatnonzero(weights))


def _most_probable(P: Floats, answers: Array) -> Ints:
    """Return the class number of the largest share in each column; of equal ones the first answered."""
    tied = P.max(axis=0) - 1e-9 < P
    rows = np.arange(P.shape[1])
    return answers[tied[answers, rows].argmax(axis=0), rows]


class MixtureClassifier(Boosting):
    """Draws hypothesis t of a game with probability λ_t and answers its label.

    `GameClassifier` describes the attributes.
    """

    # Parameters of some games, and their values in all others.
    alpha: Any = None
    gamma_: Any = None
    cv: object = "train"
    rank_labels = False
    whole = False

    def _run(self, learn: RoundLearner) -> None:
        """Play the game, and those without each fold, whose answers select λ; set the rule."""
        self.player_, self.T_ = self._start(learn.units)
        rounds = self._play(learn)
        self.n_played_ = len(rounds)
        # After an equal hypothesis all are equal: the last one has their votes.
        while self.whole and len(rounds) > 1 and rounds[-1] is rounds[-2]:
            rounds.pop()
        answers = self._answers(learn, rounds)
        judged = learn.judged
        if judged is learn.rows and self.cv != "train":
            for held, part in self._without_folds(learn):  # games without these rows
                answers[:, held] = self._answers(part, self._play(part))
        self._set_game(learn, rounds)
        self.estimators_ = [h.model for h in rounds]
        self.answers_ = answers[-self.n_iter_ :]
        self.judged_y_ = judged.y
        self.base_ = judged.weight / judged.weight.sum()
        self.candidate_losses_ = answers != self.judged_y_
        self.losses_ = self.candidate_losses_[-self.n_iter_ :]
        self._set_weights(self._mix(self.candidate_losses_))

    def _without_folds(self, learn: RoundLearner) -> Iterator[tuple[Mask, RoundLearner]]:
        """Yield the mask of each fold, and the learner on the other rows, which is judged on the fold.

        Splits are among the rows of positive weight.
        """
        rows = learn.rows
        numbers = np.arange(len(rows.y))
        cv = self.cv
        if isinstance(cv, Integral):
            cv = StratifiedKFold(cv, shuffle=True, random_state=learn.seed)
        folds = [np.isin(numbers, held) for _, held in check_cv(cv).split(numbers, rows.y)]
        if not (np.sum(folds, axis=0) == 1).all():
            raise ValueError(f"cv={cv!r} does not hold out each row once")
        for held in folds:
            yield held, self._learner_on(rows.part(~held), rows.part(held), learn.seed)

    @abstractmethod
    def _start(self, units: Units) -> tuple[Player, int]:
        """Return the player, and T."""

    def _play(self, learn: RoundLearner) -> list[Hypothesis]:
        """Return the hypotheses of the rounds.

        A hypothesis that misses the target of the learner ends the game, and belongs to it only if it is the
        first: a rule needs one.
        """
        rounds: list[Hypothesis] = []
        for h, _ in play(self.player_, learn, learn.units.p, self.T_):
            missed = h.weighted_loss > learn.target + 1e-9
            if not (missed and rounds):
                rounds.append(h)
            if missed:
                warn_user(
                    f"a weighted loss of {h.weighted_loss:.4g} is above ½ − γ, so "
                    f"{len(rounds)} of {self.T_} rounds vote, without the bound ½ − γ",
                    BoundNotMetWarning,
                )
                break
        return rounds

    def _mix(self, losses: Array) -> Floats:
        """Return λ for losses of shape (t, n_judged): of least CVaR, the program (6) of Zhai, or even."""
        if self.alpha is None:
            votes = self._votes()[: len(losses)]
            return votes / votes.sum()
        (solution,) = mixture_path(losses, [self.alpha], self.base_)  # as in `alpha_path`
        return solution.mixture

    def _answers(self, learn: RoundLearner, rounds: list[Hypothesis]) -> Array:
        """Return the answers of all candidates to the rows that select λ: ranked labels, then hypotheses."""
        answers = np.array([h.answers for h in rounds])
        if self.rank_labels:
            models = [h.model for h in rounds]
            ranked = ranked_labels(models, learn.judged.X, len(self.classes_))
            answers = np.vstack([ranked, answers])
        return answers

    def _votes(self) -> Ints:
        """Return the number of rounds that each hypothesis stands for, shape (T,)."""
        return np.append(np.ones(self.n_iter_ - 1, int), self.n_played_ - self.n_iter_ + 1)

    @property
    def bounds_(self) -> list[Bound]:
        """The theorems about the player."""
        votes = self._votes()
        losses = np.repeat(self.game_losses_, votes, axis=0)
        return self.player_.bounds(
            Game(self.units_, losses, np.repeat(self.weighted_losses_, votes), self.alpha)
        )

    def _set_weights(self, weights: Floats) -> Self:
        """Set the weights of all candidates; return the classifier."""
        n_ranks = len(self.candidate_losses_) - self.n_iter_
        self.rank_weights_ = weights[:n_ranks]
        self.estimator_weights_ = weights[n_ranks:]
        return self

    def _shares(self, X: Table) -> tuple[Floats, Array]:
        """Return the shares of the labels in checked rows, shape (K, n), and all answers, shape (…, n)."""
        K = len(self.classes_)
        used = _counted(self.estimator_weights_)
        weights = self.estimator_weights_[used]
        predicted = predict_models([self.estimators_[t] for t in used], X)
        answers = np.array([h.astype(np.min_scalar_type(K)) for h in predicted])
        if self.rank_weights_.any():
            weights = np.append(self.rank_weights_, weights)
            answers = np.vstack([ranked_labels(self.estimators_, X, K), answers])
        return label_shares(weights, answers, K).clip(max=1.0), answers  # rounded sums

    def predict_distribution(self, X: Table) -> Floats:
        """Return the probability of each label as the answer, shape (n, K); bounds are about it."""
        return self._shares(self._checked(X))[0].T

    def predict(self, X: Table) -> Array:
        """Return the most probable label of `predict_distribution`, shape (n,).

        Of labels with equal probability it is that of the first hypothesis which answers one of them, round 1
        or one with weight; with weights on the ranked labels, the most probable one under all rounds.
        """
        P, answers = self._shares(self._checked(X))
        return self.classes_[_most_probable(P, answers)]

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
        if ids is None:
            ids = np.arange(len(cumulative))
        check_length(ids, "ids", len(cumulative))
        hashes = [
            murmurhash3_32(text(each), random_state, True)
            for each in np.asarray(ids, object).tolist()
        ]
        draws = np.array(hashes) / 2.0**32
        passed = (draws[:, None] * cumulative[:, -1:] >= cumulative).sum(axis=1)
        return self.classes_[passed]

    def predict_proba(self, X: Table) -> Floats:
        """Return an estimate of P(y | x), of which `predict` is the most probable label, shape (n, K).

        It is the λ-average of the hypotheses' probabilities, in which the ranked labels count as the even
        mixture. Where a share of votes decides otherwise, the label of `predict` gets the least weight that
        makes it the first. `predict_distribution` has the shares themselves.
        """
        X = self._checked(X)
        weights = self.estimator_weights_ + self.rank_weights_.sum() / self.n_iter_
        P = mean_probabilities(self.estimators_, weights, X, len(self.classes_))
        first = _most_probable(*self._shares(X))
        P[np.arange(len(P)), first] = P.max(axis=1) + FIRST
        return P / P.sum(axis=1, keepdims=True)

    def staged_predict(self, X: Table) -> Iterator[Array]:
        """Yield the labels after 1, 2, … rounds, each with the λ of these rounds alone.

        The last stage may differ from `predict` with ``rank_labels``, which are no candidates here, and for a
        classifier of `tradeoff`, whose λ is another one.
        """
        X = self._checked(X)
        answers = np.array([*predict_models(self.estimators_, X)])
        for t in range(1, self.n_iter_ + 1):
            weights = self._mix(self.losses_[:t])
            used = _counted(weights)
            P = label_shares(weights[used], answers[used], len(self.classes_))
            yield self.classes_[_most_probable(P, answers[used])]

    def _with(self, weights: Floats, alpha: float | None) -> Self:
        """Return a copy with the weights of another α; an even mixture by its parameters has none."""
        other = copy.copy(self)._set_weights(weights)
        if self.alpha is not None:
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
        return np.array(
            [each.mixture for each in mixture_path(self.candidate_losses_, alphas, self.base_)]
        )

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
        if alpha is None:
            alpha = self.alpha
        curve = worst_mean_curve(
            losses, losses @ self.base_, alpha, self.base_, tolerance=1e-5, max_points=200
        )
        points = zip(curve.mean.tolist(), curve.worst.tolist(), curve.mixture, strict=True)
        return [(error, tail, self._with(weights, alpha)) for error, tail, weights in points]


@parameters
class GameClassifier(MixtureClassifier, RowBoosting):
    """A player against a learner, for any number of rounds, and a mixture of the hypotheses.

    `AdaLPBoostClassifier` and all other classifiers with ``predict_distribution`` are such games of a paper's
    player.

    Parameters
    ----------
    player : Player
        What weighs the rows in each round. It may be a class of your own.
    estimator : classifier or str, optional
        The learner. None is `tailboost.learners.HistTreeClassifier`.
    alpha : float in (0, 1], optional
        Tail mass α: λ has the least CVaR at α. None is the even mixture of all rounds.
    n_estimators : int, default=50
        T, the number of rounds.
    random_state : int, RandomState or None
        Seed of the learners.

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
    n_iter_, n_played_ : int
        Number of rounds; and with those that repeat the last one, which counts for them (``whole``).
    weighted_losses_ : ndarray of shape (T,)
        Weighted loss of each round.
    game_losses_ : ndarray of shape (T, m)
        Losses of the units in each round.
    player_, units_ : Player, Units
        The weight player, and what it weighed: `unit_weights` gives w of a round.
    T_ : int
        The planned number of rounds.
    bounds_ : list of Bound
        The theorems about the player, with their numbers and what was reached.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tailboost import GameClassifier
    >>> from tailboost.boosting import Hedge
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = GameClassifier(Hedge(eta=0.5), "tree", n_estimators=5, random_state=0).fit(X, y)
    >>> clf.n_iter_, clf.predict(X[:1])
    (5, array([0]))
    """

    player: Any
    estimator: Model = None
    _: KW_ONLY
    alpha: float | None = None
    n_estimators: int = 50
    random_state: Seed = None

    _parameter_constraints = {  # noqa: RUF012  (scikit-learn reads it)
        **Boosting._parameter_constraints,
        "alpha": [TO_ONE, None],
    }

    def _start(self, units: Units) -> tuple[Player, int]:
        return self.player, self.n_estimators
