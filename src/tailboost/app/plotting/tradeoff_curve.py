"""Trade-off of two rates along one fit, with other classifiers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tailboost.app.plotting.style import STYLES, Display, keyed, next_style, styled, text_colour
from tailboost.core.array_types import Axes, Floats, Groups, Model, Table
from tailboost.rows.judged import final_step, judged

POINT_MARKERS = "sD^vPX*<>"
SELECTED_RULE = "selected rule"
# Neighbours further apart than this fraction of the span of a curve are not joined.
LONG_STEP = 0.15


class TradeOffDisplay(Display):
    """Trade-off curve of two rates for one fit, with other classifiers as points; lower left is better.

    The solid line shows the rates of ``predict`` on given rows. The dashed line is the curve on the selection
    data. The ring marks the selected rule, a dotted line its limit. Points are joined only if they are near
    each other: between two points of a jump there is no rule. Several displays can share axes.

    Parameters
    ----------
    limited, value : array-like of shape (m,)
        Limited rate and minimised rate along the curve.
    selection : pair of array-like of shape (B,), default=None
        Both rates on the selection data.
    point : pair of float, default=None
        Both rates of the fitted classifier.
    others : mapping of name to pair of float, default=None
        Both rates of other classifiers on the same rows.
    limit : float, default=None
        Limit of the first rate.
    limited_name, objective : str
        Names of the rates, for the axes.
    name : str, default=None
        Label of the curve.

    Attributes
    ----------
    ax_, figure_, line_, selection_line_, point_, limit_line_ : matplotlib artists
        Axes, figure, the curve, the curve on the selection data, the ring and the limit; None if not drawn.
        A jump has NaN between its points.
    other_points_ : dict of matplotlib Line2D
        Points of the other classifiers by name.

    Raises
    ------
    ValueError
        If arrays have different lengths.

    Examples
    --------
    >>> from tailboost.plotting import TradeOffDisplay
    >>> display = TradeOffDisplay([0.1, 0.2], [0.5, 0.3], others={"forest": (0.12, 0.6)}, name="ours")
    >>> display.others["forest"]
    (0.12, 0.6)
    """

    def __init__(
        self,
        limited: ArrayLike,
        value: ArrayLike,
        *,
        selection: tuple[ArrayLike, ArrayLike] | None = None,
        point: tuple[float, float] | None = None,
        others: Mapping[str, tuple[float, float]] | None = None,
        limit: float | None = None,
        limited_name: str = "error",
        objective: str = "largest error",
        name: str | None = None,
    ) -> None:
        self.limited, self.value = _arrays(limited, value)
        self.selection = None if selection is None else _arrays(*selection)
        self.point = point
        self.others = dict(others or {})
        self.limit = limit
        self.limited_name = limited_name
        self.objective = objective
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Model,
        X: Table,
        y: ArrayLike,
        *,
        others: Mapping[str, Any] | None = None,
        sample_weight: ArrayLike | None = None,
        groups: Groups = None,
        name: str | None = None,
        ax: Axes = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the trade-off of a fitted classifier on given rows, its limit, and its plain model.

        The plain model predicts the label with the largest ``predict_proba``.

        Parameters
        ----------
        estimator : fitted classifier
            Has ``tradeoff()``.
        X, y : array-like of shape (n, d), (n,)
            Test rows and labels.
        others : mapping of name to fitted classifier, default=None
            Other classifiers, measured on the same rows.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.
        groups : optional
            Groups of the rows, for rates by group.
        name, ax, **kwargs
            As in `plot`; the default label is the name of the class.

        Raises
        ------
        ValueError
            As in ``predicted`` of the curve.
        """
        if name is None:
            name = type(estimator).__name__
        curve = estimator.tradeoff()
        row_arguments = {"sample_weight": sample_weight, "groups": groups}
        classifiers = {SELECTED_RULE: estimator, **plain_models(estimator), **(others or {})}
        points = curve.measured(classifiers, X, y, **row_arguments)
        measured = curve.predicted(X, y, **row_arguments)
        return cls.of(curve, measured, points, name).plot(ax=ax, **kwargs)

    @classmethod
    def of(
        cls,
        curve: Any,
        measured: tuple[ArrayLike, ArrayLike] | None = None,
        points: Mapping[str, tuple[float, float]] | None = None,
        name: str | None = None,
    ) -> Self:
        """Return the display of a trade-off, not yet drawn.

        Parameters
        ----------
        curve : Curve
            From ``tradeoff()``.
        measured : pair of array-like of shape (m,), default=None
            Both rates of its points on other rows; without them the curve on the selection data is drawn.
        points : mapping of name to pair of float, default=None
            Both rates of classifiers on these rows; "selected rule" is that of the curve.
        name : str, default=None
            Label of the curve.
        """
        rates = {
            "limited_name": str(curve.limited),
            "objective": str(curve.objective),
            "limit": curve.bound,
        }
        if measured is None:
            point = curve.of_source()
            if np.isnan(point).any():  # the rates of the classifier are not known
                point = None
            label = name or curve.on_rows.replace(", within ", ",\nwithin ", 1)
            return cls(*curve.values, point=point, name=label, **rates)
        others = dict(points or {})
        return cls(
            *measured,
            selection=tuple(curve.values),
            point=others.pop(SELECTED_RULE, None),
            others=others,
            name=name or "on the given rows",
            **rates,
        )

    def _draw(self, ax: Axes, name: str | None, kwargs: dict[str, Any]) -> None:
        """Draw the curve, its limit, the curve on the selection data, and the points of classifiers."""
        style = next_style(ax, "trade-off")
        style |= {"linestyle": "-", "linewidth": 2, "marker": ".", "label": name}
        curve = without_jumps(self.limited, self.value)
        (self.line_,) = ax.plot(*curve, **styled(style, kwargs))
        colour = self.line_.get_color()
        self.limit_line_ = None
        self.selection_line_ = None
        self.point_ = None
        if self.limit is not None:
            line = {"color": text_colour(), "linewidth": 1.5, "linestyle": ":"}
            self.limit_line_ = ax.axvline(self.limit, **line, label=f"limit {self.limit:g}")
        if self.selection is not None:
            (self.selection_line_,) = ax.plot(
                *without_jumps(*self.selection),
                color=colour,
                linestyle="--",
                linewidth=1,
                label="on the selection data",
            )
        if self.point is not None:
            (self.point_,) = ax.plot(
                *self.point, marker="o", markersize=10, markeredgewidth=2, fillstyle="none", color=colour,
                linestyle="none", label=SELECTED_RULE,
            )  # fmt: skip
        self.other_points_ = {}
        for i, (other, pair) in enumerate(self.others.items()):
            other_colour, _ = STYLES[(i + 1) % len(STYLES)]  # the first one is of the curve
            (self.other_points_[other],) = ax.plot(
                *pair, marker=POINT_MARKERS[i % len(POINT_MARKERS)], markersize=8, linestyle="none",
                color=other_colour, markeredgecolor=text_colour(), markeredgewidth=0.6, label=other,
            )  # fmt: skip
        ax.set(xlabel=self.limited_name, ylabel=self.objective)
        keyed(ax)


def plain_models(classifier: Model) -> dict[str, Any]:
    """Return the plain model of a classifier by its name; none for a rule on scores of any kind."""
    if judged(classifier).reads_scores:
        return {}
    return {"plain model": PlainModel(classifier)}


@dataclass(frozen=True)
class PlainModel:
    """The most probable label of a classifier, without limits."""

    classifier: Model

    def predict(self, X: Table) -> Any:
        """Return the label with the largest probability."""
        final, rows = final_step(self.classifier, X)
        return final.classes_[np.asarray(final.predict_proba(rows)).argmax(axis=1)]


def without_jumps(limited: Floats, value: Floats) -> tuple[Floats, Floats]:
    """Return both rates of a curve with NaN inside of each jump, where a drawn line has a gap.

    A jump is between neighbours that are more than `LONG_STEP` of the range of a rate apart. Each jump
    makes both results one entry longer.
    """
    points = np.column_stack([limited, value])  # shape (m, 2)
    ranges = np.ptp(points, axis=0)
    ranges[ranges == 0] = 1.0  # all points have one value of this rate: no jump
    is_jump = (np.abs(np.diff(points, axis=0)) > LONG_STEP * ranges).any(axis=1)
    after_jump = np.flatnonzero(is_jump) + 1
    limited, value = np.insert(points, after_jump, np.nan, axis=0).T
    return limited, value


def _arrays(limited: ArrayLike, value: ArrayLike) -> tuple[Floats, Floats]:
    """Return both rates of a curve as arrays; raise ValueError unless they are of one length m ≥ 1."""
    x = np.asarray(limited, dtype=np.float64)
    y = np.asarray(value, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape or not x.size:
        raise ValueError(
            f"limited and value must have one shape (m,), got {x.shape} and {y.shape}"
        )
    return x, y
