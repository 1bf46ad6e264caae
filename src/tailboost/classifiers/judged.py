"""The classifiers as other parts of the library read them: certificates, monitors, reports and files."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from tailboost.classifiers import robust_selection
from tailboost.classifiers.reselected import Restated
from tailboost.classifiers.robust_selection import (
    check_groups,
    checked_rows,
    engine_by,
    engine_on,
    group_numbers,
    opened,
    problem_of,
    restated_copy,
    set_rule,
    tables_of,
)
from tailboost.core.array_types import (
    Groups,
    Hashes,
    Ints,
    Labels,
    Mask,
    Stated,
    Table,
)
from tailboost.core.checks import has_named_columns
from tailboost.learners.scores import columns_of_scores, only_scores, scores_among
from tailboost.rates import Limit, Objective, Rate, deferred
from tailboost.rows.fingerprints import digest, digest_of_rule
from tailboost.rows.given import Given
from tailboost.rows.judged import Recorded, columns_of, judged
from tailboost.selection.curve import (
    Curve,
    CurvePoint,
    bound_of,
    fractions_of,
)
from tailboost.selection.outputs import LogProbabilities
from tailboost.selection.problem import Trade
from tailboost.selection.rate_table import RateTable
from tailboost.selection.rule import Rule, ThresholdRule
from tailboost.selection.selection import Selection


class JudgedModels(Recorded):
    """A `RobustMixtureClassifier`."""

    takes_limits = True
    selects_rule = True

    @property
    def selected(self) -> Selection:
        """The rule of `predict`, with its rates on the selection data."""
        return self.classifier.selection_

    @property
    def limits_met(self) -> bool | None:
        """Whether `predict` satisfies all limits on the selection data; None without limits."""
        return self.selected.limits_met

    def measured(self, *stated: Rate | Limit) -> RateTable:
        """Return rates on the selection data, by subgroup and with intervals."""
        return self.selected.rates(stated)

    @property
    def stated_limits(self) -> tuple[Limit, ...]:
        """The limits on rates of the parameters ``limits`` and ``max_error``."""
        return problem_of(self.classifier).limits

    @property
    def can_defer(self) -> bool:
        """Whether the rule may defer rows."""
        check_is_fitted(self.classifier)
        return bool(self.classifier.selection_.member.defers)

    @property
    def weighs_groups(self) -> bool:
        """Whether the rule weighs an estimate of p(group | x, y) for each row."""
        return self.classifier.selection_.weighs_groups

    @property
    def reads_scores(self) -> bool:
        """Whether the rule reads scores alone: then equal rows count as different rows."""
        return only_scores(self.classifier.estimators_)

    @property
    def columns_of_scores(self) -> list[Any]:
        """The columns of scores among the models; [] without any."""
        return columns_of_scores(self.classifier.estimators_)

    def without_score(self, X: Table) -> Mask:
        """Return which rows lack a score that the rule reads, shape (n,).

        Given probabilities, as a dict of them by model, are no scores.
        """
        lacking = super().without_score(X)
        if not has_named_columns(X):
            for scores in scores_among(self.classifier.estimators_):
                lacking |= scores.without_score(X)
        return lacking

    @property
    def rule(self) -> Rule | ThresholdRule:
        """The decision rule."""
        return self.classifier.rule_

    @property
    def rule_digest(self) -> str:
        """Digest of the rule and its models: of columns of scores, or of outputs on the selection data."""
        engine = self.classifier.selection_.engine
        models = engine.outputs.models
        if only_scores(models.fitted) and not models.are_given:
            columns = [columns_of(model.estimator) for model in models.fitted]
            return digest_of_rule(self.rule, columns)
        outputs = [log_probabilities.tobytes() for log_probabilities in engine.outputs.logs]
        return digest(digest_of_rule(self.rule).encode(), *outputs)

    @property
    def rule_html(self) -> str:
        """The decision rule as HTML; empty without one."""
        try:
            return super().rule_html
        except NotFittedError:
            return ""

    @property
    def errors_table(self) -> RateTable:
        """The error of `predict` on each subgroup, on the selection data."""
        return self.selected.errors

    # -- another selection -----------------------------------------------------------------------------

    def reweighted(self, arguments: Given, restated: Restated) -> Any:
        """Return a classifier with the same candidates and another selected rule, see `reweight`."""
        self.check_candidates()
        if (arguments.X is None) != (arguments.y is None):
            raise ValueError("reweight needs both X and y, or neither")
        if arguments.X is None and not (arguments.sample_weight is arguments.costs is None):
            raise ValueError("sample_weight and costs belong to rows: give X and y too")
        reweighted = copy.copy(self.classifier)
        judged(reweighted).reselect(arguments, restated)
        if arguments.X is not None:  # `certify` refuses these rows from now on
            rows = self.reading(arguments.X, arguments.y)
            reweighted.records_ = reweighted.records_.using(rows)
        return reweighted

    def check_candidates(self) -> None:
        """Raise NotFittedError if there are no candidates.

        `InfeasibleLimitsError.unselected` has candidates and no rule.
        """
        if not hasattr(self.classifier, "selection_"):
            check_is_fitted(self.classifier)

    def curves(self, a: Stated, b: Stated, n_points: int, fractions: Any) -> Any:
        """Return the trade-off curve of two rates, or one for each deferred fraction, see `tradeoff`.

        Parameters
        ----------
        a, b : rate, text or None
            The two rates; None for those of the classifier.
        n_points : int
            Number of limits for which candidates are searched.
        fractions : sequence of float or None
            Deferred fractions; None for one curve.
        """
        check_is_fitted(self.classifier)
        if fractions is not None:
            return self.deferral_curves(a, b, n_points, fractions)
        return self.curve(a, b, n_points)

    def curve(self, a: Stated, b: Stated, n_points: int) -> Curve:
        """Return one trade-off curve, see `curves`."""
        return self.rate_curve(self.classifier.selection_.problem.traded(a, b), n_points)

    def deferral_curves(
        self, a: Stated, b: Stated, n_points: int, fractions: Any
    ) -> dict[float, Curve]:
        """Return a trade-off curve for each limit on the deferral rate.

        These limits replace limits on deferral of the classifier. ``a`` and ``b`` are the rates, as in
        `tradeoff`. Each curve can pick points of all curves.
        """
        problem = self.classifier.selection_.problem
        kept_limits = tuple(limit for limit in problem.limits if limit.rate != deferred())
        trade = problem.within(kept_limits).traded(a, b)
        curves = {}
        together = list[Curve]()  # a point may be picked from any of the curves
        for fraction in fractions_of(fractions):
            deferral_limit = deferred() <= fraction
            deferring = judged(self.within(trade.minimised, (*kept_limits, deferral_limit)))
            curve = deferring.rate_curve(trade.also_within(deferral_limit), n_points)
            curves[fraction] = replace(curve, _curves=together)
        return curves

    def selection_within(self, limits: Sequence[Limit]) -> Selection:
        """Return the selection of the stated objective within other limits, without a confidence.

        The overall error is minimised without a stated objective.
        """
        restated = copy.copy(self.classifier)
        restated.limits = list(limits)
        restated.max_error = None
        restated.confidence = None
        return restated.selection_.select(problem_of(restated))

    def knowing(self, opened: LogProbabilities, groups: Groups) -> LogProbabilities:
        """Return opened rows with the numbers of their groups, for a rule that reads groups."""
        return opened.knowing(group_numbers(self.classifier, groups, opened.n_rows))

    def answering(self, selection: Selection, limits: Sequence[Limit] = ()) -> Any:
        """Return a copy of the classifier with another selection of the same candidates.

        Parameters
        ----------
        selection : Selection
            The selection.
        limits : sequence of Limit, optional
            The stated limits, instead of those of the classifier.
        """
        new_mix = copy.copy(self.classifier)
        if limits:
            new_mix.limits = list(limits)
            new_mix.max_error = None
        set_rule(new_mix, selection)
        return new_mix

    def reselect(self, arguments: Given, restated: Restated) -> None:
        """Select anew for a call of `reweight`: the classifier is the copy that will answer."""
        mix = self.classifier
        problem = robust_selection.restated_problem(mix, restated)
        engine = mix.selection_.engine
        if arguments.X is not None:
            engine = engine_on(mix, arguments, problem)
        elif arguments.groups is not None:
            engine = engine_by(mix, arguments.groups, problem)
        check_groups(mix, problem, engine.outputs.rows.groups)
        set_rule(mix, engine.select(problem))
        mix.selection_.warn(forewarned=False)

    def rate_curve(self, trade: Trade, n_points: int) -> Curve:
        """Return the trade-off of two rates from candidates for ``n_points`` limits."""
        loosest, problem = restated_copy(self.classifier, trade.minimised, trade.loosest_limits)

        def answering(selection: Selection) -> Any:
            new_mix = copy.copy(loosest)
            new_mix.limits = list(selection.problem.limits)
            set_rule(new_mix, selection)
            return new_mix

        def at(level_limit: Limit, point: Any) -> Any:
            limits = (*trade.other_limits, level_limit)
            if point is None:  # no point of the curve is within the limit
                return self.within(trade.minimised, limits)
            return answering(point.selection_.stated_within(limits))

        selection_of_fit = self.classifier.selection_
        engine = selection_of_fit.engine
        points = []
        for rate, value, selection in selection_of_fit.curve(
            problem.within(trade.other_limits), trade.limited, n_points
        ):
            points.append(CurvePoint(rate, value, answering(selection)))
            engine = selection.engine
        return Curve(
            tuple(points),
            limited=trade.limited,
            objective=trade.minimised,
            measured_on=", within ".join([engine.words, *map(str, trade.other_limits)]),
            bound=bound_of(selection_of_fit.problem, trade.limited),
            _at=at,
            _source=self.classifier,
        )

    def within(self, objective: Objective, limits: tuple[Limit, ...]) -> Any:
        """Return a copy with the rule of another objective and other limits; nothing is trained."""
        new_mix, problem = restated_copy(self.classifier, objective, limits)
        set_rule(new_mix, new_mix.selection_.select(problem))
        return new_mix

    def checked(self, X: Table) -> Any:
        """Return a table in the form of the fit."""
        return checked_rows(self.classifier, X)

    def opened(self, X: Table, groups: Groups = None) -> LogProbabilities:
        """Return the models' log-probabilities of rows; ``groups`` are ignored by a group-blind rule."""
        if not self.by_group:
            groups = None
        return opened(self.classifier, X, groups)

    def row_hashes(self, X: Table) -> Hashes:
        """Return the hashes of rows: of the scores that the rule reads, or of features."""
        self.check_candidates()
        return self.classifier.selection_.engine.outputs.models.row_hashes(self.checked(X))

    def numbered_answers(
        self, X: Table, groups: Groups, classes: Labels, *, defers: bool
    ) -> Ints | None:
        """Return the answers of ``predict`` as numbers of labels; None if the classifier has other labels."""
        clf = self.classifier
        if not np.array_equal(clf.classes_, classes):
            return None
        numbers = []
        member = clf.selection_.member
        for table in tables_of(clf, X, groups if self.by_group else None):
            answers = member.predict_table(table)
            if defers:
                answers = np.where(member.defers_table(table), len(classes), answers)
            numbers.append(answers)
        return np.concatenate(numbers)

    def answers_of(
        self, classifiers: Sequence[Any], X: Table, groups: Groups
    ) -> list[tuple[Any, Any]]:
        """Return, for each classifier of a curve, the predictions and a mask of the deferred rows.

        The mask is None for a classifier without deferral.
        """
        table = self.opened(X, groups)
        answers = []
        for classifier in classifiers:
            member = classifier.selection_.member
            is_deferred = None
            if member.defers:
                is_deferred = member.defers_table(table)
            answers.append((classifier.classes_[member.predict_table(table)], is_deferred))
        return answers
