"""The variance-penalised cost and its parts against rounds."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tailboost._checks import check_number
from tailboost.plotting._docs import described
from tailboost.plotting._judged import labelled, staged_margins
from tailboost.plotting._style import Display, next_style, styled, text_colour
from tailboost.rules.vada import variance_cost

_OTHER_LAMBDA = 0.5


@described
class CostDisplay(Display):
    """Log of the variance-penalised cost against rounds, with its parts; several estimators in one picture.

    The cost is ``(Σ p e^(−m))² + λ (Σ p e^(−2m) − (Σ p e^(−m))²)`` over the margins m of rows with weights
    p: cost (5) of [1]_, for uniform p over n². Solid: the cost. Dashed: the squared mean of e^(−m). Dotted:
    its variance, without λ. Make one with `from_estimator`.

    Parameters
    ----------
    log_cost, log_mean, log_variance : array-like of shape (T + 1,)
        Natural logarithms before the first round (0, 0, −inf) and after each.
    variance_weight : float
        λ.
    name : str, default=None
        Name of the estimator, for the legend.

    Attributes
    ----------
    {{ax_}}
    line_, mean_line_, variance_line_ : matplotlib Line2D, or None for the parts if not drawn
        The three lines.

    Raises
    ------
    ValueError
        The three are not of one length of at least 1.

    References
    ----------
    .. [1] Shivaswamy and Jebara, "Variance Penalizing AdaBoost", NIPS 2011.
    """

    def __init__(
        self,
        log_cost: ArrayLike,
        log_mean: ArrayLike,
        log_variance: ArrayLike,
        *,
        variance_weight: float,
        name: str | None = None,
    ) -> None:
        self.log_cost, self.log_mean, self.log_variance = (
            np.asarray(x, dtype=np.float64) for x in (log_cost, log_mean, log_variance)
        )
        shapes = {self.log_cost.shape, self.log_mean.shape, self.log_variance.shape}
        if len(shapes) > 1 or self.log_cost.ndim != 1 or not self.log_cost.size:
            raise ValueError(
                f"log_cost, log_mean and log_variance must have one shape (T + 1,), got {sorted(shapes)}"
            )
        self.variance_weight = variance_weight
        self.name = name

    @classmethod
    @described
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        variance_weight: float | None = None,
        name: str | None = None,
        parts: bool = True,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the cost of a fitted additive classifier on some rows, usually those it was fitted on.

        Parameters
        ----------
        estimator : fitted classifier
            With ``staged_decision_function`` and ``classes_``.
        {{X … y}}
        {{sample_weight}}
        variance_weight : float ≥ 0, default=None
            λ; None takes the estimator's own, 0.5 if it has none (AdaBoost). Only costs of equal λ compare.
        {{name}}
        parts : bool, default=True
            Whether to draw the mean and the variance too.
        {{ax … drawn}}

        Raises
        ------
        ValueError
            λ < 0, a label the estimator does not know, or weights that are negative or all 0.
        TypeError
            If it is no additive classifier.
        sklearn.exceptions.NotFittedError
            If it is not fitted.
        """
        if variance_weight is None:
            variance_weight = getattr(estimator, "variance_weight", _OTHER_LAMBDA)
        variance_weight = check_number(variance_weight, "variance_weight", 0, closed=True)
        index, p = labelled(estimator, X, y, sample_weight)
        costs = [variance_cost(m, p, variance_weight) for m in staged_margins(estimator, X, index)]
        display = cls(
            [c.cost for c in costs],
            [c.mean for c in costs],
            [c.variance for c in costs],
            variance_weight=variance_weight,
            name=type(estimator).__name__ if name is None else name,
        )
        return display.plot(ax=ax, parts=parts, **kwargs)

    @described
    def plot(self, ax: Any = None, *, name: str | None = None, parts: bool = True, **kwargs: Any) -> Self:
        """Draw the display.

        Parameters
        ----------
        {{ax}}
        name : str, default=None
            Title, or label in the legend; None takes the display's own.
        parts : bool, default=True
            Whether to draw the mean and the variance too.
        {{kwargs}}

        Returns
        -------
        CostDisplay
            The display itself.

        Raises
        ------
        ImportError
            matplotlib is missing.
        """
        super().plot(ax, name=name, **kwargs)
        self.mean_line_ = self.variance_line_ = None
        if parts:
            self._draw_parts()
        self._legend(self.ax_, parts)
        return self

    def _draw(self, ax: Any, name: str | None, kwargs: dict[str, Any]) -> None:
        label = ", ".join(filter(None, [name, f"λ = {self.variance_weight:g}"]))
        style = next_style(ax, "cost") | {"linestyle": "-", "label": label}
        (self.line_,) = ax.plot(np.arange(len(self.log_cost)), self.log_cost, **styled(style, kwargs))
        ax.set(xlabel="rounds", ylabel="log cost")

    def _draw_parts(self) -> None:
        rounds = np.arange(len(self.log_cost))
        thin = {"color": self.line_.get_color(), "linewidth": 1}
        (self.mean_line_,) = self.ax_.plot(rounds, self.log_mean, linestyle="--", **thin)
        # A variance below the rounding error of the squared mean is none, as before the first round.
        least = self.log_mean + np.log(np.finfo(np.float64).eps)
        shown = np.where(self.log_variance > least, self.log_variance, np.nan)
        (self.variance_line_,) = self.ax_.plot(rounds, shown, linestyle=":", **thin)

    @staticmethod
    def _legend(ax: Any, parts: bool) -> None:
        """One entry per estimator, and one per part in the colour of text."""
        from matplotlib.lines import Line2D

        handles = [line for line in ax.lines if line.get_gid() == "cost"]
        if parts:
            thin: dict[str, Any] = {"color": text_colour(), "linewidth": 1}
            handles += [
                Line2D([], [], linestyle="--", label="squared mean of exp(−margin)", **thin),
                Line2D([], [], linestyle=":", label="variance of exp(−margin)", **thin),
            ]
        ax.legend(handles=handles)
