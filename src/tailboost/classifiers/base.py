"""Common base of the boosting classifiers: parameters, fit, checkpoints, callbacks, metadata routing."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import field, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, _fit_context
from sklearn.utils import Tags, check_random_state
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _raise_for_params,
    process_routing,
)
from sklearn.utils.validation import _check_method_params, check_is_fitted

from tailboost.boosting.boosting import Boosting, Checkpoints, Schedule, identify
from tailboost.boosting.cross_fitting import Scheme, Split, choose_scheme
from tailboost.boosting.game import Game, Response, round_seed
from tailboost.boosting.training_set import TrainingSet
from tailboost.classifiers.fitting import Parts
from tailboost.classifiers.input import (
    CONSTRAINTS,
    LabelledRows,
    check_group_arguments,
    check_validation,
    checked_table,
    input_tags,
    noting_seen,
    read_training_set,
    refuse_learner,
    selection_data,
    with_parameters,
)
from tailboost.core.array_types import Column, Floats, Groups, Model, Seed, Table
from tailboost.core.exceptions import FitInterruptedWarning
from tailboost.core.fingerprints import Fingerprint, UsedRows
from tailboost.core.judged import holds_unknown, probe_rows
from tailboost.core.long_work import fitting_apart, noticing_interrupts, steps, telling
from tailboost.core.tables import unpack
from tailboost.core.warn import warn_user
from tailboost.guarantees.ledger import Ledger
from tailboost.learners import HistBoostClassifier
from tailboost.learners.foreign import is_constant, open_session
from tailboost.learners.named import named_learner

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as with_callbacks
except ImportError:  # scikit-learn < 1.9 has no callbacks

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Empty base class for versions of scikit-learn without callbacks."""

    def with_callbacks(method: Any) -> Any:
        """Return the method unchanged."""
        return method


def routed_params(classifier: Model, fit_params: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of `fit` for the learner; raise an error if the learner takes none."""
    if "sensitive_features" in fit_params:
        raise TypeError(
            f"{type(classifier).__name__}.fit() takes no sensitive_features: use groups=, in a classifier "
            "that trains on groups (WorstClassBoostClassifier, GroupDROBoostClassifier)"
        )
    _raise_for_params(fit_params, classifier, "fit")
    if not fit_params:
        return {}
    routed: dict[str, Any] = process_routing(classifier, "fit", **fit_params).estimator.fit
    return routed


# Parameters that may differ between a killed fit and the call that continues the fit.
FREE = frozenset({"n_jobs", "verbose", "checkpoint_dir", "max_time", "until_met", "tol", "n_iter_no_change"})


@with_parameters
class BaseBoostClassifier(CallbackSupportMixin, MetaEstimatorMixin, BaseEstimator):
    """The fit of every boosting classifier, and its common parameters.

    A subclass defines its game in `_boosting`, and prediction from the ensemble. This class reads the data,
    and handles checkpoints, interrupts and callbacks. `Boosting` plays the game.

    Attributes
    ----------
    game_ : Game
        The finished game: weight player, its state and the trace.
    combiner_ : Combiner
        The hypotheses with their losses on the selection data, and how they were combined.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = CONSTRAINTS

    estimator: Model = field(default=None, kw_only=False)
    class_weight: object = None
    exact_weights: bool = False
    max_time: float | None = None
    checkpoint_dir: object = None
    n_jobs: int | None = None
    random_state: Seed = None
    verbose: int = 0

    # Whether hypotheses are fitted again on all rows if a fraction is held out.
    _refits: ClassVar[bool] = True
    # Whether rows are left out of all subgroups if none of the models evaluated on them knows their class.
    _known_classes: ClassVar[bool] = False
    # Whether the learner may be a regressor, for real-valued hypotheses.
    _takes_regressors: ClassVar[bool] = False

    # -- defined by a subclass -----------------------------------------------------------------------

    @abstractmethod
    def _boosting(self, training: TrainingSet, scheme: Scheme, seed: int) -> Boosting:
        """Return the game on a checked training.

        If the game needs a fitted model first, the scheme fits it with the seed of round 1.
        """

    def _param(self, name: str) -> Any:
        """Return a parameter that every boosting classifier has, with a default of its own."""
        return self.get_params(deep=False)[name]

    def _cv(self) -> Any:
        """Return the parameter ``cv``, for `choose_scheme`."""
        return self._param("cv")

    def _most_rounds(self) -> int:
        """Return the largest number of rounds."""
        return int(self._param("n_estimators"))

    def _default_learner(self) -> Any:
        """Return the learner for ``estimator=None``."""
        return HistBoostClassifier(n_jobs=self.n_jobs)

    def _learner(self, training: TrainingSet | None = None) -> Any:
        """Return the base learner; without a training set, a learner of the same input."""
        if self.estimator is None:
            return self._default_learner()
        if isinstance(self.estimator, str):
            return named_learner(self.estimator, n_jobs=self.n_jobs)
        return self.estimator

    def _name_subgroups(self, training: TrainingSet) -> TrainingSet:
        """Return the training set with the subgroups of the game as its groups."""
        return training

    @property
    def _together(self) -> bool:
        """Whether the mean probability of all rounds predicts, if the learner has probabilities."""
        return False

    @property
    def _five_folds_up_to(self) -> float:
        """Number of distinct rows above which "auto" takes three folds instead of five."""
        return np.inf

    def _rounds_depend_on_total(self) -> bool:
        """Whether rounds depend on the number of rounds, so that a continued fit may not change it."""
        return False

    # -- fitting -------------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    @with_callbacks
    def fit(
        self,
        X: Table,
        y: Column = None,
        *,
        sample_weight: Column = None,
        X_val: Table = None,
        y_val: Column = None,
        sample_weight_val: Column = None,
        **fit_params: object,
    ) -> Self:
        """Fit the hypotheses round by round and combine them.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            Training rows, in a form that the base learner accepts. NaN is allowed if the learner allows it.
        y : array-like of shape (n,)
            Class labels of any type. None takes the labels of a torch Dataset given as X.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights. Weight 2 counts the row twice; rows of weight 0 are dropped. Weights of a
            mean below 1, or above 1e9, are relative: they are scaled to mean 1.
        X_val, y_val, sample_weight_val : optional
            Held-out rows, their labels and weights. They need ``cv="auto"``. Mixture weights are
            selected on them; an additive classifier selects its number of rounds.
        **fit_params
            Metadata for the learner's ``fit``, with metadata routing enabled.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument is not as described. A fit that raises leaves the classifier as it was.
        """
        rows = LabelledRows(*unpack(X, y), None, sample_weight)
        self._fit(rows, LabelledRows(*unpack(X_val, y_val), None, sample_weight_val), fit_params)
        return self

    def _check_arguments(self, groups: Groups, validation: LabelledRows) -> None:
        """Raise ValueError if parameters contradict each other or the arguments of a fit."""

    def _training_set(self, rows: LabelledRows, validation: LabelledRows) -> TrainingSet:
        check_group_arguments(rows.groups, validation)
        self._check_arguments(rows.groups, validation)
        refuse_learner(self.estimator, self._learner(), regressors_allowed=self._takes_regressors)
        training = read_training_set(self, self._learner(), rows, self.class_weight)
        if validation.any_given:
            check_validation(validation, self._param("cv"))
            X_val = checked_table(self, self._learner(), validation.X)
            training.validation = selection_data(self, X_val, validation, "_val", "the {:,} rows of X_val")
        return self._name_subgroups(training)

    def _split(self, training: TrainingSet) -> Any:
        """Return ``cv`` for `choose_scheme`, with given splits as the fold of each row."""
        cv = self._cv()
        if isinstance(cv, (str, Real)) or training.validation is not None:
            return cv
        parts = Parts.of(training, cv, 0, all_frozen=False)
        if parts.is_partition and self._refits:
            return Split(parts.fold, "cv")
        if len(parts.held) == 1 and parts.complementary:
            return Split(parts.fold, "held out")
        several = ", or several splits that hold out each row once" if self._refits else ""
        raise ValueError(
            f"cv: {type(self).__name__} takes a single split{several}. A split must fit all rows that it "
            "does not hold out"
        )

    def _open_scheme(self, training: TrainingSet, fit_params: dict[str, Any], entropy: int) -> Scheme:
        session = open_session(
            self._learner(training),
            training.X,
            training.y,
            training.n_classes,
            training.weight,
            fit_params,
            seed=entropy,
        )
        return choose_scheme(
            session,
            training,
            self._split(training),
            seed=entropy,
            refit=self._refits,
            n_jobs=self.n_jobs,
            five_up_to=self._five_folds_up_to,
            together=self._together,
            known_classes=self._known_classes,
            exact=self.exact_weights,
        )

    def _fit(self, rows: LabelledRows, validation: LabelledRows, fit_params: dict[str, Any]) -> None:
        routed = routed_params(self, fit_params)
        context = None
        if getattr(self, "_skl_callbacks", None):
            # The number of rounds for "auto" depends on the data.
            most = None if self._param("n_estimators") == "auto" else self._param("n_estimators")
            context = self._init_callback_context(max_subtasks=most)
        with fitting_apart(self) as fitted:
            fitted._learn(rows, validation, routed, context)
        self._warn()  # after the assignment: a filter may make a warning an error

    def _learn(
        self, rows: LabelledRows, validation: LabelledRows, routed: dict[str, Any], context: object
    ) -> None:
        """Set all attributes of the fit, in a classifier without any.

        `_read` sets those of rows, labels and fingerprints, `_boosting` resolved parameters, `_settle` the
        trace and the ensemble, `_conclude` those of a subclass; this method sets the others.
        """
        rows.check_indexes()
        validation.check_indexes("_val")
        with noticing_interrupts() as interrupted, ExitStack() as resources:
            training = self._read(rows, validation)
            routed = _check_method_params(rows.X, routed, indices=training.used)
            entropy = int(check_random_state(self.random_state).randint(2**31 - 1))
            checkpoints = resources.enter_context(self._checkpoints(training, entropy, interrupted))
            scheme = self._open_scheme(training, routed, entropy)
            boosting = self._boosting(training, scheme, round_seed(entropy, 0))
            self.combiner_: Any = boosting.combiner
            self.game_: Game[Any] = boosting.start(scheme, len(training.y), entropy)
            if interrupted():  # a learner that catches Ctrl-C may have returned a half-trained model
                raise KeyboardInterrupt
            self.probe_rows_ = probe_rows(training.X, entropy)  # verify a model file
            self.used_rows_: tuple[UsedRows, ...] = ()
            self.ledger_ = Ledger()
            with self._reporting(training, boosting.schedule, context) as observe:
                boosting.play(self.game_, scheme, entropy, checkpoints, observe)
            self._settle()
        self._conclude(training)

    def _read(self, rows: LabelledRows, validation: LabelledRows) -> TrainingSet:
        """Return the checked rows; their fingerprints tell `certify` which rows the fit has seen."""
        training = self._training_set(rows, validation)
        self.seen_rows_ = replace(training.fingerprints, complete=not holds_unknown(self._learner()))
        self.chosen_rows_: tuple[Fingerprint, ...] = ()
        if training.validation is not None:
            X_val, judged = training.validation
            training.validation = X_val, noting_seen(self.seen_rows_, X_val, judged)
            self.chosen_rows_ = (Fingerprint.of_rows(X_val),)
        return training

    def _checkpoints(
        self, training: TrainingSet, entropy: int, interrupted: Callable[[], bool]
    ) -> Checkpoints:
        """Return the folder of ``checkpoint_dir``, opened for a fit with these rows."""

        def identity() -> dict[str, Any]:
            free = FREE if self._rounds_depend_on_total() else FREE | {"n_estimators"}
            return identify(self, training.digest(self.classes_), entropy, free)

        return Checkpoints.open(self.checkpoint_dir, identity, interrupted)

    def _conclude(self, training: TrainingSet) -> None:
        """Set further attributes after the last round."""

    def _warn(self) -> None:
        """Give the warnings about a finished fit."""
        stop = self.trace_.stop
        if stop is not None and stop.early:
            warn_user(f"fit {stop.text}; the rounds so far are kept", FitInterruptedWarning)

    @contextmanager
    def _reporting(
        self, training: TrainingSet, schedule: Schedule, context: Any
    ) -> Iterator[Callable[[Game[Any], Response], bool]]:
        """Yield the function that tells of each round and calls the callbacks."""
        about = {"estimator": self, "X": training.X, "y": training.y}

        def observe(game: Game[Any], newest: Response) -> bool:
            *before, last = game.trace.rounds
            if not done.done:  # rounds of an earlier fit took their time too
                done.started -= sum(each.seconds for each in before)
            words = "" if np.isnan(last.value) else f", objective {last.value:.4f}"
            words = f"weighted loss {last.weighted_loss:.4f}{words}, effective size {last.effective_size:.3f}"
            done(game.n_rounds - done.done, words)
            if context is None:
                return False
            ended = context.subcontext(task_name="round").call_on_fit_task_end
            return bool(ended(**about, reconstruction_attributes=self._snapshot))

        if context is not None:
            context.call_on_fit_task_begin(**about)
        loud = telling(patience=0, pause=0) if self.verbose else nullcontext()
        with loud, steps("rounds", schedule.last) as done:
            yield observe
        if context is not None:
            context.call_on_fit_task_end(**about, reconstruction_attributes=self._snapshot)

    def _settle(self) -> None:
        self.trace_, self.n_iter_ = self.game_.trace, self.game_.n_rounds
        self._set_ensemble(self.combiner_.settle(self.game_))

    def _set_ensemble(self, ensemble: Any) -> None:
        """Answer by an ensemble; results and certificate of an earlier one do not hold for it."""
        self.ensemble_: Any = ensemble
        self._results: dict[str, Any] = {}
        self.__dict__.pop("certificate_", None)

    def _snapshot(self) -> dict[str, Any]:
        """Return the attributes of the classifier after the rounds so far, for callbacks."""
        now = copy.copy(self)
        now.game_, now.combiner_ = self.game_.snapshot(), self.combiner_.snapshot()
        before = set(vars(self))
        now._settle()
        return {k: v for k, v in vars(now).items() if k not in before or v is not getattr(self, k)}

    # -- after fitting -------------------------------------------------------------------------------

    @property
    def estimators_(self) -> list[Any]:
        """The hypotheses in order, then plain ERM and constants if these were added."""
        return self.ensemble_.base_models

    @property
    def estimator_weights_(self) -> Floats:
        """Mixture weight λ, or step, of each hypothesis."""
        return self.ensemble_.weights

    @property
    def feature_importances_(self) -> Floats:
        """Importance of each feature, shape (d,): mean over the hypotheses, weighted by `estimator_weights_`.

        They sum to 1, without the constants; all are 0 if constants have all the weight. The learner defines
        their meaning, such as gain or impurity.

        Raises
        ------
        AttributeError
            If a member has no ``feature_importances_``.
        """
        check_is_fitted(self)
        total = np.zeros(self.n_features_in_)
        for weight, member in zip(self.estimator_weights_, self.estimators_, strict=True):
            if not is_constant(member):
                total += weight * np.asarray(member.feature_importances_, dtype=np.float64)
        return total / total.sum() if total.any() else total

    # -- scikit-learn --------------------------------------------------------------------------------

    def get_metadata_routing(self) -> MetadataRouter:
        """Route metadata of ``fit`` to the learner; ``sample_weight`` is for this classifier."""
        return (
            MetadataRouter(owner=type(self).__name__)
            .add_self_request(self)
            .add(estimator=self._learner(), method_mapping=MethodMapping().add(caller="fit", callee="fit"))
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ensemble_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        learner = input_tags(self._learner())
        tags.input_tags.sparse = learner.sparse
        tags.input_tags.allow_nan = learner.allow_nan
        return tags
