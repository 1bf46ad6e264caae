"""A rate of each group before and after limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tailboost.app.plotting.style import (
    BLUE,
    GREY,
    Display,
    finish_bars,
    fitted_text,
    keyed,
    shaped,
    styled,
    text_colour,
)
from tailboost.core.array_types import Axes, Groups, Table
from tailboost.rates import Answered, as_expression, parse
from tailboost.rows.judged import group_arguments, judged
from tailboost.rows.subgroups import unit_name
from tailboost.selection.rate_table import RateTable

BLOCK = 0.72  # height of one group in inches


class GroupsDisplay(Display):
    """A rate of each group before and after, as two bars with 95 % intervals, and the limit as a line.

    Parameters
    ----------
    groups : sequence of str
        Names of the groups.
    before, after : array-like of shape (m, 3)
        Rate of each group, and both ends of its interval (NaN without one).
    bound : float or array-like of shape (m,), default=None
        Bound of the limit, or of each group (NaN without one).
    rate : str
        The rate in words, for the axis.
    labels : pair of str
        Names of both rules.
    name : str, default=None
        Title.

    Attributes
    ----------
    ax_, figure_ : matplotlib artists
        Axes and figure.
    before_, after_ : matplotlib BarContainer
        The bars.
    limits_ : list of matplotlib Line2D
        The limits of groups, if any.

    Raises
    ------
    ValueError
        If shapes differ.

    Examples
    --------
    >>> from tailboost.plotting import GroupsDisplay
    >>> before, after = [[0.5, 0.4, 0.6], [0.3, 0.2, 0.4]], [[0.2, 0.1, 0.3], [0.2, 0.1, 0.3]]
    >>> display = GroupsDisplay(["f", "m"], before, after, bound=0.25)
    >>> display.after[0].tolist()
    [0.2, 0.1, 0.3]
    """

    def __init__(
        self,
        groups: Sequence[str],
        before: ArrayLike,
        after: ArrayLike,
        *,
        bound: ArrayLike | None = None,
        rate: str = "rate",
        labels: tuple[str, str] = ("before", "after"),
        name: str | None = None,
    ) -> None:
        self.groups = list(groups)
        self.rate = rate
        self.labels = labels
        self.name = name
        m = len(self.groups)
        given = np.nan if bound is None else bound
        self.bound = np.broadcast_to(np.asarray(given, dtype=np.float64), m)
        self.before = shaped("before", before, (m, 3))
        self.after = shaped("after", after, (m, 3))

    @classmethod
    def from_estimators(
        cls,
        before: Any,
        after: Any,
        X: Table,
        y: ArrayLike,
        *,
        rate: Any,
        groups: Groups = None,
        labels: tuple[str, str] = ("before", "after"),
        name: str | None = None,
        ax: Axes = None,
        **kwargs: Any,
    ) -> Self:
        """Draw a rate of two classifiers on the same rows.

        Parameters
        ----------
        before, after : fitted classifiers
            With ``predict``.
        X, y : array-like of shape (n, d), (n,)
            Rows and labels.
        rate : Rate, Limit or str
            A rate by group or class from `tailboost.rates`, or a limit on it.
        groups : optional
            Groups of the rows.
        labels, name, ax, **kwargs
            As in the class and in `plot`.

        Raises
        ------
        ValueError, TypeError
            If ``rate`` is no rate, or needs absent groups.
        """
        stated = as_expression(parse(rate) if isinstance(rate, str) else rate)
        if stated is None:
            raise TypeError(f"rate must be a rate or a limit of tailboost.rates, got {rate!r}")
        tables = [
            RateTable.measured(
                [stated.rate], answers_to(estimator, X, y, groups), "these rows"
            ).lines
            for estimator in (before, after)
        ]
        names = [
            "all rows" if line.subgroup is None else unit_name(line.subgroup)
            for line in tables[0]
        ]
        rates = [[(line.value, line.low, line.high) for line in lines] for lines in tables]
        bound = None
        if stated.limit is not None and not stated.limit.compares:
            bound = stated.limit.bounds([line.subgroup for line in tables[0]])
        display = cls(
            names, *rates, bound=bound, rate=str(stated.rate), labels=labels, name=name
        )
        return display.plot(ax, **kwargs)

    def _size(self) -> tuple[float, float]:
        return 6.4, BLOCK * len(self.groups) + 1.2

    def _draw(self, ax: Axes, name: str | None, kwargs: dict[str, Any]) -> None:
        at = np.arange(len(self.groups)) + 0.5
        drawn = []
        looks = ((self.before, GREY, 0.0), (self.after, BLUE, 0.27))
        for (values, colour, shift), label in zip(looks, self.labels, strict=True):
            style = {"height": 0.24, "color": colour, "linewidth": 0, "label": label}
            drawn.append(
                ax.barh(
                    at + shift, np.nan_to_num(values[:, 0]), **styled(style, kwargs, bars=True)
                )
            )
            known = ~np.isnan(values).any(axis=1)
            arms = np.abs(values[known, 1:] - values[known, :1]).T
            ax.errorbar(
                values[known, 0],
                at[known] + shift,
                xerr=arms,
                fmt="none",
                ecolor=text_colour(),
                elinewidth=1.2,
                capsize=2.5,
            )
        self.before_, self.after_ = drawn
        for place, group, one, two in zip(
            at, self.groups, self.before[:, 0], self.after[:, 0], strict=True
        ):
            fitted_text(
                ax,
                0.0,
                place - 0.28,
                f"{group}: {_number(one)} → {_number(two)}",
                weight="bold",
            )
        self.limits_: list[Any] = []
        for place, bound in zip(at, self.bound, strict=True):
            if not np.isnan(bound):
                label = "_" if self.limits_ else "limit"
                line = {"color": text_colour(), "linewidth": 3.5, "label": label}
                self.limits_ += ax.plot([bound] * 2, [place - 0.14, place + 0.41], **line)
        ax.set_ylim(len(self.groups) + 0.05, 0)
        ends = np.concatenate([self.before.ravel(), self.after.ravel(), self.bound])
        finish_bars(
            ax, min(0.0, np.nanmin(ends)), 1.04 * np.nanmax(ends) or 1.0, self.rate, name
        )
        place = {
            "loc": "lower left",
            "bbox_to_anchor": (0, 1.0 if not name else 1.1),
            "borderaxespad": 0.3,
        }
        keyed(ax, **place, ncols=3, frameon=False)


def answers_to(estimator: Any, X: Table, y: ArrayLike, groups: Groups) -> Answered:
    """Return the answers of ``predict`` to rows, and which of them are deferred."""
    more = group_arguments(estimator, groups)
    deferred = estimator.defers(X, **more) if judged(estimator).can_defer else None
    about = {"groups": groups, "deferred": deferred, "labels": estimator.classes_}
    return Answered.from_arrays(
        np.asarray(y), np.asarray(estimator.predict(X, **more)), **about
    )


def _number(value: float) -> str:
    if np.isnan(value):
        return "–"
    return f"{value:.3f}"
