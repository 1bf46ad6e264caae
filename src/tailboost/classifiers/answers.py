"""What a mixture of members made of models' probabilities answers, by the rows or by the probabilities."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.metrics import accuracy_score
from sklearn.utils import Bunch, check_random_state
from sklearn.utils.validation import check_is_fitted

from tailboost.boosting.ensemble import answers_by, draw
from tailboost.boosting.training_set import GroupNames, batches, take
from tailboost.classifiers.input import checked_table
from tailboost.classifiers.randomized import RandomizedClassifier
from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.core.checks import as_pandas, n_rows_of
from tailboost.core.subgroups import GROUPS_NEEDED, GROUPS_UNUSED
from tailboost.guarantees.leakage import KnownRows
from tailboost.selection.probability_tables import LogProbabilities, Models
from tailboost.selection.rule import Rule

F = TypeVar("F", bound=Callable[..., Any])

_GROUPS = """
groups : array-like of shape (n,), optional
    As in `predict_distribution`."""


def _told_groups(method: F) -> F:
    """Describe a method as `RandomizedClassifier` does, which is told no groups (a decorator)."""
    without = getattr(RandomizedClassifier, method.__name__)
    if without.__doc__:  # python -OO strips docstrings
        parameters, returns, more = inspect.cleandoc(without.__doc__).partition("\n\nReturns\n")
        method.__doc__ = f"{parameters}{_GROUPS}{returns}{more}"
    return method


class MixtureAnswers(RandomizedClassifier, KnownRows, BaseEstimator):
    """The answers of a mixture of members that are functions of models' probabilities."""

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
        """The share λ of each member, in the order of `members_`."""
        return self.ensemble_.weights

    @property
    def members_(self) -> list[str]:
        """What each member is."""
        return [member.words(self.classes_) for member in self.ensemble_.members]

    @property
    def rule_(self) -> Rule:
        """What decides: the models used, the weights of their probabilities, prices by class and group."""
        check_is_fitted(self)
        groups = self._group_names.values[0].tolist() if self.by_group else None
        return Rule.of(self.ensemble_, self.classes_, groups)

    def _shares(self, table: LogProbabilities) -> Floats:
        """Return each label's share, ties settled, from log-probabilities of the models that have a share."""
        ensemble = self.ensemble_
        used = np.flatnonzero(ensemble.weights > 0)
        said = {m: ensemble.members[m].predict_table(table) for m in used.tolist()}
        return ensemble.mix(said.values(), table.n_rows, lambda m, rows: said[m][rows])

    def _scores(self, X: Any, groups: Any = None) -> Floats:
        numbers, X = self._asked(X, groups)
        return np.concatenate([self._shares(self._table(X, numbers, part)) for part in batches(X)])

    def _asked(self, X: Any, groups: Any) -> tuple[Ints | None, Any]:
        """Return the numbers of the groups of rows to answer, and the rows, checked."""
        check_is_fitted(self)
        X = self._checked(X)
        return self._numbers(groups, n_rows_of(X)), X

    def _table(self, X: Any, numbers: Ints | None, part: Ints) -> LogProbabilities:
        """Return the log-probabilities of some rows of a table, with the numbers of their groups."""
        return self._models.transform(take(X, part)).knowing(None if numbers is None else numbers[part])

    def _numbers(self, groups: Any, n: int) -> Ints | None:
        """Return the numbers of the groups of rows to answer, where answers depend on them."""
        if not self.by_group:
            if groups is not None:
                raise ValueError(GROUPS_UNUSED)
            return None
        if groups is None:
            raise ValueError(GROUPS_NEEDED)
        columns, groups = self._group_names.columns or (), as_pandas(groups)
        if isinstance(groups, Mapping) or hasattr(groups, "columns"):
            groups = {name: groups[name] for name in groups if name in columns} or groups
        return self._group_names.number(groups, "groups", n)

    def example_groups(self, n_rows: int) -> Any:
        """Return groups in the form in which `predict` takes them, each group in turn.

        Parameters
        ----------
        n_rows : int
            How many.

        Returns
        -------
        ndarray of shape (n_rows,), or dict of one by the name of its column

        Raises
        ------
        ValueError
            If groups have no part in the answers.
        """
        if not self.by_group:
            raise ValueError(GROUPS_UNUSED)
        names = self._group_names
        groups = np.resize(names.values[0], n_rows)
        return groups if names.columns is None else {names.columns[0]: groups}

    def predict_proba(self, X: Any) -> Floats:
        """Return P(y | x): the models' probabilities averaged, calibrated on the rows of the choice.

        The average is that of their log-probabilities, with the weights and the offset for each class that
        had the least log loss on the rows λ was chosen on, which the models were not fitted on. It rests on
        neither objective nor limits, and knows no groups. What is answered is `predict`: where thresholds
        spare a class or a group, it is not the likeliest label.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows, as in `fit`.

        Returns
        -------
        ndarray of shape (n, K)
            Columns in the order of ``classes_``; rows sum to 1.
        """
        check_is_fitted(self)
        X = self._checked(X)
        models = self._models
        return np.concatenate([models.pool(models.transform(take(X, part))) for part in batches(X)])

    def predict_distribution(self, X: Any, *, groups: Any = None) -> Floats:
        """Return the label distribution of the randomised classifier, the mixture's shares.

        This is **not** P(y | x), which `predict_proba` estimates: it says how often each label would be
        drawn. Where one member has the whole share it answers, and its labels have the share 1.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows, as in `fit`.
        groups : array-like of shape (n,), optional
            Group of each row, one of those in `fit`; needed with ``by_group=True`` alone.

        Returns
        -------
        ndarray of shape (n, K)
            Columns in the order of ``classes_``; rows sum to 1 (to 1e-9).

        Raises
        ------
        ValueError
            If groups are missing, not wanted, or not among those of `fit`.
        """
        return self._scores(X, groups)

    def predict(self, X: Any, *, groups: Any = None, deferred: Any = None) -> NDArray[Any]:
        """Return the label with the largest share of each row. The answer to a row depends on that row alone.

        If a limit on ``rates.deferred()`` lets the rule defer rows to a person, `defers` says which rows
        these are. `predict` gives them the label that would be answered, or ``deferred``.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows, as in `fit`.
        groups : array-like of shape (n,), optional
            As in `predict_distribution`.
        deferred : str or number, optional
            What deferred rows get instead of a label, as "human"; none of the labels.

        Returns
        -------
        ndarray of shape (n,)
            Labels, as in ``classes_``; of dtype object if ``deferred`` is of another kind than they are.

        Raises
        ------
        ValueError
            As in `predict_distribution`; if ``deferred`` is a label, or no row may be deferred.
        """
        numbers, X = self._asked(X, groups)
        return np.concatenate([self._labels(self._table(X, numbers, part), deferred) for part in batches(X)])

    def _labels(self, table: LogProbabilities, deferred: Any) -> NDArray[Any]:
        """Return the label of each row, or what stands for one that is deferred."""
        answers = self.classes_[self._shares(table).argmax(axis=1)]
        if deferred is None:
            return answers
        if deferred in self.classes_.tolist():
            raise ValueError(f"deferred={deferred!r} is a label: deferred rows need another mark")
        mark = np.asarray(deferred)
        if mark.ndim:
            raise ValueError(f"deferred must be one value, got {deferred!r}")
        if mark.dtype.kind != answers.dtype.kind:  # NumPy would make text of numbers beside text
            mark, answers = np.array(deferred, dtype=object), answers.astype(object)
        return np.where(self._deferred(table), mark, answers)

    @_told_groups
    def predict_randomized(self, X: Any, random_state: Any = None, *, groups: Any = None) -> NDArray[Any]:
        """Draw a label for every row from ``predict_distribution``, for simulation studies."""
        return self.classes_[draw(self._scores(X, groups), check_random_state(random_state))]

    @_told_groups
    def predict_with(self, X: Any, members: Any, *, groups: Any = None) -> NDArray[Any]:
        """Return the answer of one member to each row, each row's own."""
        numbers, X = self._asked(X, groups)
        chosen = self._drawn(members, n_rows_of(X))

        def answer(member: int, rows: Ints) -> Ints:
            said: Ints = self.ensemble_.members[member].predict_table(self._table(X, numbers, rows))
            return said

        return self.classes_[answers_by(chosen, answer)]

    def defers_with(self, X: Any, members: Any, *, groups: Any = None) -> Mask:
        """Return which rows one member passes on, each row's own, as `predict_with` has it answer.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows, as in `fit`.
        members : array-like of int, shape (n,)
            The number of each row's own member, an index into ``estimator_weights_``.
        groups : array-like of shape (n,), optional
            As in `predict_proba`.

        Returns
        -------
        ndarray of bool, shape (n,)
            All False where no row may be passed on.

        Raises
        ------
        ValueError
            If there is no such member.
        """
        numbers, X = self._asked(X, groups)
        chosen = self._drawn(members, n_rows_of(X))
        if not self.can_defer:
            return np.zeros(n_rows_of(X), dtype=bool)

        def passed(member: int, rows: Ints) -> Ints:
            return self.ensemble_.members[member].defers_table(self._table(X, numbers, rows)).astype(np.intp)

        return answers_by(chosen, passed) == 1

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> float:
        """Return the accuracy of `predict`.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows, as in `fit`.
        y : array-like of shape (n,)
            Their labels.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows.
        groups : array-like of shape (n,), optional
            As in `predict_distribution`. With metadata routing, ``set_score_request(groups=True)``
            has cross-validation hand them on.

        Returns
        -------
        float
            From 0 to 1.
        """
        return float(accuracy_score(y, self.predict(X, groups=groups), sample_weight=sample_weight))

    def _checked(self, X: Any) -> Any:
        if not self._models.fitted:
            raise AttributeError(
                "there are no models behind from_probabilities: give their probabilities of the new rows to "
                "predict_from, predict_distribution_from or predict_proba_from"
            )
        return checked_table(self, self, X)

    def predict_proba_from(self, probabilities: Mapping[str, Any]) -> Floats:
        """Return `predict_proba` for rows of which the models' probabilities are given.

        Parameters
        ----------
        probabilities : dict of str to array-like of shape (n, K)
            As in `predict_distribution_from`, but of all models that the average weighs.

        Returns
        -------
        ndarray of shape (n, K)
            P(y | x).
        """
        check_is_fitted(self)
        models = self._models
        return models.pool(models.given(probabilities, models.pooled_models, self.classes_))

    def predict_distribution_from(self, probabilities: Mapping[str, Any], *, groups: Any = None) -> Floats:
        """Return `predict_distribution` for rows of which the models' probabilities are given.

        Parameters
        ----------
        probabilities : dict of str to array-like of shape (n, K)
            Class probabilities by the models' names, columns in the order of ``classes_``, or data frames
            whose columns are named by the labels; models without a share (see `used_models_`) may be left
            out.
        groups : array-like of shape (n,), optional
            As in `predict_distribution`.

        Returns
        -------
        ndarray of shape (n, K)
            The label distribution of the randomised classifier.

        Raises
        ------
        ValueError, TypeError
            If probabilities are missing, of an unknown name, or none.
        """
        table = self._given_table(probabilities)
        return self._shares(table.knowing(self._numbers(groups, table.n_rows)))

    def _given_table(self, probabilities: Mapping[str, Any]) -> LogProbabilities:
        check_is_fitted(self)
        needed = [self._models.names.index(name) for name in self.used_models_]
        return self._models.given(probabilities, needed, self.classes_)

    def predict_from(
        self, probabilities: Mapping[str, Any], *, groups: Any = None, deferred: Any = None
    ) -> NDArray[Any]:
        """Return `predict` for rows of which the models' probabilities are given.

        Parameters
        ----------
        probabilities : dict of str to array-like of shape (n, K)
            As in `predict_distribution_from`.
        groups : array-like of shape (n,), optional
            As in `predict_distribution`.
        deferred : str or number, optional
            As in `predict`; `defers_from` says which rows are deferred.

        Returns
        -------
        ndarray of shape (n,)
            Labels, as in `predict`.
        """
        table = self._given_table(probabilities)
        return self._labels(table.knowing(self._numbers(groups, table.n_rows)), deferred)

    def defers(self, X: Any, *, groups: Any = None) -> Mask:
        """Return which rows are deferred to a person; ``predict(X, deferred="human")`` marks them.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows, as in `fit`.
        groups : array-like of shape (n,), optional
            As in `predict_distribution`.

        Returns
        -------
        ndarray of bool, shape (n,)
            Where several members share, those that at least half of the shares pass on.

        Raises
        ------
        ValueError
            If no limit says how many rows may be passed on.
        """
        numbers, X = self._asked(X, groups)
        return np.concatenate([self._deferred(self._table(X, numbers, part)) for part in batches(X)])

    def defers_from(self, probabilities: Mapping[str, Any], *, groups: Any = None) -> Mask:
        """Return `defers` for rows of which the models' probabilities are given.

        Parameters
        ----------
        probabilities : dict of str to array-like of shape (n, K)
            As in `predict_distribution_from`.
        groups : array-like of shape (n,), optional
            As in `predict_distribution`.

        Returns
        -------
        ndarray of bool, shape (n,)
        """
        table = self._given_table(probabilities)
        return self._deferred(table.knowing(self._numbers(groups, table.n_rows)))

    @property
    def can_defer(self) -> bool:
        """Whether rows may be passed on to a person: `defers` says which."""
        check_is_fitted(self)
        return any(getattr(member, "defers", False) for member in self.ensemble_.members)

    def _deferred(self, table: LogProbabilities) -> Mask:
        if not self.can_defer:
            raise ValueError("no row is passed on: state a limit on rates.deferred()")
        share = np.zeros(table.n_rows)
        for weight, member in zip(self.ensemble_.weights, self.ensemble_.members, strict=True):
            share += weight * member.defers_table(table)
        passed: Mask = share >= 0.5
        return passed

    @property
    def used_models_(self) -> list[str]:
        """Names of the models that members with a share use: only these are asked."""
        ensemble = self.ensemble_
        used = {i for m in np.flatnonzero(ensemble.weights > 0) for i in ensemble.members[m].source}
        return [self._models.names[i] for i in sorted(used)]

    @property
    def _models(self) -> Models:
        models: Models = self.ensemble_.members[0].table_
        return models
