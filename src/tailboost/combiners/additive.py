"""The additive classifier: hypotheses weighted by their steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost._typing import Floats
from tailboost.combiners.ensemble import AdditiveEnsemble, add_vote
from tailboost.combiners.soft_margin import Choice, SoftMargin
from tailboost.data import Rows
from tailboost.game import Game, Response
from tailboost.learners.session import constant
from tailboost.rules.additive import Additive as AdditiveRule
from tailboost.solvers import BitLosses


@dataclass
class Additive:
    """Combine by the steps that the weight player took.

    Parameters
    ----------
    n_classes : int
        K.
    rule : rule of an additive classifier
        The weight player, which knows the cost its steps lower.
    heaviest : int
        Class number of the best constant classifier.
    best_prefix : bool
        Whether only the rounds up to the one with the least error on the judged rows are kept.
    refit : SoftMargin, optional
        Chooses the weights of the kept hypotheses anew; ``choice`` holds the result.
    """

    n_classes: int
    rule: AdditiveRule
    heaviest: int
    best_prefix: bool = False
    refit: SoftMargin | None = None
    rows: Rows = field(init=False)
    boosted: list[Any] = field(init=False, default_factory=list)
    log_costs: list[float] = field(init=False, default_factory=list)
    _votes: Floats = field(init=False)
    _before: Floats | None = field(init=False, default=None)  # the votes without the newest hypothesis
    _counted: int = field(init=False, default=0)
    # Kept for `refit`: losses on the rows fitted on, answers on the judged rows.
    _wrong: BitLosses | None = field(init=False, default=None)
    _said: list[NDArray[Any]] = field(init=False, default_factory=list)
    choice: Choice | None = field(init=False, default=None)

    def open(self, rows: Rows, extras: Callable[[], Iterable[Response]]) -> None:
        """Begin a new game whose error is measured on ``rows``."""
        self.rows = rows
        self._votes = np.zeros((len(rows.y), self.n_classes))

    def take(self, response: Response, state: Any, watched: bool) -> tuple[float, float]:
        """Add the newest hypothesis; return the error of the ensemble now."""
        self.boosted.append(response.member)
        votes = self._votes.copy()
        add_vote(votes, state.steps[-1], response.answers)
        self._before, self._votes, self._counted = self._votes, votes, self._counted + 1
        self.log_costs.append(self.rule.log_cost(state))
        if self.refit is not None:
            wrong = BitLosses(len(response.losses)) if self._wrong is None else self._wrong
            self._wrong = wrong.append(response.losses)
            self._said.append(response.answers.astype(np.min_scalar_type(self.n_classes - 1)))
        wrong_now: NDArray[np.bool_] = self._votes.argmax(axis=1) != self.rows.y
        return float(np.average(wrong_now, weights=self.rows.weight)), 0.0

    def first(self, n_rounds: int) -> None:
        """Undo a round that an interrupt left half added."""
        del self.boosted[n_rounds:]
        del self.log_costs[n_rounds:]
        if self._counted > n_rounds and self._before is not None:
            self._votes, self._counted = self._before, n_rounds
        self._before = None
        del self._said[n_rounds:]
        if self._wrong is not None and self._wrong.shape[0] > n_rounds:
            self._wrong = self._wrong.select(members=np.arange(n_rounds))

    def settle(self, game: Game[Any]) -> AdditiveEnsemble:
        """Return the classifier of the rounds so far."""
        steps: Floats = np.array(game.state.steps)
        best = int(game.trace.value.argmin()) + 1 if self.best_prefix else len(steps)
        kept = np.flatnonzero(steps[:best] > 0)
        weights, gap = steps[kept], 0.0
        if self.refit is not None and self._wrong is not None and len(kept):
            answers = [self._said[t] for t in kept]
            wrong = self._wrong.select(members=kept)
            self.choice = self.refit.choose(wrong, answers, self.rows, self.heaviest)
            weights, gap = self.choice.weights, self.choice.gap
        members = [self.boosted[t] for t, a in zip(kept, weights, strict=True) if a > 0]
        if not members:  # a learner no better than chance in round 1: the best constant, not nothing
            return AdditiveEnsemble(
                [constant(self.heaviest, self.n_classes)], np.ones(1), self.n_classes, gap
            )
        return AdditiveEnsemble(members, weights[weights > 0], self.n_classes, gap)

    def snapshot(self) -> Additive:
        """Return a copy that further rounds leave as it is."""
        new = replace(self)
        vars(new).update(vars(self))
        new.boosted, new.log_costs, new._said = list(self.boosted), list(self.log_costs), list(self._said)
        return new
