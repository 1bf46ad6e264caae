"""What every boosting classifier shares: scikit-learn's face of a game, and the fit."""

from __future__ import annotations

import copy
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, _fit_context
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags, check_random_state
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _raise_for_params,
    process_routing,
)
from sklearn.utils.validation import _check_method_params, check_is_fitted

from tailboost.boosting.checkpoints import Checkpoints, identify
from tailboost.boosting.cross_fitting import Scheme, choose_scheme
from tailboost.boosting.ensemble import Ensemble
from tailboost.boosting.game import Game, Response, Stop, Turn, play, round_seed
from tailboost.boosting.training_set import Problem
from tailboost.classifiers.docs import documented
from tailboost.classifiers.input import (
    ValidationRows,
    check_validation,
    checked_table,
    input_tags,
    judged_rows,
    read_problem,
    refuse_learner,
)
from tailboost.classifiers.parameters import Parameters, naming_near
from tailboost.classifiers.plan import Plan, Schedule
from tailboost.core.array_types import Floats
from tailboost.core.fingerprints import Fingerprint
from tailboost.core.interrupts import noticing_interrupts
from tailboost.core.probe import probe_rows
from tailboost.core.torch_data import unpack
from tailboost.core.warn import warn_user
from tailboost.guarantees.leakage import KnownRows, holds_unknown, noting_seen
from tailboost.learners import HistBoostClassifier
from tailboost.learners.named import named_learner
from tailboost.learners.session import is_constant, open_session
from tailboost.selection.combiners import Combiner

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as with_callbacks
except ImportError:  # scikit-learn < 1.9 has no callbacks

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""

    def with_callbacks(method: Any) -> Any:
        """Return the method as it is."""
        return method


class FitInterruptedWarning(UserWarning):
    """A fit was ended early, by Ctrl-C or a time limit, and keeps the rounds it has."""


def routed_params(classifier: Any, fit_params: dict[str, Any]) -> dict[str, Any]:
    """Return what else `fit` was given for the learner, by metadata routing; raise where it takes none."""
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


# Parameters that may differ between a killed fit and the fit that resumes from its checkpoints.
FREE = frozenset({"n_jobs", "verbose", "checkpoint_dir", "max_time", "until_met", "tol", "n_iter_no_change"})


@dataclass
class Run:
    """A game and its plan."""

    plan: Plan
    game: Game[Any]

    def snapshot(self) -> Run:
        """Return a copy that further rounds leave as it is."""
        plan = replace(self.plan, combiner=self.plan.combiner.snapshot())
        return replace(self, plan=plan, game=self.game.snapshot())

    def take(self, watched: bool, response: Response, state: Any) -> tuple[float, float]:
        """Add a response to the ensemble, after dropping one that an interrupt left half added."""
        self.trim()
        return self.plan.combiner.take(response, state, watched)

    def trim(self) -> None:
        """Drop from the ensemble what does not belong to a finished round of the game."""
        self.plan.combiner.first(self.game.n_rounds)


class BaseBoostClassifier(
    Parameters, CallbackSupportMixin, KnownRows, ClassifierMixin, MetaEstimatorMixin, BaseEstimator
):
    """The scikit-learn face of a boosting game.

    A classifier defines its game in `_plan`; its family defines how the ensemble predicts. Data, validation
    scheme, checkpoints, interrupts and callbacks are the same for all and handled here.
    """

    ensemble_: Ensemble
    _run: Run

    # Whether members are fitted again on all rows when a fraction is held out.
    _refits: ClassVar[bool] = True
    # Whether rows whose class no model judged on them knows are in no unit.
    _known_classes: ClassVar[bool] = False
    # Whether the learner may be a regressor, whose values are real-valued hypotheses for two classes.
    _takes_regressors: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in vars(cls):
            cls.__init__ = naming_near(cls.__init__)  # type: ignore[method-assign]

    # -- what a classifier defines -------------------------------------------------------------------

    @abstractmethod
    def _plan(self, problem: Problem, scheme: Scheme, seed: int) -> Plan:
        """Return units, rule, combiner and demand of the game on a checked problem.

        If the plan needs a fitted model first, it gets it from the scheme, with the seed of round 1.
        """

    @abstractmethod
    def _schedule(self, plan: Plan) -> Schedule:
        """Return how many rounds are played and when they stop early."""

    @abstractmethod
    def _validation(self) -> Any:
        """Return the validation scheme in the form `choose_scheme` takes."""

    @abstractmethod
    def _set_ensemble(self, ensemble: Any) -> None:
        """Set the fitted attributes that depend on the ensemble."""

    def _most_rounds(self) -> int:
        """Return the largest number of rounds."""
        return int(self.n_estimators)

    def _default_learner(self) -> Any:
        """Return the learner for ``estimator=None``."""
        return HistBoostClassifier(n_jobs=self.n_jobs)

    def _learner(self, problem: Problem | None = None) -> Any:
        """Return the base learner; before the problem is known, one that takes the same tables."""
        if self.estimator is None:
            return self._default_learner()
        if isinstance(self.estimator, str):
            return named_learner(self.estimator, n_jobs=self.n_jobs)
        return self.estimator

    def _name_units(self, problem: Problem) -> Problem:
        """Return the problem with its groups numbered as the units of the game."""
        return problem

    @property
    def _together(self) -> bool:
        """Whether the models of all rounds answer together, where the learner knows class probabilities."""
        return False

    @property
    def _five_folds_up_to(self) -> float:
        """Beyond so many distinct rows validation="auto" takes three folds instead of five."""
        return np.inf

    def _tied_to_rounds(self) -> str:
        """Return the parameter that depends on the number of rounds, so that none can be added; or ""."""
        return ""

    # -- fitting -------------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    @with_callbacks
    @documented
    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
        **fit_params: Any,
    ) -> Self:
        """Play the game and combine the hypotheses.

        Parameters
        ----------
        {{X}}
        {{y}}
        {{sample_weight}}
        X_val, y_val, sample_weight_val : optional
            An explicit validation set, on which shares are chosen or, of an additive classifier, when to stop
            and which prefix is kept; needs ``validation="auto"``.
        {{fit_params}}

        Returns
        -------
        self

        Raises
        ------
        {{fit_raises}}
        """
        validation = ValidationRows(X_val, y_val, None, sample_weight_val)
        self._fit(X, y, sample_weight, None, validation, fit_params)
        return self

    def _problem(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, validation: ValidationRows
    ) -> Problem:
        refuse_learner(self.estimator, self._learner(), regressors=self._takes_regressors)
        problem, found = read_problem(self, self._learner(), X, y, sample_weight, groups, self.class_weight)
        self.__dict__.pop("group_features_", None)  # of a fit before this one
        self.__dict__.update(found)
        if validation.given:
            check_validation(validation, self.get_params(deep=False)["validation"])
            problem.validation = judged_rows(
                self, self._learner(), validation, "_val", "the {:,} rows of X_val"
            )
        return self._name_units(problem)

    def _open_scheme(self, problem: Problem, fit_params: dict[str, Any], entropy: int) -> Scheme:
        session = open_session(
            self._learner(problem),
            problem.X,
            problem.y,
            problem.n_classes,
            problem.weight,
            fit_params,
            seed=entropy,
        )
        return choose_scheme(
            session,
            problem,
            self._validation(),
            seed=entropy,
            refit=self._refits,
            n_jobs=self.n_jobs,
            five_up_to=self._five_folds_up_to,
            together=self._together,
            known_classes=self._known_classes,
        )

    def _identity(self, data: str, entropy: int) -> dict[str, Any]:
        """Return all that the rounds of a fit on this data depend on."""
        free = FREE if self._tied_to_rounds() else FREE | {"n_estimators"}
        return identify(self, data, entropy, free)

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        groups: Any,
        validation: ValidationRows,
        fit_params: dict[str, Any],
    ) -> Problem:
        routed = routed_params(self, fit_params)
        context = None
        if hasattr(self, "_init_callback_context"):
            # "auto" is not known before the data are.
            most = None if self.n_estimators == "auto" else self.n_estimators
            context = self._init_callback_context(max_subtasks=most)
        before = self.__dict__.copy()
        X, y = unpack(X, y)
        with noticing_interrupts() as interrupted, ExitStack() as resources:
            try:
                problem = self._problem(X, y, sample_weight, groups, validation.unpacked())
                # By these, rows that were fitted on or judged on are known.
                seen = replace(problem.fingerprints, complete=not holds_unknown(self._learner()))
                chosen: tuple[Fingerprint, ...] = ()
                if problem.validation is not None:
                    X_val, judged = problem.validation
                    problem.validation = X_val, noting_seen(seen, X_val, judged)
                    chosen = (Fingerprint.of_rows(X_val),)
                routed = _check_method_params(X, routed, indices=problem.used)
                entropy = int(check_random_state(self.random_state).randint(2**31 - 1))
                checkpoints = resources.enter_context(
                    Checkpoints.open(
                        self.checkpoint_dir,
                        lambda: self._identity(problem.digest(self.classes_), entropy),
                        interrupted,
                    )
                )
                scheme = self._open_scheme(problem, routed, entropy)
                self._run = self._new_run(problem, scheme, entropy)
            except BaseException:  # a refused fit leaves the classifier as it was
                self.__dict__.clear()
                self.__dict__.update(before)
                raise
            self.probe_rows_ = probe_rows(problem.X, entropy)  # by them a model file is checked
            self.seen_rows_, self.chosen_rows_ = seen, chosen
            self.__dict__.pop("ensemble_", None)  # not fitted until one round is finished
            self._play(problem, scheme, checkpoints, interrupted, context, entropy)
            self._settle()
        stop = self.trace_.stop  # said when the rounds are safe: a warning may be made an error
        if stop is not None and stop.early:
            warn_user(f"fit {stop.words}; the rounds so far are kept", FitInterruptedWarning)
        self._conclude(problem)
        return problem

    def _conclude(self, problem: Problem) -> None:
        """Say and note what follows from a finished fit."""

    def _new_run(self, problem: Problem, scheme: Scheme, entropy: int) -> Run:
        plan = self._plan(problem, scheme, round_seed(entropy, 0))

        def extras() -> Iterator[Response]:
            yield scheme(np.ones(len(problem.y)), entropy)  # plain ERM

        plan.combiner.open(scheme.selection_rows, extras)
        return Run(plan, Game.new(plan.rule, plan.units))

    def _play(
        self,
        problem: Problem,
        scheme: Scheme,
        checkpoints: Checkpoints,
        interrupted: Callable[[], bool],
        context: Any,
        entropy: int,
    ) -> None:
        run, schedule = self._run, self._schedule(self._run.plan)
        game, take = run.game, partial(run.take, schedule.watched)
        while game.n_rounds < schedule.last and (kept := checkpoints.read(game.n_rounds + 1)):
            response, played = kept
            game.advance(game.turn(entropy).w, response, take, time.perf_counter() - played.seconds)
        if context is not None:
            context.call_on_fit_task_begin(estimator=self, X=problem.X, y=problem.y)

        def oracle(turn: Turn) -> Response | Stop:
            return self._respond(run, scheme, turn)

        def observe(game: Game[Any], newest: Response) -> bool:
            t, last = game.n_rounds, game.trace.rounds[-1]
            checkpoints.write(t, newest, last)
            if self.verbose:
                print(
                    f"round {t}/{schedule.last}  weighted loss {last.weighted_loss:.4f}  objective "
                    f"{last.value:.4f}  effective size {last.effective_size:.3f}  {last.seconds:.2f} s",
                    flush=True,
                )
            if context is None:
                return False
            return bool(
                context.subcontext(task_name="round").call_on_fit_task_end(
                    estimator=self, X=problem.X, y=problem.y, reconstruction_attributes=self._snapshot
                )
            )

        play(
            game,
            oracle,
            schedule.last,
            entropy=entropy,
            take=take,
            stopping=schedule.stopping,
            observe=observe,
            interrupted=interrupted,
        )
        run.trim()
        if context is not None:
            context.call_on_fit_task_end(
                estimator=self, X=problem.X, y=problem.y, reconstruction_attributes=self._snapshot
            )

    def _respond(self, run: Run, scheme: Scheme, turn: Turn) -> Response | Stop:
        """Return the learner's answer in a round."""
        return run.plan.respond(scheme, run.game, turn)

    def _settle(self) -> None:
        run = self._run
        self.trace_, self.n_iter_ = run.game.trace, run.game.n_rounds
        self._set_ensemble(run.plan.combiner.settle(run.game))

    def _snapshot(self) -> dict[str, Any]:
        """Attributes of the classifier as if the fit had stopped here, for callbacks."""
        now = copy.copy(self)
        now._run = self._run.snapshot()
        before = set(vars(self))
        now._settle()
        return {k: v for k, v in vars(now).items() if k not in before or v is not getattr(self, k)}

    # -- after fitting -------------------------------------------------------------------------------

    @property
    def game_(self) -> Game[Any]:
        """The game that was played: its rule, units, the player's last state and the trace."""
        return self._run.game

    @property
    def combiner_(self) -> Combiner:
        """The object that combined the hypotheses, with their losses on the judged rows."""
        return self._run.plan.combiner

    @property
    def estimators_(self) -> list[Any]:
        """The members of the ensemble: the boosted hypotheses in order, then ERM and constants if added."""
        return self.ensemble_.members

    @property
    def estimator_weights_(self) -> Floats:
        """Weight of each member: its share λ, or its step."""
        return self.ensemble_.weights

    @property
    def feature_importances_(self) -> Floats:
        """Importance of each feature, shape (d,): the members' own, weighted by `estimator_weights_`.

        They sum to 1, or are all 0 where λ is on constants alone: these take no part. What the members'
        importances mean, the members say: impurity, gain, or something else.

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

    @abstractmethod
    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """Yield ``predict`` after each round or kept hypothesis."""

    def staged_score(self, X: Any, y: Any, sample_weight: Any = None) -> Iterator[float]:
        """Yield the accuracy of each prediction of `staged_predict`.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows to predict.
        y : array-like of shape (n,)
            True labels.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows.

        Yields
        ------
        float
            From 0 to 1; the last is `score`.
        """
        for labels in self.staged_predict(X):
            yield float(accuracy_score(y, labels, sample_weight=sample_weight))

    def _scores(self, X: Any) -> Floats:
        check_is_fitted(self)
        return self.ensemble_.scores(self._checked(X))

    def _checked(self, X: Any) -> Any:
        return checked_table(self, self._learner(), X)

    # -- scikit-learn --------------------------------------------------------------------------------

    def get_metadata_routing(self) -> MetadataRouter:
        """Route metadata given to ``fit`` to the learner; ``sample_weight`` is this classifier's own."""
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
