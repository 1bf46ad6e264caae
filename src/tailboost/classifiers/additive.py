"""Common base of the additive classifiers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import check_is_fitted

from tailboost.boosting.additive import (
    AdditivePool,
    AdditiveSelection,
    ErrorOfSteps,
    SoftMargin,
)
from tailboost.boosting.game import Game, RowStakes, Schedule, Units
from tailboost.boosting.learner import CrossFitLearner, Whole
from tailboost.boosting.players.additive_player import Additive
from tailboost.classifiers.base import BaseBoostClassifier, learner_of
from tailboost.classifiers.boosting_fit import BoostingFit, set_results
from tailboost.classifiers.input import CONSTRAINTS, NUMBERS_OF_FOLDS, labels_of
from tailboost.classifiers.judged import JudgedSteps, cached, rule_and_table
from tailboost.classifiers.reported import ReportedClassifier
from tailboost.core.array_types import Array, Column, Floats, Table
from tailboost.core.checks import positions
from tailboost.core.constraints import Constraints
from tailboost.guarantees.additive_summary import (
    AdditiveSummary,
    Cost,
    additive_summary,
)
from tailboost.learners import HistTreeClassifier
from tailboost.rates import error
from tailboost.rows.judged import answered, judged
from tailboost.rows.rows import HELD_OUT, TrainingSet
from tailboost.selection.rate_table import RateTable


class AdditiveClassifier(ReportedClassifier, BaseBoostClassifier):
    """``argmax_k f_k(x)`` with ``f_k = Σ_t a_t z_k(h_t(x))``: z_k = 1 if h predicts k, else −1/(K−1)."""

    _judged_by = JudgedSteps
    _parameter_constraints: ClassVar[Constraints] = {
        "cv": [option for option in CONSTRAINTS["cv"] if option is not NUMBERS_OF_FOLDS]
    }

    @abstractmethod
    def _cost(self) -> Cost:
        """Return the cost of the steps, and resulting bounds for the training errors."""

    def _learner(self) -> Any:
        return learner_of(self, HistTreeClassifier)

    @property
    def log_costs_(self) -> Floats:
        """Logarithm of the cost on the training rows after each round."""
        return np.array(self.selection_.log_costs)

    @property
    def summary_(self) -> AdditiveSummary:
        """Errors and their bounds; computed at the first access."""

        def summarised() -> AdditiveSummary:
            fitted = judged(self).fitted_on_selection
            summary = additive_summary(
                self.selection_, self._cost(), self.gap_, self.classes_.tolist(), fitted=fitted
            )
            return replace(summary, early_end=self.trace_.early_end)

        return cached(self, "summary", summarised)

    @property
    def rates_(self) -> RateTable:
        """Overall error and class errors of `predict` on the selection data."""
        return judged(self).measured(error(), error(by="class"))

    @property
    def objective_(self) -> str:
        """Cost, decreased by the steps."""
        check_is_fitted(self)
        return self._cost().name

    def decision_function(self, X: Table) -> Floats:
        """Return the scores ``f``.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`.

        Returns
        -------
        ndarray of shape (n,) or (n, K)
            One score per class; for two classes one score, positive for ``classes_[1]``.
        """
        ensemble, X = rule_and_table(self, X)
        return one_column(ensemble.scores(X))

    def margins(self, X: Table, y: Column) -> Floats:
        """Return the margins ``m_i = f_y(x_i)``: scores of the true class, where scores sum to 0.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`.
        y : array-like of shape (n,)
            Labels seen in fit.

        Returns
        -------
        ndarray of shape (n,)
            For two classes positive if `predict` is right, negative if wrong.
        """
        ensemble, X = rule_and_table(self, X)
        scores = ensemble.scores(X)
        k = positions(labels_of(y), self.classes_, "y")
        return scores[np.arange(len(scores)), k]

    def predict(self, X: Table) -> Array:
        """Return the label with the largest score.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`.

        Returns
        -------
        ndarray of shape (n,)
            Labels, as in `classes_`.
        """
        ensemble, X = rule_and_table(self, X)
        return self.classes_[ensemble.scores(X).argmax(axis=1)]

    def predict_proba(self, X: Table) -> Floats:
        """Return the softmax of the scores, which is **not** calibrated.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`.

        Returns
        -------
        ndarray of shape (n, K)
            Columns in the order of `classes_`; rows sum to 1.
        """
        ensemble, X = rule_and_table(self, X)
        return softmax(ensemble.scores(X), axis=1)

    def predict_distribution(self, X: Table) -> Floats:
        """Return 1 for the answered label and 0 for the others: nothing is drawn.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`.

        Returns
        -------
        ndarray of shape (n, K)
            Columns in the order of `classes_`; rows sum to 1.
        """
        return answered(self.predict(X), self.classes_)

    def predict_log_proba(self, X: Table) -> Floats:
        """Return the logarithm of ``predict_proba``, finite also where that is rounded to 0.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`.

        Returns
        -------
        ndarray of shape (n, K)
            Columns in the order of `classes_`; rows sum to 1.
        """
        ensemble, X = rule_and_table(self, X)
        return log_softmax(ensemble.scores(X), axis=1)

    def staged_decision_function(self, X: Table) -> Iterator[Floats]:
        """Yield `decision_function` after 1, 2, … kept hypotheses.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`.

        Yields
        ------
        ndarray of shape (n,) or (n, K)
            The last array uses all hypotheses.
        """
        ensemble, X = rule_and_table(self, X)
        yield from map(one_column, ensemble.staged_scores(X))

    def staged_predict(self, X: Table) -> Iterator[Array]:
        """Yield `predict` after 1, 2, … kept hypotheses.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`.

        Yields
        ------
        ndarray of shape (n,)
            The last array belongs to ``predict``.
        """
        ensemble, X = rule_and_table(self, X)
        for scores in ensemble.staged_scores(X):
            yield self.classes_[scores.argmax(axis=1)]

    def staged_predict_proba(self, X: Table) -> Iterator[Floats]:
        """Yield `predict_proba` after 1, 2, … kept hypotheses.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`.

        Yields
        ------
        ndarray of shape (n, K)
            The last array uses all hypotheses.
        """
        ensemble, X = rule_and_table(self, X)
        for scores in ensemble.staged_scores(X):
            yield softmax(scores, axis=1)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        learner = get_tags(self._learner()).classifier_tags
        if learner is not None:
            tags.classifier_tags.multi_class = learner.multi_class
        return tags


def open_steps(fit: BoostingFit, training: TrainingSet) -> Whole | CrossFitLearner:
    """Return the base learner of an additive classifier with the training rows.

    Rows are held out if the number of rounds is selected on them, so with ``n_iter_no_change``.
    """
    cv = fit.classifier.cv
    patience = fit.classifier.n_iter_no_change
    if cv == "train" and patience is not None:
        raise ValueError(
            f"n_iter_no_change={patience} needs held-out rows, and cv='train' has none; use "
            "cv='auto' or a fraction"
        )
    if cv == "auto":
        cv = "train"
        if patience is not None:
            cv = HELD_OUT
    return fit.open(training, cv, refit=False)  # a step is computed for its hypothesis


def play_steps(
    fit: BoostingFit,
    training: TrainingSet,
    learner: Whole | CrossFitLearner,
    player: Additive,
    refit: SoftMargin | None = None,
) -> None:
    """Play the game of a weight player over rows, and give the classifier the weighted hypotheses.

    Parameters
    ----------
    fit : BoostingFit
        The fit, with its classifier.
    training : TrainingSet
        The training rows.
    learner : Whole or CrossFitLearner
        The base learner with its rows.
    player : Additive
        The weight player; its steps are the weights of the hypotheses.
    refit : SoftMargin, optional
        A program that gives the weights instead.
    """
    clf = fit.classifier
    patience = clf.n_iter_no_change
    progress = ErrorOfSteps(learner.judged, player, best_prefix=patience is not None)
    heaviest = int(np.bincount(training.y, weights=training.weight).argmax())
    game = Game(
        RowStakes(Units.samples(training.weight, learner.player_rows)),
        player,
        learner,
        Schedule.falling(clf.n_estimators, patience, clf.tol, clf.max_time),
        progress,
    )
    pool = AdditivePool(training.n_classes, keeps=refit is not None)
    position = fit.play(game, pool, training)
    set_results(clf, position, AdditiveSelection.of(position, progress, heaviest, refit))


def one_column(scores: Floats) -> Floats:
    """Return scores of shape (n, K); for two classes those of the second."""
    if scores.shape[1] == 2:
        return scores[:, 1]
    return scores
