"""The majority vote of the hypotheses, or of the first of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost._typing import Floats, Ints, Mask
from tailboost.combiners.ensemble import MixtureEnsemble, settle_ties, wrong_answers
from tailboost.combiners.limit import Wrong
from tailboost.combiners.mixture import Mixture
from tailboost.combiners.objective import Objective
from tailboost.combiners.pool import Pool
from tailboost.data import Rows
from tailboost.game import Game, Response
from tailboost.targets import DECIMALS, TargetUnits


class Tally:
    """The votes of the rounds so far on the judged rows, and what their majority decides."""

    def __init__(self, n_rows: int, n_classes: int) -> None:
        self.counts: Floats = np.zeros((n_rows, n_classes))
        self.counted = 0

    def snapshot(self) -> Tally:
        """Return a copy that further rounds leave as it is."""
        new = Tally(0, 0)
        new.counts, new.counted = self.counts.copy(), self.counted
        return new

    def decide(self, said: list[NDArray[Any]], order: Ints) -> Ints:
        """Count all answers and return the majority's; ties go to the first voter in the order."""
        rows = np.arange(len(self.counts))
        if self.counted >= len(said):  # an interrupt removed rounds: count anew
            self.counts[:], self.counted = 0.0, 0
        for k in said[self.counted :]:
            self.counts[rows, k] += 1.0
        self.counted = len(said)
        P = settle_ties(self.counts / len(said), order, lambda m, some: said[m][some])
        return P.argmax(axis=1)


@dataclass
class Vote:
    """Combine by majority.

    Parameters
    ----------
    objective : Objective
        What the randomised classifier with the votes' shares is judged by.
    n_classes : int
        K.
    units : TargetUnits, optional
        Units with targets: the vote is that of the first rounds, as many as have the least excess of the
        majority's errors over the targets, then the least mean error, then the fewest. Without units all
        rounds vote.
    limit : float, optional
        What the excess may be where that is stated: of the votes that keep it the least mean error counts.
    outlier_fraction : float
        Mass of the rows with the highest cumulative loss that the objective leaves out.
    """

    objective: Objective
    n_classes: int
    units: TargetUnits | None = None
    outlier_fraction: float = 0.0
    limit: float | None = None
    pool: Pool = field(init=False)
    tally: Tally = field(init=False)
    # After each round: excess over the targets, mean error.
    results: list[tuple[float, float]] = field(init=False, default_factory=list)

    with_erm = even = chooses_shares = False
    mean_budget = price = None
    chosen_by = ""
    excess = 0.0

    def open(self, rows: Rows, extras: Callable[[], Iterable[Response]]) -> None:
        """Begin a new game that is judged on ``rows``; neither ERM nor constants have a vote."""
        self.pool = Pool.open(
            rows,
            self.n_classes,
            outlier_fraction=self.outlier_fraction,
            keep_answers=self.units is not None,
        )
        # Without units nothing is decided round by round.
        self.tally = Tally(0 if self.units is None else len(rows.y), self.n_classes)

    def take(self, response: Response, state: Any, watched: bool) -> tuple[float, float]:
        """Add the newest voter; return the least excess of any prefix so far."""
        self.pool.take(response)
        if self.units is None:
            return np.nan, 0.0
        self._count(self.pool.n_rounds, self.pool.ledger.by_mean_loss())
        return min(self.results)[0], 0.0

    def _count(self, n_rounds: int, order: Ints) -> None:
        """Note the errors of the majority after so many rounds; ties go to the first voter in the order."""
        assert self.units is not None
        assert self.pool.said is not None
        rows = self.pool.ledger.rows
        wrong = rows.wrong(self.tally.decide(self.pool.said[:n_rounds], order[order < n_rounds]))
        mean = float(np.average(wrong, weights=rows.weight))
        self.results.append(
            (round(self.units.excess(self.units.errors(wrong)), DECIMALS), round(mean, DECIMALS))
        )

    def first(self, n_rounds: int) -> None:
        """Drop all but the first rounds."""
        self.pool.first(n_rounds)
        del self.results[n_rounds:]

    def settle(self, game: Game[Any]) -> MixtureEnsemble:
        """Return the vote of the rounds so far."""
        return self.stage(self.pool.n_rounds)

    def stage(self, n_rounds: int) -> MixtureEnsemble:
        """Return the vote after the first ``n_rounds`` rounds."""
        voters = n_rounds
        if self.units is not None:
            results = self.results[:n_rounds]
            enough = -np.inf if self.limit is None else self.limit
            kept = [(max(excess, enough), mean) for excess, mean in results]
            voters = kept.index(min(kept)) + 1
        mixture = np.zeros(len(self.pool.members))
        mixture[:voters] = 1.0 / voters
        order = self.pool.ledger.by_mean_loss()
        return MixtureEnsemble(
            self.pool.members, mixture, self.n_classes, order[np.isin(order, np.arange(voters))]
        )

    def value(self, mixture: Floats) -> float:
        """Return the objective of any mixture of the voters."""
        return self.objective.evaluate(self.pool.ledger, mixture)

    @property
    def wrong(self) -> Wrong | None:
        """In which of the judged rows `predict` of an ensemble errs; None where answers are not kept."""
        kept = self.pool.answers
        return None if kept is None else partial(wrong_answers, kept.__getitem__, self.pool.ledger.rows.y)

    def part(self, chosen: Mask) -> Vote | None:
        """Return the vote with the same voters, judged on some of the rows; None where all rounds vote."""
        if self.units is None or not (units := self.units.part(chosen)).measured.any():
            return None
        new = replace(self, units=units)
        new.pool, new.tally, new.results = (
            self.pool.part(chosen),
            Tally(int(chosen.sum()), self.n_classes),
            [],
        )
        order = new.pool.ledger.by_mean_loss()
        for n_rounds in range(1, self.pool.n_rounds + 1):
            new._count(n_rounds, order)
        return new

    def aiming_at(
        self,
        objective: Objective,
        groups: Ints | None = None,
        mean_budget: float | None = None,
        limit: float | None = None,
    ) -> Mixture:
        """Return a mixture of the same members for an objective, over other groups if they are given."""
        mixture = Mixture(objective, self.n_classes, outlier_fraction=self.outlier_fraction)
        mixture.pool = self.pool
        return mixture.aiming_at(objective, groups, mean_budget, limit)

    def judged_on(self, X: Any, rows: Rows, keep_answers: bool = False) -> Mixture:
        """Return an even mixture of the same members, judged on other rows."""
        mixture = Mixture(self.objective, self.n_classes, even=True, outlier_fraction=self.outlier_fraction)
        mixture.pool = self.pool.judged_on(X, rows, keep_answers)
        return mixture

    def snapshot(self) -> Vote:
        """Return a copy that further rounds leave as it is."""
        new = replace(self)
        new.pool, new.tally, new.results = self.pool.snapshot(), self.tally.snapshot(), list(self.results)
        return new
