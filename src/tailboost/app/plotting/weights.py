"""The weight player's trajectory, round by round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError

from tailboost.app.plotting.docs import described
from tailboost.app.plotting.style import BLUE, VERMILLION, Display, styled, unit_styles

_MAX_MARKED = 30


@described
class WeightTrajectoryDisplay(Display):
    """The player's weights per class or group where kept, otherwise how concentrated they were.

    Make one with `from_estimator`.

    Parameters
    ----------
    weighted_loss : array-like of shape (T,)
        Loss of each round's hypothesis under the weights it was trained for, in [0, 1].
    effective_size : array-like of shape (T,)
        Share of the units that effectively carry the weights, in (0, 1]; 1 is the base measure.
    weights : array-like of shape (T, m), default=None
        Weights of m units, rows summing to 1.
    units : sequence of m names, default=None
        Names of the units; None numbers them.
    name : str, default=None
        Title.

    Attributes
    ----------
    {{ax_}}
    lines_ : list of matplotlib Line2D
        Effective size and weighted loss; or one line per unit.

    Raises
    ------
    ValueError
        No rounds, or shapes that do not fit.
    """

    def __init__(
        self,
        weighted_loss: ArrayLike,
        effective_size: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        units: Sequence[Any] | None = None,
        name: str | None = None,
    ) -> None:
        self.weighted_loss = np.asarray(weighted_loss, dtype=np.float64)
        self.effective_size = np.asarray(effective_size, dtype=np.float64)
        self.weights = None if weights is None else np.asarray(weights, dtype=np.float64)
        self.units = units
        self.name = name
        T = self.weighted_loss.shape
        if len(T) != 1 or not T[0] or self.effective_size.shape != T:
            raise ValueError(
                "weighted_loss and effective_size must have shape (T,), T ≥ 1, "
                f"got {T} and {self.effective_size.shape}"
            )
        if self.weights is not None:
            if self.weights.ndim != 2 or self.weights.shape[:1] != T:
                raise ValueError(f"weights must have shape ({T[0]}, m), got {self.weights.shape}")
            if units is not None and len(units) != self.weights.shape[1]:
                raise ValueError(
                    f"units has {len(units)} names for {self.weights.shape[1]} columns of weights"
                )

    @classmethod
    @described
    def from_estimator(
        cls, estimator: Any, *, name: str | None = None, ax: Any = None, **kwargs: Any
    ) -> Self:
        """Draw the trajectory of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier
            With ``trace_``; the units are named by ``subgroups_`` or ``groups_`` where there is one.
        {{name … drawn}}

        Raises
        ------
        sklearn.exceptions.NotFittedError
            The classifier is not fitted, or leaves no ``trace_``.
        """
        trace = getattr(estimator, "trace_", None)
        if trace is None:
            raise NotFittedError(
                f"{type(estimator).__name__} has no trace_: fit it first (only boosting leaves one)"
            )
        display = cls(
            trace.weighted_loss,
            trace.effective_size,
            weights=trace.weights,
            units=getattr(estimator, "subgroups_", getattr(estimator, "groups_", None)),
            name=type(estimator).__name__ if name is None else name,
        )
        return display.plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, name: str | None, kwargs: dict[str, Any]) -> None:
        T = len(self.weighted_loss)
        rounds = np.arange(1, T + 1)
        common = {"marker": "o" if T <= _MAX_MARKED else "", "markersize": 4, "linewidth": 2}
        if self.weights is None:
            series = [
                (self.effective_size, {"label": "effective size of the weights", "color": BLUE}),
                (self.weighted_loss, {"label": "weighted loss", "color": VERMILLION, "linestyle": "--"}),
            ]
        else:
            units = range(self.weights.shape[1]) if self.units is None else self.units
            heaviest = np.argsort(-self.weights.mean(axis=0), kind="stable")
            series = list(zip(self.weights.T, unit_styles(units, heaviest), strict=True))
        self.lines_ = [
            ax.plot(rounds, values, **styled(common | style, kwargs))[0] for values, style in series
        ]
        ax.xaxis.get_major_locator().set_params(integer=True)
        top = 1.0 if self.weights is None else min(1.0, 1.1 * float(self.weights.max()))
        ax.set(
            xlabel="round",
            ylabel="share" if self.weights is None else "weight",
            ylim=(0, 1.02 * top),
            title=name,
        )
        ax.legend()
