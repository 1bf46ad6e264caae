"""What a game over candidates watches: the objective of the best rule after each round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost.boosting.game import Candidate, Stop, StopKind, Watched
from tailboost.boosting.pool import ERROR_DECIMALS, Pool
from tailboost.core.array_types import Floats, Mask
from tailboost.selection.mixture import Majority, Steering, least_largest, least_tail
from tailboost.selection.problem import Problem

# A difference of more standard errors is taken for significant.
CLEARLY = 2.0


@dataclass(frozen=True, eq=False)
class LeastTail:
    """The least objective over rows of a mixture of the rounds so far."""

    problem: Problem

    def start(self, pool: Pool) -> None:
        """Return None: each round is solved anew."""

    def after(self, memory: None, pool: Pool, state: Any) -> Watched:
        """Return the objective and the gap of its solution."""
        solution = least_tail(self.problem, pool)
        return Watched(solution.value, solution.gap)


@dataclass(frozen=True, eq=False)
class HelpsTail:
    """Refuses a round that clearly errs more than the best candidate, and brings nothing.

    On the given rows it lowers the objective by no more than ``tol``, and its mean loss exceeds the least one
    by `CLEARLY` standard errors of the difference.
    """

    problem: Problem
    tol: float

    def __call__(self, pool: Pool, rows: Mask, outputs: NDArray[Any]) -> Stop | None:
        """Return why a new round does not help; None if it may.

        ``outputs`` are those of the round on some ``rows``. It may help if it does not clearly err more
        than the best member, or if it lowers the objective by more than ``tol``.
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
        with_round = tested.adding(Candidate(model=None, losses=losses, answers=answers))
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
    """The least largest error, or excess, of a subgroup by a rule of the rounds so far.

    Attributes
    ----------
    steering : Steering
        The errors.
    randomized : bool
        Whether the rule may be a mixture.
    """

    steering: Steering
    randomized: bool

    def start(self, pool: Pool) -> Floats:
        """Return the errors of the models without boosting, shape (E, m)."""
        errors = [self._errors(pool, m) for m in range(len(pool.judged))]
        return np.array(errors).reshape(len(errors), len(self.steering.allowed))

    def after(self, memory: Floats, pool: Pool, state: Any) -> Watched:
        """Return the least largest error; the memory has the errors of all candidates, in their order."""
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

    def _errors(self, pool: Pool, number: int) -> Floats:
        counted = self.steering.counts.confusion_counts(pool.answer(number))
        return self.steering.excesses(counted).round(ERROR_DECIMALS)


@dataclass(frozen=True, eq=False)
class LargestErrorOfVote:
    """The largest error, or excess, of a subgroup by the majority of the rounds so far.

    If the selection data are out of fold, the number of voters is selected: the least one so far counts.
    """

    steering: Steering

    def start(self, pool: Pool) -> Majority:
        """Return a majority without voters."""
        return Majority(np.zeros((len(pool.rows.y), pool.n_classes)))

    def after(self, memory: Majority, pool: Pool, state: Any) -> Watched:
        """Return the largest error: of all voters on rows of the fit, otherwise the least one so far."""
        majority = memory.voting(pool, self.steering)
        result = majority.results[-1]
        if not pool.rows.fitted:
            result = min(majority.results)
        return Watched(result[0], gap=0.0, memory=majority)
