"""The trade-off of two rates, for shares of rows that may be passed on to a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tailboost.app.plotting.docs import described
from tailboost.app.plotting.style import Display, next_style, styled


@described
class DeferralDisplay(Display):
    """What passing rows on gains: a curve of one rate against another for each share of rows passed on.

    Further down and further left is better. Make one with `from_estimator`.

    Parameters
    ----------
    shares : sequence of float
        The most rows that may be passed on, for each curve.
    curves : sequence of pairs of array-like
        For each the rate that is made small and the rate that is limited, of its points.
    value, limited : str
        What these rates are, for the axes.
    name : str, default=None
        Title.

    Attributes
    ----------
    {{ax_}}
    lines_ : list of matplotlib Line2D
        The curves.

    Raises
    ------
    ValueError
        Not one curve for each share, or arrays of different lengths.

    Examples
    --------
    >>> from tailboost.plotting import DeferralDisplay
    >>> curves = [([0.2, 0.22], [0.5, 0.3]), ([0.18, 0.2], [0.45, 0.25])]
    >>> display = DeferralDisplay([0, 0.05], curves, value="mean error", limited="worst error")
    >>> len(display.curves)
    2
    """

    def __init__(
        self,
        shares: Sequence[float],
        curves: Sequence[Any],
        *,
        value: str,
        limited: str,
        name: str | None = None,
    ) -> None:
        self.shares = [float(share) for share in shares]
        self.curves = [tuple(np.asarray(part, dtype=np.float64) for part in curve) for curve in curves]
        if len(self.shares) != len(self.curves):
            raise ValueError(
                f"{len(self.shares)} shares, but {len(self.curves)} curves: one of each is needed"
            )
        for curve in self.curves:
            if len(curve) != 2 or curve[0].ndim != 1 or curve[0].shape != curve[1].shape:
                raise ValueError("each curve must be two arrays of one shape (m,)")
        self.value, self.limited, self.name = value, limited, name

    @classmethod
    @described
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        limited: Any,
        objective: Any,
        passed_on: Sequence[float] = (0.0, 0.01, 0.02, 0.05, 0.1),
        n_points: int = 9,
        groups: Any = None,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw what `predict` does along the curves on some rows.

        Parameters
        ----------
        estimator : fitted RobustMixtureClassifier
            From whose one fit all curves are.
        X : array-like of shape (n, d)
            Rows to judge on, which were not fitted on.
        {{y}}
        limited, objective : rate, or largest of a family
            What is limited along a curve, and what is made small; as in ``tradeoff``.
        passed_on : sequence of float, default=(0, 0.01, 0.02, 0.05, 0.1)
            The most rows that may be passed on, for each curve.
        n_points : int, default=9
            Points of a curve.
        groups : optional
            Groups of the rows, where rates are about groups.
        {{sample_weight}}
        {{name … drawn}}

        Raises
        ------
        ValueError
            As in ``tradeoff``.
        """
        found = estimator.tradeoff(limited, objective, n_points=n_points, passed_on=passed_on)
        pairs = []
        for curve in found.values():
            seen, made_small = curve.predicted(X, y, groups=groups, sample_weight=sample_weight)
            pairs.append((made_small, seen))
        one = next(iter(found.values()))
        display = cls([*found], pairs, value=str(one.objective), limited=str(one.limited), name=name)
        return display.plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, name: str | None, kwargs: dict[str, Any]) -> None:
        self.lines_ = []
        for share, (value, limited) in zip(self.shares, self.curves, strict=True):
            style = {**next_style(ax, "deferral"), "marker": ".", "label": f"{100 * share:g} %"}
            (line,) = ax.plot(value, limited, **styled(style, kwargs))
            self.lines_.append(line)
        ax.set(xlabel=self.value, ylabel=self.limited)
        if name is not None:
            ax.set_title(name)
        ax.legend(title="passed on at most")
