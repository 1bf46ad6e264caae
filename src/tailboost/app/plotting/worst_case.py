"""Worst-case loss against the radius of a shift."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tailboost import robustness
from tailboost.app.plotting.style import Display, next_style, reference_line, styled
from tailboost.guarantees.robustness import Loss
from tailboost.solvers.worst_case import Uncertainty

RADII = np.linspace(0.0, 1.0, 61) ** 2
TICKS = (0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
NAMES = {
    "zero_one": "error",
    "expected_zero_one": "expected error",
    "exponential": "exponential loss",
    "logistic": "logistic loss",
    "smoothed_hinge": "smoothed hinge loss",
}


class WorstCaseDisplay(Display):
    """Worst-case loss against the radius of the shift, and the shift at which a target is exceeded.

    The radius axis has a square-root scale, on which worst-case losses are nearly linear at small radii.
    Several displays can share axes; a target is drawn once.

    Parameters
    ----------
    radii : array-like of shape (m,)
        Increasing radii ≥ 0.
    values : array-like of shape (m,)
        Worst-case loss at each radius.
    loss : str, default="zero_one"
        Loss function, see `tailboost.robustness.row_losses`.
    uncertainty : {"kl", "chi2", "cvar"}, default="kl"
        Kind of the uncertainty ball.
    target : float, default=None
        Largest acceptable loss.
    shift : float, default=None
        Radius at which the target is exceeded.
    name : str, default=None
        Label of the curve.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the plot.
    line_ : matplotlib Line2D
        The curve.
    target_line_, shift_line_ : matplotlib artists or None
        The target, and the mark of the shift.

    Raises
    ------
    ValueError
        If arrays have different lengths, or radii are negative or do not increase.

    Examples
    --------
    >>> from tailboost.plotting import WorstCaseDisplay
    >>> display = WorstCaseDisplay([0, 0.1, 0.5], [0.2, 0.4, 0.6], target=0.5, shift=0.25, name="a model")
    >>> float(display.values[1])
    0.4
    """

    def __init__(
        self,
        radii: ArrayLike,
        values: ArrayLike,
        *,
        loss: str = "zero_one",
        uncertainty: str = "kl",
        target: float | None = None,
        shift: float | None = None,
        name: str | None = None,
    ) -> None:
        self.radii = np.asarray(radii, dtype=np.float64)
        self.values = np.asarray(values, dtype=np.float64)
        if self.radii.ndim != 1 or self.radii.shape != self.values.shape:
            raise ValueError(f"values has shape {self.values.shape}, radii {self.radii.shape}")
        if (self.radii < 0).any() or (np.diff(self.radii) <= 0).any():
            raise ValueError("radii must be non-negative and increase")
        self.loss, self.uncertainty = loss, uncertainty
        self.target, self.shift, self.name = target, shift, name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        radii: ArrayLike | None = None,
        uncertainty: Uncertainty = "kl",
        loss: Loss = "zero_one",
        target: float | None = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the curve of a fitted classifier.

        Parameters
        ----------
        estimator, X, y, uncertainty, loss, sample_weight
            As in `tailboost.robustness.worst_case_loss`.
        radii : array-like of shape (m,), default=None
            Increasing radii ≥ 0; None takes 61 from 0 to 1.
        target : float, default=None
            Largest acceptable loss; the smallest shift that exceeds it is marked.
        name : str, default=None
            Label of the curve; None takes the name of the class.
        ax : matplotlib Axes, default=None
            Axes to draw on, also of another display; None makes a new figure.
        **kwargs : dict
            Passed to matplotlib's ``plot``.

        Returns
        -------
        WorstCaseDisplay

        Raises
        ------
        ValueError
            As in `tailboost.robustness.worst_case_loss`.
        """
        grid = RADII if radii is None else np.asarray(radii, dtype=np.float64)
        weights = {"sample_weight": sample_weight}
        shift = None
        if target is not None:
            shift = robustness.certified_shift(estimator, X, y, target, uncertainty, loss, **weights)
        display = cls(
            grid,
            robustness.worst_case_loss(estimator, X, y, grid, uncertainty, loss, **weights),
            loss=loss,
            uncertainty=uncertainty,
            target=target,
            shift=shift,
            name=type(estimator).__name__ if name is None else name,
        )
        return display.plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, name: str | None, kwargs: dict[str, Any]) -> None:
        if self.shift is not None:
            exceeds = "at no shift" if np.isinf(self.shift) else f"at shift {self.shift:.3g}"
            name = f"{name or ''} (exceeds {self.target:g} {exceeds})".strip()
        style = {**next_style(ax, "worst case"), "linewidth": 2, "label": name}
        (self.line_,) = ax.plot(self.radii, self.values, **styled(style, kwargs))
        self.target_line_ = self.shift_line_ = None
        if self.target is not None:
            self.target_line_ = reference_line(ax, self.target, f"target {self.target:g}")
        if self.target is not None and self.shift is not None and self.shift <= self.radii[-1]:
            (self.shift_line_,) = ax.plot(
                [self.shift], [self.target], "o", color=self.line_.get_color(), gid="certified shift"
            )
        ax.set_xscale("function", functions=(lambda r: np.sqrt(np.maximum(r, 0.0)), np.square))
        last = max(line.get_xdata()[-1] for line in ax.lines if line.get_gid() == "worst case")
        ax.set_xlim(0.0, last)
        ax.set_xticks([t for t in TICKS if t == 0.0 or 0.08 * np.sqrt(last) < np.sqrt(t) <= np.sqrt(last)])
        ax.xaxis.set_major_formatter("{x:g}")
        ball = {"kl": "KL ball", "chi2": "χ² ball", "cvar": "CVaR ball"}[self.uncertainty]
        ax.set(xlabel=f"radius of the {ball}", ylabel=f"worst-case {NAMES.get(self.loss, self.loss)}")
        ax.legend()
