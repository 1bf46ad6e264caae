"""CVaR of the zero-one loss of answers against the tail mass α."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tailboost import metrics
from tailboost.app.plotting.style import (
    Display,
    keyed,
    next_style,
    reference_line,
    shaped,
    styled,
)
from tailboost.core.array_types import Axes, Floats, Model, Table
from tailboost.rows.judged import answer_shares, final_step

ALPHAS = np.geomspace(0.01, 1.0, 101)
TICKS = np.array([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0])


class CVaRCurveDisplay(Display):
    """CVaR of the zero-one loss of answers against the tail mass α, with the CVaR of a random guess.

    The answers of a classifier are those of ``predict``. If a randomised rule draws them, the loss of a row
    is expected by its label distribution. ``predict_proba`` of a classifier is no distribution of answers.
    Several displays can share axes; the line of the random guess, 1 − 1/K for K classes, is drawn once.

    Parameters
    ----------
    alphas : array-like of shape (m,)
        Tail masses in (0, 1].
    values : array-like of shape (m,)
        CVaR at each α.
    n_classes : int ≥ 2
        Number of classes K.
    lower, upper : array-like of shape (m,), default=None
        Band around the curve, for instance a 95 % interval over splits.
    name : str, default=None
        Label of the curve.

    Attributes
    ----------
    ax_, figure_, line_, guess_line_, band_ : matplotlib artists
        Axes, figure, the curve, the line of the random guess, and the band (None without one).

    Raises
    ------
    ValueError
        If arrays have different lengths, only one of ``lower`` and ``upper`` is given, or n_classes < 2.

    Examples
    --------
    >>> from tailboost.plotting import CVaRCurveDisplay
    >>> display = CVaRCurveDisplay.from_predictions([0, 1, 1], [0.2, 0.9, 0.4], alphas=[0.1, 0.5, 1.0])
    >>> [round(float(v), 3) for v in display.values]
    [0.6, 0.467, 0.3]
    """

    def __init__(
        self,
        alphas: ArrayLike,
        values: ArrayLike,
        *,
        n_classes: int,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        name: str | None = None,
    ) -> None:
        if n_classes < 2:
            raise ValueError(f"n_classes must be at least 2, got {n_classes}")
        if (lower is None) != (upper is None):
            raise ValueError("give both lower and upper, or neither")
        self.n_classes = n_classes
        self.name = name
        shape = (np.size(alphas),)
        self.alphas = shaped("alphas", alphas, shape)
        self.values = shaped("values", values, shape)
        self.lower = None if lower is None else shaped("lower", lower, shape)
        self.upper = None if upper is None else shaped("upper", upper, shape)

    @classmethod
    def from_estimator(
        cls,
        estimator: Model,
        X: Table,
        y: ArrayLike,
        *,
        alphas: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        reweight: bool = False,
        name: str | None = None,
        ax: Axes = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the curve of a classifier's answers.

        These are the answers of ``predict``, with the CVaR min(1, error/α). The answers of a randomised rule
        of tailboost are drawn by its ``predict_distribution``. The legend says which of both is drawn.

        Parameters
        ----------
        estimator : fitted classifier
            Has ``predict`` and ``classes_``.
        X, y : array-like of shape (n, d), (n,)
            Rows and labels; a class may be missing.
        alphas : array-like of shape (m,), default=None
            Tail masses in (0, 1]; None takes 101 from 0.01 to 1, evenly spaced on the logarithmic axis.
        sample_weight
            As in `tailboost.metrics.cvar_curve`.
        reweight : bool, default=False
            Whether to select the mixture weights λ for each α by ``estimator.alpha_path``, as in Figure 1 of
            Zhai et al. 2021. Nothing is trained. False keeps the λ of the fit.
        name, ax, **kwargs
            As in `plot`; the default name is that of the class. "predict" or "randomised rule" is appended.

        Raises
        ------
        ValueError
            As in `tailboost.metrics.cvar_curve`; or if ``reweight=True`` and there is no ``alpha_path``.
        """
        if name is None:
            name = type(estimator).__name__
        if not reweight:
            kwargs |= {
                "alphas": alphas,
                "sample_weight": sample_weight,
                "labels": estimator.classes_,
            }
            shares = answer_shares(estimator, X)
            name = _name_with_rule(name, shares)
            return cls.from_predictions(y, shares, name=name, ax=ax, **kwargs)
        final, features = final_step(estimator, X)
        if not hasattr(final, "alpha_path"):
            raise ValueError(
                f"reweight=True needs a classifier with alpha_path, got {type(final).__name__}"
            )
        grid = np.asarray(ALPHAS if alphas is None else alphas, dtype=np.float64)
        mixture_weights = final.alpha_path(grid)  # shape (m, candidates)
        values = _reweighted_cvar(
            final, features, np.asarray(y), grid, mixture_weights, sample_weight
        )
        name = _name_with_rule(name, mixture_weights)
        return cls(grid, values, n_classes=len(final.classes_), name=name).plot(ax, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        alphas: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the curve of given label distributions.

        Parameters
        ----------
        y_true, sample_weight, labels
            As in `tailboost.metrics.cvar_curve`.
        y_proba : array-like of shape (n, K), or (n,) for two classes
            Probability of each answer, as in `tailboost.metrics.cvar_curve`. ``predict_proba`` of a
            classifier estimates the probability of each label: its curve is not that of ``predict``.
        alphas, name, ax, **kwargs
            As in `from_estimator`.

        Raises
        ------
        ValueError
            As in `tailboost.metrics.cvar_curve`.
        """
        grid = np.asarray(ALPHAS if alphas is None else alphas, dtype=np.float64)
        curve = metrics.cvar_curve(
            y_true, y_proba, grid, sample_weight=sample_weight, labels=labels
        )
        n_classes = 2
        if np.ndim(y_proba) == 2:
            n_classes = np.shape(y_proba)[1]
        return cls(grid, curve, n_classes=n_classes, name=name).plot(ax=ax, **kwargs)

    def _draw(self, ax: Axes, name: str | None, kwargs: dict[str, Any]) -> None:
        """Draw the curve with its band, the line of the random guess, and the logarithmic axis of α."""
        style = {**next_style(ax, "CVaR curve"), "linewidth": 2, "label": name}
        (self.line_,) = ax.plot(self.alphas, self.values, **styled(style, kwargs))
        self.band_ = None
        if self.lower is not None:
            colour = self.line_.get_color()
            self.band_ = ax.fill_between(
                self.alphas, self.lower, self.upper, color=colour, alpha=0.25, linewidth=0
            )
        guess = 1 - 1 / self.n_classes
        self.guess_line_ = reference_line(ax, guess, f"random guess ({guess:.3g})")
        ax.set(
            xlabel="tail mass α",
            ylabel="CVaR of the 0/1 loss of answers",
            ylim=(0, 1.02),
            xscale="log",
        )
        low, high = ax.get_xlim()
        ticks = TICKS[(low <= TICKS) & (high >= TICKS)]
        # Matplotlib's ticks are better for an axis far below TICKS, or with only one of them.
        if low > TICKS[0] / 3 and len(ticks) > 1:
            ax.set_xticks(ticks)
            ax.xaxis.set_major_formatter("{x:g}")
            ax.minorticks_off()
        keyed(ax)


def _reweighted_cvar(
    classifier: Model,
    X: Table,
    y: Any,
    alphas: Floats,
    mixture_weights: Floats,
    sample_weight: ArrayLike | None,
) -> list[float]:
    """Return the CVaR of the errors at each of m tail masses α, each with mixture weights of its own.

    ``mixture_weights`` has the shape (m, candidates).
    """
    # Losses of a candidate without weight stay 0.
    losses = np.zeros((mixture_weights.shape[1], len(y)))
    has_weight = mixture_weights.any(axis=0)  # at some α
    for j in np.flatnonzero(has_weight):
        losses[j] = classifier.predict_with(X, np.full(len(y), j)) != y
    expected_losses = mixture_weights @ losses  # shape (m, n)
    return [
        metrics.cvar(losses_at_alpha, alpha, sample_weight)
        for losses_at_alpha, alpha in zip(expected_losses, alphas, strict=True)
    ]


def _name_with_rule(name: str, probabilities: Floats) -> str:
    """Return the name of a curve with "randomised rule" or "predict".

    A rule is randomised if an answer or a candidate has a probability between 0 and 1.
    """
    if ((probabilities > 0) & (probabilities < 1)).any():
        return f"{name}, randomised rule"
    return f"{name}, predict"
