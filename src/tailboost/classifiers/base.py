"""Bases of the boosting classifiers: their common parameters, and the mixture of a game's candidates."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping
from sklearn.utils.validation import check_is_fitted

from tailboost.boosting.ensemble import MixtureEnsemble
from tailboost.boosting.game import Played, Trace
from tailboost.boosting.subgroups import NamedSubgroups, checked_targets
from tailboost.classifiers.boosting_fit import (
    BoostingFit,
    CallbackSupportMixin,
    fit_of,
    with_callbacks,
)
from tailboost.classifiers.input import (
    CONSTRAINTS,
    checked_table,
    input_tags,
    noting_seen,
    selection_data,
    with_parameters,
)
from tailboost.classifiers.reselection import Reselection
from tailboost.core.array_types import Column, Floats, Groups, Ints, Model, Seed, Stated, Table
from tailboost.core.checks import check_number, n_rows_of, take, unpack
from tailboost.core.exceptions import (
    BoundNotMetWarning,
    FitInterruptedWarning,
    ResubstitutionWarning,
)
from tailboost.core.warn import warn_user
from tailboost.learners import HistBoostClassifier
from tailboost.learners.foreign import is_constant
from tailboost.learners.named import named_learner
from tailboost.rates import Limit, Objective, Rate, checked_limits, error
from tailboost.rows.given import Given
from tailboost.rows.group_names import GroupNames, rows_among
from tailboost.rows.judged import Judged, cached, group_uses, intervals_of
from tailboost.rows.records import Records
from tailboost.rows.rows import Rows
from tailboost.rows.rules import refuse
from tailboost.rows.subgroups import unit_name
from tailboost.selection.engine import HypothesisEngine
from tailboost.selection.mixture import Counts, Mixture
from tailboost.selection.problem import Problem, objective_named
from tailboost.selection.rate_table import RateTable
from tailboost.selection.selected import Selected, SelectedRule
from tailboost.selection.summary import Bounds, Summary, mixture_summary
from tailboost.solvers import mixture_path


@with_parameters
class BaseBoostClassifier(CallbackSupportMixin, MetaEstimatorMixin, BaseEstimator):
    """Common parameters of the boosting classifiers, and what follows from their candidates.

    The fit of a subclass reads the rows, plays a game, and selects a rule from its candidates.

    Attributes
    ----------
    game_ : Played
        The finished game: what was weighed, the weight player, its state and the trace.
    selection_ : Mixture or AdditiveSelection
        The candidates with their answers to the selection data, and the rule that was selected.
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

    def _default_learner(self) -> Any:
        """Return the learner for ``estimator=None``."""
        return HistBoostClassifier(n_jobs=self.n_jobs)

    def _learner(self) -> Any:
        """Return the base learner."""
        if self.estimator is None:
            return self._default_learner()
        if isinstance(self.estimator, str):
            return named_learner(self.estimator, n_jobs=self.n_jobs)
        return self.estimator

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
        given = Given(*unpack(X, y), None, sample_weight)
        judging = Given(*unpack(X_val, y_val), None, sample_weight_val)
        return self._fit(given, judging, fit_params)

    def _fit(self, given: Given, judging: Given, fit_params: dict[str, Any]) -> Self:
        with fit_of(self, given, judging, fit_params) as fit:
            fit.classifier._play(fit)
        self._warn()  # after the assignment: a filter may make a warning an error
        return self

    @abstractmethod
    def _play(self, fit: BoostingFit) -> None:
        """Read the rows, play a game, and select from its candidates, in a classifier without results."""

    def _warn(self) -> None:
        """Give the warnings about a finished fit."""
        stop = self.trace_.stop
        if stop is not None and stop.early:
            warn_user(f"fit {stop.text}; the rounds so far are kept", FitInterruptedWarning)

    def _settle(self, played: Played, selection: Any) -> None:
        """Set the finished game, and answer by a selection from its candidates."""
        self.game_: Played = played
        self.trace_: Trace = played.trace
        self.n_iter_ = played.n_rounds
        self._answer_by(selection)

    @abstractmethod
    def _answer_by(self, selection: Any) -> None:
        """Answer by a selection; results and certificate of an earlier one do not hold for it."""

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
        if total.any():
            return total / total.sum()
        return total

    # -- scikit-learn --------------------------------------------------------------------------------

    def get_metadata_routing(self) -> MetadataRouter:
        """Route metadata of ``fit`` to the learner; ``sample_weight`` is for this classifier."""
        return (
            MetadataRouter(owner=type(self).__name__)
            .add_self_request(self)
            .add(
                estimator=self._learner(),
                method_mapping=MethodMapping().add(caller="fit", callee="fit"),
            )
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ensemble_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        learner = input_tags(self._learner())
        tags.input_tags.sparse = learner.sparse
        tags.input_tags.allow_nan = learner.allow_nan
        return tags


# -- mixtures of hypotheses -------------------------------------------------------------------------------

# Advice of the warning for rows that the hypotheses were fitted on.
KEPT = "the losses stored with the model (objective='worst_group' then takes the groups of the training rows)"
# Maximum number of subgroups in a warning about missed limits.
NAMED = 5


class MixtureClassifier(Reselection, Judged, ClassifierMixin, BaseBoostClassifier):
    """Mixture of hypotheses with weights λ."""

    ensemble_: MixtureEnsemble
    selection_: Mixture
    _named: NamedSubgroups  # the subgroups of the fit
    _regrouped = False  # whether the groups are others than those of the fit

    @abstractmethod
    def _bounds(self) -> Bounds:
        """Return the bounds of theorems and the observed bounds of the fitted game."""

    @property
    def gap_(self) -> float:
        """Largest optimality gap of a solve; for a single hypothesis the gain of a mixture."""
        check_is_fitted(self)
        return max(0.0, *self.trace_.gap.tolist(), self.ensemble_.gap)

    def _set_groups(self, names: GroupNames) -> None:
        super()._set_groups(names)
        self._regrouped = True

    def _checked(self, X: Table) -> Any:
        return checked_table(self, self._learner(), X)

    def _rows_kept(self) -> Rows:
        return self.selection_.pool.rows

    # -- on the selection data -----------------------------------------------------------------------

    def _counts_of(self, rows: Rows) -> Counts:
        """Return the strata of selection data, by the subgroups of the fit."""
        if self._named.kind == "class":
            return Counts(rows, self.classes_)
        return Counts(rows, self.classes_, self._group_names, self._named.cells)

    @property
    def _engine(self) -> HypothesisEngine:
        return HypothesisEngine(self.selection_)

    @property
    def _problem(self) -> Problem:
        return self.selection_.problem

    @property
    def _selected(self) -> Selected:
        """The rule of `predict`, with its rates on the selection data."""
        made = cached(self, "selected", lambda: self._engine.result(self.ensemble_))
        return cast("Selected", made)

    @property
    def _own(self) -> bool:
        """Whether the mixture has the subgroups of the fit, not other subgroups given to `reweight`."""
        return bool(self.selection_.steering.by == self._named.kind) and not self._regrouped

    def _errors(self, counts: Floats) -> RateTable:
        """Return the errors of the subgroups by confusion counts, in the order of `subgroups_`."""
        table = self._selected.errors_of(counts)
        if not self._own:
            return table
        names = self._named.names.tolist()
        lines = [table.lines[code] for code in self._named.codes]
        return replace(
            table,
            lines=tuple(replace(x, subgroup=n) for x, n in zip(lines, names, strict=True)),
        )

    def _error_values(self, counts: Floats) -> Floats:
        """Return the errors of the subgroups by confusion counts, in the order of `subgroups_`."""
        errors = self.selection_.errors(counts)
        if self._own:
            return errors[self._named.codes]
        return errors

    @property
    def expected_subgroup_errors_(self) -> Floats:
        """Expected error of the randomised rule on each subgroup, on the selection data, shape (m,)."""
        return self._error_values(self.selection_.mixed(self.estimator_weights_))

    @property
    def expected_subgroup_intervals_(self) -> Floats:
        """95 % intervals for the expected errors of the randomised rule on new rows, shape (m, 2)."""
        return intervals_of(self._errors(self.selection_.mixed(self.estimator_weights_)))

    def _subgroup_table(self) -> RateTable:
        return self._errors(self._selected.counts)

    def _unit_table(self) -> RateTable | None:
        """Return the errors of the subgroups, of `predict` and of the randomised rule.

        None if the objective is about rows.
        """
        if self._problem.over_rows:
            return None
        predicted = self._subgroup_table()
        drawn = self._errors(self.selection_.mixed(self.estimator_weights_))
        pairs = zip(predicted, drawn, strict=True)
        if all(np.array_equal(a.value, b.value, equal_nan=True) for a, b in pairs):
            return predicted
        lines = [replace(line, rule="randomised") for line in drawn]
        return replace(predicted, lines=(*predicted.lines, *lines))

    def _restated(self, stated: dict[str, Any], groups: Groups, given: bool) -> Problem:
        refuse("boosting", confidence=stated["confidence"])
        objective = stated["objective"]
        before = self._problem
        alpha = _alpha_for(self, objective, stated["alpha"])
        same = objective is None and alpha is None
        if same:
            aim = before.objective
        else:
            aim = objective_named(objective or "cvar", alpha)
        budget = before.error_budget
        if stated["error_budget"] is not None:
            budget = check_number(stated["error_budget"], "error_budget", 0, 1, closed=True)
        if alpha is not None and "alpha" in self.get_params(deep=False):
            self.alpha = alpha
        if groups is not None and same and not self.selection_.steering.needs_groups:
            raise ValueError(f"the {aim} is not about groups: give objective='worst_group'")
        if given and objective == "worst_group" and groups is None:
            raise ValueError("objective='worst_group' needs groups")
        if (
            not given
            and groups is not None
            and (same or objective in (None, "cvar", "worst_class"))
        ):
            raise ValueError("groups without X and y need objective='worst_group'")
        if same:
            limits = before.limits
        else:
            limits = ()
        if stated["limits"] is not None:
            limits = checked_limits(stated["limits"])
        if limits and aim.over_rows:
            raise ValueError(
                f"limits have no meaning with the {aim}: the objective must be a rate"
            )
        return replace(before, objective=aim, limits=limits, error_budget=budget)

    def _engine_on(self, given: Given, problem: Problem) -> HypothesisEngine:
        given.refuse("boosting")
        if given.groups is not None and problem.objective is not self._problem.objective:
            self._name_groups(given.groups)
        words = "the {:,} rows given to reweight"
        X, rows = selection_data(self, self._checked(given.X), given, "", words)
        rows = noting_seen(self.seen_rows_, X, rows, KEPT)
        if given.groups is None:
            names = None
        else:
            names = self._group_names
        pool = self.selection_.pool.on_rows(X, rows)
        return HypothesisEngine(Mixture(problem, pool, Counts(pool.rows, self.classes_, names)))

    def _reading(self, X: Table, y: Column) -> Records:
        """Return the record of rows with labels by which a rule is selected."""
        return Records().reading(self.row_hashes(X), y, features=True)

    def _engine_by(self, groups: Groups, problem: Problem) -> HypothesisEngine:
        rows = self.selection_.pool.rows
        used = rows_among(groups, rows)
        self._name_groups(groups)
        names = self._group_names
        kept = names.numbers_of(groups, "groups", len(used), used)
        if len(absent := np.setdiff1d(np.arange(len(names.names)), kept)):
            absent_names = names.names[absent].tolist()
            raise ValueError(
                f"the selection data, {rows.words}, have no row in group(s) {absent_names}: "
                "give X and y with rows of every group, or fit with cv=5"
            )
        if rows.fitted:
            warn_user(
                f"the selection data are {rows.words}, on which the hypotheses were fitted: their losses are "
                "smaller than on new rows. Fit with another cv than 'train', or give other rows",
                ResubstitutionWarning,
            )
        pool = self.selection_.pool.regrouped(kept)
        return HypothesisEngine(Mixture(problem, pool, Counts(pool.rows, self.classes_, names)))

    def _select(self, engine: Any, problem: Problem, max_error: Stated) -> None:
        given = problem.limits != self._problem.limits
        if max_error is not None:
            aim, limits = self._aimed(engine, problem.objective, max_error)
            problem = replace(problem, objective=aim, limits=limits)
        if not self.selection_.even and "error_budget" in self.get_params(deep=False):
            self.set_params(error_budget=problem.error_budget)
        self._answer_by(engine.mixture_for(problem))
        if max_error is None and given and problem.limits:
            cast("SelectedRule", self._selected).warn_of_violations()
        if max_error is not None:
            self._take_targets(max_error)
            missed = [
                (x.subgroup, x.value, x.bound) for x in self._subgroup_table() if x.met is False
            ]
            if missed:
                strict = any(limit.strict for limit in problem.limits)
                warn_of_missed(missed, self.selection_, self._rows_kept().words, strict=strict)

    def _answer_by(self, selection: Mixture, ensemble: MixtureEnsemble | None = None) -> None:
        """Answer by a mixture of the candidates, or by given weights of them."""
        self.selection_ = selection
        self.ensemble_ = selection.rule() if ensemble is None else ensemble
        self._results = {}
        self.__dict__.pop("certificate_", None)

    def _aimed(
        self, engine: HypothesisEngine, aim: Any, max_error: Stated
    ) -> tuple[Objective, tuple[Limit, ...]]:
        """Return the overall error as objective, and limits on the errors of subgroups."""
        if aim.over_rows:
            raise ValueError(
                f"max_error={max_error!r} has no meaning with the {aim}: give objective='worst_class' or "
                "'worst_group'"
            )
        rate = (
            aim.rate if aim.rate.by is not None else self.selection_.steering
        )  # of earlier limits
        strata = engine.data.strata
        names = strata.subgroups(rate.by)[0]
        allowed = checked_targets(max_error, names, rate.by)
        return Objective.of(error()), (
            self._allowing(rate, dict(zip(names, allowed.tolist(), strict=True))),
        )

    def _allowing(self, rate: Rate, allowed: dict[Any, float]) -> Limit:
        """Return the limit that allows each subgroup its error."""
        return rate <= allowed

    def _take_targets(self, max_error: Stated) -> None:
        """Set the limits given to `reweight`."""

    def _reaching(self, objective: Objective, limits: tuple[Limit, ...]) -> Self:
        new = copy.copy(self)
        before = self._problem
        about_error = error() in (objective.rate, *(limit.rate for limit in limits))
        if about_error:
            budget = None
        else:
            budget = before.error_budget
        problem = replace(before, objective=objective, limits=limits, error_budget=budget)
        if not self.selection_.even and "error_budget" in self.get_params(deep=False):
            new.set_params(error_budget=budget)
        new._answer_by(self._engine.mixture_for(problem))
        return new

    def _answering(
        self, rule: Any, others: tuple[Limit, ...] = (), own: Limit | None = None
    ) -> Self:
        new = copy.copy(self)
        if own is None:
            new._answer_by(rule.mixture, rule.ensemble)
        else:
            new._answer_by(self._engine.mixture_for(rule.problem.within(others)), rule.ensemble)
        return new

    def _answers_of(
        self, classifiers: Sequence[Any], X: Table, groups: Groups
    ) -> list[tuple[Any, None]]:
        """Return the predictions of the classifiers of a curve; each hypothesis predicts once."""
        answers = list(self.ensemble_.answers(self._checked(X)))
        return [
            (self.classes_[c.ensemble_.scores_of(answers).argmax(axis=1)], None)
            for c in classifiers
        ]

    def _summarise(self) -> Summary:
        classes = self.classes_.tolist()
        weights = self.estimator_weights_
        summary = mixture_summary(
            self.game_, self.selection_, weights, self.gap_, self._bounds(), classes
        )
        symbols = summary.symbols | self._own_symbols
        return replace(
            summary, errors=self._unit_table(), groups=group_uses(self), symbols=symbols
        )

    @property
    def _own_symbols(self) -> dict[str, str]:
        """Meaning of further symbols in the bounds."""
        return {}

    # -- prediction ----------------------------------------------------------------------------------

    def _scores(self, X: Table, groups: Groups = None) -> Floats:
        refuse("blind rule", groups=groups)
        check_is_fitted(self)
        return self.ensemble_.scores(self._checked(X))

    def _asker(self, X: Table, groups: Groups) -> tuple[int, Callable[[int, Ints], Ints]]:
        refuse("blind rule", groups=groups)
        X = self._checked(X)
        return n_rows_of(X), lambda m, rows: self.ensemble_.answer(m, take(X, rows))

    def alpha_path(self, alphas: Sequence[float]) -> Floats:
        """Return the mixture weights λ for several α; nothing is trained.

        The classifier of one α is ``reweight(alpha=α)``.

        Parameters
        ----------
        alphas : sequence of float in (0, 1]
            Tail masses.

        Returns
        -------
        ndarray of shape (len(alphas), n_members)
            One row per α and one column per hypothesis, in the order of ``estimator_weights_``. Rows sum to
            1.

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from tailboost import AdaLPBoostClassifier
        >>> X, y = load_wine(return_X_y=True)
        >>> clf = AdaLPBoostClassifier("tree", n_estimators=5, random_state=0).fit(X, y)
        >>> path = clf.alpha_path([0.1, 0.5, 1.0])
        >>> path.shape == (3, len(clf.estimator_weights_))
        True
        >>> bool((abs(path[1] - clf.reweight(alpha=0.5).estimator_weights_) < 1e-9).all())
        True
        """
        check_is_fitted(self)
        if np.ndim(alphas) != 1 or np.size(alphas) == 0:
            raise ValueError(f"alphas={alphas!r} must be a non-empty list of numbers in (0, 1]")
        values = np.array([check_number(alpha, "each of alphas", 0, 1) for alpha in alphas])
        pool = self.selection_.pool
        return np.array([s.mixture for s in mixture_path(pool.losses, values, pool.base)])

    def predict_proba(self, X: Table) -> Floats:
        """Return P(y | x): the λ-average of the class probabilities of the hypotheses, without constants.

        If constants have all the weight, the other hypotheses count equally. Hypotheses that were fitted on
        reweighted rows have the probabilities of such rows. A hypothesis without probabilities counts as 1
        for its label. `predict` need not return the most probable label.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`.

        Returns
        -------
        ndarray of shape (n, K)
            Columns in the order of `classes_`; rows sum to 1.
        """
        check_is_fitted(self)
        return self.ensemble_.probabilities(self._checked(X))

    def staged_predict_distribution(self, X: Table) -> Iterator[Floats]:
        """Yield ``predict_distribution`` after 1, 2, … rounds, each with the optimal λ of these rounds.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`.

        Yields
        ------
        ndarray of shape (n, K)
            The last array uses all hypotheses.
        """
        check_is_fitted(self)
        answers = list(self.ensemble_.answers(self._checked(X)))
        for t in range(1, self.n_iter_):
            yield self.selection_.stage(t).scores_of(answers)
        yield self.ensemble_.scores_of(answers)

    def staged_predict(self, X: Table) -> Iterator[NDArray[Any]]:
        """Yield ``predict`` after 1, 2, … rounds, each with the optimal λ of these rounds.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`.

        Yields
        ------
        ndarray of shape (n,)
            The last array is that of ``predict``.
        """
        for distribution in self.staged_predict_distribution(X):
            yield self.classes_[distribution.argmax(axis=1)]


def _alpha_for(
    classifier: MixtureClassifier, objective: Stated, alpha: float | None
) -> float | None:
    """Return the checked tail mass for an objective of `reweight`; None if the objective has none."""
    if alpha is None and objective in (None, "cvar"):
        alpha = classifier.get_params(deep=False).get("alpha")
    if objective == "cvar" and alpha is None:
        raise ValueError(f"alpha is needed: {type(classifier).__name__} has none")
    if objective not in (None, "cvar") and alpha is not None:
        raise ValueError(f"alpha={alpha!r} has no meaning with objective={objective!r}")
    if alpha is None:
        return None
    return check_number(alpha, "alpha", 0, 1)


def warn_of_missed(
    missed: Sequence[tuple[Any, float, float]],
    mixture: Mixture,
    words: str,
    reasons: Sequence[str] = (),
    strict: bool = False,
) -> None:
    """Warn of subgroups with an error above their limit.

    Parameters
    ----------
    missed : sequence of (name, error, limit)
        The subgroups.
    mixture : Mixture
        The candidates.
    words : str
        Name of the selection data.
    reasons : sequence of str
        Further reasons for the message.
    strict : bool, default=False
        Whether an error equal to the limit is too large.
    """
    below = "less than " * strict
    named = [
        f"{unit_name(name)} ({error:.3g}, allowed {below}{bound:.3g})"
        for name, error, bound in missed
    ]
    if len(named) > NAMED:
        more = " and others"
    else:
        more = ""
    if named:
        subgroups = f" for {mixture.steering.by} {', '.join(named[:NAMED])}{more}"
    else:
        subgroups = ""
    because = "".join(f"; {reason}" for reason in (*reasons, mixture.unreachable) if reason)
    warn_user(f"the bound is not met on {words}{subgroups}{because}", BoundNotMetWarning)
