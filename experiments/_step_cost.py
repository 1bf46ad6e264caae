"""The cost along one hypothesis against its step, with the bound minimised by VadaBoost."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from tailboost.app.plotting.style import Display, next_style, styled
from tailboost.core.array_types import Floats, Ints
from tailboost.core.checks import check_length, check_number, check_weights, n_rows_of, positions

_POINTS = 201


class StepCostDisplay(Display):
    """The variance-penalised cost V of a round against the step a, and its upper bound U [1]_, figure 1.

    With w the weights of the round, z = e^(−a) for rows with the correct answer and e^(a/(K−1)) for the
    others, and u = λw²/p + (1−λ)w,

        V(a) = (1−λ)(Σ w z)² + λ Σ w² z²/p  ≤  U(a) = Σ u z²,

    equal at a = 0. VadaBoost takes the step with the smallest U, marked by a dot. Use
    `from_estimator`.

    Parameters
    ----------
    steps, cost, bound : array-like of shape (m,)
        Steps a, and V and U at each.
    step : float
        The step of the fit.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the plot.
    cost_line_, bound_line_, step_line_ : matplotlib Line2D
        V, U and the dot at the step of the fit.

    Raises
    ------
    ValueError
        If the lengths differ or are below 2.

    References
    ----------
    .. [1] Shivaswamy and Jebara, "Variance Penalizing AdaBoost", NIPS 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from tailboost import VadaBoostClassifier
    >>> from experiments._step_cost import StepCostDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = VadaBoostClassifier(n_estimators=3, random_state=0).fit(X, y)
    >>> display = StepCostDisplay.from_estimator(clf, X, y, boosting_round=2)
    >>> bool((display.cost <= display.bound + 1e-12).all())
    True
    """

    def __init__(self, steps: ArrayLike, cost: ArrayLike, bound: ArrayLike, *, step: float) -> None:
        self.steps, self.cost, self.bound = (np.asarray(x, dtype=np.float64) for x in (steps, cost, bound))
        shapes = {self.steps.shape, self.cost.shape, self.bound.shape}
        if len(shapes) > 1 or self.steps.ndim != 1 or len(self.steps) < 2:
            raise ValueError(f"steps, cost and bound must have one shape (m,), m ≥ 2, got {sorted(shapes)}")
        self.step = step

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        boosting_round: int = 1,
        sample_weight: ArrayLike | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw one round of a fitted `VadaBoostClassifier` or `EBBoostClassifier`.

        Parameters
        ----------
        estimator : fitted classifier
            With ``margins``, ``estimators_``, ``estimator_weights_`` and ``variance_weight``.
        X : array-like of shape (n, d)
            The training rows.
        y : array-like of shape (n,)
            Labels.
        boosting_round : int ≥ 1, default=1
            Number of the kept hypothesis.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        **kwargs : dict
            Passed to matplotlib.

        Returns
        -------
        Display

        Raises
        ------
        ValueError
            If the round does not exist, its hypothesis has no error (the cost then has no minimum), λ > 1
            (U is then no upper bound), or rows, labels and weights do not fit.
        TypeError
            If the estimator is no additive classifier.
        sklearn.exceptions.NotFittedError
            If the estimator is not fitted.
        """
        index, p = _labelled(estimator, X, y, sample_weight)
        a = np.asarray(estimator.estimator_weights_, dtype=np.float64)
        t = int(check_number(boosting_round, "boosting_round", 1, len(a), closed=True)) - 1
        lam = check_number(estimator.variance_weight, "variance_weight", 0, 1, closed=True)
        K = len(estimator.classes_)
        before, after = islice(_staged_margins(estimator, X, index), t, t + 2)
        wrong = after < before
        if not wrong.any():
            raise ValueError(f"the hypothesis of round {t + 1} makes no error, so no step is too long")
        log_w = -before + np.log(np.maximum(p, np.finfo(float).tiny))
        w = np.exp(log_w - log_w.max()) * (p > 0)
        w /= w.sum()
        square = w * np.divide(w, p, out=np.zeros_like(w), where=p > 0)
        u = lam * square + (1 - lam) * w
        steps = np.linspace(0.0, 3 * a[t], _POINTS)
        z = np.exp(np.where(wrong, 1 / (K - 1), -1.0)[:, None] * steps)
        display = cls(steps, (1 - lam) * (w @ z) ** 2 + lam * (square @ z**2), u @ z**2, step=float(a[t]))
        return display.plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, name: str | None, kwargs: dict[str, Any]) -> None:
        style = next_style(ax, "step cost") | {"label": "cost V"}
        (self.cost_line_,) = ax.plot(self.steps, self.cost, **styled(style, kwargs))
        style = next_style(ax, "step cost") | {"label": "bound U"}
        (self.bound_line_,) = ax.plot(self.steps, self.bound, **style)
        (self.step_line_,) = ax.plot(
            [self.step],
            [np.interp(self.step, self.steps, self.cost)],
            marker="o",
            linestyle="",
            color=self.cost_line_.get_color(),
            label="step taken",
        )
        ax.set(xlabel="step a", ylabel="cost, with weights that sum to 1", title=name)
        ax.legend()


def _labelled(estimator: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Ints, Floats]:
    """Return the class numbers of rows, and their weights with sum 1, for a fitted additive classifier."""
    if not hasattr(estimator, "staged_decision_function"):
        raise TypeError(f"{type(estimator).__name__} has no scores by round; an additive classifier has")
    check_is_fitted(estimator)
    labels = column_or_1d(y)
    check_length(labels, "y", n_rows_of(X))
    weight = check_weights(sample_weight, len(labels))
    return positions(labels, estimator.classes_, "y"), weight / weight.sum()


def _staged_margins(estimator: Any, X: Any, index: Ints) -> Iterator[Floats]:
    """Yield the margins of rows of these class numbers: zeros, then after each hypothesis."""
    yield np.zeros(len(index))
    for f in estimator.staged_decision_function(X):
        yield f * (2 * index - 1) if f.ndim == 1 else f[np.arange(len(index)), index]
