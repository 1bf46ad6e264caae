"""Reports of a fitted classifier to users: certificate, limits, errors, rows, and a rule on one screen."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from tailboost.core.array_types import Array, Floats, Groups, Ints, Labels, Mask, Table
from tailboost.core.checks import as_pandas, groups_in, n_rows_of, take
from tailboost.guarantees.certificates import Certificate
from tailboost.rows.judged import JudgedModel, is_about, labels_or_mark
from tailboost.rows.ledger import Ledger
from tailboost.rows.other_groups import warn_of_other_groups
from tailboost.rows.seen import EqualRows, Seen
from tailboost.rows.subgroups import by_column, plain_list
from tailboost.selection.rate_table import RateTable
from tailboost.selection.rule import group_numbers, with_default


class ReportedClassifier(ClassifierMixin, JudgedModel, BaseEstimator):
    """A classifier with a certificate, limits, errors by subgroup, and records of its rows.

    Attributes
    ----------
    groups_ : sequence
        Names of the groups of the fit; empty without groups.
    records_ : Records
        The rows that the classifier has read, by their use, and the attempts to calibrate it.
    """

    @property
    def certificate_(self) -> Certificate | None:
        """The certificate of `tailboost.calibrate` for this rule; None without one."""
        certificate = vars(self).get("certificate_")
        if certificate is not None and is_about(certificate, self):
            return certificate
        return None

    @certificate_.setter
    def certificate_(self, certificate: Certificate | None) -> None:
        self.__dict__["certificate_"] = certificate

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes; the certificate is about this classifier, which is stored once."""
        state = dict(super().__getstate__())
        if state.get("certificate_") is not None:
            state["certificate_"] = replace(state["certificate_"], model=None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the attributes of `__getstate__`."""
        super().__setstate__(state)
        certificate = state.get("certificate_")
        if certificate is not None:
            self.certificate_ = replace(certificate, model=self)

    def _html_repr(self: Any) -> str:
        """Return the text of a fitted classifier, and scikit-learn's diagram."""
        text = f"<pre>{escape(str(self))}</pre>" if self.__sklearn_is_fitted__() else ""
        return text + estimator_html_repr(self)

    # -- answers ---------------------------------------------------------------------------------------

    def predict(
        self: Any, X: Table, *, groups: Groups = None, deferred: Any = None, default: Any = ...
    ) -> Array:
        """Return the label of each row.

        The label of a row depends on this row alone. If a limit on ``rates.deferred()`` lets the rule defer
        rows, `defers` tells which. `predict` gives them ``deferred`` or, with a warning, the label that would
        be answered. Limits and certificates count these rows as deferred, not with this label.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows, as in `fit`, or a dict of the models' probabilities of the rows; models without weight (see
            ``used_models_``) may be left out.
        groups : array-like of shape (n,), optional
            Group of each row, one of the groups in `fit`; needed with ``by_group=True`` alone.
        deferred : str or number, optional
            Value for deferred rows, as "human review"; none of the labels.
        default : label, "human review" or None, optional
            Answer to rows without a score (`Scores`), and to rows of an unknown group or none, as in the
            `predict` of a rule. Without it they are an error.

        Returns
        -------
        ndarray of shape (n,)
            Labels, as in ``classes_``; of dtype object if ``deferred`` is of another kind.

        Raises
        ------
        ValueError
            If groups are missing, not used, or not among the groups of `fit`; if ``deferred`` is a label, or
            ``default`` is no answer.

        Warns
        -----
        DeferredRowsWarning
            Counts the deferred rows, if ``deferred`` is not given.
        UncertifiedGroupsWarning
            Counts the rows of a table in groups that the certificate does not name.
        """
        check_is_fitted(self)
        if default is not ...:
            return self._with_default(X, groups, deferred, default)
        labels, is_deferred = self._answers(X, groups)
        if self.certificate_ is not None:
            warn_of_other_groups(self.certificate_.groups_named, X, groups)
        return labels_or_mark(self, self.classes_[labels], is_deferred, deferred)

    def defers(self: Any, X: Table, *, groups: Groups = None) -> Mask:
        """Return which rows are deferred; ``predict(X, deferred="human review")`` marks them.

        Parameters
        ----------
        X, groups : array-like of shape (n, d), (n,)
            As in `predict`.

        Returns
        -------
        ndarray of bool, shape (n,)
            All False if the rule never defers.
        """
        _, is_deferred = self._answers(X, groups)
        return is_deferred

    # -- what other parts of the library read -------------------------------------------------

    @property
    def _equal_rows(self) -> EqualRows:
        """How the certificate treated equal rows: as copies without one."""
        certificate = self.certificate_
        return "copies" if certificate is None else certificate.equal_rows

    @property
    def _group_titles(self) -> tuple[Any, ...]:
        """Names of the columns of groups of the fit; None for a column without a name."""
        names = getattr(self, "_group_names", None)
        if names is None:
            return tuple(by_column(plain_list(self.groups_)))
        return names.titles

    def _reads(self, column: Any) -> bool:
        """Return whether answers need the groups of a column."""
        return self.by_group is True or (bool(self.by_group) and self.by_group == column)

    def _numbered_answers(
        self: Any, X: Table, groups: Groups, classes: Labels, *, defers: bool
    ) -> Ints | None:
        """Return the answers of `predict` as numbers of labels; None if the classifier has other labels.

        With ``defers``, deferred rows have the number of labels.
        """
        if not np.array_equal(self.classes_, classes):
            return None
        labels, deferred = self._answers(X, groups if self.by_group else None)
        return np.where(deferred, len(classes), labels) if defers else labels

    def _with_default(
        self: Any, X: Table, groups: Groups, deferred: Any, default: Any
    ) -> Labels:
        """Return the answers of `predict`, the default to rows without a score or a known group."""
        table = as_pandas(X)
        has_answer = ~self._without_score(table)
        known = self.rule_.groups
        if known is not None:
            groups = self._groups_of(table, groups_in(table, groups))
            column = None if self.by_group is True else self.by_group
            has_answer &= (
                group_numbers(groups, known, n_rows_of(table), column, unknown=True) >= 0
            )
        rows = np.flatnonzero(has_answer)
        answers = rows
        if rows.size:
            answers = self.predict(
                take(table, rows), groups=take(groups, rows), deferred=deferred
            )
        return with_default(answers, has_answer, self.classes_.tolist(), default)

    # -- the rows of the fit ---------------------------------------------------------------------------

    @property
    def ledger_(self) -> Ledger:
        """The attempts to calibrate this fit."""
        return self.records_.ledger

    def seen_share(self: Any, X: Table) -> float:
        """Return the share of rows equal to training rows; errors on such rows are too small.

        Rows are compared by content, without labels, with the fingerprints in the model and its file
        (``records_.trained``): of up to 50,000 distinct training rows, or of a sample of this size.
        Anybody who has the model can therefore test whether a row he knows was a training row. Numbers are
        compared as float32, fractions to 16 significant bits. So rows are recognised after a file, another
        type or a column of objects, but not after scaling or noise.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows. In a table with few different values fresh rows equal training rows by chance.

        Returns
        -------
        float
            From 0 to 1, each row counts once; NaN if the sample contains none of the rows.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.naive_bayes import GaussianNB
        >>> from tailboost import RobustMixtureClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = RobustMixtureClassifier([("bayes", GaussianNB())]).fit(X[::2], y[::2])
        >>> clf.seen_share(X[::2])
        1.0
        """
        check_is_fitted(self)
        rows = Seen.of(self._row_hashes(X))
        if self.records_.trained is None:
            return float("nan")
        return rows.share_in(self.records_.trained)

    # -- errors on the selection data ------------------------------------------------------------------

    @property
    def rates_(self: Any) -> RateTable:
        """The rates of the objective and of the limits by subgroup, on the selection data.

        After `tailboost.calibrate` the verdict of the certificate comes first.
        """
        check_is_fitted(self)
        if self.certificate_ is None:
            return self.selection_.estimates
        table = self.selection_.stated_within(self._stated_limits).estimates
        return replace(table, certificate=self.certificate_.title)

    @property
    def limits_met_(self: Any) -> bool | None:
        """Whether all limits are certified, or without a certificate kept on the selection data.

        It is about `predict`, and None without limits.
        """
        check_is_fitted(self)
        certificate = self.certificate_
        if certificate is None:
            return self.selection_.limits_met
        verdicts = [bound.certified for bound in certificate.bounds if bound.target is not None]
        return all(verdicts) if verdicts else None

    @property
    def subgroup_errors_(self: Any) -> dict[Any, float]:
        """Error of `predict` on each class, group or cell, on the selection data; NaN without rows."""
        check_is_fitted(self)
        return {line.subgroup: line.value for line in self.selection_.errors}

    @property
    def subgroup_intervals_(self: Any) -> Floats:
        """95 % intervals for the errors of `predict` on new rows, shape (m, 2); NaN without an interval."""
        check_is_fitted(self)
        lines = self.selection_.errors
        return np.array([(line.low, line.high) for line in lines]).reshape(-1, 2)


def rule_screen(classifier: Any) -> str:
    """Return the limits with their verdict, the overall error and the rule of a fitted classifier.

    They are certified if the rule has a certificate, otherwise measured on the selection data.
    """
    certificate = classifier.certificate_
    if certificate is not None:
        source = certificate.title
        limit_lines = certificate.limit_lines()
        errors = certificate.lines()[:1]
    else:
        source = f"measured on {classifier.summary_.measured_on.partition(' (')[0]}"
        limit_lines = classifier.rates_.limit_lines()
        errors = [classifier.summary_.error_words]
    limits = [
        f"{each.name} {each.limit}  {each.verdict} ({each.numbers})" for each in limit_lines
    ]
    texts = {"limit": limits, "error": errors, "rule": str(classifier.rule_).splitlines()}
    lines = [f"{name:5}  {text.strip()}" for name in texts for text in texts[name]]
    models = ", ".join(classifier.rule_.models) or "no model"
    return "\n".join([f"{type(classifier).__name__} of {models}, {source}", *lines])
