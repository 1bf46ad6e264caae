"""CVaR of the expected zero-one loss against α."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import zero_one_loss

from tailboost import metrics
from tailboost.app.plotting.docs import described
from tailboost.app.plotting.style import Display, next_style, reference_line, styled
from tailboost.core.pipelines import final_step, label_shares

_ALPHAS = np.geomspace(0.01, 1.0, 101)
_TICKS = np.array([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0])


@described
class CVaRCurveDisplay(Display):
    """CVaR of the expected zero-one loss against the tail mass α, beside the coin flip.

    Make one with `from_estimator` or `from_predictions`. Several may share the axes: the coin-flip line, at
    1 − 1/K for K classes, is drawn once.

    Parameters
    ----------
    alphas : array-like of shape (m,)
        Tail masses in (0, 1].
    values : array-like of shape (m,)
        CVaR at each α.
    n_classes : int
        K.
    error : float, default=None
        Error rate of a deterministic rule, usually ``predict``: min(1, error/α), its CVaR, is a thin line.
    lower, upper : array-like of shape (m,), default=None
        A band around the curve, for instance a 95 % interval over repeats.
    name : str, default=None
        Label of the curve.

    Attributes
    ----------
    {{ax_}}
    line_, coin_line_ : matplotlib Line2D
        The curve and the coin-flip line.
    predict_line_, band_ : matplotlib artists or None
        The thin line and the band, where there are any.

    Raises
    ------
    ValueError
        Arrays of different lengths, only one of ``lower`` and ``upper``, or fewer than two classes.

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
        error: float | None = None,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        name: str | None = None,
    ) -> None:
        self.alphas = np.asarray(alphas, dtype=np.float64)
        self.values = np.asarray(values, dtype=np.float64)
        if n_classes < 2:
            raise ValueError(f"n_classes must be at least 2, got {n_classes}")
        if (lower is None) != (upper is None):
            raise ValueError("give both lower and upper, or neither")
        self.n_classes = n_classes
        self.error = error
        self.lower = None if lower is None else np.asarray(lower, dtype=np.float64)
        self.upper = None if upper is None else np.asarray(upper, dtype=np.float64)
        self.name = name
        for what, array in [("values", self.values), ("lower", self.lower), ("upper", self.upper)]:
            if array is not None and (array.ndim != 1 or array.shape != self.alphas.shape):
                raise ValueError(f"{what} has shape {array.shape}, alphas {self.alphas.shape}")

    @classmethod
    @described
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        alphas: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        reweight: bool = False,
        show_predict: bool = False,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the curve of a classifier's ``predict_distribution``, or of another's ``predict_proba``.

        With ``reweight=True`` the curve is that of Figure 1 of Zhai et al. 2021: at each α the λ for this α.

        Parameters
        ----------
        estimator : fitted classifier
            With ``predict_distribution`` or ``predict_proba``, and ``classes_``.
        {{X}}
        y : array-like of shape (n,)
            Their labels; a class may be missing.
        alphas : array-like of shape (m,), default=None
            Tail masses in (0, 1]; None: 101 from 0.01 to 1, evenly spaced on the logarithmic axis.
        {{sample_weight}}
        reweight : bool, default=False
            Select the mixture weights λ anew for each α by ``estimator.alpha_path``. Nothing is trained.
            False keeps the λ of the fit at every α.
        show_predict : bool, default=False
            Draw min(1, error/α) of ``predict`` too.
        {{name … drawn}}

        Raises
        ------
        ValueError
            As in `tailboost.metrics.cvar_curve`; or ``reweight=True`` without an ``alpha_path``.
        """
        if reweight:
            return cls._of_path(estimator, X, y, alphas, sample_weight, show_predict, name).plot(ax, **kwargs)
        return cls.from_predictions(
            y,
            label_shares(estimator, X),
            alphas=alphas,
            sample_weight=sample_weight,
            labels=estimator.classes_,
            y_pred=estimator.predict(X) if show_predict else None,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            **kwargs,
        )

    @classmethod
    def _of_path(
        cls, estimator: Any, X: Any, y: Any, alphas: Any, weight: Any, show_predict: bool, name: str | None
    ) -> Self:
        """Return the curve of the mixture that is optimal for each α on the rows λ was selected on."""
        final, rows = final_step(estimator, X)
        if not hasattr(final, "alpha_path"):
            raise ValueError(f"reweight=True needs a classifier with alpha_path, got {type(final).__name__}")
        grid: NDArray[np.float64] = _ALPHAS if alphas is None else np.asarray(alphas, dtype=np.float64)
        y = np.asarray(y)
        path = final.alpha_path(grid)
        losses = np.zeros((path.shape[1], len(y)))
        for member in np.flatnonzero(path.any(axis=0)):
            losses[member] = final.predict_with(rows, np.full(len(y), member)) != y
        values = [metrics.cvar(loss, alpha, weight) for loss, alpha in zip(path @ losses, grid, strict=True)]
        return cls(
            grid,
            values,
            n_classes=len(final.classes_),
            error=zero_one_loss(y, estimator.predict(X), sample_weight=weight) if show_predict else None,
            name=type(estimator).__name__ if name is None else name,
        )

    @classmethod
    @described
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_proba: ArrayLike,
        *,
        alphas: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        y_pred: ArrayLike | None = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the curve of given probabilities.

        Parameters
        ----------
        y_true, y_proba, sample_weight, labels
            As in `tailboost.metrics.cvar_curve`.
        alphas : array-like of shape (m,), default=None
            Tail masses in (0, 1]; None: 101 from 0.01 to 1, evenly spaced on the logarithmic axis.
        y_pred : array-like of shape (n,), default=None
            Predictions of a deterministic rule whose min(1, error/α) is drawn too.
        {{name … drawn}}

        Raises
        ------
        ValueError
            As in `tailboost.metrics.cvar_curve`.
        """
        grid: NDArray[np.float64] = _ALPHAS if alphas is None else np.asarray(alphas, dtype=np.float64)
        curve = metrics.cvar_curve(y_true, y_proba, grid, sample_weight=sample_weight, labels=labels)
        shares = np.asarray(y_proba)
        display = cls(
            grid,
            curve,
            n_classes=shares.shape[1] if shares.ndim == 2 else 2,
            error=None if y_pred is None else zero_one_loss(y_true, y_pred, sample_weight=sample_weight),
            name=name,
        )
        return display.plot(ax=ax, **kwargs)

    @described
    def plot(self, ax: Any = None, *, name: str | None = None, xscale: str = "log", **kwargs: Any) -> Self:
        """Draw the display.

        Parameters
        ----------
        {{ax}}
        name : str, default=None
            Title, or label in the legend; None takes the display's own.
        xscale : {"log", "linear"}, default="log"
            Scale of the α axis.
        {{kwargs}}

        Returns
        -------
        CVaRCurveDisplay
            The display itself.

        Raises
        ------
        ImportError
            matplotlib is missing.
        """
        super().plot(ax, name=name, **kwargs)
        ax = self.ax_
        ax.set_xscale(xscale)
        low, high = ax.get_xlim()
        ticks = _TICKS[(low <= _TICKS) & (high >= _TICKS)]
        if xscale == "log" and low > _TICKS[0] / 3 and len(ticks) > 1:  # else keep matplotlib's ticks
            ax.set_xticks(ticks)
            ax.xaxis.set_major_formatter("{x:g}")
            ax.minorticks_off()
        return self

    def _draw(self, ax: Any, name: str | None, kwargs: dict[str, Any]) -> None:
        style = {**next_style(ax, "CVaR curve"), "linewidth": 2, "label": name}
        (self.line_,) = ax.plot(self.alphas, self.values, **styled(style, kwargs))
        colour = self.line_.get_color()
        self.band_ = None
        if self.lower is not None:
            self.band_ = ax.fill_between(
                self.alphas, self.lower, self.upper, color=colour, alpha=0.25, linewidth=0
            )
        self.predict_line_ = None
        if self.error is not None:
            (self.predict_line_,) = ax.plot(
                self.alphas, np.minimum(1.0, self.error / self.alphas), color=colour, linewidth=1.2,
                linestyle=":", label=f"{name or ''} predict".strip(),
            )  # fmt: skip
        coin = 1 - 1 / self.n_classes
        self.coin_line_ = reference_line(ax, coin, f"coin flip ({coin:.3g})")
        ax.set(xlabel="tail mass α", ylabel="CVaR of 0/1 loss", ylim=(0, 1.02))
        ax.legend()
