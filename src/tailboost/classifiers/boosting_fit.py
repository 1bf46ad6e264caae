"""A fit of a boosting classifier: rows, metadata, Ctrl-C and progress around its game."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, TypeVar

from sklearn.utils import check_random_state
from sklearn.utils.metadata_routing import _raise_for_params, process_routing
from sklearn.utils.validation import _check_method_params

from tailboost.boosting.game import Game, Position
from tailboost.boosting.learner import CrossFitLearner, Whole, open_learner
from tailboost.classifiers.input import (
    checked_table,
    marked_if_seen,
    read_training_set,
    refuse_learner,
    refuse_validation,
    selection_data,
)
from tailboost.core.array_types import Model
from tailboost.core.exceptions import FitInterruptedWarning, warn_user
from tailboost.core.long_work import fitting_apart, noticing_interrupts, steps, telling
from tailboost.learners.foreign import open_session
from tailboost.rows.fingerprints import hash_rounded_rows
from tailboost.rows.given import Given
from tailboost.rows.probes import probe_rows
from tailboost.rows.readers import records_of_fit
from tailboost.rows.rows import Split, TrainingSet
from tailboost.rows.seen import SELECTED_ON, Seen

C = TypeVar("C")

#: Warnings after a fit: text and category of each.
Cautions = list[tuple[str, type[Warning]]]


def routed_params(classifier: Model, fit_params: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of `fit` for the learner, by scikit-learn's routing.

    Parameters
    ----------
    classifier : classifier
        The classifier that is fitted.
    fit_params : dict
        Further arguments of its ``fit``.

    Raises
    ------
    TypeError
        If the learner takes no metadata, or not these names.
    """
    if "sensitive_features" in fit_params:
        raise TypeError(
            f"{type(classifier).__name__}.fit() takes no sensitive_features: use groups=, in a "
            "classifier that trains on groups (WorstClassBoostClassifier, "
            "GroupDROBoostClassifier)"
        )
    _raise_for_params(fit_params, classifier, "fit")
    if not fit_params:
        return {}
    return process_routing(classifier, "fit", **fit_params).estimator.fit


def fit_classifier(
    classifier: C, arguments: Given, validation: Given, fit_params: dict[str, Any]
) -> C:
    """Fit a classifier. An error of the fit leaves the classifier unchanged.

    Parameters
    ----------
    classifier : BaseBoostClassifier
        The classifier to be fitted.
    arguments, validation : Given
        Training rows, and further rows as selection data.
    fit_params : dict
        Metadata for the learner.

    Returns
    -------
    classifier
        The same classifier.
    """
    clf: Any = classifier
    learner_params = routed_params(clf, fit_params)
    arguments.check_indexes()
    validation.check_indexes("_val")
    with fitting_apart(clf) as copied, noticing_interrupts() as interrupted:
        entropy = int(check_random_state(clf.random_state).randint(2**31 - 1))
        fit = BoostingFit(
            copied,
            arguments,
            validation,
            routed=learner_params,
            interrupted=interrupted,
            entropy=entropy,
        )
        cautions = copied._play(fit)
    # After the assignment: a filter may make a warning an error.
    if clf.trace_.stop.early:
        words = f"fit {clf.trace_.stop.text}; the rounds so far are kept"
        warn_user(words, FitInterruptedWarning)
    for message, category in cautions:
        warn_user(message, category)
    return classifier


@dataclass(frozen=True, eq=False)
class BoostingFit:
    """A fit of a boosting classifier.

    Attributes
    ----------
    classifier : BaseBoostClassifier
        A copy without results, which gets the attributes of the fit.
    arguments, validation : Given
        Training rows, and further rows as selection data.
    routed : dict
        Metadata for the learner.
    interrupted : callable
        Returns whether Ctrl-C was pressed.
    entropy : int
        Root of all seeds.
    """

    classifier: Any
    arguments: Given
    validation: Given
    routed: dict[str, Any]
    interrupted: Callable[[], bool]
    entropy: int

    def read(self, *, regressors_allowed: bool = False) -> TrainingSet:
        """Return the checked training rows, with the validation set if one is given.

        The classifier gets its classes, groups and records: by their fingerprints `certify` recognises rows
        of the fit.
        """
        clf = self.classifier
        learner = clf._learner()
        cv = clf.get_params(deep=False).get("cv", "auto")
        refuse_validation(self.arguments, self.validation, cv)
        refuse_learner(clf.estimator, learner, regressors_allowed=regressors_allowed)
        training = read_training_set(clf, learner, self.arguments, clf.class_weight)
        trained = training.seen
        records = records_of_fit(learner, trained)
        clf.records_ = records
        if not self.validation.any_given:
            return training
        X_val = checked_table(clf, learner, self.validation.X)
        words = "the {:,} rows of X_val"
        X_val, held_out = selection_data(clf, X_val, self.validation, "_val", words)
        training.validation = X_val, marked_if_seen(trained, X_val, held_out)
        clf.records_ = records.using(Seen.of(hash_rounded_rows(X_val), SELECTED_ON))
        return training

    def open(
        self,
        training: TrainingSet,
        cv: Any,
        *,
        refit: bool = True,
        **options: Any,
    ) -> Whole | CrossFitLearner:
        """Return the base learner with its rows, see `open_learner`.

        Parameters
        ----------
        training : TrainingSet
            The training rows.
        cv : "auto", "train", int, float, splitter or iterable of splits
            Which rows select, as in the classifiers.
        refit : bool, default=True
            Whether models are fitted again on all rows if a fraction is held out.
        five_up_to : float, default=inf
            The most distinct rows for which "auto" makes five folds.
        together : bool, default=False
            Whether the models of several rounds may answer together.
        known_classes : bool, default=False
            Whether a row counts only if a model evaluated on it knows its class.
        """
        clf = self.classifier
        session = open_session(
            clf._learner(),
            training.X,
            training.y,
            training.n_classes,
            training.weight,
            _check_method_params(self.arguments.X, self.routed, indices=training.used),
            seed=self.entropy,
        )
        if not isinstance(cv, (str, Real)) and training.validation is None:
            cv = self._stated_split(training, cv, refit)
        return open_learner(
            session,
            training,
            cv,
            seed=self.entropy,
            refit=refit,
            n_jobs=clf.n_jobs,
            exact=clf.exact_weights,
            **options,
        )

    def _stated_split(self, training: TrainingSet, cv: Any, refit: bool) -> Split:
        """Return the fold of each row by the splits in ``cv``.

        Raises
        ------
        ValueError
            If a split does not fit all rows outside its held-out part, or several splits do not hold out
            each row once.
        """
        split = Split.from_splits(training, cv)
        if split.is_partition and refit:
            return replace(split, scheme="cv")
        if len(split.parts) == 1 and split.is_complementary:
            return replace(split, scheme="held out")
        allowed = "a single split"
        if refit:
            allowed += ", or several splits that hold out each row once"
        raise ValueError(
            f"cv: {type(self.classifier).__name__} takes {allowed}. A split must fit all rows "
            "that it does not hold out"
        )

    def play(self, game: Game, pool: Any, training: TrainingSet) -> Position:
        """Play a game from the candidates in ``pool``, and return its last position."""
        clf = self.classifier
        # A learner may catch Ctrl-C and return a half-trained model.
        if self.interrupted():
            raise KeyboardInterrupt
        clf.probe_rows_ = probe_rows(training.X, self.entropy)  # verify a model file
        progress: Any = nullcontext()
        if clf.verbose:
            progress = telling(patience=0, pause=0)
        with progress, steps("rounds", game.schedule.rounds) as report_round:

            def observe(position: Position) -> None:
                report_round(1, str(position.trace.rounds[-1]))

            return game.play(pool, self.entropy, observe=observe, interrupted=self.interrupted)


def set_results(classifier: Any, position: Position, selection: Any) -> None:
    """Set the game so far, and answer by a selection from its candidates."""
    classifier.game_ = position.played
    classifier.trace_ = position.trace
    classifier.n_iter_ = position.n_rounds
    set_rule(classifier, selection, selection.rule())


def set_rule(classifier: Any, selection: Any, ensemble: Any) -> None:
    """Set the fitted attributes of a classifier to a selection and its rule, an ensemble.

    Results and certificate of an earlier rule are dropped: they do not hold for the new rule.
    """
    classifier.selection_ = selection
    classifier.ensemble_ = ensemble
    classifier.estimators_ = ensemble.base_models
    classifier.estimator_weights_ = ensemble.weights
    classifier.gap_ = max(0.0, *classifier.trace_.gap.tolist(), ensemble.gap)
    classifier._results = {}
    vars(classifier).pop("certificate_", None)
