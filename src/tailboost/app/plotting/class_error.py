"""Error per class or per group."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import zero_one_loss

from tailboost import metrics
from tailboost.app.plotting.docs import described
from tailboost.app.plotting.style import BLUE, STYLES, VERMILLION, Display, styled, text_colour
from tailboost.core.checks import check_number
from tailboost.core.pipelines import label_shares
from tailboost.core.subgroups import unit_name
from tailboost.rates.bounds import clopper_pearson_interval

Response = Literal["predict", "predict_distribution"]

_MAX_LABELLED = 30
# Marks what displays of this kind drew on shared axes.
_GID = "class errors"


@described
class ClassErrorDisplay(Display):
    """Bars of the error in each class, or in each group, with intervals and the mean as a line.

    One classifier has its worst class marked; drawn on the axes of another display (``ax=``) each has a
    colour and a place in the legend. Make one with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    errors : mapping of m names to floats
        Error rate per class or group, as from `tailboost.metrics.class_errors`; NaN where there are no rows.
    mean : float, default=None
        Error rate over all rows.
    kind : {"class", "group"}, default="class"
        What the names are.
    name : str, default=None
        Title, or name in the legend where several share axes.
    intervals : mapping of names to (low, high), default=None
        Confidence intervals of the errors.

    Attributes
    ----------
    {{ax_}}
    bars_ : matplotlib BarContainer
        One bar per class or group.
    mean_line_ : matplotlib Line2D or None
        The mean.
    whiskers_ : matplotlib LineCollection
        The intervals.

    Raises
    ------
    ValueError
        No errors at all, or none that is a number.

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
        kind: Literal["class", "group"] = "class",
        name: str | None = None,
        intervals: Mapping[Any, tuple[float, float]] | None = None,
    ) -> None:
        if not any(math.isfinite(error) for error in errors.values()):
            raise ValueError("errors must hold at least one number")
        self.errors = dict(errors)
        self.mean = mean
        self.kind = kind
        self.name = name
        self.intervals = dict(intervals or {})

    @classmethod
    @described
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        response_method: Response = "predict",
        confidence: float | None = 0.95,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the errors of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier
            With ``classes_``.
        {{X … response_method}}
        confidence : float in (0, 1), default=0.95
            Of the intervals, see `from_predictions`; None draws none.
        {{name … drawn}}

        Raises
        ------
        ValueError
            Another ``response_method``; else as in `tailboost.metrics.class_errors` and ``group_errors``.
        """
        if response_method not in get_args(Response):
            raise ValueError(
                f"response_method must be 'predict' or 'predict_distribution', got {response_method!r}"
            )
        return cls.from_predictions(
            y,
            estimator.predict(X) if response_method == "predict" else label_shares(estimator, X),
            groups=groups,
            sample_weight=sample_weight,
            labels=estimator.classes_,
            confidence=confidence,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            **kwargs,
        )

    @classmethod
    @described
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
            True labels.
        y_pred : array-like of shape (n,) or (n, K)
            Predicted labels; or a randomised rule's probabilities, judged by their expected error.
        {{groups … sample_weight}}
        labels : array-like of shape (K,), default=None
            The classes, as in `tailboost.metrics.class_errors`.
        confidence : float in (0, 1), default=0.95
            Of the exact binomial interval (Clopper and Pearson) of each error by itself; it takes the rows
            for independent draws that the classifier was not fitted on. Weighted errors, and the expected
            ones of a randomised rule, are no counts and have none. None draws none.
        {{name … drawn}}

        Raises
        ------
        ValueError
            As in `tailboost.metrics.class_errors` and ``group_errors``.
        """
        errors = _unit_errors(y_true, y_pred, groups, labels, sample_weight)
        if np.ndim(y_pred) == 2:
            mean = metrics.cvar_zero_one_loss(y_true, y_pred, 1.0, sample_weight=sample_weight, labels=labels)
        else:
            mean = zero_one_loss(y_true, y_pred, sample_weight=sample_weight)
        intervals = None
        if confidence is not None:
            check_number(confidence, "confidence", 0, 1)
            if np.ndim(y_pred) == 1 and sample_weight is None:
                unit_of_rows = np.asarray(y_true if groups is None else groups)
                rows = {unit: n for unit in errors if (n := np.count_nonzero(unit_of_rows == unit))}
                counted = [errors[unit] for unit in rows]
                ends = clopper_pearson_interval(counted, list(rows.values()), confidence)
                intervals = dict(zip(rows, np.transpose(ends).tolist(), strict=True))
        kind: Literal["class", "group"] = "class" if groups is None else "group"
        display = cls(errors, mean=mean, kind=kind, name=name, intervals=intervals)
        return display.plot(ax=ax, **kwargs)

    def _figsize(self) -> tuple[float, float]:
        return 6.4, min(1.4 + 0.32 * len(self.errors), 12.0)

    def _draw(self, ax: Any, name: str | None, kwargs: dict[str, Any]) -> None:
        m = len(self.errors)
        # The bars that displays of this kind have drawn on the axes.
        earlier = [c for c in ax.containers if c.patches and c.patches[0].get_gid() == _GID]
        names = [unit_name(unit) for unit in self.errors]
        if earlier and names != [text.get_text() for text in ax.get_yticklabels()]:
            raise ValueError(f"these axes hold errors of other {self.kind}s, or of more than {_MAX_LABELLED}")
        widths = np.array(list(self.errors.values()))
        best, worst = np.nanmin(widths), np.nanmax(widths)
        shade = STYLES[len(earlier) % len(STYLES)][0]
        colours = [VERMILLION if width == worst > best and not earlier else shade for width in widths]
        style = {"color": colours, "height": 0.7, "gid": _GID, "label": name or f"model {len(earlier) + 1}"}
        self.bars_ = ax.barh(np.arange(m), np.nan_to_num(widths), **styled(style, kwargs, bars=True))
        spans = [self.intervals.get(unit, (math.nan, math.nan)) for unit in self.errors]
        lows, highs = np.array(spans, dtype=np.float64).T
        thin = {"color": text_colour(), "alpha": 0.8, "linewidth": 1.2, "gid": _GID}
        self.whiskers_ = ax.hlines(np.arange(m), lows, highs, **thin)
        if not earlier and m <= _MAX_LABELLED:
            ax.set_yticks(np.arange(m), names)
            _number(ax, self.bars_, widths, highs)
        xlabel = "error rate"
        self.mean_line_ = None
        if self.mean is not None:
            dashes = {"linestyle": (0, (4, 3)), "linewidth": 1}
            colour = shade if earlier else text_colour()
            self.mean_line_ = ax.axvline(self.mean, color=colour, alpha=0.7, **dashes)
            xlabel = f"error rate (dashed: all rows{'' if earlier else f', {self.mean:.3g}'})"
        far = max(1.18 * np.nanmax([worst, *highs]), 0.01, ax.get_xlim()[1] if earlier else 0.0)
        ax.set(xlabel=xlabel, ylabel=self.kind, xlim=(0, far), ylim=(m - 0.4, -0.6))
        if earlier:
            _share(ax, [*earlier, self.bars_])
        else:
            ax.set_title(name)


def _number(ax: Any, bars: Any, widths: NDArray[Any], highs: NDArray[Any]) -> None:
    """Write each error beside its bar, and beside its interval if there is one."""
    written = ["no rows" if math.isnan(width) else f"{width:.3g}" for width in widths]
    for text, high in zip(ax.bar_label(bars, written, padding=4, fontsize="small"), highs, strict=True):
        text.set_gid(_GID)
        if math.isfinite(high):
            text.xy = (high, text.xy[1])


def _share(ax: Any, containers: list[Any]) -> None:
    """Give every classifier on the axes a lane in each row, one colour and a place in the legend."""
    from matplotlib.colors import same_color

    height = 0.8 / len(containers)
    whiskers = [lines for lines in ax.collections if lines.get_gid() == _GID]
    for k, (bars, lines) in enumerate(zip(containers, whiskers, strict=True)):
        for i, bar in enumerate(bars):
            bar.set(y=i - 0.4 + k * height, height=height)
            if k == 0 and len(containers) == 2 and same_color(bar.get_facecolor(), VERMILLION):
                bar.set_color(BLUE)
        middle = np.arange(len(bars)) - 0.4 + (k + 0.5) * height
        spans = [segment[:, 0] for segment in lines.get_segments()]
        lines.set_segments([np.column_stack([x, [y, y]]) for x, y in zip(spans, middle, strict=True)])
    for text in [text for text in ax.texts if text.get_gid() == _GID]:
        text.remove()  # numbers have no room beside several bars
    ax.set_title("")
    ax.legend(handles=containers)


def _unit_errors(y: Any, answers: Any, groups: Any, labels: Any, sample_weight: Any) -> dict[Any, float]:
    """Return the error of each class, or group, of labels, or expected of shares of shape (n, K)."""
    if groups is not None and np.ndim(answers) == 1:
        return metrics.group_errors(y, answers, groups, sample_weight=sample_weight)
    given = {"sample_weight": sample_weight, "labels": labels}
    if groups is not None:
        return metrics.expected_group_errors(y, answers, groups, **given)
    of_classes = metrics.class_errors if np.ndim(answers) == 1 else metrics.expected_class_errors
    return of_classes(y, answers, **given)
