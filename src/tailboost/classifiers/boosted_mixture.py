"""Classifiers that mix their hypotheses: label shares as answer, re-weighting, and what was promised."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tailboost.boosting.ensemble import MixtureEnsemble
from tailboost.boosting.targets import checked_targets
from tailboost.boosting.training_set import GroupNames, Rows, n_group_rows
from tailboost.classifiers.base import BaseBoostClassifier
from tailboost.classifiers.base import routed_params as routed_params
from tailboost.classifiers.base import with_callbacks as with_callbacks
from tailboost.classifiers.input import ValidationRows, judged_rows, named_groups, rows_given
from tailboost.classifiers.plan import Plan, Schedule
from tailboost.classifiers.randomized import RandomizedClassifier
from tailboost.classifiers.subgroup_views import SubgroupViews
from tailboost.classifiers.target_game import warn_of_missed
from tailboost.core.array_types import Floats, Ints
from tailboost.core.checks import check_number, n_rows_of
from tailboost.core.fingerprints import Fingerprint
from tailboost.core.subgroups import group_uses
from tailboost.core.torch_data import unpack
from tailboost.core.warn import warn_user
from tailboost.guarantees.fit_summary import Bounds, Summary, mixture_summary
from tailboost.guarantees.leakage import ResubstitutionWarning, noting_seen
from tailboost.rates import Largest, Limit, Objective, error
from tailboost.selection.combiners import combiner_of
from tailboost.selection.curve import Curve, CurvePoint, Measured, RateOf, front
from tailboost.selection.loss_mixture import Mixture
from tailboost.selection.loss_objective import objective_named
from tailboost.selection.loss_pool import LossPool
from tailboost.selection.program import SLIGHT
from tailboost.selection.rate_table import RateTable
from tailboost.selection.subgroup_mixture import Grouping, SubgroupMixture

# What serves where no rows are given to `reweight`.
KEPT = (
    "the losses kept with the model (objective='worst_group' then takes the groups of the training rows "
    "alone)"
)


class MixtureClassifier(SubgroupViews, BaseBoostClassifier, RandomizedClassifier):
    """A randomised classifier: draw a hypothesis with probability λ, answer as it does."""

    ensemble_: MixtureEnsemble
    combiner_: Mixture | SubgroupMixture

    @abstractmethod
    def _bounds(self) -> Bounds:
        """Return the promised and the observed bounds of the fitted game."""

    @property
    def objective_(self) -> Any:
        """What the mixture makes small, or what it is judged by."""
        return self.combiner_.objective

    @property
    def gap_(self) -> float:
        """Largest optimality gap of a solve; of one member alone what members that share could gain."""
        check_is_fitted(self)
        return max(0.0, *self.trace_.gap.tolist(), self.ensemble_.gap)

    def _set_ensemble(self, ensemble: MixtureEnsemble) -> None:
        self.ensemble_ = ensemble
        for name in ("_guarantee", "_counted"):
            self.__dict__.pop(name, None)
        self.__dict__.pop("certificate_", None)  # of `tailboost.calibrate`, about other shares

    def _rows_kept(self) -> Rows:
        return self.combiner_.pool.ledger.rows

    # -- on the selection data -----------------------------------------------------------------------

    @property
    def _grouping(self) -> Grouping:
        """The names of the groups of the selection data."""
        return Grouping.of(self.classes_)

    @property
    def _counting(self) -> SubgroupMixture:
        """The members as candidates with confusion counts, for the subgroups that the objective is about."""
        return self.combiner_.counting(self._grouping)

    def _counts(self) -> Floats:
        """Return the confusion counts of `predict` on the selection data."""
        if "_counted" not in self.__dict__:
            shares = self.combiner_.pool.shares(self.ensemble_)
            self._counted = self._counting.counted(shares.argmax(axis=1))
        return self._counted

    def _errors(self, counts: Floats) -> RateTable:
        """Return the errors of the subgroups by confusion counts, in the order of `subgroups_`."""
        return self._counting.errors_of(counts)

    @property
    def rates_(self) -> RateTable:
        """The rates of the objective and of the limits by subgroup, of `predict` on the selection data."""
        check_is_fitted(self)
        combiner, counts = self._counting, self._counts()
        return combiner.rates_of(counts).expecting(combiner.outlook(counts))

    def _subgroup_table(self) -> RateTable:
        return self._errors(self._counts())

    @property
    def limits_met_(self) -> bool | None:
        """Whether `predict` keeps all limits on the selection data; None without limits."""
        check_is_fitted(self)
        combiner = self._counting
        if not combiner.limits:
            return None
        return bool((combiner.program.violations(self._counts()) <= SLIGHT).all())

    def _unit_table(self) -> RateTable | None:
        """Return the errors of the subgroups, by `predict` and expected of the randomised rule.

        None if the objective is about rows.
        """
        if (combiner := self._counting) is not self.combiner_:
            return None
        found = self._subgroup_table()
        drawn = self._errors(combiner.mixed(self.estimator_weights_))
        if all(np.array_equal(a.value, b.value, equal_nan=True) for a, b in zip(found, drawn, strict=True)):
            return found
        lines = [replace(line, rule="randomised") for line in drawn]
        return replace(found, lines=(*found.lines, *lines))

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
        """Return a new classifier with the same members and other shares λ; nothing is trained.

        Parameters
        ----------
        X, y : optional
            Rows to choose λ on, which the members were not fitted on; without them the losses kept with the
            model serve: out-of-fold losses of the training rows, or those of a held-out part or of ``X_val``.
        alpha : float in (0, 1], optional
            Tail mass for ``objective="cvar"``; by default the classifier's own.
        objective : {"cvar", "worst_class", "worst_group", "worst_cell"}, rate or largest, optional
            What λ minimises; by default "cvar" if an ``alpha`` is known, else the objective of the fit. Or a
            rate of `tailboost.rates`, or a `tailboost.CVaR`.
        groups : array-like of shape (n,) or table of n rows, optional
            Groups, as in `fit`, of the rows of X or, without X and for "worst_group", of those given where
            the losses kept are from: to `fit` as X, or as ``X_val``, or to the last `reweight`.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows of X.
        error_budget : float in [0, 1], optional
            λ is chosen among the mixtures whose mean error, on the rows of the choice, is at most
            ``error_budget`` above the least of a member; by default the classifier's own budget, if it has
            one. 1 sets no limit. `tradeoff` shows what each budget buys.
        max_error : float in (0, 1] or dict, optional
            Targets for the units of an objective over classes, groups or cells, as of
            `WorstClassBoostClassifier`: of the mixtures that keep them, by the estimate on halves of the
            rows, the one of least mean error answers, and where none does the one that is least beyond them.
            `predict` is judged, or the drawn member where the answers of the members are not known (more than
            two classes, and a classifier over rows). By default the classifier's own, where the objective is
            its own.

        Returns
        -------
        classifier
            Of the same class; this one is unchanged.

        Raises
        ------
        ValueError
            If an argument is not as described, or a group has no row whose loss is known.

        Warns
        -----
        ResubstitutionWarning
            Where members were fitted on the rows (see `seen_share`): they err less there than on fresh rows.
        BoundNotMetWarning
            Names the units whose error is above their target.
        """
        check_is_fitted(self)
        alpha = self._alpha_for(objective, alpha)
        own = objective is None and alpha is None
        aim = self.objective_ if own else objective_named(objective or "cvar", alpha)
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
        if groups is not None and own and not self._by_groups:
            raise ValueError(f"the {aim} is not about groups: give objective='worst_group'")
        if given:
            if groups is not None and not own:
                new._name_groups(groups, n_rows_of(X))
            if objective == "worst_group" and groups is None:
                raise ValueError("objective='worst_group' needs groups")
            X, rows = judged_rows(
                new, self._learner(), ValidationRows(X, y, groups, sample_weight), "",
                "the {:,} rows given to reweight",
            )  # fmt: skip
            rows = noting_seen(self.seen_rows_, X, rows, KEPT)
            new.chosen_rows_ = (*self.chosen_rows_, Fingerprint.of_rows(X))
            pool = pool.judged_on(X, rows)
            grouping = Grouping.of(self.classes_, new._group_names if groups is not None else None)
        elif groups is not None:
            if own or objective in (None, "cvar", "worst_class"):
                raise ValueError("groups without X and y need objective='worst_group'")
            pool = pool.regrouped(new._groups_of_judged(groups))
            grouping = Grouping.of(self.classes_, new._group_names)
        limits = combiner.limits if own else ()
        if max_error is not None:
            aim, limits = self._aimed(pool, aim, grouping, max_error)
        found = combiner_of(pool, aim, grouping, limits, budget, combiner.randomized)
        mixed = self._combined_by(new, found)
        if max_error is not None:
            mixed._take_targets(max_error)
            mixed._warn_of_missed()
        return mixed

    def _aimed(
        self, pool: LossPool, aim: Any, grouping: Grouping, max_error: Any
    ) -> tuple[Objective, tuple[Limit, ...]]:
        """Return the overall error as objective, within limits on the errors of subgroups."""
        rate = getattr(aim, "rate", None)
        if rate is None:
            raise ValueError(
                f"max_error={max_error!r} has no meaning with the {aim}: give objective='worst_class' or "
                "'worst_group'"
            )
        if rate.by is None:  # within limits already
            rate = self._counting.steering
        strata = grouping.table(pool.ledger.rows)[0].strata
        names = strata.units(rate.by)[0]
        allowed = checked_targets(max_error, names, rate.by)
        return Objective.of(error()), (rate <= dict(zip(names, allowed.tolist(), strict=True)),)

    def _take_targets(self, max_error: Any) -> None:
        """Take targets that `reweight` was given."""

    def _warn_of_missed(self, reasons: Sequence[str] = ()) -> None:
        """Name the subgroups whose error is above their limit."""
        combiner = self._counting
        missed = [line for line in self._subgroup_table() if line.met is False]
        if missed:
            warn_of_missed(missed, combiner, self._rows_kept().words, reasons)

    def _alpha_for(self, objective: Any, alpha: float | None) -> float | None:
        """Return the tail mass of an objective as given to `reweight`, checked; None where it has none."""
        if alpha is None and objective in (None, "cvar"):
            alpha = self.get_params(deep=False).get("alpha")
        if objective == "cvar" and alpha is None:
            raise ValueError(f"alpha is needed: {type(self).__name__} has none of its own")
        if objective not in (None, "cvar") and alpha is not None:
            raise ValueError(f"alpha={alpha!r} has no meaning with objective={objective!r}")
        return None if alpha is None else check_number(alpha, "alpha", 0, 1)

    def _combined_by(self, new: Self, combiner: Mixture | SubgroupMixture) -> Self:
        """Let a copy of this classifier mix the members by another combiner."""
        own = self.combiner_
        if own.chooses_shares and "error_budget" in self.get_params(deep=False):
            new.set_params(error_budget=combiner.error_budget)
        new.combiner_ = combiner
        new._set_ensemble(combiner.settle(new.game_))
        return new

    def tradeoff(self, a: Any = None, b: Any = None, *, n_points: int = 9) -> Curve:
        """Return what a limit on one rate costs in another, without training.

        Parameters
        ----------
        a : rate, largest, gap or ratio, optional
            What is limited; by default the overall error.
        b : rate or largest, optional
            What is made small within the limit. By default the objective or, beside the overall error, the
            largest error of a class.
        n_points : int, default=9
            Limits for which mixtures are selected, from the tightest to the loosest.

        Returns
        -------
        Curve
            On the selection data. Its ``at(level)`` gives the classifier within a limit, ``predicted(X, y)``
            both rates of `predict` on other rows. If members share λ, both rates of a point are those of the
            randomised rule.

        Raises
        ------
        ValueError
            If the rates are none, or not known here.
        """
        check_is_fitted(self)
        counting = self._counting
        if a is None and b is None and self.combiner_ is not counting:
            return self._tail_curve()
        own = counting.objective
        small: Any = Largest(own.rate) if own.worst else own.rate
        limited: Any = error() if counting.limit is None else Largest(counting.limit.rate)
        if getattr(b, "compares", False):
            a, b = b, a
        if a is not None:
            limited, small = a, error()
        if limited == small:
            small = Largest(error(by="class"))
        return self._rate_curve(limited, small if b is None else b, n_points)

    def _rate_curve(self, limited: Any, small: Any, n_points: int) -> Curve:
        """Return the trade-off of two rates."""
        one: Any = limited if getattr(limited, "compares", False) else Objective.of(limited)
        other, combiner = Objective.of(small), self._counting
        of_one = one.within(one.most)
        others = tuple(x for x in combiner.limits if (x.form, x.rate) != (of_one.form, of_one.rate))
        budget = None if error() in (one.rate, other.rate) else combiner.error_budget
        stated = combiner.stating(other, others, budget)

        def at(level: float, point: Any) -> Any:
            if point is not None:
                return point
            return self._selecting(combiner.stating(other, (*others, one.within(level)), budget))

        reached, weights = stated.front_of(one, n_points)
        points = tuple(
            CurvePoint(float(reached[i, 0]), float(reached[i, 1]), self._weighing(stated, weights[i]))
            for i in front(one, *reached.T)
        )
        words, measures = self._rows_kept().words, (RateOf(one), RateOf(other))
        return Curve(points, one, other, words, measures, at, self._along, self._sketch)

    def _tail_curve(self) -> Curve:
        """Return the trade-off of the overall error and an objective over rows."""
        combiner = cast("Mixture", self.combiner_)
        found, least = combiner.curve(), float(combiner.pool.ledger.mean_losses().min())

        def at(level: float, point: Any) -> Any:
            budget = max(0.0, level - least)
            return self._selecting(combiner.aiming_at(combiner.objective, error_budget=budget))

        values = combiner.values(found.mixture)
        points = tuple(
            CurvePoint(mean, value, self._weighing(combiner.aiming_at(combiner.objective), mixture))
            for mean, value, mixture in zip(found.mean.tolist(), values.tolist(), found.mixture, strict=True)
        )
        overall = Objective.of(error())
        measures, words = (RateOf(overall), cast("Measured", combiner.objective)), self._rows_kept().words
        about = points, overall, combiner.objective, words, measures
        return Curve(*about, at, self._along, self._sketch, found.gap)

    def _weighing(self, combiner: Mixture | SubgroupMixture, mixture: Floats) -> Any:
        """Return the classifier of some mixture weights of the members."""
        new = copy.copy(self)
        new.combiner_ = combiner
        new._set_ensemble(combiner.ensemble(mixture))
        return new

    @property
    def _by_groups(self) -> bool:
        """Whether the objective or a limit is about groups."""
        return self.combiner_ is self._counting and bool(self._counting.steering.needs_groups)

    def _along(self, classifiers: Sequence[Any], X: Any, groups: Any) -> list[tuple[Any, None]]:
        """Return the answers of the classifiers of a curve; members are asked once."""
        answers = list(self.ensemble_.answers(self._checked(X)))
        return [(self.classes_[c.ensemble_.scores_of(answers).argmax(axis=1)], None) for c in classifiers]

    def _sketch(self, X: Any) -> Fingerprint:
        return Fingerprint.of_rows(self._checked(X))

    def _selecting(self, combiner: Mixture | SubgroupMixture) -> Self:
        """Return the classifier that another combiner of the same members selects."""
        return self._combined_by(copy.copy(self), combiner)

    def _name_groups(self, groups: Any, n: int) -> GroupNames:
        """Take the names of other groups than those of fit, of n rows."""
        names = GroupNames.of(groups, "groups", n, np.ones(n, dtype=np.bool_))
        self.__dict__.update(named_groups(self, names))
        return names

    def _groups_of_judged(self, groups: Any) -> Ints:
        """Take the names of groups, and return the numbers of those of the rows whose losses are kept."""
        rows = self.combiner_.pool.ledger.rows
        given = rows.given
        if given is None:
            raise ValueError("groups without X and y: it is not known to which rows the losses kept belong")
        n = n_group_rows(groups)
        if n != given.n_rows:
            raise ValueError(
                f"groups has {n} entries, but the losses kept are of {rows.words}, from a table "
                f"given with {given.n_rows:,} rows: one group for each of those is needed"
            )
        names = self._name_groups(groups, n)
        numbers = names.number(groups, "groups", n)
        kept = numbers if given.index is None else numbers[given.index]
        if len(absent := np.setdiff1d(np.arange(len(names.names)), kept)):
            absent_names = names.names[absent].tolist()
            raise ValueError(
                f"the losses kept, of {rows.words}, are of no row in group(s) {absent_names}: "
                "give X and y with rows of every group, or fit with cv=5"
            )
        if rows.fitted:
            warn_user(
                f"the losses kept are of {rows.words}, which members were fitted on, and smaller than on "
                "fresh rows: fit with another cv than 'train', or give rows that were not fitted on",
                ResubstitutionWarning,
            )
        return kept

    @property
    def summary_(self) -> Summary:
        """What was promised, observed and achieved (computed when first asked for)."""
        check_is_fitted(self)
        if "_guarantee" not in self.__dict__:
            found = mixture_summary(
                self.game_,
                self.combiner_,
                self.estimator_weights_,
                self.gap_,
                self._bounds(),
                self.classes_.tolist(),
            )
            self._guarantee = replace(found, errors=self._unit_table(), groups=group_uses(self))
        return self._guarantee

    # -- prediction ----------------------------------------------------------------------------------

    def predict_proba(self, X: Any) -> Floats:
        """Return P(y | x): the λ-average of the members' class probabilities, constants left out.

        Where constants have all of λ the other members count alike. They are the members' own probabilities:
        of members that a game trained on reweighted rows those of such rows, and of members that answer
        labels alone their votes. What is answered is `predict`, how often `predict_distribution`.

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
        """Yield ``predict_distribution`` after 1, 2, … rounds, λ solved anew on each prefix.

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
        """Yield ``predict`` after 1, 2, … rounds, λ solved anew on each prefix.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`.

        Yields
        ------
        ndarray of shape (n,)
            The last array is that of ``predict``.
        """
        for shares in self.staged_predict_distribution(X):
            yield self.classes_[shares.argmax(axis=1)]


class ValidatedMixtureClassifier(MixtureClassifier):
    """A mixture whose λ is chosen on rows that members were not fitted on, and whose game may end early."""

    n_iter_no_change: Any
    tol: float
    cv: Any
    include_constants: bool

    def _schedule(self, plan: Plan) -> Schedule:
        return Schedule.of(self._most_rounds(), self.n_iter_no_change, self.tol, self.max_time, self.verbose)

    def _cv(self) -> Any:
        return self.cv
