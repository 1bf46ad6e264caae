"""Trajectory of the weight player, round by round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError

from tailboost.app.plotting.style import BLUE, STYLES, VERMILLION, Display, styled, text_colour
from tailboost.core.subgroups import unit_name

MOST_MARKED = 30  # rounds up to which the points have markers
MOST_NAMED = 8  # subgroups with a name and a colour; the others have thin lines


class WeightTrajectoryDisplay(Display):
    """Weights of the player per subgroup or, if they were not stored, their effective size.

    `from_estimator` draws the display of a fitted boosting classifier.

    Parameters
    ----------
    weighted_loss : array-like of shape (T,)
        Loss in [0, 1] of each round's candidate under the weights of its training.
    effective_size : array-like of shape (T,)
        Effective fraction of the subgroups or rows that have the weights, in (0, 1].
    weights : array-like of shape (T, m), default=None
        Weights of m subgroups; rows sum to 1.
    subgroups : sequence of m names, default=None
        Names of the subgroups; None numbers them.
    name : str, default=None
        Title.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the plot.
    lines_ : list of matplotlib Line2D
        One line per subgroup; or effective size and weighted loss.

    Raises
    ------
    ValueError
        If there is no round, or shapes do not match.
    """

    def __init__(
        self,
        weighted_loss: ArrayLike,
        effective_size: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        subgroups: Sequence[Any] | None = None,
        name: str | None = None,
    ) -> None:
        self.weighted_loss = np.asarray(weighted_loss, dtype=np.float64)
        self.effective_size = np.asarray(effective_size, dtype=np.float64)
        self.weights = None if weights is None else np.asarray(weights, dtype=np.float64)
        self.subgroups = subgroups
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
            if subgroups is not None and len(subgroups) != self.weights.shape[1]:
                raise ValueError(
                    f"subgroups has {len(subgroups)} names for {self.weights.shape[1]} columns of weights"
                )

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, name: str | None = None, ax: Any = None, **kwargs: Any
    ) -> Self:
        """Draw the trajectory of a fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier
            Has ``trace_``. ``subgroups_`` or ``groups_`` name the subgroups.
        name : str, default=None
            Title; None takes the name of the class.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        **kwargs : dict
            Passed to matplotlib's ``plot``.

        Returns
        -------
        WeightTrajectoryDisplay

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If the classifier is not fitted or has no ``trace_``.
        """
        trace = getattr(estimator, "trace_", None)
        if trace is None:
            raise NotFittedError(f"{type(estimator).__name__} has no trace_: fit a boosting classifier first")
        subgroups = getattr(estimator, "subgroups_", getattr(estimator, "groups_", None))
        name = type(estimator).__name__ if name is None else name
        display = cls(
            trace.weighted_loss, trace.effective_size, weights=trace.weights, subgroups=subgroups, name=name
        )
        return display.plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, name: str | None, kwargs: dict[str, Any]) -> None:
        T = len(self.weighted_loss)
        series: list[tuple[Any, dict[str, Any]]]
        if self.weights is None:
            series = [
                (self.effective_size, {"label": "effective size of the weights", "color": BLUE}),
                (self.weighted_loss, {"label": "weighted loss", "color": VERMILLION, "linestyle": "--"}),
            ]
        else:
            names = [
                unit_name(key)
                for key in (range(self.weights.shape[1]) if self.subgroups is None else self.subgroups)
            ]
            thin = {"color": text_colour(), "alpha": 0.25, "linewidth": 0.8, "marker": "", "label": "_others"}
            series = [(column, thin) for column in self.weights.T]
            heaviest = np.argsort(-self.weights.mean(axis=0), kind="stable")[:MOST_NAMED]
            for (colour, line), j in zip(STYLES, sorted(heaviest.tolist()), strict=False):
                named = {"label": names[j], "color": colour, "linestyle": line}
                series[j] = (self.weights[:, j], named)
        common = {"marker": "o" if T <= MOST_MARKED else "", "markersize": 4, "linewidth": 2}
        self.lines_ = [
            ax.plot(np.arange(1, T + 1), values, **styled(common | style, kwargs))[0]
            for values, style in series
        ]
        ax.xaxis.get_major_locator().set_params(integer=True)
        top = 1.0 if self.weights is None else min(1.0, 1.1 * float(self.weights.max()))
        label = "fraction" if self.weights is None else "weight"
        ax.set(xlabel="round", ylabel=label, ylim=(0, 1.02 * top), title=name)
        ax.legend()
