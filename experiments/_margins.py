"""The distribution of margins: how sure an ensemble is, and on which side."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from tailboost.app.plotting.style import Display, next_style, styled, text_colour
from tailboost.core.checks import check_length, check_weights, n_rows_of


class MarginDisplay(Display):
    """Display of the distribution function of margins; several estimators in one picture.

    The margin of a row is ``f_y(x)/Σ_t a_t``, the true class's score with the steps summing to 1: 1 if all
    hypotheses are correct, negative for errors with two classes, and at least −1/(K−1).
    Classifiers of low variance have a steep curve [1]_. Use `from_estimator`.

    Parameters
    ----------
    margins : array-like of shape (n,)
        Margins of the rows.
    sample_weight : array-like of shape (n,), default=None
        Their weights.
    name : str, default=None
        Name of the estimator, for the legend.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Axes and figure of the plot.
    line_ : matplotlib Line2D
        The curve.
    margins, shares : ndarray of shape (m,)
        Distinct margins in order, and the fraction of the weight at or below each.

    Raises
    ------
    ValueError
        If there are no margins, a margin is not finite, or weights do not fit.

    References
    ----------
    .. [1] Shivaswamy and Jebara, "Variance Penalizing AdaBoost", NIPS 2011.

    Examples
    --------
    >>> from experiments._margins import MarginDisplay
    >>> display = MarginDisplay([0.5, -0.2, 0.5, 1.0])
    >>> display.margins.tolist(), display.shares.tolist()
    ([-0.2, 0.5, 1.0], [0.25, 0.75, 1.0])
    """

    def __init__(
        self, margins: ArrayLike, *, sample_weight: ArrayLike | None = None, name: str | None = None
    ) -> None:
        values = np.asarray(margins, dtype=np.float64)
        if values.ndim != 1 or not values.size or not np.isfinite(values).all():
            raise ValueError(f"margins must be finite numbers of shape (n,), got shape {values.shape}")
        weight = check_weights(sample_weight, len(values))
        self.margins, index = np.unique(values, return_inverse=True)
        mass = np.bincount(index, weights=weight)
        self.shares = mass.cumsum() / mass.sum()
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the margins of a fitted additive classifier on some rows.

        Parameters
        ----------
        estimator : fitted classifier
            With ``margins`` and ``estimator_weights_``.
        X, y : array-like of shape (n, d), (n,)
            Rows and labels.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.
        name : str, default=None
            Title, or label in the legend.
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        **kwargs : dict
            Passed to matplotlib.

        Returns
        -------
        Display

        Raises
        ------
        TypeError
            If the estimator has no margins: mixtures draw one of their members.
        ValueError
            A label the estimator does not know, or weights that do not fit.
        """
        if not hasattr(estimator, "margins"):
            raise TypeError(f"{type(estimator).__name__} has no margins; an additive classifier has")
        check_is_fitted(estimator)
        labels = column_or_1d(y)
        check_length(labels, "y", n_rows_of(X))
        display = cls(
            estimator.margins(X, labels) / np.sum(estimator.estimator_weights_),
            sample_weight=sample_weight,
            name=type(estimator).__name__ if name is None else name,
        )
        return display.plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, name: str | None, kwargs: dict[str, Any]) -> None:
        style = next_style(ax, "margins") | {"label": name}
        (self.line_,) = ax.step(
            np.append(self.margins[0], self.margins),
            np.append(0.0, self.shares),
            where="post",
            **styled(style, kwargs),
        )
        if not any(line.get_gid() == "margin 0" for line in ax.lines):
            ax.axvline(
                0.0, color=text_colour(), alpha=0.7, linestyle=(0, (4, 3)), linewidth=1, gid="margin 0"
            )
        ax.set(xlabel="margin", ylabel="share of rows with at most this margin", ylim=(0, 1.02))
        if self.line_.get_label() and not self.line_.get_label().startswith("_"):
            ax.legend()
