"""Limits as bars with bound, interval and verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tailboost.app.plotting.groups import answers_to
from tailboost.app.plotting.style import (
    BLUE,
    GREY,
    VERMILLION,
    Display,
    finish_bars,
    fitted_text,
    fitting_size,
    in_percent,
    styled,
    text_colour,
)
from tailboost.core.array_types import Axes, Column, Floats, Groups, Model, Stated, Table
from tailboost.core.limit_lines import LimitLine
from tailboost.rates import Answered, checked_limits
from tailboost.rates.strata import answers_and_deferred
from tailboost.selection.rate_table import RateTable

LIMIT_HEIGHT = 0.66  # height of one limit in inches: two lines of text and a bar
LINE_HEIGHT = (
    0.26  # height of the second line of text, with the numbers, as a share of the band
)
# Positions in the band of one limit with both lines, which has the height 1, from its top.
NAME_TOP = 0.15  # the text with verdict and name
NUMBERS_TOP = 0.41  # the text with the numbers
BAR_MIDDLE = 0.745
BAR_HEIGHT = 0.26
BOUND_ENDS = (0.57, 0.92)  # of the line across the bar
# Colour and mark of a verdict: kept, broken, or open.
VERDICTS = {True: (BLUE, "✓"), False: (VERMILLION, "✗"), None: (GREY, "–")}
LIMITS_DRAWN = 24  # limits in one drawing; the broken ones come first


class LimitsDisplay(Display):
    """Each limit as a bar: the verdict, the rate with its interval, and the bound as a line.

    A bar from rows ends at the rate, its whisker is the interval. A bar of a certificate ends at the
    estimate, its whisker at the certified bound. Of more than 24 limits, broken ones come first.

    Parameters
    ----------
    lines : sequence of LimitLine
        From ``limit_lines()`` of a certificate or a rates table.
    name : str, default=None
        The rows, in words; the title of the drawing.
    axis : str, default="rate; thick line: limit"
        The numbers, in words.
    numbers : bool, default=True
        Whether the numbers stand below each name; False beside a table that has them.

    Attributes
    ----------
    ax_, figure_ : matplotlib artists
        Axes and figure.
    bars_ : matplotlib BarContainer
        Bars of the drawn limits, from the top.
    shown_ : list of LimitLine
        The drawn limits, from the top.

    Raises
    ------
    ValueError
        If there is no line.

    Examples
    --------
    >>> from tailboost.plotting import LimitsDisplay
    >>> answers, labels = ["yes", "no", "no", "yes"], ["yes", "yes", "no", "no"]
    >>> display = LimitsDisplay.from_predictions(labels, answers, limits=["miss(yes) <= .6"])
    >>> display.lines[0].verdict, display.lines[0].value
    ('kept on these rows', 0.5)
    """

    def __init__(
        self,
        lines: Sequence[LimitLine],
        *,
        name: str | None = None,
        axis: str = "rate; thick line: limit",
        numbers: bool = True,
    ) -> None:
        if not lines:
            raise ValueError(
                "lines: there is no limit to draw; state limits=... in the fit, tune or certify"
            )
        self.lines = list(lines)
        self.name = name
        self.axis = axis
        self.numbers = numbers

    @classmethod
    def from_estimator(
        cls,
        estimator: Model,
        X: Table,
        y: ArrayLike,
        *,
        limits: Stated = None,
        groups: Groups = None,
        name: str | None = None,
        ax: Axes = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the limits on given rows, with 95 % intervals of each rate alone.

        Parameters
        ----------
        estimator : fitted classifier
            Has ``predict``.
        X, y : array-like of shape (n, d), (n,)
            Rows and labels. The intervals are for new rows if these had no part in the fit.
        limits : list of Limit or str, default=None
            From `tailboost.rates`; None takes the limits of the estimator.
        groups : optional
            Groups of the rows.
        name, ax, **kwargs
            As in `plot`.

        Raises
        ------
        ValueError
            If there is no limit, or a rate needs absent groups.
        """
        if limits is None:
            limits = getattr(estimator, "limits", None)
        if name is None:
            name = f"rates of {type(estimator).__name__} on these {len(np.asarray(y)):,} rows"
        answered = answers_to(estimator, X, y, groups)
        return cls._measured(answered, limits, name).plot(ax, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        *,
        limits: Stated,
        groups: Groups = None,
        deferred: Column = None,
        name: str | None = None,
        ax: Axes = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the limits of given answers, with 95 % intervals of each rate alone.

        Parameters
        ----------
        y_true, y_pred : array-like of shape (n,)
            Labels and answers. The answer "human review" is a deferred row.
        limits : list of Limit or str
            From `tailboost.rates`.
        groups, deferred : optional
            Groups of the rows, and which rows are deferred.
        name, ax, **kwargs
            As in `plot`.

        Raises
        ------
        ValueError
            As in `from_estimator`.
        """
        if name is None:
            name = f"rates on these {len(np.asarray(y_true)):,} rows"
        answers, deferred = answers_and_deferred(y_true, y_pred, None, deferred)
        answered = Answered.from_arrays(
            np.asarray(y_true), np.asarray(answers), groups=groups, deferred=deferred
        )
        return cls._measured(answered, limits, name).plot(ax, **kwargs)

    @classmethod
    def _measured(cls, answered: Answered, limits: Stated, name: str) -> Self:
        """Return the display of limits on answers; ``name`` describes their rows."""
        table = RateTable.measured(checked_limits(limits), answered, name)
        return cls(table.limit_lines(), name=name)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of a new figure in inches."""
        band_height = LIMIT_HEIGHT * (1.0 - self._left_out)
        return 6.4, band_height * min(len(self.lines), LIMITS_DRAWN) + 0.9

    @property
    def _left_out(self) -> float:
        """The share of each band that is left out above its bar."""
        return 0.0 if self.numbers else LINE_HEIGHT

    def _draw(self, ax: Axes, name: str | None, kwargs: dict[str, Any]) -> None:
        """Draw each limit in a band: its text, the bar, its interval and the bound."""
        self.shown_ = self.lines
        if len(self.lines) > LIMITS_DRAWN:
            broken_first = sorted(self.lines, key=lambda line: line.good is not False)
            self.shown_ = broken_first[:LIMITS_DRAWN]
        rate, low, high, bound = _numbers(self.shown_)
        band_top = np.arange(len(self.shown_)) * (1.0 - self._left_out)
        bar_top = band_top - self._left_out
        bars = bar_top + BAR_MIDDLE
        colours = [VERDICTS[line.good][0] for line in self.shown_]
        style = {"height": BAR_HEIGHT, "color": colours, "linewidth": 0}
        self.bars_ = ax.barh(bars, rate, **styled(style, kwargs, bars=True))
        # An interval with one end, as of a certificate, begins at the rate; without ends none is drawn.
        start = np.where(np.isnan(low) & np.isnan(high), np.nan, rate)
        ends = [np.fmin(np.fmin(low, start), high), np.fmax(np.fmax(low, start), high)]
        whiskers = {"ecolor": text_colour(), "elinewidth": 1.5, "capsize": 3.5}
        ax.errorbar(rate, bars, xerr=np.abs(ends - rate), fmt="none", **whiskers)
        top, bottom = BOUND_ENDS
        ax.vlines(bound, bar_top + top, bar_top + bottom, color=text_colour(), linewidth=3.5)
        titles = list(map(_title, self.shown_))
        size = fitting_size(ax, titles)
        for place, title, line in zip(band_top, titles, self.shown_, strict=True):
            fitted_text(ax, place + NAME_TOP, title, size=size, weight="bold")
            if self.numbers:
                fitted_text(ax, place + NUMBERS_TOP, _numbers_in_words(line), size=size)
        ax.set_ylim(len(self.shown_) * (1.0 - self._left_out) - 0.05, -0.1)
        # One scale for all limits, also those not drawn.
        finite_numbers = np.nan_to_num(_numbers(self.lines))
        least = min(0.0, finite_numbers.min())
        most = max(0.0, finite_numbers.max())
        margin = 0.04 * (most - least)
        end = most + margin or 1.0  # 1: all numbers are 0
        if least < 0.0:
            least -= margin
        axis_name = self.axis
        n_left_out = len(self.lines) - len(self.shown_)
        if n_left_out:
            axis_name += f"; {n_left_out} more limits are not drawn"
        finish_bars(ax, least, end, axis_name, name)
        if all("%" in line.limit for line in self.lines):
            ax.xaxis.set_major_formatter(in_percent)


def _title(line: LimitLine) -> str:
    """Return the verdict on a limit, without the reason that tables have, and its name."""
    if not line.verdict:
        return line.name
    _, mark = VERDICTS[line.good]
    verdict, _, _ = line.verdict.partition(":")
    return f"{mark} {verdict}: {line.name}"


def _numbers_in_words(line: LimitLine) -> str:
    """Return the numbers of a limit, short enough for a phone."""
    numbers = line.numbers
    if line.deferred:
        numbers += f"; {line.deferred} deferred"
    if line.limit:
        numbers += f"; limit {line.limit}"
    return numbers


def _numbers(lines: Sequence[LimitLine]) -> Floats:
    """Return rate, ends of the interval and bound of each limit, shape (4, n); NaN for an absent number."""
    numbers = [(line.value, line.low, line.high, line.bound) for line in lines]
    return np.array(numbers, dtype=np.float64).T
