"""Another selection of a fitted classifier, its trade-offs; nothing is trained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from tailboost.core.array_types import Column, Floats, Groups, Stated, Table
from tailboost.core.checks import unpack
from tailboost.rows.given import Given
from tailboost.rows.judged import judged


@dataclass(frozen=True)
class Restated:
    """What a call of `reweight` states anew; None keeps what the classifier has."""

    objective: Stated
    limits: Stated
    error_budget: float | None
    max_error: Stated
    confidence: float | None


class ReselectedClassifier:
    """The public methods of a classifier whose rule is selected among candidates.

    What they do is in `JudgedModels`, the part by which a classifier answers about its rule.
    """

    def reweight(
        self,
        X: Table = None,
        y: Column = None,
        *,
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
        objective : str, rate or largest, optional
            One of "worst_class", "worst_group", "worst_cell", "error" and "deferred", or a rate. By default
            unchanged.
        limits : list of Limit, optional
            By default unchanged.
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
        arguments = Given(*unpack(X, y), groups, sample_weight, costs)
        restated = Restated(objective, limits, error_budget, max_error, confidence)
        return judged(self).reweighted(arguments, restated)

    def tradeoff(
        self, a: Any = None, b: Any = None, *, n_points: int = 9, deferred: Any = None
    ) -> Any:
        """Return the trade-off curve of two rates, without training.

        Parameters
        ----------
        a : rate, largest, gap or ratio, optional
            The limited rate. By default that of the first limit, and without limits the overall error. A
            recall is limited as one minus the recall; limits on precision and the like are passed over.
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
        return judged(self).curves(a, b, n_points, deferred)

    def predict_log_proba(self: Any, X: Table) -> Floats:
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
            return np.log(self.predict_proba(X))
