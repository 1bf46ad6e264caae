"""The trade-off of a fitted mixture between its mean error and its worst: a curve to choose a point from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailboost._html import html_table, text_table
from tailboost._numbers import check_number
from tailboost._rows import Sketch
from tailboost._torch_rows import unpack
from tailboost._typing import Floats
from tailboost._units import told
from tailboost.combiners import Ledger, Mixture, MixtureEnsemble, Objective
from tailboost.data import Rows
from tailboost.solvers import Curve

# Lines of a printed table.
SHOWN = 12


class Points(NamedTuple):
    """Mean and worst error along a trade-off, on some rows.

    Attributes
    ----------
    mean : ndarray of shape (B,)
        Mean error at each point of the curve.
    worst : ndarray of shape (B,)
        The objective of the same errors.
    """

    mean: Floats
    worst: Floats


@dataclass(frozen=True)
class TradeOff:
    """What the worst error costs in mean error: one curve from one fit, nothing trained.

    Each point is the mixture of least objective among those whose mean error is at most its own; between two
    neighbours ``steered``, which λ minimises, is a straight line and ``worst`` is no higher than one. It is
    exact **on the rows λ is chosen on** and about the randomised classifier whose label distribution is
    `predict_shares`; `predicted` says what `predict` does on any rows. Where members do not share λ
    (``shared`` is False) each point is one member, `predict` answers as it does, and a budget between two
    points gives the cheaper one: the curve is a staircase. Made by ``tradeoff()`` of a classifier.

    Attributes
    ----------
    mean : ndarray of shape (B,)
        Mean error of each point, ascending; ``mean - least_mean`` is its ``mean_budget``. The curve begins at
        what is not told from the least.
    worst : ndarray of shape (B,)
        The objective of each point, as measured: a CVaR, the largest error of a class or, where classes are
        allowed different errors, the largest excess over what they are allowed.
    steered : ndarray of shape (B,)
        What λ minimises at each point, descending and, where λ is shared, convex: ``worst`` itself, or the
        same of errors that were drawn towards their mean where few rows are behind them (see ``chosen_by``).
    mixture : ndarray of shape (B, n_members)
        λ of each point.
    least_mean : float
        Least mean error of a member, from which budgets count.
    gap : float
        The curve is proven to be nowhere lower than the lines between its points (the steps, where λ is not
        shared) by more than this.
    objective : str
        What ``worst`` is.
    judged_on : str
        The rows both are measured on.
    fitted : bool
        Whether members were fitted on these rows, so that errors there are smaller than on fresh ones.
    chosen_by : str
        What λ minimises, where that is not ``worst`` itself; else empty.
    shared : bool
        Whether members may share λ; else each point is one member.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from tailboost import WorstClassBoostClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> clf = WorstClassBoostClassifier(n_estimators=5, random_state=0).fit(X[::2], y[::2])
    >>> curve = clf.tradeoff()
    >>> bool((curve.steered[1:] < curve.steered[:-1]).all())
    True
    >>> cheaper = curve.at(0.01)  # the classifier of the point that may cost .01 of mean error
    >>> mean, worst = curve.predicted(X[1::2], y[1::2])
    """

    mean: Floats
    worst: Floats
    steered: Floats
    mixture: Floats
    least_mean: float
    gap: float
    objective: str
    judged_on: str
    fitted: bool
    chosen_by: str
    shared: bool
    _values: Callable[[Floats], Floats] = field(repr=False, compare=False)
    _source: Source = field(repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def mean_budget(self) -> Floats:
        """What each point costs: its mean error less the least of a member, shape (B,)."""
        return np.maximum(self.mean - self.least_mean, 0.0)

    def at(self, mean_budget: float) -> Any:
        """Return the classifier whose mean error is at most ``least_mean + mean_budget`` on these rows.

        The same as ``reweight(mean_budget=…)`` of the classifier the curve is of, if that has no targets:
        `reweight` stops where they are kept, and this goes to the end of the budget.

        Parameters
        ----------
        mean_budget : float in [0, 1]
            What the mean error may be above the least of a member; any number, not only that of a point.

        Returns
        -------
        classifier
            With the same members; nothing is trained.

        Raises
        ------
        ValueError
            If ``mean_budget`` is not such a number.

        Notes
        -----
        Rows that were given to `predicted` before had a part in the choice of a point: the classifier knows
        them (``chosen_rows_``), and `tailboost.certify` refuses them.
        """
        return self._source.looked_at.told_to(self._source.within(checked_budget(mean_budget)))

    def predicted(
        self,
        X: Any = None,
        y: Any = None,
        *,
        sample_weight: Any = None,
        groups: Any = None,
        randomized: bool = False,
    ) -> Points:
        """Return the mean and the worst error of `predict` at every point, on given rows.

        Parameters
        ----------
        X, y : optional
            The rows; without them those on which λ was chosen, where the members' answers to them are kept.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows.
        groups : optional
            Groups of the rows, where the objective is about groups.
        randomized : bool, default=False
            Return what is expected of the randomised classifier instead.

        Returns
        -------
        Points
            A named pair of arrays of shape (B,), ``mean`` and ``worst``. The worst need not fall from point
            to point: fresh rows differ, and `predict` follows the shares only where they pass each other.

        Raises
        ------
        ValueError
            If an argument is not as described, or rows are missing.
        """
        rows, answers = self._source.judge(X, y, groups, sample_weight)
        self._source.objective.check(rows)
        if X is not None and self._source.checked is not None:
            self._source.looked_at.add(self._source.checked(unpack(X, y)[0]))
        ledger = Ledger.new(rows, [])
        means, worsts = [], []
        for mixture in self.mixture:
            ensemble = replace(self._source.ensemble, weights=mixture)
            if randomized:
                losses = ensemble.loss_of(answers, rows.y)
            else:
                losses = rows.wrong(ensemble.scores_of(answers).argmax(axis=1)).astype(np.float64)
            means.append(float(losses @ rows.base))
            worsts.append(self._source.objective.of_losses(ledger, losses))
        return Points(np.array(means), np.array(worsts))

    def measured(
        self, others: Mapping[str, Any], X: Any, y: Any, *, sample_weight: Any = None, groups: Any = None
    ) -> dict[str, tuple[float, float]]:
        """Measure the `predict` of other classifiers by the same two numbers, on given rows.

        Parameters
        ----------
        others : mapping of name to fitted classifier
            They answer the labels of ``y``.
        X, y, sample_weight, groups
            As in `predicted`.

        Returns
        -------
        dict of name to (mean, worst)

        Raises
        ------
        ValueError
            If an argument is not as described.
        """
        rows, _ = self._source.judge(X, y, groups, sample_weight)
        self._source.objective.check(rows)
        assert rows.given is not None
        used = slice(None) if rows.given.index is None else rows.given.index
        ledger, measured = Ledger.new(rows, []), {}
        for name, other in others.items():
            answers = np.asarray(other.predict(X, **told(other, groups)))
            losses = (answers != np.asarray(y)).astype(np.float64)[used]
            worst = self._source.objective.of_losses(ledger, losses)
            measured[name] = float(losses @ rows.base), worst
        return measured

    def refined(self, n_points: int = 50) -> TradeOff:
        """Return the same curve with points between its corners, where `predict` may change too.

        Parameters
        ----------
        n_points : int, default=50
            How many mean errors are taken, evenly spaced, beside those of the corners.

        Returns
        -------
        TradeOff
            The same one where λ is not shared: between its points nothing changes.
        """
        if not self.shared:
            return self
        more = Curve(self.mean, self.steered, self.mixture, self.gap).refined(n_points)
        worst = self._values(more.mixture)
        return replace(self, mean=more.mean, worst=worst, steered=more.worst, mixture=more.mixture)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, for JSON."""
        arrays = ("mean", "worst", "steered", "mixture", "mean_budget")
        return {name: getattr(self, name).tolist() for name in arrays} | {
            "least_mean": self.least_mean,
            "gap": self.gap,
            "objective": self.objective,
            "judged_on": self.judged_on,
            "fitted": self.fitted,
            "chosen_by": self.chosen_by,
            "shared": self.shared,
        }

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        shown = np.unique(np.linspace(0, len(self) - 1, min(len(self), SHOWN)).round().astype(int))
        members = np.count_nonzero(self.mixture, axis=1)
        return ["mean_budget", "mean error", "worst", "members"], [
            [f"{self.mean_budget[i]:.4f}", f"{self.mean[i]:.4f}", f"{self.worst[i]:.4f}", str(members[i])]
            for i in shown
        ]

    def _words(self) -> str:
        seen = "; members were fitted on these rows and err less there than on fresh ones"
        chosen = f"; λ minimises {self.chosen_by}" if self.chosen_by else ""
        few = "" if len(self) <= SHOWN else f"; {SHOWN} of {len(self)} points are shown"
        of = "the randomised classifier (predict_shares)" if self.shared else "one member, and so of predict"
        return (
            f"worst: {self.objective}, of {of}, on {self.judged_on}"
            f"{chosen}{seen if self.fitted else ''}; fresh rows differ, see predicted(X, y){few}"
        )

    def __str__(self) -> str:
        return f"{text_table(*self._cells(), left=())}\n{self._words()}"

    def _repr_html_(self) -> str:
        return html_table(*self._cells(), self._words())


@dataclass(frozen=True, eq=False)
class LookedAt:
    """Rows on which the points of a curve were measured: a point picked afterwards may depend on them.

    Attributes
    ----------
    points : list of classifiers
        Points that the curve already holds; they record further rows at once.
    sketches : list of Sketch
        Fingerprints of the rows.
    """

    points: list[Any] = field(default_factory=list)
    sketches: list[Sketch] = field(default_factory=list)

    def add(self, X: Any) -> None:
        """Record rows, in the form in which the classifier was fitted."""
        sketch = Sketch.of_rows(X)
        self.sketches.append(sketch)
        for point in self.points:
            point.chosen_rows_ = (*point.chosen_rows_, sketch)

    def told_to(self, point: Any) -> Any:
        """Return a new point; its ``chosen_rows_`` include the recorded rows."""
        known = {id(sketch) for sketch in point.chosen_rows_}
        new = [sketch for sketch in self.sketches if id(sketch) not in known]
        point.chosen_rows_ = (*point.chosen_rows_, *new)
        return point


@dataclass(frozen=True)
class Source:
    """What a trade-off needs of the classifier it is of."""

    ensemble: MixtureEnsemble  # the members
    objective: Objective  # what is traded against the mean error
    within: Callable[[float], Any]  # ``within(mean_budget)`` returns the classifier of a point
    # ``judge(X, y, groups, sample_weight)`` returns checked rows and the members' answers to them.
    judge: Callable[[Any, Any, Any, Any], tuple[Rows, Sequence[NDArray[Any]]]]
    # ``checked(X)`` returns a table in the form in which the classifier was fitted on; None without rows.
    checked: Callable[[Any], Any] | None
    looked_at: LookedAt = field(default_factory=lambda: LookedAt())


def trace(mixture: Mixture, source: Source, budgets: Any = None) -> TradeOff:
    """Return the trade-off of a pool: the whole curve, or the points of some budgets.

    Parameters
    ----------
    mixture : Mixture
        The pool and its objective.
    source : Source
        What belongs to the classifier.
    budgets : sequence of float in [0, 1], optional
        Budgets of the points.
    """
    if budgets is None:
        curve = mixture.curve()
    else:
        if np.ndim(budgets) != 1 or np.size(budgets) == 0:
            raise ValueError(f"budgets={budgets!r} must be a non-empty list of numbers in [0, 1]")
        values = sorted(checked_budget(budget, "each of budgets") for budget in budgets)
        found = [mixture.within(budget) for budget in values]
        curve = Curve(
            np.array([s.mean for s in found]),
            np.array([s.value for s in found]),
            np.array([s.mixture for s in found]),
            max(s.gap for s in found) if mixture.randomized else 0.0,  # all members were looked at
        )
    ledger = mixture.pool.ledger
    return TradeOff(
        mean=curve.mean,
        worst=mixture.values(curve.mixture),
        steered=curve.worst,
        mixture=curve.mixture,
        least_mean=float(ledger.mean_losses().min()),
        gap=curve.gap,
        objective=str(mixture.objective),
        judged_on=ledger.rows.words,
        fitted=ledger.rows.fitted,
        chosen_by=mixture.chosen_by,
        shared=mixture.randomized,
        _values=mixture.values,
        _source=source,
    )


def checked_budget(value: Any, name: str = "mean_budget") -> float:
    """Return a budget, a number in [0, 1]."""
    return check_number(value, name, 0, 1, closed=True)
