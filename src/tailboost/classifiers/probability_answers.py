"""Answers of a selected rule on models' probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.utils import Bunch
from sklearn.utils.validation import check_is_fitted

from tailboost.boosting.ensemble import answers_by
from tailboost.boosting.training_set import GroupNames, batches, take
from tailboost.classifiers.input import checked_table
from tailboost.classifiers.reselection import Reselection
from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.core.checks import check_indexes, n_rows_of
from tailboost.core.progress import steps, telling
from tailboost.core.subgroups import GROUPS_NEEDED, GROUPS_UNUSED, HUMAN_REVIEW
from tailboost.core.tables import as_pandas, has_named_columns
from tailboost.learners.scores import Scores, only_scores
from tailboost.selection.probability_tables import LogProbabilities, Models, stacked
from tailboost.selection.rule import Rule
from tailboost.selection.threshold_rule import ThresholdRule


@dataclass(frozen=True, eq=False)
class OpenedRows:
    """Rows of a table with the models' probabilities, which are computed once for several rules."""

    tables: list[LogProbabilities]  # in batches


class MixtureAnswers(Reselection, ClassifierMixin, BaseEstimator):
    """Predictions of a selected rule that is a function of models' probabilities."""

    by_group: bool
    _group_names: GroupNames

    @property
    def estimators_(self) -> list[Any]:
        """The fitted models, on class numbers, in the order of `estimators`."""
        check_is_fitted(self)
        return self._models.fitted

    @property
    def named_estimators_(self) -> Bunch:
        """The fitted models by name."""
        return Bunch(**dict(zip(self._models.names, self.estimators_, strict=False)))

    @property
    def estimator_weights_(self) -> Floats:
        """The mixture weights λ, in the order of `candidates_`."""
        return self.ensemble_.weights

    @property
    def candidates_(self) -> list[str]:
        """Names of the selected candidates."""
        return [member.words(self.classes_) for member in self.ensemble_.base_models]

    @property
    def rule_(self) -> Rule | ThresholdRule:
        """The decision rule: thresholds on a single `Scores` column, otherwise costs on probabilities."""
        check_is_fitted(self)
        groups = self._group_names.values[0].tolist() if self.by_group else None
        models, (first, *others) = self._models, self.ensemble_.base_models
        score = getattr(models.fitted[0], "estimator", None) if len(models.fitted) == 1 else None
        if isinstance(score, Scores) and len(score.column_list) == 1 and not others:
            part = first.as_part(plain=False)
            if not part.inferred or not part.weights:
                return ThresholdRule.of(part, score, self.classes_.tolist(), groups)
            if self.n_features_in_ == 1:  # groups are estimated from the score alone
                return self._thresholds(score)
        return Rule.of(self.ensemble_, self.classes_, groups)

    def _rule_html(self) -> str:
        try:
            return self.rule_._repr_html_()
        except NotFittedError:
            return ""

    def _thresholds(self, score: Scores) -> ThresholdRule:
        """Return the thresholds of a group-blind rule on one score, from answers to the selection data."""
        logs = self._outputs.table[0][:, score.positive_]
        values = np.array([score.score_at(p) for p in np.unique(np.exp(logs)).tolist()])
        X: Any = values[:, None]
        if (names := getattr(self, "feature_names_in_", None)) is not None:
            import pandas as pd

            X = pd.DataFrame(X, columns=names)
        actions = self.predict(X, **({"deferred": HUMAN_REVIEW} if self.can_defer else {}))
        return ThresholdRule.of_actions(score, self.classes_.tolist(), values, actions)

    def _shares(self, table: LogProbabilities) -> Floats:
        """Return the label distribution, ties settled; only models with positive weight are read."""
        ensemble = self.ensemble_
        used = np.flatnonzero(ensemble.weights > 0)
        answers = {m: ensemble.base_models[m].predict_table(table) for m in used.tolist()}
        return ensemble.mix(answers.values(), table.n_rows, lambda m, rows: answers[m][rows])

    def _scores(self, X: Any, groups: Any = None) -> Floats:
        return np.concatenate([self._shares(table) for table in self._tables(X, groups)])

    def _tables(self, X: Any, groups: Any) -> Iterator[LogProbabilities]:
        """Return the log-probabilities of rows in batches, with the numbers of their groups."""
        if isinstance(X, OpenedRows):
            return iter(X.tables)
        check_indexes(X=X, groups=groups)
        models, X = self._read(X)
        numbers = self._numbers(groups, n_rows_of(X))
        return self._told(models, X, numbers)

    def _told(self, models: Models, X: Any, numbers: Ints | None) -> Iterator[LogProbabilities]:
        """Yield the log-probabilities of each batch, and tell how many rows are finished."""
        with ExitStack() as stack:
            with telling() if self.verbose else nullcontext():  # left before the first yield
                done = stack.enter_context(steps("rows", n_rows_of(X)))
            for part in batches(X):
                yield _table(models, X, numbers, part)
                done(len(part))

    def opened(self, X: Any, groups: Any = None) -> OpenedRows:
        """Return rows for `predict` and other methods of classifiers with the same models.

        Parameters
        ----------
        X, groups : array-like of shape (n, d), (n,)
            As in `predict_distribution`; groups are read by a group-aware rule alone.

        Returns
        -------
        OpenedRows
        """
        return OpenedRows(list(self._tables(X, groups if self.by_group else None)))

    def _read(self, X: Any) -> tuple[Models, Any]:
        """Return models that read a table or given probabilities, and the checked table."""
        check_is_fitted(self)
        models = self._models
        if has_named_columns(X):
            models = Models.given(models.names, self.classes_, models.average)
        return models, self._checked(X)

    def _numbers(self, groups: Any, n: int) -> Ints | None:
        """Return the numbers of the rows' groups, if the rule is group-aware."""
        if not self.by_group:
            if groups is not None:
                raise ValueError(GROUPS_UNUSED)
            return None
        if groups is None:
            raise ValueError(GROUPS_NEEDED)
        columns, groups = self._group_names.columns or (), as_pandas(groups)
        if isinstance(groups, Mapping) or hasattr(groups, "columns"):
            groups = {name: groups[name] for name in groups if name in columns} or groups
        return self._group_names.numbers_of(groups, "groups", n)

    def example_groups(self, n_rows: int) -> Any:
        """Return groups in the form in which `predict` takes them, each group in turn.

        Parameters
        ----------
        n_rows : int
            Number of rows.

        Returns
        -------
        ndarray of shape (n_rows,), or dict of one by the name of its column

        Raises
        ------
        ValueError
            If the rule is group-blind.
        """
        if not self.by_group:
            raise ValueError(GROUPS_UNUSED)
        names = self._group_names
        groups = np.resize(names.values[0], n_rows)
        return groups if names.columns is None else {names.columns[0]: groups}

    def predict_proba(self, X: Any) -> Floats:
        """Return P(y | x): the average of the models' probabilities on the log scale.

        The weights of the models and an offset for each class minimise the log loss on the selection data,
        which the models were not fitted on. They do not depend on objective, limits or groups. `predict`
        applies the decision rule: its label need not be the most likely one.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows, as in `fit`, or a dict of the models' probabilities of the rows.

        Returns
        -------
        ndarray of shape (n, K)
            Columns in the order of ``classes_``; rows sum to 1.
        """
        models, X = self._read(X)
        return np.concatenate([models.pool(models.transform(take(X, part))) for part in batches(X)])

    def predict(self, X: Any, *, groups: Any = None, deferred: Any = None) -> NDArray[Any]:
        """Return the label of each row: the most likely one of `predict_distribution`.

        The label of a row depends on this row alone. If a limit on ``rates.deferred()`` lets the rule defer
        rows, `defers` tells which. `predict` gives them the label that would be answered, or ``deferred``.

        Parameters
        ----------
        X, groups : array-like of shape (n, d), (n,)
            As in `predict_distribution`.
        deferred : str or number, optional
            Value for deferred rows, as "human review"; none of the labels.

        Returns
        -------
        ndarray of shape (n,)
            Labels, as in ``classes_``; of dtype object if ``deferred`` is of another kind.

        Raises
        ------
        ValueError
            As in `predict_distribution`; if ``deferred`` is a label, or the rule defers no row.
        """
        return np.concatenate([self._labels(table, deferred) for table in self._tables(X, groups)])

    def _labels(self, table: LogProbabilities, deferred: Any) -> NDArray[Any]:
        """Return the label of each row, or the value for deferred rows."""
        answers = self.classes_[self._shares(table).argmax(axis=1)]
        if deferred is None:
            return answers
        if deferred in self.classes_.tolist():
            raise ValueError(f"deferred={deferred!r} is a label: deferred rows need another mark")
        mark = np.asarray(deferred)
        if mark.ndim:
            raise ValueError(f"deferred must be one value, got {deferred!r}")
        if mark.dtype.kind != answers.dtype.kind:  # NumPy would turn numbers into text
            mark, answers = np.array(deferred, dtype=object), answers.astype(object)
        return np.where(self._deferred(table), mark, answers)

    def defers_with(self, X: Any, members: Any, *, groups: Any = None) -> Mask:
        """Return whether the stated candidate of each row defers the row.

        Parameters
        ----------
        X, members, groups
            As in `predict_with`.

        Returns
        -------
        ndarray of bool, shape (n,)
            All False if the rule defers no row.
        """
        n, ask = self._asker(X, groups, "defers_table")
        drawn = self._drawn(members, n)
        return answers_by(drawn, ask) == 1 if self.can_defer else np.zeros(n, dtype=bool)

    def _asker(
        self, X: Any, groups: Any, method: str = "predict_table"
    ) -> tuple[int, Callable[[int, Ints], Ints]]:
        check_indexes(X=X, groups=groups)
        models, X = self._read(X)
        n, members = n_rows_of(X), self.ensemble_.base_models
        numbers = self._numbers(groups, n)

        def ask(member: int, rows: Ints) -> Ints:
            answers = getattr(members[member], method)(_table(models, X, numbers, rows))
            return np.asarray(answers, dtype=np.intp)

        return n, ask

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> float:
        """Return the accuracy of `predict`.

        Parameters
        ----------
        X : array-like of shape (n, d)
            As in `predict_distribution`.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows.
        groups : array-like of shape (n,), optional
            As in `predict_distribution`. With scikit-learn's metadata routing,
            ``set_score_request(groups=True)`` has cross-validation pass them.

        Returns
        -------
        float
            From 0 to 1.
        """
        return float(accuracy_score(y, self.predict(X, groups=groups), sample_weight=sample_weight))

    def _checked(self, X: Any) -> Any:
        if has_named_columns(X):
            return stacked(X, self._models.names, self.classes_)
        if self._models.are_given:
            raise AttributeError(
                "this classifier is made from_probabilities and has no models: give a dict of their "
                "probabilities of the new rows"
            )
        return checked_table(self, self, X)

    def defers(self, X: Any, *, groups: Any = None) -> Mask:
        """Return which rows are deferred; ``predict(X, deferred="human review")`` marks them.

        Parameters
        ----------
        X, groups : array-like of shape (n, d), (n,)
            As in `predict_distribution`.

        Returns
        -------
        ndarray of bool, shape (n,)
            For a randomised rule the rows that are deferred with probability ½ or more.

        Raises
        ------
        ValueError
            If the rule defers no row: there is no limit on deferral.
        """
        return np.concatenate([self._deferred(table) for table in self._tables(X, groups)])

    @property
    def can_defer(self) -> bool:
        """Whether the rule may defer rows: `defers` tells which."""
        check_is_fitted(self)
        return any(getattr(member, "defers", False) for member in self.ensemble_.base_models)

    def _deferred(self, table: LogProbabilities) -> Mask:
        if not self.can_defer:
            raise ValueError("no row is deferred: state a limit on rates.deferred()")
        probability = np.zeros(table.n_rows)
        for weight, member in zip(self.ensemble_.weights, self.ensemble_.base_models, strict=True):
            probability += weight * member.defers_table(table)
        deferred: Mask = probability >= 0.5
        return deferred

    @property
    def reads_scores(self) -> bool:
        """Whether the rule reads scores alone, so that equal rows are different rows."""
        check_is_fitted(self)
        return only_scores(self._models.fitted)

    @property
    def used_models_(self) -> list[str]:
        """Names of the models that the rule reads."""
        ensemble = self.ensemble_
        used = {i for m in np.flatnonzero(ensemble.weights > 0) for i in ensemble.base_models[m].source}
        return [self._models.names[i] for i in sorted(used)]

    @property
    def _models(self) -> Models:
        models: Models = self.ensemble_.base_models[0].table_
        return models


def _table(models: Models, X: Any, numbers: Ints | None, part: Ints) -> LogProbabilities:
    """Return the log-probabilities of some rows of a table, with the numbers of their groups."""
    return models.transform(take(X, part)).knowing(None if numbers is None else numbers[part])
