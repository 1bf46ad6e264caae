"""The trade-off of two rates: a Pareto front on the selection data, and the classifier of each point."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tailboost.core.array_types import Floats
from tailboost.core.fingerprints import Fingerprint
from tailboost.core.html import html_table, text_table
from tailboost.core.subgroups import can_defer, group_arguments
from tailboost.core.tables import unpack
from tailboost.rates import measure
from tailboost.solvers.tradeoff import undominated

# Points of a printed table.
SHOWN = 12
# More than the rounding error of confusion counts.
SLACK = 1e-9


class Points(NamedTuple):
    """Two rates along a trade-off, on some rows.

    Attributes
    ----------
    limited : ndarray of shape (B,)
        The limited rate at each point of the curve.
    value : ndarray of shape (B,)
        The minimised rate at each point.
    """

    limited: Floats
    value: Floats


@dataclass(frozen=True)
class CurvePoint:
    """One point of a trade-off, on the selection data.

    Parameters
    ----------
    limited : float
        The limited rate.
    value : float
        The minimised rate.
    classifier : classifier
        The classifier with these rates.
    """

    limited: float
    value: float
    classifier: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, eq=False)
class MeasuredRows:
    """Rows on which the points of a curve were measured. A later selection of a point may depend on them."""

    points: list[Any] = field(default_factory=list)  # points of the curves, which record further rows at once
    fingerprints: list[Fingerprint] = field(default_factory=list)

    def add(self, fingerprint: Fingerprint) -> None:
        """Record the fingerprints of rows."""
        self.fingerprints.append(fingerprint)
        for point in self.points:
            point.chosen_rows_ = (*point.chosen_rows_, fingerprint)

    def recorded_in(self, point: Any) -> Any:
        """Return a point; its ``chosen_rows_`` include the recorded rows."""
        known = {id(fingerprint) for fingerprint in point.chosen_rows_}
        new = [fingerprint for fingerprint in self.fingerprints if id(fingerprint) not in known]
        point.chosen_rows_ = (*point.chosen_rows_, *new)
        return point


@dataclass(frozen=True, eq=False)
class Curve:
    """The trade-off of two rates, made by ``tradeoff()``: no point is worse than another one in both rates.

    The curve is exact on the selection data. `predicted` gives both rates on other rows.

    Attributes
    ----------
    points : tuple of CurvePoint
        From the tightest limit to the loosest, each with its classifier.
    limited : Objective or Spread
        The limited rate.
    objective : Objective or CVaR
        The minimised rate.
    measured_on : str
        Description of the selection data.
    gap : float
        Largest distance by which a mixture of the candidates lies below the lines between the points;
        infinite if it is not known.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.naive_bayes import GaussianNB
    >>> import tailboost as tb
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = tb.tune(GaussianNB().fit(X[::3], y[::3]), X[1::3], y[1::3])
    >>> curve = clf.tradeoff()
    >>> cheapest = curve.at(curve[0].limited)
    >>> overall, worst = curve.predicted(X[2::3], y[2::3])
    """

    points: tuple[CurvePoint, ...]
    limited: Any
    objective: Any
    measured_on: str
    # ``at(level, point)`` returns the classifier within a limit: that of a point, or a new one if no point is
    # within the limit; or raises.
    _at: Callable[[float, Any], Any] = field(repr=False)
    # The classifier of the curve: ``_along(classifiers, X, groups)`` returns the answers of classifiers, and
    # the rows they defer; ``_sketch(X)`` returns the fingerprints of rows, or None without features.
    _classifier: Any = field(repr=False)
    gap: float = float("inf")
    # Shared by curves of one call, from any of which a point may be picked.
    _measured_rows: MeasuredRows = field(default_factory=lambda: MeasuredRows(), repr=False)

    def __post_init__(self) -> None:
        self._measured_rows.points.extend(point.classifier for point in self.points)

    def __iter__(self) -> Iterator[CurvePoint]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    def __getitem__(self, place: int) -> CurvePoint:
        return self.points[place]

    @property
    def values(self) -> Points:
        """Both rates of each point on the selection data, arrays of shape (B,)."""
        return Points(np.array([p.limited for p in self]), np.array([p.value for p in self]))

    def at(self, level: float) -> Any:
        """Return the classifier with the least objective if the other rate is limited to ``level``.

        Parameters
        ----------
        level : float
            Bound of the limited rate.

        Returns
        -------
        classifier
            With the same models; no model is trained.

        Raises
        ------
        InfeasibleLimitsError
            If no rule satisfies the limit.

        Notes
        -----
        Rows given to `predicted` before are selection data of the returned classifier: ``chosen_rows_``
        contains their fingerprints, and `tailboost.certify` refuses them.
        """
        keeps = [p for p in self.points if _within(self.limited, p.limited, level)]
        point = self._at(level, min(keeps, key=lambda p: p.value).classifier if keeps else None)
        # A copy: the point of the curve records later rows, the returned one does not.
        return self._measured_rows.recorded_in(copy.copy(point))

    def predicted(self, X: Any, y: Any, *, groups: Any = None, sample_weight: Any = None) -> Points:
        """Return both rates of `predict` at every point, on other rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows not used in the fit, or a dict of the models' probabilities of the rows.
        y : array-like of shape (n,)
            Labels.
        groups : array-like of shape (n,), dict or data frame, optional
            Groups, if rates are about groups.
        sample_weight : array-like of shape (n,), optional
            Weights.

        Returns
        -------
        Points
            A named pair of arrays, ``limited`` and ``value``. Deferred rows count as deferred.
        """
        X, y = unpack(X, y)
        if (sketch := self._classifier._sketch(X)) is not None:
            self._measured_rows.add(sketch)
        classifiers = [p.classifier for p in self.points]
        more = {"groups": groups, "sample_weight": sample_weight}
        values = [
            self._measured(y, answers, deferred=deferred, **more)
            for answers, deferred in self._classifier._along(classifiers, X, groups)
        ]
        return Points(*np.array(values).reshape(-1, 2).T)

    def measured(
        self, others: Mapping[str, Any], X: Any, y: Any, *, groups: Any = None, sample_weight: Any = None
    ) -> dict[str, tuple[float, float]]:
        """Return the same two rates of `predict` of other classifiers.

        Parameters
        ----------
        others : mapping of name to fitted classifier
            Classifiers of the labels of ``y``.
        X, y, groups, sample_weight
            As in `predicted`.

        Returns
        -------
        dict of name to (limited, value)
        """
        values = {}
        for name, other in others.items():
            given = group_arguments(other, groups)
            more = {"deferred": other.defers(X, **given) if can_defer(other) else None, "groups": groups}
            values[name] = self._measured(y, other.predict(X, **given), sample_weight=sample_weight, **more)
        return values

    def _measured(self, y: Any, answers: Any, **more: Any) -> tuple[float, float]:
        """Return both rates of answers."""
        more["labels"] = self._classifier.classes_

        def value(of: Any) -> float:
            if hasattr(of, "of_answers"):  # a CVaR
                return float(of.of_answers(y, answers, **more))
            return float(of.value(np.array([*measure(of.rate, y, answers, **more).values()], dtype=float)))

        return value(self.limited), value(self.objective)

    def to_dict(self) -> dict[str, Any]:
        """Return the curve as plain types, for JSON."""
        limited, value = self.values
        return {
            "limited": str(self.limited),
            "objective": str(self.objective),
            "measured_on": self.measured_on,
            "curve": {"limited": limited.tolist(), "objective": value.tolist()},
        }

    def plot(self, ax: Any = None, **kwargs: Any) -> Any:
        """Draw the points on the selection data; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on.
        **kwargs
            Passed to ``Axes.plot``.

        Returns
        -------
        TradeOffDisplay
        """
        from tailboost import plotting  # by its public name: the wing of plots is above this one

        limited, value = self.values
        names: dict[str, Any] = {"limited_name": str(self.limited), "objective": str(self.objective)}
        return plotting.TradeOffDisplay(limited, value, **names).plot(ax=ax, **kwargs)

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        shown = np.unique(np.linspace(0, len(self) - 1, min(len(self), SHOWN)).round().astype(int))
        rows = [[f"{self[i].limited:.4f}", f"{self[i].value:.4f}"] for i in shown]
        return [str(self.limited), str(self.objective)], rows

    def _words(self) -> str:
        few = "" if len(self) <= SHOWN else f" {SHOWN} of {len(self)} points are shown."
        return f"On {self.measured_on}; fresh rows differ, see predicted(X, y).{few}"

    def __str__(self) -> str:
        return f"{text_table(*self._cells(), left=())}\n{self._words()}"

    def _repr_html_(self) -> str:
        return html_table(*self._cells(), self._words())


def _within(limited: Any, reached: float, level: float) -> bool:
    return bool(limited.within(level).keeps(reached, level))


def front(limited: Any, reached: Floats, value: Floats) -> list[int]:
    """Return the undominated rules, from the tightest limit to the loosest; a ratio is limited from below.

    ``reached`` is the limited rate of each rule, ``value`` the objective, shape (T,) each.
    """
    sign = 1.0 if limited.within(limited.most).from_above else -1.0
    known = np.flatnonzero(~np.isnan(reached) & ~np.isnan(value))
    order = undominated(value[known].round(12), (sign * reached[known]).round(12))
    return known[order].tolist()
