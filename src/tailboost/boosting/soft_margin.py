"""Soft margins: new steps of an additive classifier at the end of boosting."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost.boosting.ensemble import voted
from tailboost.boosting.training_set import Rows
from tailboost.core.array_types import Floats
from tailboost.solvers import BitLosses, soft_margin_weights
from tailboost.solvers.soft_margin import SoftMarginSolution

# Gains over the constants' value v below this multiple of 1 + |v| count as rounding errors.
LEAST_GAIN = 1e-7


@dataclass(frozen=True)
class SoftMarginWeights:
    """New weights of the base models, and the facts about their solution."""

    weights: Floats  # shape (T,): all 0 if the best constant is used
    gap: float  # duality gap of the program
    price: float  # C
    value: float | None = None  # optimum of the program; None if the best constant is used
    warning: str = ""


@dataclass(frozen=True)
class SoftMargin:
    """Soft-margin program over the training rows, at the best of several prices C of the slack.

    Weights are rejected in two cases: if they gain nothing over the best mixture of constants in the
    program's objective, or if their vote errs on more of the training rows than the best constant. If the
    base models err on many rows, an optimum may be unrelated to the labels.
    """

    # Values of C, per unit of sample weight, in order of preference.
    slack_prices: tuple[float, ...]
    sample_weight: Floats  # shape (m,): sample weights of the rows
    class_weight: Floats  # shape (K,): the same, summed within each class
    loss: str  # {"linear", "quadratic"}: RLP or RQP
    held_out: bool  # whether no base model was fitted on the selection data

    def choose(
        self, wrong: BitLosses, answers: list[NDArray[Any]], rows: Rows, constant: int
    ) -> SoftMarginWeights:
        """Return the weights with the smallest error of their vote on ``rows``, the selection data.

        ``wrong`` are the losses (T, m) on the training rows, ``answers`` the T class numbers for the
        selection data, and ``constant`` is the class number of the best constant classifier.
        """
        K = len(self.class_weight)
        error_of_constant = float(np.average(rows.wrong(np.array(constant)), weights=rows.weight))
        best, least, refusal = None, np.inf, ""
        for price in self.slack_prices:
            solution = self._solve(wrong, price, self.sample_weight)
            constants = self._solve(1.0 - np.eye(K), price, self.class_weight)
            error = _error(answers, solution.mixture, rows, K)
            if not self._gains(solution.value, constants.value):
                refusal = (
                    f"gains nothing: the program's objective is {solution.value:.4g}, and "
                    f"{constants.value:.4g} for the best mixture of constants"
                )
            elif error > error_of_constant and not self.held_out:
                refusal = (
                    f"errs on {error:.3g} of the training rows, the best constant on {error_of_constant:.3g}"
                )
            elif error < least:
                least, best = error, SoftMarginWeights(solution.mixture, solution.gap, price, solution.value)
        if best is None:
            hint = "; C=None tries several prices" if len(self.slack_prices) == 1 else ""
            price = self.slack_prices[-1]
            warning = (
                f"soft margins: the best constant is used. With C={price:.3g} and loss={self.loss!r} the "
                f"best vote {refusal}{hint}. Noisy labels need a lower C with 'linear', a higher one with "
                "'quadratic'"
            )
            return SoftMarginWeights(np.zeros(len(answers)), 0.0, price, warning=warning)
        if least <= error_of_constant:
            return best
        warning = (
            f"soft margins: the vote errs on {least:.3g} of the held-out rows, the best constant on "
            f"{error_of_constant:.3g}"
        )
        return replace(best, warning=warning)

    def _solve(self, wrong: Any, price: float, weight: Floats) -> SoftMarginSolution:
        return soft_margin_weights(wrong, price, weight, loss=self.loss, n_classes=len(self.class_weight))

    def _gains(self, value: float, over: float) -> bool:
        """Return whether ``value`` is better than ``over`` by more than a rounding error."""
        gain = value - over if self.loss == "linear" else over - value
        return gain > LEAST_GAIN * (1 + abs(over))


def _error(answers: list[NDArray[Any]], weights: Floats, rows: Rows, n_classes: int) -> float:
    """Return the error of a weighted vote on the selection data."""
    wrong = rows.wrong(voted(answers, weights, len(rows.y), n_classes))
    return float(np.average(wrong, weights=rows.weight))
