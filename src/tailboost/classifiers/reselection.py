"""Another selection without training, and the results of a selection, for models and for boosting."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from numbers import Real
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from tailboost.boosting.ensemble import answers_by, draw
from tailboost.classifiers.input import (
    regroup,
)
from tailboost.core.array_types import Column, Floats, Groups, Ints, Mask, Seed, Stated, Table
from tailboost.core.checks import n_rows_of, unpack
from tailboost.rates import Limit, Objective, Rate, deferred, error
from tailboost.rows.fingerprints import digest
from tailboost.rows.given import Given
from tailboost.rows.group_names import GroupNames
from tailboost.rows.judged import cached, group_uses
from tailboost.rows.records import Records
from tailboost.selection.curve import (
    Curve,
    CurvePoint,
    CurveSource,
    MeasuredRows,
    front,
)
from tailboost.selection.engine import Engine
from tailboost.selection.problem import Problem
from tailboost.selection.rate_table import RateTable
from tailboost.selection.selected import Selected, SelectedTail
from tailboost.selection.summary import Summary


class Reselection:
    """A classifier whose rule is selected among candidates, and can be selected anew without a fit."""

    knows_rows = True
    _results: dict[str, Any]  # computed at the first access
    records_: Records
    classes_: NDArray[Any]
    ensemble_: Any
    _group_names: GroupNames

    @property
    @abstractmethod
    def _engine(self) -> Engine:
        """The candidates on the selection data."""

    @property
    @abstractmethod
    def _selected(self) -> Selected:
        """The selected rule."""

    @property
    @abstractmethod
    def _problem(self) -> Problem:
        """Objective, limits and error budget."""

    @abstractmethod
    def _reaching(self, objective: Objective, limits: tuple[Limit, ...]) -> Self:
        """Return the classifier of an objective within limits, which replace its limits and targets."""

    def _points(
        self, limited: Any, minimised: Objective, others: tuple[Limit, ...], n_points: int
    ) -> tuple[list[CurvePoint], Engine]:
        """Return the points of a trade-off within other limits, and the engine of their counts."""
        loosest = self._reaching(minimised, (*others, limited.within(limited.most)))
        problem = replace(loosest._problem.within(others), confidence=None)
        rules, reached = loosest._engine.along(problem, limited, n_points)
        points = []
        for i in front(limited, *reached.T):
            rate, value = reached[i].tolist()
            point = loosest._answering(rules[i], others, limited.within(rate))
            points.append(CurvePoint(rate, value, point))
        return points, loosest._engine

    @abstractmethod
    def _answering(
        self, rule: Selected, others: tuple[Limit, ...] = (), own: Limit | None = None
    ) -> Self:
        """Return a classifier that answers by a rule of a curve, with its limit and the other limits."""

    @property
    def n_selection_(self) -> float:
        """Number of the rows on which the rule was selected; of weighted rows the effective number."""
        return float(self._engine.data.strata.size.sum())

    @property
    def counts_on_selection(self) -> Floats:
        """The confusion counts of the rule on the selection data."""
        bare = copy.copy(self)
        bare._results = {}  # a calibration leaves nothing in the classifier but its attempt
        return bare._selected.counts

    @property
    def rule_digest(self) -> str:
        """Digest of the mixture weights, and of the candidates' outputs on the selection data."""
        ensemble = self.ensemble_
        rule = repr(
            (self.classes_.tolist(), ensemble.weights.tolist(), ensemble.tie_order.tolist())
        )
        return digest(rule.encode(), *(each.tobytes() for each in self._engine.known_outputs))

    def tested_values(self, opened: Any) -> Iterator[NDArray[Any]]:
        """Yield the answers of each candidate to opened rows: class numbers, or a label distribution.

        Parameters
        ----------
        opened : OpenedRows
            From `opened`.

        Yields
        ------
        ndarray of shape (n,) or (n, K)
        """
        n, ask = self._asker(opened, None)
        for candidate in range(len(self.ensemble_)):
            yield ask(candidate, np.arange(n))

    # -- other selection data --------------------------------------------------------------------------

    def _name_groups(self, groups: Groups, used: Mask | None = None) -> None:
        """Set the names of groups, of all rows or of some."""
        n = n_rows_of(groups)
        self._set_groups(
            GroupNames.of(groups, "groups", n, np.ones(n, bool) if used is None else used)
        )

    def _set_groups(self, names: GroupNames) -> None:
        regroup(self, names)

    # -- another selection -----------------------------------------------------------------------------

    def reweight(
        self,
        X: Table = None,
        y: Column = None,
        *,
        alpha: float | None = None,
        objective: Stated = None,
        limits: Stated = None,
        groups: Groups = None,
        costs: Table = None,
        sample_weight: Column = None,
        error_budget: float | None = None,
        max_error: Stated = None,
        confidence: float | None = None,
    ) -> Self:
        """Return a classifier with the same models and another selected rule; nothing is trained.

        Parameters
        ----------
        X, y : optional
            Selection data that no model or hypothesis has read. A classifier made by `from_probabilities`
            takes a dict of the models' probabilities as X. By default the selection data of the fit.
        alpha : float in (0, 1], optional
            Tail mass of the CVaR, which becomes the objective.
        objective : {"cvar", "worst_class", "worst_group", "worst_cell", "error"}, rate or largest, optional
            By default unchanged; if a boosting classifier has an ``alpha``, "cvar".
        limits : list of Limit, optional
            By default unchanged; boosting keeps limits if the objective stays the same.
        groups : array-like of shape (n,) or table of n rows, optional
            Groups of the rows of X or, without X, of all rows in the table of the selection data.
        costs : array-like of shape (n, K), optional
            Cost of each answer in each row of X, for models.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows of X.
        error_budget : float in [0, 1], optional
            Largest overall error less that of the most accurate candidate, on the selection data: .02 allows
            .22 if the least is .20. By default unchanged.
        max_error : float in (0, 1] or dict, optional
            Limits for the subgroups, as the parameter of the classifier. By default its value is kept if the
            objective stays the same.
        confidence : float in [0, 1), optional
            Estimated probability with which all limits have to hold on new rows, for models; by default that
            of the classifier.

        Returns
        -------
        classifier
            A new classifier of the same type. The original is unchanged.

        Raises
        ------
        ValueError
            If an argument is not as described.

        Warns
        -----
        BoundNotMetWarning
            Names the violated limits.
        ResubstitutionWarning
            If models were fitted on the given rows.
        """
        check_is_fitted(self)
        X, y = unpack(X, y)
        new = copy.copy(self)
        rows = Given(X, y, groups, sample_weight, costs)
        rows.refuse("reweight", *["X is a number"] * isinstance(X, Real), told={"X": X})
        given = X is not None
        stated = {
            "alpha": alpha,
            "objective": objective,
            "limits": limits,
            "error_budget": error_budget,
        }
        problem = new._restated(
            stated | {"max_error": max_error, "confidence": confidence}, groups, given
        )
        if given:
            rows.check_indexes()
            engine = new._engine_on(rows, problem)
            new.records_ = self.records_.joined(new._reading(X, y))
        else:
            if groups is None:
                engine = self._engine
            else:
                engine = new._engine_by(groups, problem)
        new._select(engine, problem, max_error)
        return new

    @abstractmethod
    def _reading(self, X: Table, y: Column) -> Records:
        """Return the record of rows with labels by which a rule is selected."""

    @abstractmethod
    def _restated(self, stated: dict[str, Any], groups: Groups, given: bool) -> Problem:
        """Set parameters given to `reweight`, and return the problem; ``given`` says whether rows are."""

    @abstractmethod
    def _engine_on(self, given: Given, problem: Problem) -> Engine:
        """Return the candidates on other rows."""

    @abstractmethod
    def _engine_by(self, groups: Groups, problem: Problem) -> Engine:
        """Return the candidates on the same rows with other groups."""

    @abstractmethod
    def _select(self, engine: Engine, problem: Problem, max_error: Stated) -> None:
        """Select, answer by the selected rule, and warn."""

    # -- trade-offs ------------------------------------------------------------------------------------

    def tradeoff(
        self, a: Any = None, b: Any = None, *, n_points: int = 9, deferred: Any = None
    ) -> Any:
        """Return the trade-off curve of two rates, without training.

        Parameters
        ----------
        a : rate, largest, gap or ratio, optional
            The limited rate. By default the rate of the first limit, and without limits the overall error.
        b : rate or largest, optional
            The minimised rate. By default the objective or, if ``a`` is given, the overall error. If that is
            the limited rate too, the largest error of a class. If ``b`` is a gap or a ratio, it is limited
            and ``a`` is minimised.
        n_points : int, default=9
            Number of limits for which candidates are searched. The curve has one point for each undominated
            candidate.
        deferred : sequence of float in [0, 1), optional
            Fractions of the rows that may be deferred; there is one curve for each.

        Returns
        -------
        Curve, or dict of Curve by fraction
            On the selection data. Its ``at(level)`` gives the classifier within a limit, ``predicted(X, y)``
            both rates on other rows.

        Raises
        ------
        ValueError
            If an argument is no rate, or a rate needs a label, groups or costs that the classifier does not
            know.
        """
        check_is_fitted(self)
        problem = self._problem
        if deferred is not None:
            return self._deferral_curves(a, b, n_points, deferred)
        if a is None and b is None and problem.over_rows:
            return self._tail_curve()
        return self._rate_curve(problem.traded(a, b), n_points)

    def _rate_curve(
        self,
        rates: tuple[Any, Objective, tuple[Limit, ...]],
        n_points: int,
        measured_rows: MeasuredRows | None = None,
    ) -> Curve:
        limited, minimised, others = rates
        points, engine = self._points(limited, minimised, others, n_points)

        def at(level: float, point: Any) -> Any:
            own = limited.within(level)
            if point is None:
                return self._reaching(minimised, (*others, own))
            return point._answering(point._selected, others, own)

        return Curve(
            tuple(points),
            limited,
            minimised,
            engine.words,
            at,
            cast("CurveSource", self),
            limits=others,
            bound=bound_of(self._problem, limited),
            _recounted=engine.data.strata.columns != self._engine.data.strata.columns,
            _measured_rows=measured_rows or MeasuredRows(),
        )

    def _tail_curve(self) -> Curve:
        rule = cast("SelectedTail", self._selected)
        corners, gap = rule.curve()
        points = tuple(
            CurvePoint(mean, tail, self._answering(found)) for mean, tail, found in corners
        )

        def at(level: float, point: Any) -> Any:
            return self._answering(rule.within(max(0.0, level - rule.least)))

        return Curve(
            points,
            Objective.of(error()),
            rule.objective,
            rule.words,
            at,
            cast("CurveSource", self),
            gap,
        )

    def _deferral_curves(
        self, a: Any, b: Any, n_points: int, fractions: Any
    ) -> dict[float, Curve]:
        """Return a curve for each fraction of rows that may be deferred.

        The fractions replace the classifier's limits on all deferred rows.
        """
        problem = self._problem
        problem = problem.within(
            tuple(limit for limit in problem.limits if limit.rate != deferred())
        )
        limited, minimised, others = problem.traded(a, b)
        measured_rows = MeasuredRows()  # a point may be picked from any of the curves
        curves = {}
        for fraction in fractions_of(fractions):
            classifier = self._reaching(minimised, (*problem.limits, deferred() <= fraction))
            rates = limited, minimised, (*others, deferred() <= fraction)
            curves[fraction] = classifier._rate_curve(rates, n_points, measured_rows)
        return curves

    @property
    def draws(self) -> bool | None:
        """Whether answers of the randomised rule are drawn."""
        return bool(self.ensemble_.draws)

    # -- the result ------------------------------------------------------------------------------------

    @property
    def objective_(self) -> Any:
        """The minimised rate or CVaR."""
        return self._selected.problem.objective

    @property
    def limits_met_(self) -> bool | None:
        """Whether `predict` satisfies all limits on the selection data; None without limits."""
        check_is_fitted(self)
        return self._selected.limits_met

    @property
    def rates_(self) -> RateTable:
        """The rates of the objective and of the limits by subgroup, on the selection data."""
        check_is_fitted(self)
        table = self._selected.table
        return replace(table, notes=(*table.notes, *map(str, group_uses(self))))

    @property
    def estimates(self) -> RateTable:
        """The rates of ``rates_`` without shadow prices and notes on groups."""
        return self._selected.estimates

    def _measured(self, *stated: Rate | Limit) -> RateTable:
        return self._selected.rates(stated)

    def _subgroup_table(self) -> RateTable:
        return self._selected.errors

    @property
    def summary_(self) -> Summary:
        """The errors by subgroup and the objective, with comparisons; computed at the first access."""
        return cast("Summary", cached(self, "summary", self._summarise))

    @abstractmethod
    def _summarise(self) -> Summary:
        """Return the summary."""

    # -- prediction ------------------------------------------------------------------------------------

    @abstractmethod
    def _scores(self, X: Table, groups: Groups = None) -> Floats:
        """Return the label distribution of rows, shape (n, K), with ties broken."""

    @abstractmethod
    def _asker(self, X: Table, groups: Groups) -> tuple[int, Callable[[int, Ints], Ints]]:
        """Return the number of rows, and a function ``ask(candidate, rows)`` that returns class numbers."""

    @abstractmethod
    def predict_proba(self, X: Table) -> Floats:
        """Return P(y | x), shape (n, K)."""

    def predict_distribution(self, X: Table, *, groups: Groups = None) -> Floats:
        """Return the label distribution of the randomised rule.

        This is the probability with which the rule draws each label. It is **not** P(y | x), which
        `predict_proba` estimates. Bounds of mixtures are about this distribution: the expected zero-one loss
        of a row is 1 minus the probability of the true label. If the rule is a single candidate, its label
        has probability 1.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`. A `RobustMixtureClassifier` also takes a dict of its models' probabilities of
            the rows; models without weight (see ``used_models_``) may be left out.
        groups : array-like of shape (n,), optional
            Group of each row, one of those in `fit`; needed with ``by_group=True`` alone.

        Returns
        -------
        ndarray of shape (n, K)
            Columns in the order of `classes_`; rows sum to 1.

        Raises
        ------
        ValueError
            If groups are missing, not used, or not among those of `fit`; if probabilities are missing.
        """
        return self._scores(X, groups)

    def predict_log_proba(self, X: Table) -> Floats:
        """Return the logarithm of ``predict_proba``, −∞ for a probability of 0.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `predict_distribution`.

        Returns
        -------
        ndarray of shape (n, K)
            Columns in the order of `classes_`.
        """
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def predict(self, X: Table, *, groups: Groups = None) -> NDArray[Any]:
        """Return the most probable label of `predict_distribution`.

        The prediction is deterministic. It can differ from the label with the largest `predict_proba`,
        because the rule minimises another objective than the overall error. Probabilities that are equal
        after rounding to 1e-9 are a tie. The candidate with the least mean loss breaks a tie.

        Parameters
        ----------
        X, groups : array-like of shape (n, d), (n,)
            As in `predict_distribution`.

        Returns
        -------
        ndarray of shape (n,)
            Labels, as in `classes_`.
        """
        distribution = self._scores(X, groups)
        return self.classes_[distribution.argmax(axis=1)]

    def predict_randomized(
        self, X: Table, random_state: Seed = None, *, groups: Groups = None
    ) -> NDArray[Any]:
        """Draw a label for every row from ``predict_distribution``, for simulation studies.

        Parameters
        ----------
        X, groups : array-like of shape (n, d), (n,)
            As in `predict_distribution`.
        random_state : int, RandomState or None
            Seed of the draw.

        Returns
        -------
        ndarray of shape (n,)
            Labels, as in `classes_`.
        """
        distribution = self._scores(X, groups)
        return self.classes_[draw(distribution, check_random_state(random_state))]

    def predict_with(self, X: Table, members: Any, *, groups: Groups = None) -> NDArray[Any]:
        """Return the label of each row by one stated candidate.

        `tailboost.RandomizedDecision` draws the candidate of a person by a key, so that the draw never
        changes.

        Parameters
        ----------
        X, groups : array-like of shape (n, d), (n,)
            As in `predict_distribution`.
        members : array-like of int, shape (n,)
            The candidate of each row: an index into ``estimator_weights_``.

        Returns
        -------
        ndarray of shape (n,)
            Labels, as in `classes_`. A deferred row has the label that would be answered.

        Raises
        ------
        ValueError
            If ``members`` are not n such indices, or a candidate draws its label.
        """
        check_is_fitted(self)
        n, ask = self._asker(X, groups)
        return self.classes_[answers_by(drawn_members(self.ensemble_, members, n), ask)]


def drawn_members(ensemble: Any, members: Any, n: int) -> Ints:
    """Return the checked index of a candidate for each of n rows."""
    chosen = np.asarray(members)
    most = len(ensemble)
    if chosen.shape != (n,) or chosen.dtype.kind not in "iu":
        raise ValueError(
            f"members must be {n:,} integers, one per row; got {chosen.dtype}, {chosen.shape}"
        )
    if len(wrong := chosen[(chosen < 0) | (chosen >= most)]):
        raise ValueError(f"members holds {wrong[0]}; there are members 0 … {most - 1}")
    if len(wrong := np.intersect1d(chosen, ensemble.random_candidates)):
        raise ValueError(
            f"members holds {wrong[0]}, a candidate that draws its label from probabilities; a "
            "classifier with a rate as its objective has no such candidates"
        )
    return chosen


def bound_of(problem: Problem, limited: Any) -> float | None:
    """Return the bound of a problem's own limit on the limited rate of a curve; None without one."""
    traded = limited.within(limited.most).form, limited.rate
    for limit in problem.limits:
        if (limit.form, limit.rate) == traded and isinstance(limit.bound, (int, float)):
            return float(limit.bound)
    return None


def fractions_of(deferred: Any) -> list[float]:
    """Return checked fractions of rows that may be deferred, one for each curve."""
    fractions = [float(fraction) for fraction in np.ravel(deferred)]
    inside = all(0.0 <= fraction < 1.0 for fraction in fractions)
    if not fractions or not inside or len(set(fractions)) < len(fractions):
        raise ValueError(
            f"deferred must be different fractions of the rows, from 0 to below 1, got {deferred!r}"
        )
    return fractions
