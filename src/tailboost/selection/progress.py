"""The progress of a game over candidates: the objective of the best rule after each round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailboost.boosting.game import RoundCandidate, Stop, StopKind, Watched
from tailboost.boosting.pool import ERROR_DECIMALS, JudgedPool
from tailboost.core.array_types import Array, Floats, Mask
from tailboost.selection.mixture import Majority, Steering, least_largest, least_tail
from tailboost.selection.problem import Problem

# Standard errors of a difference, above which a round clearly errs more than the best candidate.
CLEARLY = 2.0


@dataclass(frozen=True, eq=False)
class LeastTail:
    """The least objective over rows (a CVaR) of all mixtures of the rounds so far."""

    problem: Problem

    def start(self, pool: JudgedPool) -> None:
        """Return None: `after` solves each round anew and needs no memory."""

    def after(self, memory: None, pool: JudgedPool, state: Any) -> Watched:
        """Return the objective of the best mixture, and the gap of the solution."""
        solution = least_tail(self.problem, pool)
        return Watched(solution.value, solution.gap)


@dataclass(frozen=True, eq=False)
class HelpsTail:
    """Refuses rounds with clearly more error than the best candidate and no gain for the objective.

    On the given rows, the mean loss of such a round exceeds the least one by more than `CLEARLY` standard
    errors of the difference. The round lowers the objective there by at most ``tol``.
    """

    problem: Problem
    tol: float

    def __call__(self, pool: JudgedPool, rows: Mask, outputs: Array) -> Stop | None:
        """Return why a new round does not help; None if it may help.

        ``outputs`` are the outputs of the round on the m rows of the mask ``rows``. They are class numbers,
        shape (m,), or probabilities, shape (m, K), if rounds answer together (`JudgedPool.together`).
        """
        answers = outputs
        if pool.together is not None:
            answers = (pool.together[rows] + outputs).argmax(axis=1)
        tested = pool.part(rows)
        losses = tested.rows.wrong(answers)
        best_losses = tested.loss(int(tested.mean_losses.argmin()))

        weight = tested.rows.base
        excess = float(weight @ losses - tested.mean_losses.min())
        differing = float(weight @ (losses != best_losses))
        (n_rows,) = tested.rows.sizes(np.zeros(len(losses), dtype=np.intp), 1)
        standard_error = np.sqrt(max(differing - excess**2, 0.0) / n_rows)
        if excess <= CLEARLY * standard_error:
            return None

        before = least_tail(self.problem, tested).value
        with_round = tested.adding(RoundCandidate(model=None, losses=losses, answers=answers))
        after = least_tail(self.problem, with_round).value
        if before - after > self.tol:
            return None
        words = (
            f"round {pool.n_rounds + 1} clearly errs more than the best member, and lowers the "
            f"objective by no more than {self.tol:g}"
        )
        return Stop(StopKind.PLATEAU, words)


@dataclass(frozen=True, eq=False)
class LargestError:
    """The largest error (or excess over the target) of a subgroup, least among rules of the rounds so far.

    Attributes
    ----------
    steering : Steering
        The errors.
    randomized : bool
        Whether the rule may be a mixture.
    """

    steering: Steering
    randomized: bool

    def start(self, pool: JudgedPool) -> Floats:
        """Return the errors (or excesses) of the E candidates without boosting, shape (E, m)."""
        errors = [self._errors(pool, m) for m in range(len(pool.judged))]
        return np.array(errors).reshape(len(errors), len(self.steering.allowed))

    def after(self, memory: Floats, pool: JudgedPool, state: Any) -> Watched:
        """Return the least largest error, of mixtures if randomised, otherwise of single candidates.

        ``memory`` has the errors of all earlier candidates in the order of the pool, shape (T, m): the
        rounds, then the others.
        """
        t = pool.n_rounds - 1
        errors = np.insert(memory, t, self._errors(pool, t), axis=0)
        if self.randomized:
            solution = least_largest(errors)
            value = solution.value
            gap = solution.gap
        else:
            value = float(errors.max(axis=1).min())
            gap = 0.0
        return Watched(value, gap=gap, memory=errors)

    def _errors(self, pool: JudgedPool, number: int) -> Floats:
        """Return the error (or excess) of each subgroup by one candidate, shape (m,)."""
        counted = self.steering.counts.confusion_counts(pool.answer(number))
        return self.steering.excesses(counted).round(ERROR_DECIMALS)


@dataclass(frozen=True, eq=False)
class LargestErrorOfVote:
    """The largest error (or excess) of a subgroup by the majority vote of the rounds so far.

    On selection data out of fold, the number of voters is selected: the best vote so far counts.
    """

    steering: Steering

    def start(self, pool: JudgedPool) -> Majority:
        """Return a majority without voters."""
        return Majority(np.zeros((len(pool.rows.y), pool.n_classes)))

    def after(self, memory: Majority, pool: JudgedPool, state: Any) -> Watched:
        """Return the largest error: of all voters on rows of the fit, otherwise of the best vote so far."""
        majority = memory.voting(pool, self.steering)
        result = majority.results[-1]
        if not pool.rows.fitted:
            result = min(majority.results)
        return Watched(result[0], gap=0.0, memory=majority)
