"""Error per class or per group against the rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from tailboost.plotting._docs import described
from tailboost.plotting._judged import Response, response_of, unit_errors
from tailboost.plotting._style import Display, reference_line, styled, unit_styles

_MAX_MARKED = 30


@described
class StagedClassErrorDisplay(Display):
    """Lines of the error in each class, or in each group, after every round, with the allowed error.

    Make one with `from_estimator`.

    Parameters
    ----------
    errors : array-like of shape (T, m)
        Error rates in [0, 1] after each of T rounds; NaN where there are no rows.
    units : sequence of m names
        The classes or groups; a cell is a pair of them.
    allowed : float, default=None
        The error allowed, drawn as a dashed line.
    kind : {"class", "group"}, default="class"
        What the names are.
    name : str, default=None
        Title.

    Attributes
    ----------
    {{ax_}}
    lines_ : list of matplotlib Line2D
        One line per class or group.
    allowed_line_ : matplotlib Line2D or None
        The error allowed.

    Raises
    ------
    ValueError
        No rounds, or shapes that do not fit.
    """

    def __init__(
        self,
        errors: ArrayLike,
        units: Sequence[Any],
        *,
        allowed: float | None = None,
        kind: Literal["class", "group"] = "class",
        name: str | None = None,
    ) -> None:
        self.errors = np.asarray(errors, dtype=np.float64)
        if self.errors.ndim != 2 or 0 in self.errors.shape:
            raise ValueError(f"errors must have shape (T, m), T ≥ 1 and m ≥ 1, got {self.errors.shape}")
        if len(units) != self.errors.shape[1]:
            raise ValueError(f"units has {len(units)} names for {self.errors.shape[1]} columns of errors")
        self.units = units
        self.allowed = allowed
        self.kind = kind
        self.name = name

    @classmethod
    @described
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        response_method: Response = "predict",
        allowed: float | None = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the errors of a fitted boosting classifier, prefix by prefix.

        Parameters
        ----------
        estimator : fitted classifier
            With ``staged_predict`` and ``staged_predict_proba``.
        {{X … response_method}}
        allowed : float, default=None
            The error allowed; None takes that of a classifier whose ``max_error_`` is the same for all.
        {{name … drawn}}

        Raises
        ------
        ValueError
            Another ``response_method``; else as in `tailboost.metrics.class_errors` and ``group_errors``.
        """
        staged = response_of(estimator, response_method, "staged_")
        stages = [unit_errors(y, answers, groups, estimator.classes_, sample_weight) for answers in staged(X)]
        targets = np.unique(getattr(estimator, "max_error_", []))
        if allowed is None and len(targets) == 1:
            allowed = float(targets[0])
        display = cls(
            [list(errors.values()) for errors in stages],
            list(stages[0]),
            allowed=allowed,
            kind="class" if groups is None else "group",
            name=type(estimator).__name__ if name is None else name,
        )
        return display.plot(ax=ax, **kwargs)

    def _draw(self, ax: Any, name: str | None, kwargs: dict[str, Any]) -> None:
        T = len(self.errors)
        common = {"marker": "o" if T <= _MAX_MARKED else "", "markersize": 4, "linewidth": 2}
        worst = np.argsort(-np.nan_to_num(self.errors[-1]), kind="stable")
        self.lines_ = [
            ax.plot(np.arange(1, T + 1), line, **styled(common | style, kwargs))[0]
            for line, style in zip(self.errors.T, unit_styles(self.units, worst), strict=True)
        ]
        self.allowed_line_ = None
        if self.allowed is not None:
            self.allowed_line_ = reference_line(ax, self.allowed, f"allowed: {self.allowed:.3g}")
        ax.xaxis.get_major_locator().set_params(integer=True)
        top = float(np.nanmax(np.append(self.errors, self.allowed or 0.0)))
        ax.set(
            xlabel="round",
            ylabel=f"error rate per {self.kind}",
            xlim=(0.5, T + 0.5),
            ylim=(0, max(1.1 * top, 0.01)),
            title=name,
        )
        ax.legend()
