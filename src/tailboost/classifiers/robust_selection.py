"""Selection on models' probabilities, whoever made them: all but training."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from tailboost.boosting.training_set import GroupNames, RowOrigin, Rows, n_group_rows, take
from tailboost.classifiers.answers import MixtureAnswers
from tailboost.classifiers.input import ValidationRows, judged_rows, labels_of, named_groups, rows_given
from tailboost.classifiers.rated import InfeasibleLimitsError, RateChoice, Rated, Stated, name_of, stated_pair
from tailboost.classifiers.subgroup_views import SubgroupViews
from tailboost.classifiers.tail import TailChoice
from tailboost.core.array_types import Floats, Mask
from tailboost.core.checks import check_costs, check_weights, n_rows_of, positions
from tailboost.core.fingerprints import Fingerprint
from tailboost.core.subgroups import group_uses
from tailboost.core.torch_data import unpack
from tailboost.guarantees.fit_summary import Summary
from tailboost.guarantees.leakage import noting_frozen, noting_seen
from tailboost.rates import Largest, Limit, Objective, Spread, deferred, error
from tailboost.selection.curve import SLACK, Curve, CurvePoint, LookedAt, RateOf, front
from tailboost.selection.probability_tables import Judged, Models
from tailboost.selection.program import SLIGHT
from tailboost.selection.rate_table import RateTable
from tailboost.selection.selecting import within_budget


class ProbabilityMixture(SubgroupViews, MixtureAnswers):
    """Candidates that are functions of models' probabilities, and the one that is selected.

    `_settle` selects on probabilities of rows that the models were not fitted on, whoever made them.
    """

    objective: Any
    limits: Any
    # The engine on the selection data, and the selected rule; both stay where another selection fails.
    _rated: Rated
    _choice: RateChoice | TailChoice
    alpha: float | None
    max_error: Any
    error_budget: float | None
    confidence: float | None
    randomized: bool | str

    # -- the choice ----------------------------------------------------------------------------------

    def _name_groups(self, groups: Any, used: Mask | None = None) -> None:
        """Take the names of groups that rows are given with, all of them or those of some rows."""
        n = n_group_rows(groups)
        self._set_groups(GroupNames.of(groups, "groups", n, np.ones(n, bool) if used is None else used))

    def _set_groups(self, names: GroupNames) -> None:
        self.__dict__.update(named_groups(self, names))
        self._check_columns()

    def _check_columns(self) -> None:
        if self.by_group and len(self._group_names.values) > 1:
            raise ValueError(
                f"by_group=True takes one column of groups, got {len(self._group_names.values)}: "
                "join their values into one, so that each row is in one group"
            )

    def _judged_by(self, models: Models, X: Any, y: Any, groups: Any, sample_weight: Any, to: str) -> Judged:
        """Return rows given to judge members on: a table, or the models' probabilities by name."""
        words = f"the {{:,}} rows given to {to}"
        if models.fitted:
            X, y = unpack(X, y)
            X, rows = judged_rows(self, self, ValidationRows(X, y, groups, sample_weight), "", words)
            if not all(isinstance(model, FrozenEstimator) for model in models.fitted):
                rows = noting_seen(self.seen_rows_, X, rows, "the probabilities kept with the model")
            rows = noting_frozen(self, X, rows)
            table = models.transform(X)
            return Judged.of(models, [table[i] for i in range(len(models.names))], rows)
        judged = Judged.of(models, *self._given(models, X, y, groups, sample_weight, words))
        judged.check_order(self.classes_)
        return judged

    def _given(
        self, models: Models, probabilities: Any, y: Any, groups: Any, sample_weight: Any, words: str
    ) -> tuple[list[Floats], Rows]:
        """Return the log-probabilities of models that were given by name, and the rows of positive weight."""
        y, n = labels_of(y), n_rows_of(y)
        table = models.given(probabilities, range(len(models.names)), self.classes_, n)
        weight = check_weights(sample_weight, n)
        used = weight > 0
        numbers = positions(y[used], self.classes_, "y")
        groups = None if groups is None else self._group_names.number(groups, "groups", n, used)
        rows = Rows(
            numbers, weight[used], groups, words.format(int(used.sum())), None, RowOrigin(n).part(used)
        )
        return [table[i][used] for i in range(len(models.names))], rows

    @property
    def _stated(self) -> Stated | None:
        """The objective and the limits as rates; None for a CVaR, which is no rate."""
        return Stated.of(self.objective, self.limits, self.max_error)

    @property
    def weighs_groups(self) -> bool:
        """Whether answers weigh p(group | x, y), learned from the other columns: rates are by group."""
        ensemble = self.ensemble_
        return any(ensemble.members[m].weighs_groups for m in np.flatnonzero(ensemble.weights > 0))

    @property
    def _objective_name(self) -> str:
        return name_of(self.objective)

    def _settle(
        self,
        judged: Judged,
        X: Any = None,
        *,
        costs: Any = None,
        known: Rated | None = None,
    ) -> None:
        """Make the candidates and select.

        Parameters
        ----------
        judged : Judged
            The log-probabilities of the rows, and their average.
        X : table, optional
            Their features.
        costs : ndarray of shape (n, K), optional
            What each answer costs in each of them.
        known : Rated, optional
            An engine on these rows.
        """
        stated = self._stated
        if known is None:
            names = getattr(self, "_group_names", None)
            spoken = Stated.of("worst_class") if stated is None else stated
            assert spoken is not None
            known = Rated.of(spoken, judged, X, self.classes_, names, told=self.by_group, costs=costs)
        self._judged, self._rated = judged, known
        if stated is None:
            assert self.alpha is not None
            self._take(TailChoice.of(known, judged, float(self.alpha), self.error_budget))
        else:
            self._take(
                known.choose(
                    stated, error_budget=self.error_budget, sharing=self._sharing, confidence=self.confidence
                )
            )

    def _take(self, choice: RateChoice | TailChoice) -> None:
        """Answer as a selected rule does."""
        self._choice, self.ensemble_ = choice, choice.ensemble
        self.__dict__.pop("_guarantee", None)

    def _warn(self, *, forewarned: bool = False) -> None:
        """Warn of what the selection found, and of limits below their noise unless that was said before."""
        self._choice.warn(forewarned=forewarned)
        self._choice.warn_of_missed()

    @property
    def _sharing(self) -> bool:
        """Whether candidates may share the weight."""
        return self._objective_name == "cvar" if self.randomized == "auto" else bool(self.randomized)

    # -- another choice ------------------------------------------------------------------------------

    def reweight(
        self,
        X: Any = None,
        y: Any = None,
        *,
        alpha: float | None = None,
        objective: Any = None,
        limits: Any = None,
        groups: Any = None,
        costs: Any = None,
        sample_weight: Any = None,
        error_budget: float | None = None,
        max_error: Any = None,
        confidence: float | None = None,
    ) -> Self:
        """Return a classifier of the same models with another choice of thresholds and λ; nothing is trained.

        Parameters
        ----------
        X, y : optional
            Rows to choose on, which no model was fitted on; for a classifier `from_probabilities`, X is a
            dict of the models' probabilities. Without them the probabilities kept with the model serve.
        alpha : float in (0, 1], optional
            Tail mass of the CVaR, which it implies.
        objective : {"cvar", "worst_class", "worst_group", "worst_cell", "error"}, rate or largest, optional
            By default the classifier's own.
        limits : list of Limit, optional
            By default the classifier's own.
        groups : array-like of shape (n,) or table of n rows, optional
            Groups of the rows of X or, without X, of the rows given where the probabilities kept are from.
        costs : array-like of shape (n, K), optional
            What each answer costs in each row of X.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows of X.
        error_budget : float in [0, 1], optional
            By default the classifier's own.
        max_error : float in (0, 1] or dict, optional
            Targets for the units, as in the class; by default the classifier's own, where the units are the
            same.
        confidence : float in [0, 1), optional
            With which probability all limits have to hold on new rows; by default the classifier's own.

        Returns
        -------
        classifier
            Of the same class; this one is unchanged.

        Raises
        ------
        ValueError
            If an argument is not as described.

        Warns
        -----
        BoundNotMetWarning
            Names the units whose error is above their target.
        ResubstitutionWarning
            Where models were fitted on the rows given.
        """
        if not hasattr(self, "_rated"):  # kept also where limits contradicted each other
            check_is_fitted(self)
        new = self._meaning(alpha, objective, limits, error_budget, max_error, confidence)
        judged, rated, table = self._judged, getattr(self, "_rated", None), None
        if rows_given("reweight", X, y, sample_weight=sample_weight, costs=costs):
            if groups is not None:
                new._name_groups(groups)
            judged, rated = new._judged_by(judged.models, X, y, groups, sample_weight, "reweight"), None
            given = judged.rows.given
            costs = check_costs(costs, n_rows_of(y), self.classes_, None if given is None else given.index)
            if judged.models.fitted:
                checked = self._checked(unpack(X, y)[0])
                table = _used(checked, judged.rows)
                new.chosen_rows_ = (*self.chosen_rows_, Fingerprint.of_rows(checked))
        elif groups is not None:
            judged, rated = judged.kept(), None
            judged = replace(judged, rows=new._with_groups(judged.rows, groups))
        check_parameters(new, judged.rows.groups)
        stated = new._stated
        spoken = Stated.of("worst_class") if stated is None else stated
        assert spoken is not None
        if rated is not None and not rated.covers(spoken, getattr(new, "_group_names", None)):
            rated = None
        if rated is None and spoken.needs_costs and costs is None:
            raise ValueError("costs of the rows are not kept with the model: give X, y and costs")
        new._settle(judged.kept(), table, costs=costs, known=rated)
        new._warn()
        return new

    def _meaning(
        self,
        alpha: float | None,
        objective: Any,
        limits: Any,
        error_budget: float | None,
        max_error: Any,
        confidence: float | None,
    ) -> Self:
        """Return a copy whose parameters are those asked for, where they are, and checked."""
        new = copy.copy(self)
        if limits is not None:
            new.limits = limits
        if objective is not None or alpha is not None:
            new.objective = "cvar" if objective is None else objective
            new.alpha = alpha
            if new.objective == "cvar" and alpha is None:
                new.alpha = self.alpha
        if new._objective_name != self._objective_name:
            new.max_error = None  # its names are those of other units
        if error_budget is not None:
            new.error_budget = error_budget
        if max_error is not None:
            new.max_error = max_error
        if confidence is not None:
            new.confidence = confidence
        new._validate_params()
        return new

    def _with_groups(self, rows: Rows, groups: Any) -> Rows:
        """Return the rows whose probabilities are kept with groups of the rows they were given with."""
        n, given = n_group_rows(groups), rows.given
        if given is None or n != given.n_rows:
            raise ValueError(
                f"groups has {n} entries, but the probabilities kept are of {rows.words}, from a table given "
                f"with {len(rows.y) if given is None else given.n_rows:,} rows: one group for each is needed"
            )
        used = np.arange(n) if given.index is None else given.index
        self._name_groups(groups, np.isin(np.arange(n), used))
        return replace(rows, groups=self._group_names.number(groups, "groups", n)[used])

    def tradeoff(self, a: Any = None, b: Any = None, *, n_points: int = 9, passed_on: Any = None) -> Any:
        """Return what a limit on one rate costs in another, without training.

        Parameters
        ----------
        a : rate, largest, gap or ratio, optional
            What is limited. By default the rate of the first limit, and without limits the overall error.
        b : rate or largest, optional
            What is made small within the limits. By default the objective; beside the overall error the
            largest error of a class. If it is a gap or a ratio, that is limited and ``a`` is made small.
        n_points : int, default=9
            Limits for which candidates are searched. The curve has a point for each candidate that no other
            dominates.
        passed_on : sequence of float in [0, 1), optional
            A curve for each of these shares of rows that may be deferred.

        Returns
        -------
        Curve, or dict of Curve by share
            On the selection data. Its ``at(level)`` gives the classifier within a limit, ``predicted(X, y)``
            both rates on other rows.

        Raises
        ------
        ValueError
            If the rates are none, or not known here.
        """
        check_is_fitted(self)
        if passed_on is not None:
            return self._deferral_curves(a, b, n_points, passed_on)
        if a is None and b is None and self._stated is None:
            return self._tail_curve()
        limited, small = self._pair(a, b)
        return self._rate_curve(limited, small, n_points)

    def _pair(self, a: Any, b: Any, limits: tuple[Limit, ...] | None = None) -> tuple[Any, Any]:
        """Return both rates of a curve; by default of the problem, or of it with other limits."""
        stated = self._stated or Stated.of("worst_class")
        assert stated is not None
        limited, small = stated_pair(replace(stated, limits=stated.limits if limits is None else limits))
        if getattr(b, "compares", False):
            a, b = b, a
        if a is not None:
            limited, small = a, error() if a != error() else Largest(error(by="class"))
        return limited, small if b is None else b

    def _rate_curve(
        self, limited: Any, small: Any, n_points: int, looked_at: LookedAt | None = None
    ) -> Curve:
        one: Any = limited if getattr(limited, "compares", False) else Objective.of(limited)
        other = Objective.of(small)
        others = self._other_limits(one)
        mix = self._reaching(other, (*others, one.within(one.most)))
        start_of = cast("RateChoice", mix._choice)
        rated, objective, overall = mix._rated, start_of.stated.objective, one == Objective.of(error())
        budget = None if overall else self.error_budget
        base = start_of.program.within(others)
        pool = rated.seeded(base)
        base = within_budget(pool, base, budget)

        def grown(limits: tuple[Limit, ...], objective: Objective) -> RateChoice | None:
            try:
                stated = Stated(objective, limits)
                return rated.choose(stated, error_budget=budget, sharing=self._sharing, pool=pool)
            except InfeasibleLimitsError:
                return None

        found = []
        if self._sharing or not (overall and not others):
            # Limits between what the objective alone leads to and the tightest.
            start = grown(others, objective)
            tightest = start if one.compares else grown(others, one)
            if start is not None and tightest is not None:
                least = one.least if one.compares else tightest.value(one)
                for level in np.linspace(start.value(one), least, n_points):
                    above = one.within(one.most).from_above
                    eased = min(level + SLACK, one.most) if above else max(level - SLACK, one.most)
                    found.append(grown((*others, one.within(float(eased))), objective))
        if not self._sharing:
            _, excess = base.judge(pool.tallies)
            found += [
                rated.choice(
                    Stated(objective, others), base, pool, rated.alone(pool, base, int(i)), sharing=False
                )
                for i in np.flatnonzero(excess <= SLIGHT)
            ]
        choices = [choice for choice in found if choice is not None]
        reached = np.array([(choice.value(one), choice.value(other)) for choice in choices]).reshape(-1, 2)
        points = tuple(
            CurvePoint(
                float(reached[i, 0]),
                float(reached[i, 1]),
                mix._as_chosen(choices[i], (*others, one.within(reached[i, 0]))),
            )
            for i in front(one, *reached.T)
        )

        def at(level: float, point: Any) -> Any:
            limits = (*others, one.within(level))
            return self._reaching(other, limits) if point is None else point._as_chosen(point._choice, limits)

        return Curve(
            points,
            one,
            other,
            rated.words,
            (RateOf(one), RateOf(other)),
            at,
            self._along,
            self._sketch,
            _looked_at=looked_at or LookedAt(),
        )

    def _tail_curve(self) -> Curve:
        choice = self._choice
        assert isinstance(choice, TailChoice)
        overall = Objective.of(error())

        def at(level: float, point: Any) -> ProbabilityMixture:
            new = copy.copy(self)
            new.error_budget = max(0.0, level - choice.least)
            new._take(choice.within(new.error_budget))
            return new

        points = []
        for mean, worst, found in choice.curve():
            new = copy.copy(self)
            new.error_budget = max(0.0, mean - choice.least)
            new._take(found)
            points.append(CurvePoint(mean, worst, new))
        measures = RateOf(overall), choice.objective
        words = self._judged.rows.words
        return Curve(tuple(points), overall, choice.objective, words, measures, at, self._along, self._sketch)

    def _other_limits(self, limited: Objective | Spread) -> tuple[Limit, ...]:
        """Return the limits but for those on what a curve limits."""
        stated = self._stated
        own = limited.within(limited.most)
        limits = () if stated is None else stated.limits
        return tuple(limit for limit in limits if (limit.form, limit.rate) != (own.form, own.rate))

    def _reaching(self, objective: Objective, limits: tuple[Limit, ...]) -> Self:
        """Return the classifier of an objective within limits; targets and budget are among the limits."""
        given = Largest(objective.rate) if objective.worst else objective.rate
        with warnings.catch_warnings():
            # Each point would say of its own limit what all of them have in common.
            warnings.simplefilter("ignore", UserWarning)
            bare = copy.copy(self)
            bare.max_error = bare.confidence = None
            if objective.rate == error() or any(limit.rate == error() for limit in limits):
                bare.error_budget = None
            return bare.reweight(objective=given, limits=list(limits))

    def _as_chosen(self, choice: RateChoice, limits: tuple[Limit, ...]) -> Self:
        """Return a classifier with another selected rule."""
        new = copy.copy(self)
        new.limits = list(limits)
        new._take(choice.within(limits))
        return new

    def _deferral_curves(self, a: Any, b: Any, n_points: int, shares: Any) -> dict[float, Curve]:
        """Return the curve of each of some shares of rows that may be deferred.

        Limits of the classifier on all deferred rows give way to the shares.
        """
        given = [float(share) for share in np.ravel(shares)]
        if not given or any(not 0.0 <= share < 1.0 for share in given) or len(set(given)) < len(given):
            raise ValueError(
                f"passed_on must be different shares of the rows, from 0 to below 1, got {shares!r}"
            )
        stated = self._stated
        kept = () if stated is None else stated.limits
        others = tuple(limit for limit in kept if limit.rate != deferred())
        limited, small = self._pair(a, b, others)
        mixes = [self._reaching(Objective.of(small), (*others, deferred() <= share)) for share in given]
        looked_at = LookedAt()  # a point may be picked from any of the curves
        return {
            share: mix._rate_curve(limited, small, n_points, looked_at)
            for share, mix in zip(given, mixes, strict=True)
        }

    def _along(self, classifiers: Sequence[Any], X: Any, groups: Any) -> list[tuple[Any, Any]]:
        """Return the answers of the classifiers of a curve, and which rows they defer."""
        if isinstance(X, Mapping):
            table = self._models.given(X, self._models.pooled_models, self.classes_)
        else:
            table = self._models.transform(self._checked(X))
        told = groups if self.by_group else None
        table = table.knowing(self._numbers(told, table.n_rows))
        return [
            (self.classes_[c._shares(table).argmax(axis=1)], c._deferred(table) if c.can_defer else None)
            for c in classifiers
        ]

    def _sketch(self, X: Any) -> Fingerprint | None:
        """Return the fingerprints of rows; None where probabilities are given, whose rows are not known."""
        return None if isinstance(X, Mapping) else Fingerprint.of_rows(self._checked(X))

    # -- what was found -------------------------------------------------------------------------------

    @property
    def gap_(self) -> float:
        """By how much a draw among the candidates could lower the objective on the selection data."""
        check_is_fitted(self)
        return self._choice.gap

    @property
    def objective_(self) -> Any:
        """What is made small."""
        return self._choice.objective

    @property
    def limits_met_(self) -> bool | None:
        """Whether all limits hold on the selection data; None without limits."""
        check_is_fitted(self)
        return self._choice.limits_met

    @property
    def summary_(self) -> Summary:
        """What was achieved, against constants and the most accurate rule, in words."""
        check_is_fitted(self)
        if "_guarantee" not in self.__dict__:
            found = self._choice.guarantee(self.classes_.tolist(), self.members_[0])
            self._guarantee = replace(found, groups=group_uses(self))
        return self._guarantee

    @property
    def rates_(self) -> RateTable:
        """The rates of the objective and of the limits by subgroup, on the selection data."""
        check_is_fitted(self)
        table = self._choice.table
        return replace(table, notes=(*table.notes, *map(str, group_uses(self))))

    def _subgroup_table(self) -> RateTable:
        return self._choice.errors


def check_parameters(mix: Any, groups: Any) -> None:
    """Raise ValueError where parameters do not suit each other, or groups are needed."""
    stated, name = mix._stated, mix._objective_name
    if stated is None:
        if mix.alpha is None:
            raise ValueError("objective='cvar' needs alpha, the tail mass in (0, 1]")
        if mix.max_error is not None:
            raise ValueError("max_error has no meaning with objective='cvar'")
        if mix.randomized is False:
            raise ValueError(
                "randomized=False leaves one candidate, and its CVaR is its mean loss / alpha, or 1: for "
                "objective='cvar' candidates must share"
            )
        if mix.by_group:
            raise ValueError("by_group=True has no meaning with objective='cvar': it is for groups")
        return
    if mix.alpha is not None:
        raise ValueError(
            f"alpha={mix.alpha!r} has no meaning with objective={name!r}: it is the tail mass of a CVaR"
        )
    if groups is None and stated.needs_groups:
        if isinstance(mix.objective, str):
            raise ValueError(f"objective={mix.objective!r} needs groups")
        rate = next(rate for rate in stated.rates if rate.needs_groups)
        raise ValueError(f"{rate!r} needs groups")
    if mix.by_group and groups is None:
        raise ValueError("by_group=True needs groups")


def _used(X: Any, rows: Rows) -> Any:
    """Return those rows of a table that have weight."""
    return X if rows.given is None or rows.given.index is None else take(X, rows.given.index)
