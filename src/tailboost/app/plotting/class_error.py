"""Bars of the error per class or per group."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import zero_one_loss

from tailboost import metrics
from tailboost.app.plotting.style import BLUE, VERMILLION, Display, styled, text_colour
from tailboost.core.checks import check_number
from tailboost.core.subgroups import unit_name
from tailboost.rates.bounds import clopper_pearson_interval


class ClassErrorDisplay(Display):
    """Bars of the error of each class or group, with confidence intervals and the overall error.

    Parameters
    ----------
    errors : mapping of names to floats
        Error by class or group, as from `tailboost.metrics.class_errors`; NaN without rows.
    mean : float, default=None
        Overall error, drawn as a dashed line.
    kind : {"class", "group"}, default="class"
        Kind of the names.
    name : str, default=None
        Title.
    intervals : mapping of names to (low, high), default=None
        Confidence intervals of the errors.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the plot.
    bars_ : matplotlib BarContainer
        One bar per class or group; the largest error has another colour.
    mean_line_, whiskers_ : matplotlib Line2D or None, LineCollection
        Overall error, and intervals.

    Raises
    ------
    ValueError
        If no error is a number.

    Examples
    --------
    >>> from tailboost.plotting import ClassErrorDisplay
    >>> display = ClassErrorDisplay.from_predictions([0, 0, 1, 1], [0, 0, 0, 1])
    >>> display.errors, display.mean
    ({0: 0.0, 1: 0.5}, 0.25)
    """

    def __init__(
        self,
        errors: Mapping[Any, float],
        *,
        mean: float | None = None,
        kind: str = "class",
        name: str | None = None,
        intervals: Mapping[Any, tuple[float, float]] | None = None,
    ) -> None:
        if not any(math.isfinite(error) for error in errors.values()):
            raise ValueError("errors must hold at least one number")
        self.errors, self.mean, self.kind, self.name = dict(errors), mean, kind, name
        self.intervals = dict(intervals or {})

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: ArrayLike, *, name: str | None = None, **options: Any
    ) -> Self:
        """Draw the errors of ``predict`` of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier
            Has ``classes_``.
        X, y : array-like of shape (n, d), (n,)
            Rows and labels.
        name : str, default=None
            Title; None takes the name of the class.
        **options : dict
            As in `from_predictions`.

        Returns
        -------
        ClassErrorDisplay
        """
        name = type(estimator).__name__ if name is None else name
        return cls.from_predictions(y, estimator.predict(X), labels=estimator.classes_, name=name, **options)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        confidence: float | None = 0.95,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the errors of given predictions.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Labels.
        y_pred : array-like of shape (n,) or (n, K)
            Predicted labels, or label distributions of a randomised rule.
        groups : array-like of shape (n,), default=None
            Group of each row; None shows the classes.
        sample_weight, labels
            As in `tailboost.metrics.class_errors`.
        confidence : float in (0, 1) or None, default=0.95
            Level of the exact binomial interval (Clopper and Pearson) of each error. Weighted and expected
            errors have no interval.
        name, ax, **kwargs
            As in `plot`.

        Returns
        -------
        ClassErrorDisplay

        Raises
        ------
        ValueError
            As in `tailboost.metrics.class_errors` and ``group_errors``.
        """
        options: dict[str, Any] = {"sample_weight": sample_weight, "labels": labels}
        by_group, kind = () if groups is None else (groups,), "class" if groups is None else "group"
        if np.ndim(y_pred) == 2:
            mean = metrics.cvar_zero_one_loss(y_true, y_pred, 1.0, **options)
            measure = getattr(metrics, f"expected_{kind}_errors")
        else:
            mean = zero_one_loss(y_true, y_pred, sample_weight=sample_weight)
            measure = getattr(metrics, f"{kind}_errors")
            if by_group:
                del options["labels"]
        errors, intervals = measure(y_true, y_pred, *by_group, **options), None
        if confidence is not None:
            check_number(confidence, "confidence", 0, 1)
            if np.ndim(y_pred) == 1 and sample_weight is None:
                column = np.asarray(y_true if groups is None else groups)
                rows = {key: n for key in errors if (n := np.count_nonzero(column == key))}
                ends = clopper_pearson_interval([errors[key] for key in rows], [*rows.values()], confidence)
                intervals = dict(zip(rows, np.transpose(ends).tolist(), strict=True))
        return cls(errors, mean=mean, kind=kind, name=name, intervals=intervals).plot(ax=ax, **kwargs)

    def _figsize(self) -> tuple[float, float]:
        return 6.4, min(1.4 + 0.32 * len(self.errors), 12.0)

    def _draw(self, ax: Any, name: str | None, kwargs: dict[str, Any]) -> None:
        places, widths = np.arange(len(self.errors)), np.array(list(self.errors.values()))
        best, worst = np.nanmin(widths), np.nanmax(widths)
        colours = [VERMILLION if width == worst > best else BLUE for width in widths]
        bars = styled({"color": colours, "height": 0.7}, kwargs, bars=True)
        self.bars_ = ax.barh(places, np.nan_to_num(widths), **bars)
        spans = [self.intervals.get(key, (math.nan, math.nan)) for key in self.errors]
        lows, highs = np.array(spans, dtype=np.float64).T
        self.whiskers_ = ax.hlines(places, lows, highs, color=text_colour(), alpha=0.8, linewidth=1.2)
        ax.set_yticks(places, [unit_name(key) for key in self.errors])
        texts = ["no rows" if math.isnan(width) else f"{width:.3g}" for width in widths]
        labels = ax.bar_label(self.bars_, texts, padding=4, fontsize="small")
        for label, high in zip(labels, highs, strict=True):
            if math.isfinite(high):
                label.xy = (high, label.xy[1])
        xlabel, self.mean_line_ = "error rate", None
        if self.mean is not None:
            line = {"color": text_colour(), "alpha": 0.7, "linestyle": (0, (4, 3)), "linewidth": 1}
            self.mean_line_ = ax.axvline(self.mean, **line)
            xlabel = f"error rate (dashed: overall, {self.mean:.3g})"
        ax.set(xlabel=xlabel, ylabel=self.kind, title=name, ylim=(len(places) - 0.4, -0.6))
        ax.set_xlim(0, max(1.18 * np.nanmax([worst, *highs]), 0.01))
