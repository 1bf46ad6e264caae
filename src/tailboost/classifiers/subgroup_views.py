"""Errors of the subgroups as attributes of a fitted classifier."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tailboost.core.array_types import Floats
from tailboost.core.fingerprints import Fingerprint
from tailboost.guarantees.leakage import KnownRows
from tailboost.selection.rate_table import RateTable


def intervals_of(table: RateTable) -> Floats:
    """Return the intervals of a table, shape (m, 2); NaN without an interval."""
    intervals = table.intervals()
    return np.full((len(table.lines), 2), np.nan) if intervals is None else intervals


class SubgroupViews(KnownRows):
    """Views of the errors of `predict` on the selection data."""

    _results: dict[str, Any]  # of `_cached`; a new selection sets an empty dict

    def _cached(self, name: str, make: Callable[[], Any]) -> Any:
        """Return the result of ``make``, computed at the first access."""
        check_is_fitted(self)
        if name not in self._results:
            self._results[name] = make()
        return self._results[name]

    @abstractmethod
    def _subgroup_table(self) -> RateTable:
        """Return the error of `predict` on each subgroup, on the selection data."""

    @property
    @abstractmethod
    def rates_(self) -> RateTable:
        """Rates of the objective and of the limits by subgroup, of `predict` on the selection data."""

    def _answers_of(self, classifiers: Sequence[Any], X: Any, groups: Any) -> list[tuple[Any, Any]]:
        """Return the predictions of the classifiers of a curve, and which rows they defer."""
        return [(classifier.predict(X), None) for classifier in classifiers]

    def _fingerprint(self, X: Any) -> Fingerprint | None:
        """Return the fingerprints of rows; None of rows without features."""
        return Fingerprint.of_rows(self._checked(X))

    @property
    def limits_probability_(self) -> float | None:
        """Probability that `predict` satisfies all limits on new rows, see `RateTable.outlook`; or None."""
        outlook = self.rates_.outlook
        return None if outlook is None else outlook.probability

    @property
    def subgroup_errors_(self) -> dict[Any, float]:
        """Error of `predict` on each class, group or cell, on the selection data; NaN without rows."""
        check_is_fitted(self)
        return {line.subgroup: line.value for line in self._subgroup_table()}

    @property
    def subgroups_(self) -> list[Any]:
        """Names of the subgroups of `subgroup_errors_`."""
        return list(self.subgroup_errors_)

    @property
    def subgroup_intervals_(self) -> Floats:
        """95 % intervals for the errors of `predict` on new rows, shape (m, 2); NaN without an interval."""
        check_is_fitted(self)
        return intervals_of(self._subgroup_table())
