"""Error per class or per group."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import zero_one_loss

from tailboost import metrics
from tailboost.plotting._style import BLUE, VERMILLION, new_axes, styled, text_colour

_MAX_LABELLED = 30


class ClassErrorDisplay:
    """Bars of the error in each class, or in each group, with the worst one marked and the mean as a line.

    Make one with `from_estimator` or `from_predictions`.

    Parameters
    ----------
    errors : mapping of m names to floats
        Error rate per class or group, as from `tailboost.metrics.class_errors`; NaN where there are no rows.
    mean : float, default=None
        Error rate over all rows.
    kind : {"class", "group"}, default="class"
        What the names are.
    name : str, default=None
        Title.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it was drawn.
    bars_ : matplotlib BarContainer
        One bar per class or group.
    mean_line_ : matplotlib Line2D or None
        The mean.

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
    ) -> None:
        if not any(math.isfinite(error) for error in errors.values()):
            raise ValueError("errors must hold at least one number")
        self.errors = dict(errors)
        self.mean = mean
        self.kind = kind
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        response_method: Literal["predict", "predict_proba"] = "predict",
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the errors of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier
            With ``classes_``.
        X : array-like of shape (n, d)
            Rows to judge on.
        y : array-like of shape (n,)
            Their labels.
        groups : array-like of shape (n,), default=None
            The group of each row; None shows the classes.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.
        response_method : {"predict", "predict_proba"}, default="predict"
            Judge the deterministic ``predict``, or the randomised rule by its expected error.
        name : str, default=None
            Title; None takes the name of the class.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        **kwargs : dict
            For matplotlib's ``barh``.

        Returns
        -------
        ClassErrorDisplay
            The drawn display.

        Raises
        ------
        ValueError
            Another ``response_method``; else as in `tailboost.metrics.class_errors` and ``group_errors``.
        """
        if response_method not in ("predict", "predict_proba"):
            raise ValueError(f"response_method must be 'predict' or 'predict_proba', got {response_method!r}")
        return cls.from_predictions(
            y,
            getattr(estimator, response_method)(X),
            groups=groups,
            sample_weight=sample_weight,
            labels=estimator.classes_,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            **kwargs,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
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
        groups : array-like of shape (n,), default=None
            The group of each row; None shows the classes.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.
        labels : array-like of shape (K,), default=None
            The classes, as in `tailboost.metrics.class_errors`.
        name : str, default=None
            Title.
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure.
        **kwargs : dict
            For matplotlib's ``barh``.

        Returns
        -------
        ClassErrorDisplay
            The drawn display.

        Raises
        ------
        ValueError
            As in `tailboost.metrics.class_errors` and ``group_errors``.
        """
        weighted: dict[str, Any] = {"sample_weight": sample_weight}
        if np.ndim(y_pred) == 2:
            weighted["labels"] = labels
            mean = metrics.cvar_zero_one_loss(y_true, y_pred, 1.0, **weighted)
            by_class, by_group = metrics.expected_class_errors, metrics.expected_group_errors
        else:
            mean = zero_one_loss(y_true, y_pred, sample_weight=sample_weight)
            by_class, by_group = metrics.class_errors, metrics.group_errors  # type: ignore[assignment]
        if groups is None:
            errors = by_class(y_true, y_pred, **(weighted | {"labels": labels}))
        else:
            errors = by_group(y_true, y_pred, groups, **weighted)
        display = cls(errors, mean=mean, kind="class" if groups is None else "group", name=name)
        return display.plot(ax=ax, **kwargs)

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; None makes a new figure, its height by the number of bars.
        name : str, default=None
            Title; None takes the display's own.
        **kwargs : dict
            For matplotlib's ``barh``.

        Returns
        -------
        ClassErrorDisplay
            The display itself.

        Raises
        ------
        ImportError
            matplotlib is missing.
        """
        m = len(self.errors)
        ax = new_axes(ax, "ClassErrorDisplay", figsize=(6.4, min(1.4 + 0.32 * m, 12.0)))
        widths = np.array(list(self.errors.values()))
        best, worst = np.nanmin(widths), np.nanmax(widths)
        colours = [VERMILLION if width == worst > best else BLUE for width in widths]
        style = {"color": colours, "height": 0.7}
        self.bars_ = ax.barh(np.arange(m), np.nan_to_num(widths), **styled(style, kwargs, bars=True))
        if m <= _MAX_LABELLED:
            ax.set_yticks(np.arange(m), [str(unit) for unit in self.errors])
            texts = ["no rows" if math.isnan(width) else f"{width:.3g}" for width in widths]
            ax.bar_label(self.bars_, texts, padding=3, fontsize="small")
        xlabel = "error rate"
        self.mean_line_ = None
        if self.mean is not None:
            dashes = {"linestyle": (0, (4, 3)), "linewidth": 1}
            self.mean_line_ = ax.axvline(self.mean, color=text_colour(), alpha=0.7, **dashes)
            xlabel = f"error rate (dashed: all rows, {self.mean:.3g})"
        ax.set(
            xlabel=xlabel,
            ylabel=self.kind,
            xlim=(0, max(1.18 * worst, 0.01)),
            ylim=(m - 0.4, -0.6),
            title=self.name if name is None else name,
        )
        self.ax_, self.figure_ = ax, ax.figure
        return self
