"""The additive classifier: hypotheses weighted by their steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost.boosting.ensemble import AdditiveEnsemble, add_vote, centred, voted
from tailboost.boosting.game import Game, Response
from tailboost.boosting.players.additive_player import AdditivePlayer
from tailboost.boosting.soft_margin import SoftMargin, SoftMarginStage
from tailboost.boosting.training_set import Rows
from tailboost.core.array_types import Floats
from tailboost.learners.session import constant
from tailboost.solvers import BitLosses


@dataclass(frozen=True)
class Prefix:
    """The rounds up to one of them: how they answer the judged rows, and their error there."""

    rounds: int
    answers: NDArray[Any]
    error: float


@dataclass
class AdditiveCombiner:
    """Combine by the steps that the weight player took."""

    n_classes: int  # K
    # Rule of an additive classifier: the weight player, which knows the cost its steps lower.
    rule: AdditivePlayer
    heaviest: int  # class number of the best constant classifier
    # Whether only the rounds up to the one with the least error on the judged rows are kept.
    best_prefix: bool = False
    # Chooses the weights of the kept hypotheses anew; ``choice`` holds the result.
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
    choice: SoftMarginStage | None = field(init=False, default=None)
    # The prefix that is kept, after the one kept before it, to which an interrupt may lead back.
    _kept: list[Prefix] = field(init=False, default_factory=list)
    _settled: NDArray[Any] = field(init=False, repr=False)
    constant_alone: bool = field(init=False, default=False)  # no hypothesis was worth a step

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
            self._said.append(self._compact(response.answers))
        answers = centred(self._votes).argmax(axis=1)
        error = float(np.average(self.rows.wrong(answers), weights=self.rows.weight))
        if not (self.best_prefix and self._kept and error >= self._kept[-1].error):
            newest = Prefix(self._counted, self._compact(answers), error)
            self._kept = [*self._kept[-1:], newest]
        return error, 0.0

    def first(self, n_rounds: int) -> None:
        """Undo a round that an interrupt left half added."""
        del self.boosted[n_rounds:]
        del self.log_costs[n_rounds:]
        if self._counted > n_rounds and self._before is not None:
            self._votes, self._counted = self._before, n_rounds
        self._before = None
        self._kept = [prefix for prefix in self._kept if prefix.rounds <= n_rounds]
        del self._said[n_rounds:]
        if self._wrong is not None and self._wrong.shape[0] > n_rounds:
            self._wrong = self._wrong.select(candidates=np.arange(n_rounds))

    def settle(self, game: Game[Any]) -> AdditiveEnsemble:
        """Return the classifier of the rounds so far."""
        steps: Floats = np.array(game.state.steps)
        kept = np.flatnonzero(steps[: self.n_kept] > 0)
        weights, gap = steps[kept], 0.0
        if self.refit is not None and self._wrong is not None and len(kept):
            answers = [self._said[t] for t in kept]
            wrong = self._wrong.select(candidates=kept)
            self.choice = self.refit.choose(wrong, answers, self.rows, self.heaviest)
            weights, gap = self.choice.weights, self.choice.gap
            self._settled = self._compact(voted(answers, weights, len(self.rows.y), self.n_classes))
        elif self._kept:
            self._settled = self._kept[-1].answers
        members = [self.boosted[t] for t, a in zip(kept, weights, strict=True) if a > 0]
        self.constant_alone = not members
        if not members:  # a learner no better than chance in round 1: the best constant, not nothing
            self._settled = np.full(len(self.rows.y), self.heaviest)
            return AdditiveEnsemble(
                [constant(self.heaviest, self.n_classes)], np.ones(1), self.n_classes, gap
            )
        return AdditiveEnsemble(members, weights[weights > 0], self.n_classes, gap)

    @property
    def n_kept(self) -> int:
        """Number of rounds whose hypotheses are kept."""
        return self._kept[-1].rounds if self._kept else 0

    @property
    def log_cost(self) -> float:
        """Logarithm of the cost on the rows fitted on after the rounds that are kept."""
        return self.log_costs[self.n_kept - 1]

    @property
    def training_error(self) -> float | None:
        """Error on the rows fitted on, where these are the judged ones; else it is not known."""
        if not self.rows.fitted:
            return None
        return float(np.average(self.rows.wrong(self.answers), weights=self.rows.weight))

    @property
    def decided(self) -> tuple[str, ...]:
        """What the error on the judged rows decides, in words."""
        priced = self.refit is not None and len(self.refit.prices) > 1
        return ("how many rounds are kept",) * self.best_prefix + ("the price of slack",) * priced

    @property
    def answers(self) -> NDArray[Any]:
        """Class numbers that the classifier settled on answers to the judged rows, shape (n_judged,)."""
        return self._settled

    def _compact(self, answers: NDArray[Any]) -> NDArray[Any]:
        return answers.astype(np.min_scalar_type(self.n_classes - 1))

    def snapshot(self) -> AdditiveCombiner:
        """Return a copy that further rounds leave as it is."""
        new = replace(self)
        vars(new).update(vars(self))
        new.boosted, new.log_costs, new._said = list(self.boosted), list(self.log_costs), list(self._said)
        return new
