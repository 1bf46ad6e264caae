"""Steps of an additive classifier chosen anew when boosting is over: soft margins."""

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

# Least gain over the constants' value, relative to 1 + that value, that is more than rounding.
LEAST_GAIN = 1e-7


@dataclass(frozen=True)
class SoftMarginStage:
    """Weights for the hypotheses and how they came about."""

    weights: Floats  # shape (T,): zeros where no price gives weights better than the constants
    gap: float  # duality gap of the program
    price: float  # C, the price that was paid
    value: float | None = None  # what the program came to; None where the constants are kept
    warning: str = ""  # what the user should know; empty where all is well


@dataclass(frozen=True)
class SoftMargin:
    """The soft-margin program over the rows the hypotheses were fitted on, at the best of some prices.

    Weights worth no more than the best mixture of constants in the program's own terms, or whose vote errs on
    more of the training rows than the best constant does, are never taken: where the hypotheses together err
    on many rows, an optimum may say nothing about the labels.
    """

    # Values of C, per unit of sample weight, in the order in which they are preferred.
    prices: tuple[float, ...]
    sample_weight: Floats  # shape (m,): sample weights of the rows
    class_weight: Floats  # shape (K,): the same, summed within each class
    loss: str  # {"linear", "quadratic"}: RLP or RQP
    held_out: bool  # whether the judged rows are rows that no hypothesis was fitted on

    def choose(
        self, wrong: BitLosses, answers: list[NDArray[Any]], rows: Rows, constant: int
    ) -> SoftMarginStage:
        """Return the weights of the price whose vote errs least on the judged rows.

        Parameters
        ----------
        wrong : BitLosses of shape (T, m)
            Losses on the rows fitted on.
        answers : list of T arrays of shape (n_judged,)
            Class numbers answered on the judged rows.
        rows : Rows
            The judged rows.
        constant : int
            Class number of the best constant classifier.
        """
        K = len(self.class_weight)
        error_of_constant = float(np.average(rows.wrong(np.array(constant)), weights=rows.weight))
        best, least, refusal = None, np.inf, ""
        for price in self.prices:
            found = self._solve(wrong, price, self.sample_weight)
            constants = self._solve(1.0 - np.eye(K), price, self.class_weight)
            error = _error(answers, found.mixture, rows, K)
            if not self._gains(found.value, constants.value):
                refusal = f"is worth {found.value:.4g}, a mixture of constants {constants.value:.4g}"
            elif error > error_of_constant and not self.held_out:
                refusal = (
                    f"errs on {error:.3g} of the training rows, the best constant on {error_of_constant:.3g}"
                )
            elif error < least:
                least, best = error, SoftMarginStage(found.mixture, found.gap, price, found.value)
        if best is None:
            hint = "; C=None tries several prices" if len(self.prices) == 1 else ""
            price = self.prices[-1]
            warning = (
                f"soft margins: the best constant is used. With C={price:.3g} and loss={self.loss!r} the "
                f"best vote {refusal}{hint}. Noisy labels need a lower C with 'linear', a higher one with "
                "'quadratic'"
            )
            return SoftMarginStage(np.zeros(len(answers)), 0.0, price, warning=warning)
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
        """Whether a value of the program is better than another by more than rounding."""
        gain = value - over if self.loss == "linear" else over - value
        return gain > LEAST_GAIN * (1 + abs(over))


def _error(answers: list[NDArray[Any]], weights: Floats, rows: Rows, n_classes: int) -> float:
    """Return the error of a weighted vote on the judged rows."""
    wrong = rows.wrong(voted(answers, weights, len(rows.y), n_classes))
    return float(np.average(wrong, weights=rows.weight))
