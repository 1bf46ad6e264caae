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
    in_percent,
    keyed,
    shaped,
    styled,
    text_colour,
)
from tailboost.core.array_types import Axes, Floats, Groups, Table
from tailboost.rates import Answered, as_expression
from tailboost.rates.grammar import parsed
from tailboost.rows.judged import group_arguments, judged, predicted_labels
from tailboost.rows.subgroups import unit_name
from tailboost.selection.rate_table import RateTable

GROUP_HEIGHT = 0.72  # height of one group in inches


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
    in_percent : bool, default=False
        Whether rates are written in percent.

    Attributes
    ----------
    ax_, figure_ : matplotlib artists
        Axes and figure.
    before_, after_ : matplotlib BarContainer
        The bars.
    limits_ : matplotlib LineCollection or None
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
        in_percent: bool = False,
    ) -> None:
        self.groups = list(groups)
        self.rate = rate
        self.labels = labels
        self.name = name
        self.in_percent = in_percent
        n_groups = len(self.groups)
        bounds = np.asarray(np.nan if bound is None else bound, dtype=np.float64)
        self.bound = np.broadcast_to(bounds, n_groups)
        self.before = shaped("before", before, (n_groups, 3))
        self.after = shaped("after", after, (n_groups, 3))

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
        display = cls.of(before, after, X, y, rate=rate, groups=groups, labels=labels)
        return display.plot(ax, name=name, **kwargs)

    @classmethod
    def of(
        cls,
        before: Any,
        after: Any,
        X: Table,
        y: ArrayLike,
        *,
        rate: Any,
        groups: Groups,
        labels: tuple[str, str],
    ) -> Self:
        """Return the display of `from_estimators`, not yet drawn."""
        stated = as_expression(parsed(rate))
        if stated is None:
            raise TypeError(f"rate must be a rate or a limit of tailboost.rates, got {rate!r}")
        lines_before, lines_after = (
            RateTable.measured(
                [stated.rate], answers_to(estimator, X, y, groups), "these rows"
            ).lines
            for estimator in (before, after)
        )
        subgroups = [line.subgroup for line in lines_after]
        bound = None
        of_percent = stated.limit is not None and stated.limit.in_percent
        # A gap or ratio bounds differences, which the bars do not show.
        if stated.limit is not None and not stated.limit.compares:
            bound = stated.limit.bounds(subgroups)
        return cls(
            ["all rows" if subgroup is None else unit_name(subgroup) for subgroup in subgroups],
            [(line.value, line.low, line.high) for line in lines_before],
            [(line.value, line.low, line.high) for line in lines_after],
            bound=bound,
            rate=str(stated.rate),
            labels=labels,
            in_percent=of_percent,
        )

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of a new figure in inches."""
        return 6.4, GROUP_HEIGHT * len(self.groups) + 1.2

    def _draw(self, ax: Axes, name: str | None, kwargs: dict[str, Any]) -> None:
        """Draw each group in a band of height 1: its name, both bars with intervals, and the limit."""
        band_top = np.arange(len(self.groups), dtype=np.float64)
        self.before_ = self._draw_bars(ax, self.before, band_top + 0.5, GREY, kwargs)
        self.after_ = self._draw_bars(ax, self.after, band_top + 0.77, BLUE, kwargs)
        self.before_.set_label(self.labels[0])
        self.after_.set_label(self.labels[1])
        self.limits_ = None
        if not np.isnan(self.bound).all():
            line = {"color": text_colour(), "linewidth": 3.5, "label": "limit"}
            self.limits_ = ax.vlines(self.bound, band_top + 0.36, band_top + 0.91, **line)
        for k, group in enumerate(self.groups):
            change = f"{self._number(self.before[k, 0])} → {self._number(self.after[k, 0])}"
            fitted_text(ax, k + 0.22, f"{group}: {change}", weight="bold")
        ax.set_ylim(len(self.groups) + 0.05, 0)
        numbers = np.concatenate([self.before.ravel(), self.after.ravel(), self.bound])
        high = 1.04 * np.nanmax(numbers) or 1.0  # 1: all rates are 0
        finish_bars(ax, min(0.0, np.nanmin(numbers)), high, self.rate, name)
        if self.in_percent:
            ax.xaxis.set_major_formatter(in_percent)
        place = {"loc": "lower left", "bbox_to_anchor": (0, 1.0), "borderaxespad": 0.3}
        if name:
            place["bbox_to_anchor"] = (0, 1.1)  # also above the title
        keyed(ax, ncols=3, frameon=False, **place)

    def _number(self, value: float) -> str:
        """Return a rate with three digits; a dash for NaN."""
        if np.isnan(value):
            return "–"
        return f"{100 * value:.1f} %" if self.in_percent else f"{value:.3f}"

    def _draw_bars(
        self, ax: Axes, rates: Floats, heights: Floats, colour: str, kwargs: dict[str, Any]
    ) -> Any:
        """Draw a bar with its interval for each row of rates: the rate, lower end and upper end."""
        rate, low, high = rates.T
        style = {"height": 0.24, "color": colour, "linewidth": 0}
        whiskers = {"ecolor": text_colour(), "elinewidth": 1.2, "capsize": 2.5}
        return ax.barh(
            heights,
            np.nan_to_num(rate),
            xerr=np.abs([low - rate, high - rate]),
            error_kw=whiskers,
            **styled(style, kwargs, bars=True),
        )


def answers_to(estimator: Any, X: Table, y: ArrayLike, groups: Groups) -> Answered:
    """Return the answers of ``predict`` to rows, and which of them are deferred."""
    group_argument = group_arguments(estimator, groups)
    predicted = predicted_labels(estimator, X, **group_argument)
    deferred = None
    if judged(estimator).can_defer:
        deferred = estimator.defers(X, **group_argument)
    return Answered.from_arrays(
        np.asarray(y), predicted, groups=groups, deferred=deferred, labels=estimator.classes_
    )
