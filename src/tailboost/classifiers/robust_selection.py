"""Selection of a rule on models' probabilities."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from tailboost.boosting.training_set import GroupNames, rows_among, take
from tailboost.classifiers.input import LabelledRows, selection_data
from tailboost.classifiers.probability_answers import MixtureAnswers, OpenedRows
from tailboost.core.array_types import Floats, Groups, Ints, Model, Stated, Table
from tailboost.core.checks import check_costs, n_rows_of
from tailboost.core.fingerprints import Fingerprint, hash_rounded_rows
from tailboost.core.judged import group_uses
from tailboost.core.tables import has_named_columns
from tailboost.core.used_rows import UsedRows
from tailboost.guarantees.fresh_rows import as_table
from tailboost.guarantees.leakage import noting_frozen, noting_seen
from tailboost.learners.scores import only_scores
from tailboost.rates import InfeasibleLimitsError, Largest, Limit, Objective, error
from tailboost.selection.data import SelectionData
from tailboost.selection.engine import ProbabilityEngine
from tailboost.selection.probability_rule import stratum_probabilities
from tailboost.selection.probability_tables import ModelOutputs, Models, stacked
from tailboost.selection.problem import Problem, name_of
from tailboost.selection.selected import Selected
from tailboost.selection.summary import Summary
from tailboost.selection.threshold_family import ThresholdFamily

COSTS_NOT_KEPT = "costs of the rows are not kept with the model: give X, y and costs"


class ProbabilityMixture(MixtureAnswers):
    """Selection of a rule on out-of-fold probabilities of models."""

    objective: Stated
    limits: Stated
    # The engine on the selection data, and the selected rule.
    _kept_engine: ProbabilityEngine
    _kept_rule: Selected
    alpha: float | None
    max_error: Stated
    error_budget: float | None
    confidence: float | None
    randomized: bool | str

    # -- the selection data ----------------------------------------------------------------------------

    def _set_groups(self, names: GroupNames) -> None:
        super()._set_groups(names)
        self._check_columns()

    def _check_columns(self) -> None:
        if self.by_group and len(self._group_names.values) > 1:
            raise ValueError(
                f"by_group=True takes one column of groups, got {len(self._group_names.values)}: "
                "join their values into one, so that each row is in one group"
            )

    def _outputs_on(self, models: Models, given: LabelledRows, to: str) -> ModelOutputs:
        """Return the models' outputs on selection data: a table, or the models' probabilities by name."""
        if models.are_given:
            X = stacked(given.X, models.names, self.classes_, n_rows_of(given.y))
        else:
            X = self._checked(given.X)
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
    def _stated(self) -> Problem:
        """The objective and the limits of the parameters."""
        return Problem.of(
            self.objective,
            self.limits,
            self.max_error,
            self.alpha,
            error_budget=self.error_budget,
            randomized=self.randomized,
            confidence=self.confidence,
        )

    @property
    def _engine(self) -> ProbabilityEngine:
        return self._kept_engine

    @property
    def _selected(self) -> Selected:
        return self._kept_rule

    @property
    def _outputs(self) -> ModelOutputs:
        """The models with their outputs on the selection data."""
        return self._engine.outputs

    @property
    def weighs_groups(self) -> bool:
        """Whether the rule weighs p(group | x, y), which is learned from the features."""
        ensemble = self.ensemble_
        return any(ensemble.base_models[m].weighs_groups for m in np.flatnonzero(ensemble.weights > 0))

    def _engine_of(
        self, outputs: ModelOutputs, X: Table = None, costs: Table = None, X_unlabeled: Table = None
    ) -> ProbabilityEngine:
        """Return the engine on selection data with features X and costs of answers."""
        return ProbabilityEngine.of(
            self._stated,
            outputs,
            X,
            self.classes_,
            getattr(self, "_group_names", None),
            group_aware=self.by_group,
            costs=costs,
            X_unlabeled=X_unlabeled,
        )

    def _settle(self, engine: ProbabilityEngine) -> None:
        """Select, and answer by the selected rule."""
        self._kept_engine = engine
        self._use_rule(engine.select(self._stated))

    def _first_selection(self, engine: ProbabilityEngine) -> None:
        """Select as `_settle` does; an error for contradicting limits keeps the fitted models."""
        try:
            self._settle(engine)
        except InfeasibleLimitsError as error:
            error.unselected = self
            error.add_note(
                "The models are kept in the attribute unselected of this error: its reweight(limits=[...]) "
                "trains nothing. After the error sys.last_value holds it."
            )
            raise

    def _use_rule(self, rule: Selected) -> None:
        """Answer by a selected rule."""
        self._kept_rule, self.ensemble_ = rule, rule.ensemble
        self._results = {}

    # -- another selection -----------------------------------------------------------------------------

    def _check_candidates(self) -> None:
        if not hasattr(self, "_kept_engine"):  # `InfeasibleLimitsError.unselected` has an engine and no rule
            check_is_fitted(self)

    def _restated(self, stated: dict[str, Any], groups: Groups, given: bool) -> Problem:
        objective, alpha, before = stated.pop("objective"), stated.pop("alpha"), name_of(self.objective)
        if objective is not None or alpha is not None:
            self.objective = "cvar" if objective is None else objective
            self.alpha = self.alpha if self.objective == "cvar" and alpha is None else alpha
        if name_of(self.objective) != before:
            self.max_error = None  # its subgroups are those of the earlier objective
        self.__dict__.update({name: value for name, value in stated.items() if value is not None})
        self._validate_params()
        return self._stated

    def _engine_on(self, given: LabelledRows, problem: Problem) -> ProbabilityEngine:
        if given.groups is not None:
            self._name_groups(given.groups)
        outputs = self._outputs_on(self._outputs.models, given, "reweight")
        rows, table = outputs.rows, None
        check_parameters(self, rows.groups)
        costs = check_costs(given.costs, n_rows_of(given.y), self.classes_, rows.used)
        if outputs.models.are_given:
            outputs.check_order(self.classes_)
        else:
            checked = self._checked(given.X)
            table = checked if rows.used is None else take(checked, rows.used)
            self.chosen_rows_ = (*self.chosen_rows_, *filter(None, [self._fingerprint(checked)]))
            if only_scores(outputs.models.fitted):  # as in fit: no group is estimated from scores
                hashes, labels = hash_rounded_rows(as_table(table)), self.classes_[rows.y]
                self.used_rows_ = (*self.used_rows_, UsedRows.of(hashes, labels, "selection data"))
                table = np.zeros((len(rows.y), 1))
        if problem.needs_costs and costs is None:
            raise ValueError(COSTS_NOT_KEPT)
        return self._engine_of(outputs, table, costs)

    def _engine_by(self, groups: Groups, problem: Problem) -> ProbabilityEngine:
        outputs, rows = self._outputs, self._outputs.rows
        if outputs.unlabeled is not None:
            raise ValueError(
                "reweight(groups=...): the groups of the rows without labels in the selection are not known; "
                "give X and y too, or fit again with groups_unlabeled"
            )
        used = rows_among(groups, rows)
        self._name_groups(groups, used)
        numbers = self._group_names.numbers_of(groups, "groups", len(used), used)
        check_parameters(self, numbers)
        if problem.needs_costs:
            raise ValueError(COSTS_NOT_KEPT)
        return self._engine_of(replace(outputs, rows=replace(rows, groups=numbers)))

    def _select(self, engine: Any, problem: Problem, max_error: Stated) -> None:
        check_parameters(self, engine.outputs.rows.groups)
        if not engine.covers(problem, getattr(self, "_group_names", None)):
            if problem.needs_costs:
                raise ValueError(COSTS_NOT_KEPT)
            engine = self._engine_of(engine.outputs)
        self._settle(engine)
        self._selected.warn(forewarned=False)

    def _reaching(self, objective: Objective, limits: tuple[Limit, ...]) -> Self:
        given = Largest(objective.rate) if objective.worst else objective.rate
        with warnings.catch_warnings():
            # Each point would repeat the warnings of the others.
            warnings.simplefilter("ignore", UserWarning)
            bare = copy.copy(self)
            bare.max_error = bare.confidence = None
            if objective.rate == error() or any(limit.rate == error() for limit in limits):
                bare.error_budget = None
            return bare.reweight(objective=given, limits=list(limits))

    def _answering(self, rule: Any, others: tuple[Limit, ...] = (), own: Limit | None = None) -> Self:
        new = copy.copy(self)
        if own is None:
            new.error_budget = rule.problem.error_budget
            new._use_rule(rule)
        else:
            new.limits = [*others, own]
            new._use_rule(rule.within(new.limits))
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
        labelled = self._engine.labelled
        data = labelled.in_memory
        if self._stated.over_rows or data is not labelled or data.costs is not None:
            return None
        if by_group:
            return (
                ThresholdFamily.plain(data, by_group=True) if self._engine.probabilities.group_aware else None
            )
        first, *others = self.ensemble_.base_models
        family = None if others else ThresholdFamily.of(first.candidate, data.strata, by_group=False)
        return family or ThresholdFamily.plain(data, by_group=False)

    def scores_on_selection(self, family: ThresholdFamily) -> tuple[Floats, SelectionData]:
        """Return the score of each row of the selection data, and these data.

        Parameters
        ----------
        family : ThresholdFamily
            From `threshold_family`.

        Returns
        -------
        scores : ndarray of shape (n,)
        data : SelectionData
        """
        data = self._engine.labelled.in_memory
        return family.scores(data.probabilities), data

    def scores_of(self, family: ThresholdFamily, opened: OpenedRows) -> tuple[Floats, Ints]:
        """Return the score of each row and the number of its threshold.

        Parameters
        ----------
        family : ThresholdFamily
            From `threshold_family`.
        opened : OpenedRows
            From `opened`.

        Returns
        -------
        scores : ndarray of shape (n,)
        numbers : ndarray of int, shape (n,)
        """
        scores, places = list[Floats](), list[Ints]()
        for table in opened.tables:
            scores.append(family.scores(stratum_probabilities(self._engine.probabilities, table)))
            groups = table.groups if family.by_group else np.zeros(table.n_rows, dtype=np.intp)
            assert groups is not None
            places.append(groups)
        return np.concatenate(scores), np.concatenate(places)

    def at_thresholds(self, family: ThresholdFamily, thresholds: Floats) -> Self:
        """Return the classifier with the rule of these thresholds; nothing is trained or selected.

        Parameters
        ----------
        family : ThresholdFamily
            From `threshold_family`.
        thresholds : ndarray of shape (m,)
            One for each group, or one for all rows.

        Returns
        -------
        classifier
        """
        new = copy.copy(self)
        new._use_rule(self._engine.named(self._stated, family.candidate(thresholds)))
        return new

    def _answers_of(self, classifiers: Sequence[Any], X: Table, groups: Groups) -> list[tuple[Any, Any]]:
        """Return the answers of the classifiers of a curve, and which rows they defer."""
        models, X = self._read(X)
        table = models.transform(X)
        table = table.knowing(self._numbers(groups if self.by_group else None, table.n_rows))
        return [
            (self.classes_[c._shares(table).argmax(axis=1)], c._deferred(table) if c.can_defer else None)
            for c in classifiers
        ]

    def _fingerprint(self, X: Table) -> Fingerprint | None:
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

    def _summarise(self) -> Summary:
        summary = self._selected.summary(self.classes_.tolist(), self.candidates_[0])
        return replace(summary, groups=group_uses(self))


def check_parameters(classifier: Model, groups: Groups) -> Problem:
    """Return the objective and limits; raise ValueError if parameters exclude each other, or need groups."""
    problem = classifier._stated
    if problem.over_rows and classifier.by_group:
        raise ValueError("by_group=True has no meaning with objective='cvar': it is for groups")
    if groups is None and problem.needs_groups:
        if isinstance(classifier.objective, str):
            raise ValueError(f"objective={classifier.objective!r} needs groups")
        rate = next(rate for rate in problem.rates if rate.needs_groups)
        raise ValueError(f"{rate!r} needs groups")
    if classifier.by_group and groups is None:
        raise ValueError("by_group=True needs groups")
    return problem
