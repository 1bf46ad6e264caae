"""Displays in the shape of scikit-learn's: limits and trade-offs."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np

from tailboost.classifiers import TunedClassifier
from tailboost.classifiers.curve import Point
from tailboost.core import (
    Axes,
    Column,
    Groups,
    LimitLine,
    Model,
    Stated,
    Table,
    check_indexes,
    percent,
)
from tailboost.rates import Counts, checked_limits
from tailboost.rows import Rows
from tailboost.selection.door import answering, final_model, transformed
from tailboost.selection.table import RateTable

__all__ = ["LimitsDisplay", "TradeOffDisplay"]

# Colours of Okabe and Ito with a contrast of at least 3 : 1 on white and on black.
BLUE = "#0072B2"
VERMILLION = "#D55E00"
GREY = "#83888F"
# Replaced in names of users, in which matplotlib then reads no mathematics.
AS_TEXT = ("$", r"\$")
VERDICTS = {True: (BLUE, "✓ "), False: (VERMILLION, "✗ "), None: (GREY, "")}


class _Display:
    """Base class of displays: the axes that it draws on."""

    def _on(self, ax: Axes, height: float = 4.0) -> Any:
        """Return the given axes, or axes of a new figure."""
        if ax is None:
            try:
                import matplotlib.pyplot as plt
            except ImportError as error:
                raise ImportError(
                    f"{type(self).__name__} needs matplotlib: pip install 'tailboost[app]'"
                ) from error
            _, ax = plt.subplots(layout="constrained", figsize=(5.4, height))
        self.ax_ = ax
        self.figure_ = ax.figure
        return ax


@dataclass(eq=False)
class LimitsDisplay(_Display):
    """Each limit with its verdict: the rate, its interval or certified bound, and the limit as a thick line.

    Parameters
    ----------
    lines : sequence of LimitLine
        From ``limit_lines()`` of a certificate or of a table of rates.
    name : str, optional
        The rows, in words; the title.

    Attributes
    ----------
    ax_, figure_ : matplotlib artists
        Axes and figure.

    Examples
    --------
    >>> from tailboost.plotting import LimitsDisplay
    >>> answers, labels = ["yes", "no", "no", "yes"], ["yes", "yes", "no", "no"]
    >>> display = LimitsDisplay.from_predictions(labels, answers, limits=["miss(yes) <= .6"])
    >>> display.lines[0].verdict, display.lines[0].value
    ('kept on these rows', 0.5)
    """

    lines: Sequence[LimitLine]
    _: KW_ONLY
    name: str | None = None

    def __post_init__(self) -> None:
        if not self.lines:
            raise ValueError("lines: there is no limit to draw")

    @classmethod
    def from_certificate(cls, certificate: Any, *, ax: Axes = None) -> Self:
        """Draw the bounds of a certificate: whiskers end at the certified bounds.

        Parameters
        ----------
        certificate : Certificate
            Of `tailboost.certify` or of a calibrated rule.
        ax : matplotlib Axes, optional
            As in `plot`.
        """
        return cls(
            certificate.limit_lines(),
            name=f"{percent(certificate.confidence)} confidence, {certificate.n_rows:,} rows",
        ).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Model,
        X: Table,
        y: Column,
        *,
        limits: Stated = None,
        groups: Groups = None,
        ax: Axes = None,
    ) -> Self:
        """Draw the limits on given rows, with a 95 % interval of each rate.

        Parameters
        ----------
        estimator : fitted classifier
            Has ``predict``.
        X, y : array-like of shape (n, d), (n,)
            Rows and labels.
        limits : list of Limit or str, optional
            By default those of the estimator.
        groups : optional
            Groups of the rows.
        ax : matplotlib Axes, optional
            As in `plot`.
        """
        check_indexes(X=X, y=y, groups=groups)
        decided = answering(estimator)
        rows = decided.score(X, groups)
        return cls.from_predictions(
            y,
            rows.answers(),
            limits=decided.limits if limits is None else limits,
            groups=rows.groups,
            ax=ax,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: Column,
        y_pred: Column,
        *,
        limits: Stated,
        groups: Groups = None,
        deferred: Column = None,
        ax: Axes = None,
    ) -> Self:
        """Draw the limits of given answers, with a 95 % interval of each rate.

        Parameters
        ----------
        y_true, y_pred : array-like of shape (n,)
            Labels and answers. The answer "human review" is a deferred row.
        limits : list of Limit or str
            From `tailboost.rates`.
        groups, deferred : optional
            Groups of the rows, and which rows are deferred.
        ax : matplotlib Axes, optional
            As in `plot`.
        """
        answered = Counts.answered(y_true, y_pred, groups, deferred)
        table = RateTable.counted(
            checked_limits(limits),
            answered.strata,
            answered.counts(answered.actions),
            f"rates on {len(answered.stratum):,} rows",
        )
        return cls(table.limit_lines(), name=table.words).plot(ax)

    def plot(self, ax: Axes = None) -> Self:
        """Draw the limits.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on; by default those of a new figure.
        """
        lines = self.lines
        ax = self._on(ax, 0.55 * len(lines) + 0.9)
        for place, line in enumerate(lines):
            colour, mark = VERDICTS[line.good]
            # NaN for None.
            *ends, bound = np.array([line.low, line.value, line.high, line.bound], float)
            ax.plot(ends, [place] * 3, color=colour, linewidth=2, marker="o", markevery=[1])
            ax.plot(bound, place, "|", color=GREY, markersize=12, markeredgewidth=4)
            ax.annotate(
                f"{mark}{line.name} {line.limit}".replace(*AS_TEXT),
                (0, place),
                (0, 10),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                wrap=True,
                in_layout=False,
            )
        ax.set(
            ylim=(len(lines) - 0.6, -0.85),
            yticks=[],
            xlabel="rate; thick: limit",
            title=self.name,
        )
        ax.set_xlim(left=min(0.0, ax.get_xlim()[0]))
        if all("%" in line.limit for line in lines):
            ax.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        ax.spines[["top", "right", "left"]].set_visible(False)
        return self


@dataclass(eq=False)
class TradeOffDisplay(_Display):
    """A curve of two numbers, such as a limited rate and the error.

    Parameters
    ----------
    x, y : array-like of shape (m,)
        The numbers along the curve.
    xlabel, ylabel : str
        Their names.
    limit : float, optional
        Limit of the first one, a dotted line.
    name : str, optional
        Label of the curve.

    Attributes
    ----------
    ax_, figure_, line_ : matplotlib artists
        Axes, figure and the curve.

    Examples
    --------
    >>> from tailboost.plotting import TradeOffDisplay
    >>> TradeOffDisplay([0.1, 0.2], [0.5, 0.3], xlabel="miss rate", ylabel="error").x.tolist()
    [0.1, 0.2]
    """

    x: Any
    y: Any
    _: KW_ONLY
    xlabel: str
    ylabel: str
    limit: float | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        self.x = np.asarray(self.x, float)
        self.y = np.asarray(self.y, float)

    @classmethod
    def from_curve(cls, curve: Any, *, name: str | None = None, ax: Axes = None) -> Self:
        """Draw a trade-off on the rows that selected the rule.

        Parameters
        ----------
        curve : Curve
            From ``tradeoff()`` of a classifier.
        name : str, optional
            Label of the curve.
        ax : matplotlib Axes, optional
            As in `plot`.
        """
        return cls(
            *curve.values,
            xlabel=str(curve.limited).replace(*AS_TEXT),
            ylabel=str(curve.objective).replace(*AS_TEXT),
            limit=curve.bound,
            name=name,
        ).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Model,
        X: Table,
        y: Column,
        *,
        groups: Groups = None,
        name: str | None = None,
        ax: Axes = None,
    ) -> Self:
        """Draw the trade-off of a fitted classifier, with the rates of its answers to given rows.

        Parameters
        ----------
        estimator : fitted classifier
            Has ``tradeoff()``, also at the end of a pipeline or a search.
        X, y : array-like of shape (n, d), (n,)
            Rows and labels.
        groups : optional
            Groups of the rows.
        name : str, optional
            Label of the curve.
        ax : matplotlib Axes, optional
            As in `plot`.
        """
        final, steps = final_model(estimator)
        if not isinstance(final, TunedClassifier):
            raise TypeError(f"estimator: {type(final).__name__} has no curve of rates")
        curve = final.tradeoff()
        given = Rows.read(X, y, groups)
        X = transformed(given.X, steps)
        rates = curve.predicted(X, given.labels, groups=given.columns)
        points = map(Point, *rates, [point.classifier for point in curve])
        return cls.from_curve(replace(curve, points=tuple(points)), name=name, ax=ax)

    def plot(self, ax: Axes = None, **kwargs: Any) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on, also of another display; by default those of a new figure.
        **kwargs
            For ``Axes.plot``.
        """
        ax = self._on(ax)
        (self.line_,) = ax.plot(
            self.x, self.y, **{"label": self.name, "linewidth": 2, **kwargs}
        )
        if self.limit is not None:
            ax.axvline(self.limit, color=GREY, linestyle=":")
        ax.set(xlabel=self.xlabel, ylabel=self.ylabel)
        if self.name:
            ax.legend()
        return self
