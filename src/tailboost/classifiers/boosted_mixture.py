"""Common base of the boosting classifiers that mix their hypotheses."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tailboost.boosting.ensemble import MixtureEnsemble
from tailboost.boosting.targets import checked_targets
from tailboost.boosting.training_set import GroupNames, Rows, rows_among, take
from tailboost.classifiers.base import BaseBoostClassifier, Plan, Schedule
from tailboost.classifiers.base import routed_params as routed_params
from tailboost.classifiers.base import with_callbacks as with_callbacks
from tailboost.classifiers.input import ValidationRows, regrouped_attributes, rows_given, selection_data
from tailboost.classifiers.randomized import RandomizedClassifier
from tailboost.classifiers.subgroup_views import SubgroupViews
from tailboost.classifiers.target_game import warn_of_missed
from tailboost.core.array_types import Floats, Ints
from tailboost.core.checks import check_indexes, check_number, n_rows_of
from tailboost.core.fingerprints import Fingerprint
from tailboost.core.subgroups import GROUPS_UNUSED, group_uses
from tailboost.core.tables import unpack
from tailboost.core.warn import warn_user
from tailboost.guarantees.leakage import ResubstitutionWarning, noting_seen
from tailboost.rates import Largest, Limit, Objective, Rate, error
from tailboost.selection.curve import Curve, CurvePoint, front, rates_of_curve
from tailboost.selection.loss_mixture import Mixture, combiner_of, objective_named
from tailboost.selection.program import SLIGHT
from tailboost.selection.rate_table import RateTable
from tailboost.selection.subgroup_mixture import Grouping, ModelPool, SubgroupMixture
from tailboost.selection.summary import Bounds, Summary, mixture_summary
from tailboost.solvers import mixture_path

# Advice of the warning for rows that the hypotheses were fitted on.
KEPT = "the losses stored with the model (objective='worst_group' then takes the groups of the training rows)"


class MixtureClassifier(SubgroupViews, BaseBoostClassifier, RandomizedClassifier):
    """Mixture of hypotheses with weights λ."""

    n_iter_no_change: Any
    tol: float
    cv: Any
    ensemble_: MixtureEnsemble
    combiner_: Mixture | SubgroupMixture

    def _schedule(self, plan: Plan) -> Schedule:
        return Schedule.of(self._most_rounds(), self.n_iter_no_change, self.tol, self.max_time, self.verbose)

    def _cv(self) -> Any:
        return self.cv

    @abstractmethod
    def _bounds(self) -> Bounds:
        """Return the bounds of theorems and the observed bounds of the fitted game."""

    @property
    def objective_(self) -> Any:
        """Objective of the mixture weights."""
        return self.combiner_.objective

    @property
    def gap_(self) -> float:
        """Largest optimality gap of a solve; for a single hypothesis the gain of a mixture."""
        check_is_fitted(self)
        return max(0.0, *self.trace_.gap.tolist(), self.ensemble_.gap)

    def _set_ensemble(self, ensemble: MixtureEnsemble) -> None:
        self.ensemble_ = ensemble
        self._results = {}
        self.__dict__.pop("certificate_", None)  # of `tailboost.calibrate`, for other weights

    def _rows_kept(self) -> Rows:
        return self.combiner_.pool.rows

    # -- on the selection data -----------------------------------------------------------------------

    @property
    def _grouping(self) -> Grouping:
        """Names of the groups of the selection data."""
        return Grouping.of(self.classes_)

    @property
    def _counting(self) -> SubgroupMixture:
        """Hypotheses as candidates with confusion counts, for the subgroups of the objective."""
        return self.combiner_.counting(self._grouping)

    def _counts(self) -> Floats:
        """Return the confusion counts of `predict` on the selection data."""
        return cast("Floats", self._cached("counts", self._count))

    def _count(self) -> Floats:
        shares = self.combiner_.pool.shares(self.ensemble_)
        return self._counting.counted(shares.argmax(axis=1))

    def _errors(self, counts: Floats) -> RateTable:
        """Return the errors of the subgroups by confusion counts, in the order of `subgroups_`."""
        return self._counting.errors_of(counts)

    @property
    def rates_(self) -> RateTable:
        """Rates of the objective and of the limits by subgroup, of `predict` on the selection data."""
        check_is_fitted(self)
        combiner, counts = self._counting, self._counts()
        return combiner.rates_of(counts).expecting(combiner.outlook(counts))

    def _subgroup_table(self) -> RateTable:
        return self._errors(self._counts())

    @property
    def limits_met_(self) -> bool | None:
        """Whether `predict` satisfies all limits on the selection data; None without limits."""
        check_is_fitted(self)
        combiner = self._counting
        if not combiner.limits:
            return None
        return bool((combiner.program.violations(self._counts()) <= SLIGHT).all())

    def _unit_table(self) -> RateTable | None:
        """Return the errors of the subgroups, of `predict` and of the randomised rule.

        None if the objective is about rows.
        """
        if (combiner := self._counting) is not self.combiner_:
            return None
        predicted = self._subgroup_table()
        drawn = self._errors(combiner.mixed(self.estimator_weights_))
        pairs = zip(predicted, drawn, strict=True)
        if all(np.array_equal(a.value, b.value, equal_nan=True) for a, b in pairs):
            return predicted
        lines = [replace(line, rule="randomised") for line in drawn]
        return replace(predicted, lines=(*predicted.lines, *lines))

    def reweight(
        self,
        X: Any = None,
        y: Any = None,
        *,
        alpha: float | None = None,
        objective: Any = None,
        groups: Any = None,
        sample_weight: Any = None,
        error_budget: float | None = None,
        max_error: Any = None,
    ) -> Self:
        """Return a classifier with the same hypotheses and other mixture weights λ; nothing is trained.

        Parameters
        ----------
        X, y : optional
            Selection data, on which the hypotheses were not fitted. By default the selection data of the fit,
            whose losses are stored with the model.
        alpha : float in (0, 1], optional
            Tail mass for ``objective="cvar"``; by default that of the classifier.
        objective : {"cvar", "worst_class", "worst_group", "worst_cell"}, rate or largest, optional
            Objective of λ: a name, a rate of `tailboost.rates`, or a `tailboost.CVaR`. By default "cvar" if
            there is an ``alpha``, else the objective of the fit.
        groups : array-like of shape (n,) or table of n rows, optional
            Groups of the rows of X, as in `fit`. Without X and for "worst_group", groups of all rows in the
            table of the selection data: X or ``X_val`` of `fit`, or X of the last `reweight`.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows of X.
        error_budget : float in [0, 1], optional
            Largest increase of the overall error relative to the most accurate hypothesis, on the selection
            data. 1 sets no limit. By default the budget of the classifier.
        max_error : float in (0, 1] or dict, optional
            Limits on the errors of classes, groups or cells, as in `WorstClassBoostClassifier`. The mixture
            of least overall error within the limits is selected, or the one with the smallest violation. By
            default the limits of the classifier, if the objective is that of the fit.

        Returns
        -------
        classifier
            Fitted classifier of the same class. This one is unchanged.

        Raises
        ------
        ValueError
            If an argument is not as described, or a group has no row in the selection data.

        Warns
        -----
        ResubstitutionWarning
            If the hypotheses were fitted on the rows (see `seen_share`).
        BoundNotMetWarning
            Names the subgroups whose error is above their limit.
        """
        check_is_fitted(self)
        alpha = self._alpha_for(objective, alpha)
        same = objective is None and alpha is None
        aim = self.objective_ if same else objective_named(objective or "cvar", alpha)
        combiner = self.combiner_
        if error_budget is not None:
            error_budget = check_number(error_budget, "error_budget", 0, 1, closed=True)
        budget = combiner.error_budget if error_budget is None else error_budget
        new = copy.copy(self)
        if alpha is not None and "alpha" in self.get_params(deep=False):
            new.alpha = alpha
        X, y = unpack(X, y)
        pool, grouping = combiner.pool, self._counting.grouping
        given = rows_given("reweight", X, y, sample_weight=sample_weight)
        by_groups = combiner is self._counting and self._counting.steering.needs_groups
        if groups is not None and same and not by_groups:
            raise ValueError(f"the {aim} is not about groups: give objective='worst_group'")
        if given:
            check_indexes(X=X, y=y, groups=groups, sample_weight=sample_weight)
            if groups is not None and not same:
                new._name_groups(groups, n_rows_of(X))
            if objective == "worst_group" and groups is None:
                raise ValueError("objective='worst_group' needs groups")
            rows_given_here = ValidationRows(X, y, groups, sample_weight)
            words = "the {:,} rows given to reweight"
            X, rows = selection_data(new, self._checked(X), rows_given_here, "", words)
            rows = noting_seen(self.seen_rows_, X, rows, KEPT)
            new.chosen_rows_ = (*self.chosen_rows_, Fingerprint.of_rows(X))
            pool = pool.on_rows(X, rows)
            grouping = Grouping.of(self.classes_, new._group_names if groups is not None else None)
        elif groups is not None:
            if same or objective in (None, "cvar", "worst_class"):
                raise ValueError("groups without X and y need objective='worst_group'")
            pool = pool.regrouped(new._groups_of_judged(groups))
            grouping = Grouping.of(self.classes_, new._group_names)
        limits = combiner.limits if same else ()
        if max_error is not None:
            aim, limits = self._aimed(pool, aim, grouping, max_error)
        other = combiner_of(pool, aim, grouping, limits, budget, combiner.randomized)
        mixed = self._combined_by(new, other)
        if max_error is not None:
            mixed._take_targets(max_error)
            missed = [(x.subgroup, x.value, x.bound) for x in mixed._subgroup_table() if x.met is False]
            if missed:
                strict = any(limit.strict for limit in limits)
                warn_of_missed(missed, mixed._counting, mixed._rows_kept().words, strict=strict)
        return mixed

    def _aimed(
        self, pool: ModelPool, aim: Any, grouping: Grouping, max_error: Any
    ) -> tuple[Objective, tuple[Limit, ...]]:
        """Return the overall error as objective, and limits on the errors of subgroups."""
        rate = getattr(aim, "rate", None)
        if rate is None:
            raise ValueError(
                f"max_error={max_error!r} has no meaning with the {aim}: give objective='worst_class' or "
                "'worst_group'"
            )
        if rate.by is None:  # the objective has limits already
            rate = self._counting.steering
        strata = grouping.table(pool.rows)[0].strata
        names = strata.subgroups(rate.by)[0]
        allowed = checked_targets(max_error, names, rate.by)
        return Objective.of(error()), (self._allowing(rate, dict(zip(names, allowed.tolist(), strict=True))),)

    def _allowing(self, rate: Rate, allowed: dict[Any, float]) -> Limit:
        """Return the limit that allows each subgroup its error."""
        return rate <= allowed

    def _take_targets(self, max_error: Any) -> None:
        """Set the limits given to `reweight`."""

    def _alpha_for(self, objective: Any, alpha: float | None) -> float | None:
        """Return the checked tail mass for an objective of `reweight`; None if the objective has none."""
        if alpha is None and objective in (None, "cvar"):
            alpha = self.get_params(deep=False).get("alpha")
        if objective == "cvar" and alpha is None:
            raise ValueError(f"alpha is needed: {type(self).__name__} has none")
        if objective not in (None, "cvar") and alpha is not None:
            raise ValueError(f"alpha={alpha!r} has no meaning with objective={objective!r}")
        return None if alpha is None else check_number(alpha, "alpha", 0, 1)

    def _combined_by(self, new: Self, combiner: Mixture | SubgroupMixture) -> Self:
        """Set another combiner of the same hypotheses in a copy of this classifier."""
        if not self.combiner_.even and "error_budget" in self.get_params(deep=False):
            new.set_params(error_budget=combiner.error_budget)
        new.combiner_ = combiner
        new._set_ensemble(combiner.settle(new.game_))
        return new

    def tradeoff(self, a: Any = None, b: Any = None, *, n_points: int = 9) -> Curve:
        """Return the trade-off of two rates, without training.

        Parameters
        ----------
        a : rate, largest, gap or ratio, optional
            The limited rate; by default the overall error.
        b : rate or largest, optional
            The rate that is minimised within the limit. By default the objective; if this is the overall
            error, the largest error of a class.
        n_points : int, default=9
            Number of limits, from the tightest to the loosest.

        Returns
        -------
        Curve
            The curve on the selection data. ``at(level)`` returns the classifier for a limit. ``predicted(X,
            y)`` returns both rates of `predict` on other rows. If several hypotheses have mixture weight, the
            rates of a point are those of the randomised rule.

        Raises
        ------
        ValueError
            If an argument is no rate, or a rate that is not measured here.
        """
        check_is_fitted(self)
        counting = self._counting
        if a is None and b is None and self.combiner_ is not counting:
            return self._tail_curve()
        objective = counting.objective
        small: Any = Largest(objective.rate) if objective.worst else objective.rate
        limited: Any = error() if counting.limit is None else Largest(counting.limit.rate)
        one, other, others = rates_of_curve(a, b, limited, small, counting.limits)
        budget = None if error() in (one.rate, other.rate) else counting.error_budget
        stated = counting.stating(other, others, budget)

        def at(level: float, point: Any) -> Any:
            if point is not None:
                return point
            return self._combined_by(
                copy.copy(self), counting.stating(other, (*others, one.within(level)), budget)
            )

        reached, weights = stated.front_of(one, n_points)
        points = tuple(
            CurvePoint(float(reached[i, 0]), float(reached[i, 1]), self._weighing(stated, weights[i]))
            for i in front(one, *reached.T)
        )
        return Curve(points, one, other, self._rows_kept().words, at, self)

    def _tail_curve(self) -> Curve:
        """Return the trade-off of the overall error and an objective over rows."""
        combiner = cast("Mixture", self.combiner_)
        corners, least = combiner.curve(), float(combiner.pool.mean_losses().min())

        def at(level: float, point: Any) -> Any:
            budget = max(0.0, level - least)
            return self._combined_by(
                copy.copy(self), combiner.aiming_at(combiner.objective, error_budget=budget)
            )

        values = combiner.values(corners.mixture)
        points = tuple(
            CurvePoint(mean, value, self._weighing(combiner.aiming_at(combiner.objective), mixture))
            for mean, value, mixture in zip(
                corners.mean.tolist(), values.tolist(), corners.mixture, strict=True
            )
        )
        overall, words = Objective.of(error()), self._rows_kept().words
        return Curve(points, overall, combiner.objective, words, at, self, corners.gap)

    def _weighing(self, combiner: Mixture | SubgroupMixture, mixture: Floats) -> Any:
        """Return the classifier with these mixture weights."""
        new = copy.copy(self)
        new.combiner_ = combiner
        new._set_ensemble(combiner.ensemble(mixture))
        return new

    def _answers_of(self, classifiers: Sequence[Any], X: Any, groups: Any) -> list[tuple[Any, None]]:
        """Return the predictions of the classifiers of a curve; each hypothesis predicts once."""
        answers = list(self.ensemble_.answers(self._checked(X)))
        return [(self.classes_[c.ensemble_.scores_of(answers).argmax(axis=1)], None) for c in classifiers]

    def _name_groups(self, groups: Any, n: int) -> GroupNames:
        """Set the names of groups that differ from the groups of `fit`."""
        names = GroupNames.of(groups, "groups", n, np.ones(n, dtype=np.bool_))
        self.__dict__.update(regrouped_attributes(self, names))
        return names

    def _groups_of_judged(self, groups: Any) -> Ints:
        """Set the names of groups, and return the groups of the selection data as numbers."""
        rows = self.combiner_.pool.rows
        used = rows_among(groups, rows)
        names = self._name_groups(groups, len(used))
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
        return kept

    @property
    def summary_(self) -> Summary:
        """Bounds and achieved objective; computed at the first access."""
        return cast("Summary", self._cached("summary", self._summarise))

    def _summarise(self) -> Summary:
        classes, combiner, weights = self.classes_.tolist(), self.combiner_, self.estimator_weights_
        summary = mixture_summary(self.game_, combiner, weights, self.gap_, self._bounds(), classes)
        symbols = summary.symbols | self._own_symbols
        return replace(summary, errors=self._unit_table(), groups=group_uses(self), symbols=symbols)

    @property
    def _own_symbols(self) -> dict[str, str]:
        """Meaning of further symbols in the bounds."""
        return {}

    # -- prediction ----------------------------------------------------------------------------------

    def _scores(self, X: Any, groups: Any = None) -> Floats:
        if groups is not None:
            raise ValueError(GROUPS_UNUSED)
        return super()._scores(X)

    def _asker(self, X: Any, groups: Any) -> tuple[int, Callable[[int, Ints], Ints]]:
        if groups is not None:
            raise ValueError(GROUPS_UNUSED)
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
        pool = self.combiner_.pool
        return np.array([s.mixture for s in mixture_path(pool.losses(), values, pool.base())])

    def predict_proba(self, X: Any) -> Floats:
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

    def staged_predict_distribution(self, X: Any) -> Iterator[Floats]:
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
            yield self.combiner_.stage(t).scores_of(answers)
        yield self.ensemble_.scores_of(answers)

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
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
