"""The view of a fitted classifier for certificates, the monitor, reports and model files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from tailboost.core.array_types import (
    Array,
    Floats,
    Groups,
    Hashes,
    Ints,
    Labels,
    Mask,
    Model,
    Table,
)
from tailboost.core.checks import as_table, n_rows_of
from tailboost.core.exceptions import (
    DeferredRowsWarning,
    UncertifiedGroupsWarning,
    warn_user,
    without_warning,
)
from tailboost.core.limit_lines import LimitLine
from tailboost.core.spelling import how_many, number_form
from tailboost.rows.fingerprints import hash_rounded_rows
from tailboost.rows.ledger import Records
from tailboost.rows.other_groups import GroupsByColumn
from tailboost.rows.seen import SELECTED_ON, EqualRows, Seen
from tailboost.rows.subgroups import GroupUse, by_column, plain_list


class ClassifierView:
    """The view of a classifier for other parts of the library, made by `judged`.

    The values here are for classifiers of other libraries. Subclasses have the values of tailboost's.

    Parameters
    ----------
    classifier : classifier
        The classifier itself.
    """

    def __init__(self, classifier: Model) -> None:
        self.classifier = classifier

    #: Whether the classifier records the rows of its fit, as classifiers of tailboost do.
    has_records: Any = False
    #: Whether answers need the groups of the rows.
    by_group: Any = False
    #: Names of the groups of the fit.
    groups: Any = ()
    #: The combinations of several columns of groups in the rows of the fit.
    group_combinations: Any = ()
    #: The certificate of the classifier's rule; None without one.
    certificate: Any = None
    #: The limits on rates of the fit, with the limits of ``max_error``.
    stated_limits: Any = ()
    #: Whether the rule is selected within limits on rates, which are a parameter.
    takes_limits: Any = False
    #: Whether another rule within limits can be selected among the candidates, on the known rows.
    selects_rule: Any = False
    #: Whether the rule may defer rows; the method ``defers`` of the classifier returns a mask of them.
    can_defer: Any = False
    #: Whether the rule weighs an estimate of p(group | x, y) for each row.
    weighs_groups: Any = False
    #: Whether the rule reads scores alone: then equal rows count as different rows.
    reads_scores: Any = False
    #: The columns of scores among the models; () without any.
    columns_of_scores: Any = ()
    #: Digest of the decision function: of the rule and its models; None without a selected rule. Copies,
    #: pickles and files keep it. `reweight`, other thresholds and other models change it.
    rule_digest: Any = None
    #: The decision rule (`ThresholdRule` or `Rule`); None without one.
    rule: Any = None

    @property
    def groups_named(self) -> GroupsByColumn:
        """The groups in the limits of the certificate, by column; empty without such limits."""
        if self.certificate is None:
            return {}
        return self.certificate.groups_named

    @property
    def equal_rows(self) -> EqualRows:
        """How the certificate treated equal rows: as copies without one."""
        if self.certificate is None:
            return "copies"
        return self.certificate.equal_rows

    def reads(self, column: Any) -> bool:
        """Whether answers need the groups of a column."""
        return False

    def groups_of(self, X: Table, groups: Groups) -> Groups:
        """Return the given groups; a rule of a file takes its group column from the table ``X``."""
        return groups

    @property
    def group_titles(self) -> Any:
        """Names of the columns of groups of the fit; None for a column without a name."""
        return tuple(by_column(plain_list(self.groups)))

    @property
    def rule_html(self) -> str:
        """The decision rule as HTML; empty without one."""
        if self.rule is None:
            return ""
        return self.rule._repr_html_()

    def checked(self, X: Table) -> Any:
        """Return a table in the form of the fit."""
        return X

    def without_score(self, X: Table) -> Mask:
        """Return which rows lack a score that the rule reads, shape (n,)."""
        return np.zeros(n_rows_of(X), dtype=np.bool_)

    def row_hashes(self, X: Table) -> Hashes:
        """Return the hashes of rows, equal for all forms of the same rows."""
        return hash_rounded_rows(as_table(self.checked(X)))

    def numbered_answers(
        self, X: Table, groups: Groups, classes: Labels, *, defers: bool
    ) -> Ints | None:
        """Return the answers of ``predict`` as numbers of labels, shape (n,); None if only labels are known.

        Parameters
        ----------
        X, groups
            The rows, which may be opened, and their groups.
        classes : ndarray of shape (K,)
            The labels to number.
        defers : bool
            Whether deferred rows have the number K; otherwise they have the label that would be answered.
        """
        return None


class Recorded(ClassifierView):
    """A classifier with records of its rows: one of tailboost."""

    has_records = True

    @property
    def records(self) -> Records:
        """The records of the rows of training, selection and calibration."""
        return self.classifier.records_

    @property
    def certificate(self) -> Any:
        """The certificate of the classifier's rule."""
        return getattr(self.classifier, "certificate_", None)

    @property
    def by_group(self) -> bool:
        """Whether answers need the groups of the rows."""
        return bool(getattr(self.classifier, "by_group", False))

    def reads(self, column: Any) -> bool:
        """Whether answers need the groups of a column."""
        by_group = getattr(self.classifier, "by_group", False)
        return by_group is True or (bool(by_group) and by_group == column)

    @property
    def groups(self) -> Any:
        """Names of the groups of the fit."""
        return getattr(self.classifier, "groups_", ())

    @property
    def group_titles(self) -> Any:
        """Names of the columns of groups of the fit; None for a column without a name."""
        names = getattr(self.classifier, "_group_names", None)
        if names is None:
            return super().group_titles
        return names.titles

    @property
    def group_combinations(self) -> Any:
        """The combinations of several columns of groups in the rows of the fit."""
        return getattr(self.classifier, "group_combinations_", ())

    def opened(self, X: Table, groups: Groups = None) -> Any:
        """Return rows for `predict` and other methods of classifiers with the same candidates.

        Parameters
        ----------
        X, groups : array-like of shape (n, d), (n,)
            As in `predict`.

        Returns
        -------
        object
            ``X`` itself, unless the models of the candidates can answer once for several classifiers.
        """
        return X

    @property
    def errors_table(self) -> Any:
        """The error of `predict` on each subgroup, on the selection data."""
        return self.classifier.rates_

    @property
    def limits_are(self) -> str:
        """The data of `limit_lines` without a certificate, as a title."""
        try:
            check_is_fitted(self.classifier)
            return f"On {self.classifier.rates_.words}"
        except (NotFittedError, AttributeError):  # a rule from a file has no selection data
            return "On the selection data"

    @property
    def limit_lines(self) -> list[LimitLine]:
        """The certified limits; without a certificate the limits on the selection data."""
        if self.certificate is not None:
            return self.certificate.limit_lines()
        try:
            check_is_fitted(self.classifier)
            return self.classifier.rates_.limit_lines()
        except (NotFittedError, AttributeError):  # a rule from a file has no selection data
            return []

    def reading(self, X: Table, y: Any) -> Seen:
        """Return rows on which a rule is selected, to recognise them later; labels count for scores alone."""
        labels = y if self.reads_scores else None
        return Seen.of(self.row_hashes(X), SELECTED_ON, labels)

    def answers_of(
        self, classifiers: Sequence[Any], X: Table, groups: Groups
    ) -> list[tuple[Any, Any]]:
        """Return the predictions, and the mask of deferred rows if any, of each classifier of a curve."""
        return [(classifier.predict(X), None) for classifier in classifiers]


class RecordedScores(Recorded):
    """A classifier with limits and a rule that reads scores alone."""

    takes_limits = True
    reads_scores = True

    @property
    def stated_limits(self) -> tuple[Any, ...]:
        """The stated limits of the rule's file; () without any."""
        return tuple(self.classifier.limits)


def judged(model: Model) -> Any:
    """Return the view (`ClassifierView`) of the classifier at the end of a search or a pipeline."""
    final = last_step(model)
    return getattr(type(final), "_judged_by", ClassifierView)(final)


def columns_of(scores: Any) -> tuple[Any, ...]:
    """Return the columns, label, kind and missing value of a `Scores`, as input of `digest_of_rule`."""
    return scores.column_list, scores.label, scores.kind, scores.missing


def is_about(certificate: Any, model: Model) -> bool:
    """Return whether a certificate is about the rule of a classifier, by the digest of the rule.

    `certificate_`, reports, monitors and files make this comparison. So a copied, edited or newly selected
    object carries no certificate of another rule.
    """
    return certificate.rule is not None and certificate.rule == judged(model).rule_digest


def refuse_other_rule(certificate: Any, model: Model, name: str) -> None:
    """Raise ValueError if a certificate is about another rule than the classifier's.

    A certificate without a rule, and answers or a model of another library, cannot be compared.
    """
    comparable = certificate.rule is not None and judged(model).rule_digest is not None
    if comparable and not is_about(certificate, model):
        raise ValueError(
            f"{name} is about another rule than that of this "
            f"{type(last_step(model)).__name__}: certify this rule from fresh rows"
        )


def group_arguments(model: Model, groups: Groups) -> dict[str, Any]:
    """Return the keyword arguments of ``predict``: the groups, if the classifier needs them."""
    if judged(model).by_group:
        return {"groups": groups}
    return {}


def group_uses(model: Model) -> tuple[GroupUse, ...]:
    """Return the dependence of a fitted classifier on each column of groups; empty without groups."""
    final = judged(model)
    return tuple(
        GroupUse(name, final.reads(name), final.weighs_groups) for name in final.group_titles
    )


# -- the classifier behind a pipeline or search ----------------------------------------------------------


def last_step(model: Model) -> Any:
    """Return the classifier at the end of a search or a pipeline."""
    return final_step(model, None)[0]


def final_step(model: Model, X: Table) -> tuple[Any, Any]:
    """Return the classifier at the end of a search or pipeline, and the rows after the steps before.

    ``X`` may be None, without rows.
    """
    while isinstance(model, FrozenEstimator) or hasattr(model, "best_estimator_"):
        if isinstance(model, FrozenEstimator):
            model = model.estimator
        else:
            model = model.best_estimator_
    if not isinstance(model, Pipeline):
        return model, X
    if X is not None and len(model) > 1:
        X = model[:-1].transform(X)
    return final_step(model[-1], X)


def predicted_labels(model: Model, X: Table, **given: object) -> Array:
    """Return ``predict`` of a model without warnings of deferred rows or uncertified groups.

    Callers warn themselves, or ask the model for the deferred rows.

    The keyword arguments ``given``, for example ``groups``, are passed to the model.
    """
    with without_warning(DeferredRowsWarning), without_warning(UncertifiedGroupsWarning):
        return np.asarray(model.predict(X, **given))


def answer_shares(model: Model, X: Table) -> Floats:
    """Return the probability of each answer to each row, shape (n, K).

    This is ``predict_distribution`` of a randomised rule of tailboost, also behind a pipeline or a search.
    Other classifiers answer the label of ``predict`` with probability 1: their ``predict_proba`` estimates
    P(y | x), and is no probability of an answer.
    """
    if hasattr(last_step(model), "predict_distribution"):
        return label_shares(model, X)
    return answered(model.predict(X), model.classes_)


def answered(labels: object, classes: object) -> Floats:
    """Return probability 1 for each answered label and 0 for the others, shape (n, K)."""
    return np.asarray(np.asarray(labels)[:, None] == np.asarray(classes), dtype=np.float64)


def label_shares(model: Model, X: Table, **given: object) -> Floats:
    """Return the label distribution of each row, shape (n, K).

    This is ``predict_distribution`` of a classifier of tailboost, also behind a pipeline or a search, and
    ``predict_proba`` of other classifiers. The keyword arguments ``given``, for example ``groups``, are
    passed to the classifier.
    """
    if hasattr(last_step(model), "predict_distribution"):
        final, rows = final_step(model, X)
        return np.asarray(final.predict_distribution(rows, **given), dtype=np.float64)
    return np.asarray(model.predict_proba(X, **given), dtype=np.float64)


def rows_with_score(model: Model, X: Table) -> Mask:
    """Return which rows have the scores that the rule reads, shape (n,); a warning counts the others.

    Raise ValueError if no row has them.
    """
    lacks_score = judged(model).without_score(X)
    n_lacking = int(np.count_nonzero(lacks_score))
    if n_lacking == len(lacks_score):
        raise ValueError(f"X: none of {how_many(n_lacking, 'row')} has a score")
    if n_lacking:
        lack = number_form(
            n_lacking, "is not tested, because it has", "are not tested, because they have"
        )
        warn_user(f"{how_many(n_lacking, 'row')} of {len(lacks_score):,} {lack} no score")
    return ~lacks_score


# -- labels of deferred rows -------------------------------------------------------------------------------


def labels_or_mark(classifier: Any, labels: Array, is_deferred: Mask, mark: Any) -> Array:
    """Return the labels; deferred rows get ``mark`` instead, or without a mark their label and a warning.

    Parameters
    ----------
    classifier : classifier
        The classifier that has answered.
    labels : ndarray of shape (n,)
        The labels of all rows, also of deferred ones.
    is_deferred : ndarray of bool, shape (n,)
        The deferred rows.
    mark : str, number or None
        Value for deferred rows.

    Raises
    ------
    ValueError
        If the mark is no single value, or a label.
    """
    if mark is None:
        n_deferred = np.count_nonzero(is_deferred)
        if n_deferred:
            warn_user(
                f"predict: {n_deferred:,} of {len(is_deferred):,} rows are deferred. "
                f"{words_of_labels(classifier)}",
                DeferredRowsWarning,
            )
        return labels
    marks = np.asarray(mark)
    if marks.ndim > 0:
        raise ValueError(f"deferred must be one value, got {mark!r}")
    if mark in classifier.classes_.tolist():
        raise ValueError(f"deferred={mark!r} is a label: deferred rows need another mark")
    if marks.dtype.kind != labels.dtype.kind:  # NumPy would turn numbers into text
        marks = np.array(mark, dtype=object)
        labels = labels.astype(object)
    return np.where(is_deferred, marks, labels)


def words_of_labels(classifier: Any) -> str:
    """Return two sentences for a warning: labels of deferred rows do not count, and how to mark the rows."""
    counting = "The limits and rates of the rule count"
    if judged(classifier).certificate is not None:
        counting = "The certificate counts"
    return (
        f"{counting} them as deferred, not with the labels given here. "
        "predict(X, deferred='human review') marks them; defers(X) tells which they are"
    )
