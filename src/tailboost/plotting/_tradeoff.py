"""The trade-off between the mean error and the worst one, beside other classifiers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tailboost.plotting._docs import described
from tailboost.plotting._style import STYLES, Display, next_style, styled, text_colour

# Points of a drawn curve: `predict` changes between the breakpoints too.
_POINTS = 60
_MARKERS = "sD^vPX*<>"


@described
class TradeOffDisplay(Display):
    """Worst error against mean error along the budgets of one fit, with other classifiers as points.

    Solid: what `predict` does along the curve on given rows, which λ was not chosen on. Dashed: the curve
    itself on the rows λ is chosen on, where it is exact; of the randomised classifier, or a staircase where
    members do not share λ. The ring is the
    classifier as it is. Further down and further left is better. Make one with `from_estimator`.

    Parameters
    ----------
    mean, worst : array-like of shape (m,)
        Errors of `predict` along the curve, in the order of the budgets.
    chosen_mean, chosen_worst : array-like of shape (B,), default=None
        The curve on the rows λ is chosen on.
    point : pair of float, default=None
        Mean and worst error of the classifier as it is.
    others : mapping of name to pair of float, default=None
        Mean and worst error of other classifiers on the same rows.
    objective : str, default="worst error"
        What the worst error is, for the axis.
    name : str, default=None
        Label of the curve.
    stepped : bool, default=False
        Whether there is nothing between two points: the curve on the rows λ is chosen on is then a staircase,
        and the points of the other one are marked.

    Attributes
    ----------
    {{ax_}}
    line_ : matplotlib Line2D
        The curve of `predict`.
    chosen_line_, point_ : matplotlib Line2D or None
        The curve on the rows of the choice, and the ring.
    other_points_ : dict of matplotlib Line2D
        The other classifiers by name.

    Raises
    ------
    ValueError
        Arrays of different lengths, or only one of ``chosen_mean`` and ``chosen_worst``.

    Examples
    --------
    >>> from tailboost.plotting import TradeOffDisplay
    >>> display = TradeOffDisplay([0.1, 0.2], [0.5, 0.3], others={"forest": (0.12, 0.6)}, name="ours")
    >>> display.others["forest"]
    (0.12, 0.6)
    """

    def __init__(
        self,
        mean: ArrayLike,
        worst: ArrayLike,
        *,
        chosen_mean: ArrayLike | None = None,
        chosen_worst: ArrayLike | None = None,
        point: tuple[float, float] | None = None,
        others: Mapping[str, tuple[float, float]] | None = None,
        objective: str = "worst error",
        name: str | None = None,
        stepped: bool = False,
    ) -> None:
        self.mean = np.asarray(mean, dtype=np.float64)
        self.worst = np.asarray(worst, dtype=np.float64)
        if (chosen_mean is None) != (chosen_worst is None):
            raise ValueError("give both chosen_mean and chosen_worst, or neither")
        self.chosen_mean = None if chosen_mean is None else np.asarray(chosen_mean, dtype=np.float64)
        self.chosen_worst = None if chosen_worst is None else np.asarray(chosen_worst, dtype=np.float64)
        pairs = [(self.mean, self.worst), (self.chosen_mean, self.chosen_worst)]
        for x, y in pairs:
            if x is not None and y is not None and (x.ndim != 1 or x.shape != y.shape or not x.size):
                raise ValueError(f"mean and worst must have one shape (m,), got {x.shape} and {y.shape}")
        self.point = point
        self.others = dict(others or {})
        self.objective = objective
        self.name = name
        self.stepped = stepped

    @classmethod
    @described
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        others: Mapping[str, Any] | None = None,
        sample_weight: ArrayLike | None = None,
        groups: Any = None,
        show_chosen: bool = True,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the trade-off of a fitted mixture on some rows.

        Parameters
        ----------
        estimator : fitted classifier
            With ``tradeoff()``.
        X : array-like of shape (n, d)
            Rows to judge on, which were not fitted on.
        {{y}}
        others : mapping of name to fitted classifier, default=None
            Drawn as points: mean and worst error of their ``predict`` on the same rows.
        {{sample_weight}}
        groups : optional
            Groups of the rows, where the objective is about groups.
        show_chosen : bool, default=True
            Whether to draw the curve on the rows λ is chosen on.
        {{name … drawn}}

        Raises
        ------
        ValueError
            As in ``predicted`` of the trade-off; or if rates were made small or limited.
        """
        name = type(estimator).__name__ if name is None else name
        curve = estimator.tradeoff()
        if hasattr(curve, "limited"):
            raise ValueError(
                f"{name} was fitted for rates: its tradeoff() is a curve of {curve.limited} against "
                f"{curve.objective}; draw that curve's points, or give an estimator without limits"
            )
        given = {"sample_weight": sample_weight, "groups": groups}
        mean, worst = curve.refined(_POINTS).predicted(X, y, **given)
        points = curve.measured({**(others or {}), name: estimator}, X, y, **given)
        point = points.pop(name)
        display = cls(
            mean,
            worst,
            chosen_mean=curve.mean if show_chosen else None,
            chosen_worst=curve.worst if show_chosen else None,
            point=point,
            others=points,
            objective=curve.objective.replace("expected loss", "error"),
            name=name,
            stepped=not curve.shared,
        )
        return display.plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, name: str | None, kwargs: dict[str, Any]) -> None:
        points = {"marker": ".", "markersize": 7} if self.stepped else {}
        style = {**next_style(ax, "trade-off"), "linestyle": "-", "linewidth": 2, "label": name}
        (self.line_,) = ax.plot(self.mean, self.worst, **styled(style | points, kwargs))
        colour = self.line_.get_color()
        self.chosen_line_ = self.point_ = None
        if self.chosen_mean is not None:
            label = "on the rows of the fit" + ("" if self.stepped else ", if answers are drawn")
            (self.chosen_line_,) = ax.plot(
                self.chosen_mean, self.chosen_worst, color=colour, linestyle="--", linewidth=1,
                drawstyle="steps-post" if self.stepped else "default", label=label,
            )  # fmt: skip
        if self.point is not None:
            (self.point_,) = ax.plot(
                *self.point, marker="o", markersize=10, markeredgewidth=2, fillstyle="none", color=colour,
                linestyle="none", label=f"{name or ''} as fitted".strip(),
            )  # fmt: skip
        self.other_points_ = {}
        for i, (other, (mean, worst)) in enumerate(self.others.items()):
            (self.other_points_[other],) = ax.plot(
                mean, worst, marker=_MARKERS[i % len(_MARKERS)], markersize=8, linestyle="none",
                color=STYLES[(i + 1) % len(STYLES)][0], markeredgecolor=text_colour(), markeredgewidth=0.6,
                label=other,
            )  # fmt: skip
        # What the objective is called elsewhere is exact; on a slide it is the worst class, group or cell.
        exact = r"^largest (?:expected )?(?:loss|error) of any (\w+)$"
        words = re.sub(exact, r"error of the worst \1", self.objective)
        ax.set(xlabel="error overall", ylabel=words)
        ax.legend()
