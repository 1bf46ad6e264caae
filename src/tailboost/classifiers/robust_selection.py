"""Selection on models' probabilities, and another selection without training: `reweight` and `tradeoff`."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from tailboost.boosting.training_set import GroupNames, Rows, rows_among, take
from tailboost.classifiers.answers import MixtureAnswers, OpenedRows
from tailboost.classifiers.cvar_selection import SelectedMixture
from tailboost.classifiers.input import ValidationRows, regrouped_attributes, rows_given, selection_data
from tailboost.classifiers.subgroup_views import SubgroupViews
from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.core.checks import check_costs, check_indexes, n_rows_of
from tailboost.core.fingerprints import Fingerprint, hash_rounded_rows
from tailboost.core.subgroups import group_uses
from tailboost.core.tables import has_named_columns, unpack
from tailboost.guarantees.fresh_rows import as_table
from tailboost.guarantees.leakage import UsedRows, noting_frozen, noting_seen
from tailboost.learners.scores import only_scores
from tailboost.rates import InfeasibleLimitsError, Largest, Limit, Objective, deferred, error
from tailboost.selection.candidates import Pool
from tailboost.selection.curve import SLACK, Curve, CurvePoint, MeasuredRows, front, rates_of_curve
from tailboost.selection.data import SelectionData
from tailboost.selection.engine import Engine
from tailboost.selection.probability_rule import stratum_probabilities
from tailboost.selection.probability_tables import ModelOutputs, Models, stacked
from tailboost.selection.problem import Problem, name_of
from tailboost.selection.program import SLIGHT, Program
from tailboost.selection.rate_table import RateTable
from tailboost.selection.selected import Selected
from tailboost.selection.selecting import within_budget
from tailboost.selection.summary import Summary
from tailboost.selection.threshold_family import ThresholdFamily


class ProbabilityMixture(SubgroupViews, MixtureAnswers):
    """Selection of a rule on out-of-fold probabilities of models."""

    objective: Any
    limits: Any
    # The engine on the selection data, and the selected rule.
    _engine: Engine
    _selected: Selected | SelectedMixture
    _outputs: ModelOutputs
    alpha: float | None
    max_error: Any
    error_budget: float | None
    confidence: float | None
    randomized: bool | str

    # -- the selection data ----------------------------------------------------------------------------

    def _name_groups(self, groups: Any, used: Mask | None = None) -> None:
        """Set the names of groups, of all rows or of some."""
        n = n_rows_of(groups)
        self._set_groups(GroupNames.of(groups, "groups", n, np.ones(n, bool) if used is None else used))

    def _set_groups(self, names: GroupNames) -> None:
        self.__dict__.update(regrouped_attributes(self, names))
        self._check_columns()

    def _check_columns(self) -> None:
        if self.by_group and len(self._group_names.values) > 1:
            raise ValueError(
                f"by_group=True takes one column of groups, got {len(self._group_names.values)}: "
                "join their values into one, so that each row is in one group"
            )

    def _outputs_on(
        self, models: Models, X: Any, y: Any, groups: Any, sample_weight: Any, to: str
    ) -> ModelOutputs:
        """Return the models' outputs on selection data: a table, or the models' probabilities by name."""
        check_indexes(X=X, y=y, groups=groups, sample_weight=sample_weight)
        X, y = unpack(X, y)
        given = ValidationRows(X, y, groups, sample_weight)
        X = stacked(X, models.names, self.classes_, n_rows_of(y)) if models.are_given else self._checked(X)
        X, rows = selection_data(self, X, given, "", f"the {{:,}} rows given to {to}")
        if not all(isinstance(model, FrozenEstimator) for model in models.fitted):
            rows = noting_seen(self.seen_rows_, X, rows, "the probabilities kept with the model")
        rows = noting_frozen(self, X, rows)
        if only_scores(models.fitted):  # rows with equal scores are different rows
            rows = replace(rows, row_hashes=None)
        table = models.transform(X)
        return ModelOutputs.of(models, [table[i] for i in range(len(models.names))], rows)

    # -- the selection ---------------------------------------------------------------------------------

    @property
    def _problem(self) -> Problem | None:
        """The objective and the limits as rates; None for a CVaR, which is no rate."""
        return Problem.of(self.objective, self.limits, self.max_error)

    @property
    def _rate_problem(self) -> Problem:
        """The problem; for a CVaR that of the largest error of a class."""
        return self._problem or Problem(Objective.of(Largest(error(by="class"))), ())

    @property
    def weighs_groups(self) -> bool:
        """Whether the rule weighs p(group | x, y), which is learned from the features."""
        ensemble = self.ensemble_
        return any(ensemble.base_models[m].weighs_groups for m in np.flatnonzero(ensemble.weights > 0))

    def _settle(
        self,
        outputs: ModelOutputs,
        X: Any = None,
        *,
        costs: Any = None,
        engine: Engine | None = None,
    ) -> None:
        """Make the candidates and select.

        Parameters
        ----------
        outputs : ModelOutputs
            The log-probabilities of the selection data, and their average.
        X : table, optional
            Features of the rows.
        costs : ndarray of shape (n, K), optional
            Cost of each answer in each row.
        engine : Engine, optional
            An engine on these rows.
        """
        problem = self._problem
        if engine is None:
            names, aware = getattr(self, "_group_names", None), self.by_group
            engine = Engine.of(
                self._rate_problem, outputs, X, self.classes_, names, group_aware=aware, costs=costs
            )
        self._outputs, self._engine = outputs, engine
        if problem is None:
            assert self.alpha is not None
            self._use_rule(SelectedMixture.of(engine, outputs, float(self.alpha), self.error_budget))
            return
        self._use_rule(
            engine.select(
                problem,
                error_budget=self.error_budget,
                randomized=self._randomized,
                confidence=self.confidence,
            )
        )

    def _first_selection(self, outputs: ModelOutputs, X: Any = None, **about: Any) -> None:
        """Select as `_settle` does; an error for contradicting limits keeps the fitted models."""
        try:
            self._settle(outputs, X, **about)
        except InfeasibleLimitsError as error:
            error.unselected = self
            error.add_note(
                "The models are kept in the attribute unselected of this error: its reweight(limits=[...]) "
                "trains nothing. After the error sys.last_value holds it."
            )
            raise

    def _use_rule(self, rule: Selected | SelectedMixture) -> None:
        """Answer by a selected rule."""
        self._selected, self.ensemble_ = rule, rule.ensemble
        self._results = {}

    @property
    def _randomized(self) -> bool:
        """Whether several candidates may have mixture weight."""
        return self.objective == "cvar" if self.randomized == "auto" else bool(self.randomized)

    # -- another selection -----------------------------------------------------------------------------

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
        """Return a classifier with the same models and another selected rule; nothing is trained.

        Parameters
        ----------
        X, y : optional
            Selection data that no model has read. A classifier made by `from_probabilities` takes a dict of
            the models' probabilities as X. By default the stored probabilities are used.
        alpha : float in (0, 1], optional
            Tail mass of the CVaR, which becomes the objective.
        objective : {"cvar", "worst_class", "worst_group", "worst_cell", "error"}, rate or largest, optional
            By default unchanged.
        limits : list of Limit, optional
            By default unchanged.
        groups : array-like of shape (n,) or table of n rows, optional
            Groups of the rows of X or, without X, of the rows whose probabilities are kept.
        costs : array-like of shape (n, K), optional
            Cost of each answer in each row of X.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows of X.
        error_budget : float in [0, 1], optional
            By default unchanged.
        max_error : float in (0, 1] or dict, optional
            Limits for the subgroups, as the parameter of the classifier. By default its value is kept if the
            objective stays the same.
        confidence : float in [0, 1), optional
            Probability with which all limits have to hold on new rows; by default that of the classifier.

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
        if not hasattr(self, "_engine"):  # `InfeasibleLimitsError.unselected` has an engine and no rule
            check_is_fitted(self)
        new = copy.copy(self)
        if objective is not None or alpha is not None:
            new.objective = "cvar" if objective is None else objective
            new.alpha = self.alpha if new.objective == "cvar" and alpha is None else alpha
        if name_of(new.objective) != name_of(self.objective):
            new.max_error = None  # its subgroups are those of the earlier objective
        changed = {"limits": limits, "error_budget": error_budget, "max_error": max_error}
        for name, value in (changed | {"confidence": confidence}).items():
            if value is not None:
                setattr(new, name, value)
        new._validate_params()
        outputs, engine, table = self._outputs, getattr(self, "_engine", None), None
        if rows_given("reweight", X, y, sample_weight=sample_weight, costs=costs):
            if groups is not None:
                new._name_groups(groups)
            outputs, engine = new._outputs_on(outputs.models, X, y, groups, sample_weight, "reweight"), None
            used = outputs.rows.used
            check_indexes(X=X, costs=costs)
            costs = check_costs(costs, n_rows_of(y), self.classes_, used)
            if outputs.models.are_given:
                outputs.check_order(self.classes_)
            else:
                checked = self._checked(unpack(X, y)[0])
                table = checked if used is None else take(checked, used)
                new.chosen_rows_ = (*self.chosen_rows_, *filter(None, [self._fingerprint(checked)]))
                if only_scores(outputs.models.fitted):  # as in fit: no group is estimated from scores
                    hashes, labels = hash_rounded_rows(as_table(table)), self.classes_[outputs.rows.y]
                    new.used_rows_ = (*self.used_rows_, UsedRows.of(hashes, labels, "selection data"))
                    table = np.zeros((len(outputs.rows.y), 1))
        elif groups is not None:
            outputs, engine = replace(outputs, rows=new._with_groups(outputs.rows, groups)), None
        check_parameters(new, outputs.rows.groups)
        problem = new._rate_problem
        if engine is not None and not engine.covers(problem, getattr(new, "_group_names", None)):
            engine = None
        if engine is None and problem.needs_costs and costs is None:
            raise ValueError("costs of the rows are not kept with the model: give X, y and costs")
        new._settle(outputs, table, costs=costs, engine=engine)
        new._selected.warn(forewarned=False)
        return new

    def _with_groups(self, rows: Rows, groups: Any) -> Rows:
        """Return the selection data with other groups, which are given for all rows of the table."""
        used = rows_among(groups, rows)
        self._name_groups(groups, used)
        return replace(rows, groups=self._group_names.numbers_of(groups, "groups", len(used), used))

    def tradeoff(self, a: Any = None, b: Any = None, *, n_points: int = 9, deferred: Any = None) -> Any:
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
        if deferred is not None:
            return self._deferral_curves(a, b, n_points, deferred)
        if a is None and b is None and self._problem is None:
            return self._tail_curve()
        problem = self._rate_problem
        return self._rate_curve(rates_of_curve(a, b, *problem.tradeoff_rates, problem.limits), n_points)

    def _rate_curve(
        self,
        rates: tuple[Any, Objective, tuple[Limit, ...]],
        n_points: int,
        measured_rows: MeasuredRows | None = None,
    ) -> Curve:
        limited, minimised, further_limits = rates
        loosest = self._reaching(minimised, (*further_limits, limited.within(limited.most)))
        engine, start_rule = loosest._engine, cast("Selected", loosest._selected)
        objective, overall = start_rule.problem.objective, limited == Objective.of(error())
        budget = None if overall else self.error_budget
        base = start_rule.program.within(further_limits)
        pool = engine.first_candidates(base)
        base = within_budget(pool, base, budget)

        def best(limits: tuple[Limit, ...], objective: Objective) -> Selected | None:
            problem = Problem(objective, limits)
            try:
                return engine.select(problem, error_budget=budget, randomized=self._randomized, pool=pool)
            except InfeasibleLimitsError:
                return None

        found: list[Selected | None] = []
        if self._randomized or not (overall and minimised.worst and not further_limits):
            # Limits from the value of the best rule to the tightest value that a rule reaches.
            start = best(further_limits, objective)
            tightest = start if limited.compares else best(further_limits, limited)
            if start is not None and tightest is not None:
                least = limited.least if limited.compares else tightest.value(limited)
                above = limited.within(limited.most).from_above
                for level in np.linspace(start.value(limited), least, n_points):
                    eased = min(level + SLACK, limited.most) if above else max(level - SLACK, limited.most)
                    found.append(best((*further_limits, limited.within(float(eased))), objective))
        if not self._randomized:
            _, violation = base.evaluate(pool.all_counts)
            problem = Problem(objective, further_limits)
            found += [
                engine.rule(problem, base, pool, engine.single(pool, base, int(i)), randomized=False)
                for i in np.flatnonzero(violation <= SLIGHT)
            ]
        rules = [rule for rule in found if rule is not None]
        reached = np.array([(rule.value(limited), rule.value(minimised)) for rule in rules]).reshape(-1, 2)
        points = tuple(
            CurvePoint(
                float(reached[i, 0]),
                float(reached[i, 1]),
                loosest._answering(rules[i], (*further_limits, limited.within(reached[i, 0]))),
            )
            for i in front(limited, *reached.T)
        )

        def at(level: float, point: Any) -> Any:
            limits = (*further_limits, limited.within(level))
            return (
                self._reaching(minimised, limits)
                if point is None
                else point._answering(point._selected, limits)
            )

        shared = measured_rows or MeasuredRows()
        return Curve(points, limited, minimised, engine.words, at, self, _measured_rows=shared)

    def _tail_curve(self) -> Curve:
        rule = self._selected
        assert isinstance(rule, SelectedMixture)

        def reweighted(level: float, found: SelectedMixture | None = None) -> ProbabilityMixture:
            new = copy.copy(self)
            new.error_budget = max(0.0, level - rule.least)
            new._use_rule(rule.within(new.error_budget) if found is None else found)
            return new

        points = tuple(CurvePoint(mean, tail, reweighted(mean, found)) for mean, tail, found in rule.curve())

        def at(level: float, point: Any) -> Any:
            return reweighted(level)

        return Curve(points, Objective.of(error()), rule.objective, self._outputs.rows.words, at, self)

    def _reaching(self, objective: Objective, limits: tuple[Limit, ...]) -> Self:
        """Return the classifier of an objective within limits, which replace its limits and targets."""
        given = Largest(objective.rate) if objective.worst else objective.rate
        with warnings.catch_warnings():
            # Each point would repeat the warnings of the others.
            warnings.simplefilter("ignore", UserWarning)
            bare = copy.copy(self)
            bare.max_error = bare.confidence = None
            if objective.rate == error() or any(limit.rate == error() for limit in limits):
                bare.error_budget = None
            return bare.reweight(objective=given, limits=list(limits))

    def _answering(self, rule: Selected, limits: tuple[Limit, ...]) -> Self:
        """Return a classifier that answers by another selected rule."""
        new = copy.copy(self)
        new.limits = list(limits)
        new._use_rule(rule.within(limits))
        return new

    # -- thresholds ------------------------------------------------------------------------------------

    def threshold_family(self, *, by_group: bool) -> ThresholdFamily | None:
        """Return the rules that differ from the selected rule in thresholds; None if there are none.

        Parameters
        ----------
        by_group : bool
            Whether each group has a threshold of its own; the rule must then be group-aware.
        """
        check_is_fitted(self)
        data = self._engine.data
        if self._problem is None or not isinstance(data, SelectionData) or data.costs is not None:
            return None
        if by_group:
            return (
                ThresholdFamily.plain(data, by_group=True) if self._engine.probabilities.group_aware else None
            )
        first, *others = self.ensemble_.base_models
        family = None if others else ThresholdFamily.of(first.candidate, data.strata, by_group=False)
        return family or ThresholdFamily.plain(data, by_group=False)

    def scores_on_selection(self, family: ThresholdFamily) -> tuple[Floats, SelectionData]:
        """Return the score of each row of the selection data, and these data."""
        data = self._engine.data.in_memory
        return family.scores(data.probabilities), data

    def scores_of(self, family: ThresholdFamily, opened: OpenedRows) -> tuple[Floats, Ints]:
        """Return the score of each row and the number of its threshold, shape (n,) each."""
        p, scores, places = self._engine.probabilities, list[Floats](), list[Ints]()
        for table in opened.tables:
            scores.append(family.scores(stratum_probabilities(p, table)))
            one = np.zeros(table.n_rows, dtype=np.intp)
            places.append(table.groups if family.by_group and table.groups is not None else one)
        return np.concatenate(scores), np.concatenate(places)

    def at_thresholds(self, family: ThresholdFamily, thresholds: Floats) -> Self:
        """Return the classifier with the rule of these thresholds; nothing is trained or selected."""
        engine, problem = self._engine, self._rate_problem
        program = Program.of_rates(engine.data.strata, problem.objective, problem.limits)
        pool = Pool(engine.data)
        number = pool.add(family.candidate(thresholds))
        rule = engine.rule(problem, program, pool, engine.single(pool, program, number), randomized=False)
        new = copy.copy(self)
        new._use_rule(rule)
        return new

    def _deferral_curves(self, a: Any, b: Any, n_points: int, fractions: Any) -> dict[float, Curve]:
        """Return a curve for each fraction of rows that may be deferred.

        The fractions replace the classifier's limits on all deferred rows.
        """
        given = [float(fraction) for fraction in np.ravel(fractions)]
        if not given or any(not 0.0 <= x < 1.0 for x in given) or len(set(given)) < len(given):
            raise ValueError(
                f"deferred must be different fractions of the rows, from 0 to below 1, got {fractions!r}"
            )
        problem = self._rate_problem
        problem = replace(problem, limits=tuple(x for x in problem.limits if x.rate != deferred()))
        limited, minimised, further_limits = rates_of_curve(a, b, *problem.tradeoff_rates, problem.limits)
        measured_rows = MeasuredRows()  # a point may be picked from any of the curves
        curves = {}
        for fraction in given:
            within = *problem.limits, deferred() <= fraction
            classifier = self._reaching(minimised, within)
            curves[fraction] = classifier._rate_curve(
                (limited, minimised, (*further_limits, deferred() <= fraction)), n_points, measured_rows
            )
        return curves

    def _answers_of(self, classifiers: Sequence[Any], X: Any, groups: Any) -> list[tuple[Any, Any]]:
        """Return the answers of the classifiers of a curve, and which rows they defer."""
        models, X = self._read(X)
        table = models.transform(X)
        table = table.knowing(self._numbers(groups if self.by_group else None, table.n_rows))
        return [
            (self.classes_[c._shares(table).argmax(axis=1)], c._deferred(table) if c.can_defer else None)
            for c in classifiers
        ]

    def _fingerprint(self, X: Any) -> Fingerprint | None:
        """Return the fingerprints of rows; None for probabilities and scores, whose rows are not known."""
        if has_named_columns(X) or only_scores(self._outputs.models.fitted):
            return None
        return Fingerprint.of_rows(self._checked(X))

    # -- the result ------------------------------------------------------------------------------------

    @property
    def gap_(self) -> float:
        """Possible decrease of the objective by a mixture of the candidates, on the selection data."""
        check_is_fitted(self)
        return self._selected.gap

    @property
    def objective_(self) -> Any:
        """The minimised rate or CVaR."""
        return self._selected.objective

    @property
    def limits_met_(self) -> bool | None:
        """Whether all limits hold on the selection data; None without limits."""
        check_is_fitted(self)
        return self._selected.limits_met

    @property
    def summary_(self) -> Summary:
        """Errors by subgroup and the objective, compared with constants and the most accurate rule."""
        return cast("Summary", self._cached("summary", self._summarise))

    def _summarise(self) -> Summary:
        summary = self._selected.guarantee(self.classes_.tolist(), self.candidates_[0])
        return replace(summary, groups=group_uses(self))

    @property
    def rates_(self) -> RateTable:
        """The rates of the objective and of the limits by subgroup, on the selection data."""
        check_is_fitted(self)
        table = self._selected.table
        return replace(table, notes=(*table.notes, *map(str, group_uses(self))))

    def _subgroup_table(self) -> RateTable:
        return self._selected.errors


def check_parameters(classifier: Any, groups: Any) -> Problem | None:
    """Return the objective and limits; raise ValueError if parameters exclude each other, or need groups."""
    problem = classifier._problem
    if problem is None:
        if classifier.alpha is None:
            raise ValueError("objective='cvar' needs alpha, the tail mass in (0, 1]")
        if classifier.max_error is not None:
            raise ValueError("max_error has no meaning with objective='cvar'")
        if classifier.randomized is False:
            raise ValueError(
                "randomized=False selects one candidate, and its CVaR is the smaller of 1 and mean loss / "
                "alpha: objective='cvar' needs a mixture"
            )
        if classifier.by_group:
            raise ValueError("by_group=True has no meaning with objective='cvar': it is for groups")
        return None
    if classifier.alpha is not None:
        raise ValueError(
            f"alpha={classifier.alpha!r} has no meaning with objective={name_of(classifier.objective)!r}: "
            "it is the tail mass of a CVaR"
        )
    if groups is None and problem.needs_groups:
        if isinstance(classifier.objective, str):
            raise ValueError(f"objective={classifier.objective!r} needs groups")
        rate = next(rate for rate in problem.rates if rate.needs_groups)
        raise ValueError(f"{rate!r} needs groups")
    if classifier.by_group and groups is None:
        raise ValueError("by_group=True needs groups")
    return problem
