"""Trade-off of two rates at several deferral rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tailboost.app.plotting.style import Display, next_style, styled


class DeferralDisplay(Display):
    """Trade-off curves of two rates, one for each largest deferral rate; lower left is better.

    `from_estimator` computes the curves of a fitted classifier and draws the display.

    Parameters
    ----------
    deferral_rates : sequence of float
        Limit of the deferral rate, one for each curve.
    curves : sequence of pairs of array-like
        Values of the minimised rate and of the limited rate along each curve.
    value, limited : str
        Names of these rates, for the axes.
    name : str, default=None
        Title.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the plot.
    lines_ : list of matplotlib Line2D
        The curves.

    Raises
    ------
    ValueError
        If the numbers of curves and deferral rates differ, or the arrays of a curve differ in length.

    Examples
    --------
    >>> from tailboost.plotting import DeferralDisplay
    >>> curves = [([0.2, 0.22], [0.5, 0.3]), ([0.18, 0.2], [0.45, 0.25])]
    >>> display = DeferralDisplay([0, 0.05], curves, value="overall error", limited="worst error")
    >>> len(display.curves)
    2
    """

    def __init__(
        self,
        deferral_rates: Sequence[float],
        curves: Sequence[Any],
        *,
        value: str,
        limited: str,
        name: str | None = None,
    ) -> None:
        self.deferral_rates = [float(rate) for rate in deferral_rates]
        self.curves = [tuple(np.asarray(part, dtype=np.float64) for part in curve) for curve in curves]
        if len(self.deferral_rates) != len(self.curves):
            raise ValueError(
                f"{len(self.deferral_rates)} deferral rates, but {len(self.curves)} curves: "
                "one curve for each rate is needed"
            )
        for curve in self.curves:
            if len(curve) != 2 or curve[0].ndim != 1 or curve[0].shape != curve[1].shape:
                raise ValueError("each curve must be two arrays of one shape (m,)")
        self.value, self.limited, self.name = value, limited, name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        limited: Any,
        objective: Any,
        deferred: Sequence[float] = (0.0, 0.01, 0.02, 0.05, 0.1),
        n_points: int = 9,
        groups: Any = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the curves by the rates of ``predict`` on given rows.

        Parameters
        ----------
        estimator : fitted RobustMixtureClassifier
            One fit gives all curves.
        X, y : array-like of shape (n, d), (n,)
            Test rows and labels.
        limited, objective : rate, or largest rate of a family
            Limited rate and minimised rate, as in ``tradeoff``.
        deferred : sequence of float, default=(0, 0.01, 0.02, 0.05, 0.1)
            Limit of the deferral rate, one for each curve.
        n_points : int, default=9
            Points of a curve.
        groups : optional
            Groups of the rows, for rates by group.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.
        name : str, default=None
            Title.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        **kwargs : dict
            Passed to matplotlib's ``plot``.

        Returns
        -------
        DeferralDisplay

        Raises
        ------
        ValueError
            As in ``tradeoff``.
        """
        curves = estimator.tradeoff(limited, objective, n_points=n_points, deferred=deferred)
        given = {"groups": groups, "sample_weight": sample_weight}
        # `predicted` returns the limited rate first.
        pairs = [curve.predicted(X, y, **given)[::-1] for curve in curves.values()]
        first = next(iter(curves.values()))
        display = cls([*curves], pairs, value=str(first.objective), limited=str(first.limited), name=name)
        return display.plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, name: str | None, kwargs: dict[str, Any]) -> None:
        self.lines_ = []
        for rate, (value, limited) in zip(self.deferral_rates, self.curves, strict=True):
            style = {**next_style(ax, "deferral"), "marker": ".", "label": f"{100 * rate:g} %"}
            self.lines_ += ax.plot(value, limited, **styled(style, kwargs))
        ax.set(xlabel=self.value, ylabel=self.limited)
        if name is not None:
            ax.set_title(name)
        ax.legend(title="deferred at most")
