"""Trade-off of two rates along one fit, with other classifiers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tailboost.app.plotting.style import STYLES, Display, next_style, styled, text_colour
from tailboost.core.array_types import Floats

MARKERS = "sD^vPX*<>"


class TradeOffDisplay(Display):
    """Trade-off curve of two rates for one fit, with other classifiers as points; lower left is better.

    The solid line shows the rates of ``predict`` on given rows. The dashed line is the curve on the selection
    data. The ring marks the fitted classifier. Several displays can share axes.

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
    limited_name, objective : str
        Names of the rates, for the axes.
    name : str, default=None
        Label of the curve.

    Attributes
    ----------
    ax_, figure_, line_, selection_line_, point_ : matplotlib artists
        Axes, figure, the curve, the curve on the selection data and the ring; None if not drawn.
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
        limited_name: str = "error",
        objective: str = "largest error",
        name: str | None = None,
    ) -> None:
        self.limited, self.value = _arrays(limited, value)
        self.selection = None if selection is None else _arrays(*selection)
        self.point, self.others = point, dict(others or {})
        self.limited_name, self.objective, self.name = limited_name, objective, name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        rates: tuple[Any, Any] = (None, None),
        others: Mapping[str, Any] | None = None,
        sample_weight: ArrayLike | None = None,
        groups: Any = None,
        show_selection: bool = True,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the trade-off of a fitted classifier on given rows.

        Parameters
        ----------
        estimator : fitted classifier
            Has ``tradeoff()``.
        X, y : array-like of shape (n, d), (n,)
            Test rows and labels.
        rates : pair of rates, default=(None, None)
            Limited rate and minimised rate, as in ``tradeoff``.
        others : mapping of name to fitted classifier, default=None
            Other classifiers, measured on the same rows.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.
        groups : optional
            Groups of the rows, for rates by group.
        show_selection : bool, default=True
            Whether to draw the curve on the selection data.
        name, ax, **kwargs
            As in `plot`; the default label is the name of the class.

        Raises
        ------
        ValueError
            As in ``predicted`` of the curve.
        """
        name = type(estimator).__name__ if name is None else name
        curve = estimator.tradeoff(*rates)
        about_rows = {"sample_weight": sample_weight, "groups": groups}
        points = curve.measured({**(others or {}), name: estimator}, X, y, **about_rows)
        display = cls(
            *curve.predicted(X, y, **about_rows),
            selection=tuple(curve.values) if show_selection else None,
            point=points.pop(name),
            others=points,
            limited_name=str(curve.limited),
            objective=str(curve.objective),
            name=name,
        )
        return display.plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, name: str | None, kwargs: dict[str, Any]) -> None:
        style = next_style(ax, "trade-off") | {"linestyle": "-", "linewidth": 2, "marker": ".", "label": name}
        (self.line_,) = ax.plot(self.limited, self.value, **styled(style, kwargs))
        colour = self.line_.get_color()
        self.selection_line_ = self.point_ = None
        if self.selection is not None:
            (self.selection_line_,) = ax.plot(
                *self.selection, color=colour, linestyle="--", linewidth=1, label="on the selection data"
            )
        if self.point is not None:
            (self.point_,) = ax.plot(
                *self.point, marker="o", markersize=10, markeredgewidth=2, fillstyle="none", color=colour,
                linestyle="none", label=f"{name or ''} as fitted".strip(),
            )  # fmt: skip
        self.other_points_ = {}
        for i, (other, pair) in enumerate(self.others.items()):
            (self.other_points_[other],) = ax.plot(
                *pair, marker=MARKERS[i % len(MARKERS)], markersize=8, linestyle="none",
                color=STYLES[(i + 1) % len(STYLES)][0], markeredgecolor=text_colour(), markeredgewidth=0.6,
                label=other,
            )  # fmt: skip
        ax.set(xlabel=self.limited_name, ylabel=self.objective)
        ax.legend()


def _arrays(limited: ArrayLike, value: ArrayLike) -> tuple[Floats, Floats]:
    """Return both rates of a curve as arrays."""
    x, y = np.asarray(limited, dtype=np.float64), np.asarray(value, dtype=np.float64)
    if x.ndim != 1 or x.shape != y.shape or not x.size:
        raise ValueError(f"limited and value must have one shape (m,), got {x.shape} and {y.shape}")
    return x, y
