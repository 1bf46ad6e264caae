"""What every fitted classifier tells its users: its certificate, its limits, its errors and its rows."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from tailboost.core.array_types import Axes, Floats, Table
from tailboost.core.limit_lines import limits_html
from tailboost.rows.judged import intervals_of, is_about, judged
from tailboost.rows.ledger import Ledger
from tailboost.selection.rate_table import RateTable


class ReportedClassifier(ClassifierMixin, BaseEstimator):
    """A classifier with a certificate, limits, errors by subgroup, and records of its rows.

    Attributes
    ----------
    groups_ : sequence
        Names of the groups of the fit; empty without groups.
    records_ : Records
        The rows that the classifier has read, by their use, and the attempts to calibrate it.
    """

    groups_: Any = ()

    @property
    def certificate_(self) -> Any:
        """The certificate of `tailboost.calibrate` for this rule; None without one."""
        certificate = vars(self).get("certificate_")
        if certificate is not None and is_about(certificate, self):
            return certificate
        return None

    @certificate_.setter
    def certificate_(self, certificate: Any) -> None:
        self.__dict__["certificate_"] = certificate

    def plot_limits(self, ax: Axes = None, **kwargs: Any) -> Any:
        """Draw each limit with its verdict; needs matplotlib.

        After `tailboost.calibrate` the certified bounds are drawn, otherwise the rates on the selection
        data. `tailboost.plotting.LimitsDisplay` draws the rates on other rows.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on.
        **kwargs
            Passed to ``Axes.barh``.

        Returns
        -------
        LimitsDisplay

        Raises
        ------
        ValueError
            If there is no limit.
        """
        if self.certificate_ is not None:
            return self.certificate_.plot(ax=ax, **kwargs)
        return self.rates_.plot(ax=ax, **kwargs)

    def _html_repr(self) -> str:
        """Return the limits as a table, the rule, and scikit-learn's diagram."""
        judged_clf = judged(self)
        title = judged_clf.limits_are
        if judged_clf.certificate is not None:
            title = "Certified from fresh rows"
        limits_table = ""
        if judged_clf.limit_lines:
            limits_table = limits_html(judged_clf.limit_lines, f"{title}:")
        return limits_table + judged_clf.rule_html + estimator_html_repr(self)

    # -- the rows of the fit ---------------------------------------------------------------------------

    @property
    def ledger_(self) -> Ledger:
        """The attempts to calibrate this fit."""
        ledger: Ledger = self.records_.ledger
        return ledger

    def seen_share(self, X: Table) -> float:
        """Return the share of rows equal to training rows; errors on such rows are too small.

        Rows are compared by content, without labels, with the fingerprints in the model and its file
        (``records_.trained``): of up to 50,000 distinct training rows, or of a sample of this size.
        Anybody who has the model can therefore test whether a row he knows was a training row. Numbers are
        compared as float32. Non-integers are rounded: to six decimal digits if a row has one
        such number, to four with three, to two with 200. So rows are recognised after a file, another type
        or a column of objects, but not after scaling, shuffling or noise.

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
        >>> from tailboost import AdaBoostClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = AdaBoostClassifier(n_estimators=3).fit(X[::2], y[::2])
        >>> clf.seen_share(X[::2])
        1.0
        """
        check_is_fitted(self)
        share: float = self.records_.trained.share(judged(self).row_hashes(X).whole)
        return share

    # -- errors on the selection data ------------------------------------------------------------------

    @property
    def rates_(self) -> Any:
        """Rates of the objective and of the limits by subgroup, of `predict` on the selection data."""
        raise AttributeError(f"{type(self).__name__} has no selection data, so no rates_")

    @property
    def limits_probability_(self) -> float | None:
        """Estimated probability that `predict` keeps all limits on new rows; None if it is not known.

        It is known for limits on rates of a `RobustMixtureClassifier`, whose summary prints it.
        """
        check_is_fitted(self)
        probability: float | None = judged(self).limits_probability
        return probability

    @property
    def subgroup_errors_(self) -> dict[Any, float]:
        """Error of `predict` on each class, group or cell, on the selection data; NaN without rows."""
        check_is_fitted(self)
        return {line.subgroup: line.value for line in judged(self).errors_table}

    @property
    def subgroup_intervals_(self) -> Floats:
        """95 % intervals for the errors of `predict` on new rows, shape (m, 2); NaN without an interval."""
        check_is_fitted(self)
        return intervals_of(judged(self).errors_table)


def limits_kept(classifier: ReportedClassifier, kept_on_selection: bool | None) -> bool | None:
    """Return whether all limits are certified, or without a certificate whether the selection data keep them.

    ``kept_on_selection`` is None without limits, and so is the result of a certificate without limits.
    """
    if classifier.certificate_ is None:
        return kept_on_selection
    verdicts = [
        bound.certified for bound in classifier.certificate_.bounds if bound.target is not None
    ]
    return all(verdicts) if verdicts else None


def rates_with_verdicts(classifier: ReportedClassifier, table: RateTable) -> RateTable:
    """Return a table of rates on the selection data, with limits and verdicts of a certificate if any."""
    certificate = classifier.certificate_
    if certificate is None:
        return table
    return table.certified(certificate.title, certificate.targets)
