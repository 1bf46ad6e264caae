"""The base models of a fit, with their losses and answers on the selection data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost.boosting.candidate_losses import CandidateLosses
from tailboost.boosting.ensemble import MixtureEnsemble
from tailboost.boosting.game import Response
from tailboost.boosting.training_set import Rows
from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.learners.mean import Ranked, ranked
from tailboost.learners.session import constant, predict_models
from tailboost.solvers import BitLosses

# Maximum number of runners-up. For models with probabilities, the pool contains predictions of the second
# most likely class, the third, and so on. A mixture can then predict the second most likely class.
RUNNERS_UP = 7


@dataclass
class LossPool:
    """Boosted base models in order, then the unboosted (ERM, constants, runners-up), with their losses."""

    ledger: CandidateLosses  # losses on the selection data
    unboosted: list[Any]  # base models without boosting
    boosted: list[Any] = field(default_factory=list)  # the base models so far
    # Class numbers that the boosted models predict for the selection data; None for two classes, for which
    # losses determine the predictions.
    said: list[NDArray[Any]] | None = None
    unboosted_said: list[NDArray[Any]] = field(default_factory=list)  # the same of the unboosted models
    # Whether the second, third … likeliest class by the first round's models join the unboosted models.
    runners_up: bool = False
    # Class probabilities of the selection data by round, summed over the rounds so far. The last two rounds
    # are kept, because an interrupt may drop the last one.
    probabilities: dict[int, NDArray[np.float32]] = field(default_factory=dict)

    # Only further rounds of the same fit need the probabilities, which are larger than most models.
    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"probabilities": {}}

    @classmethod
    def open(
        cls,
        rows: Rows,
        n_classes: int,
        *,
        unboosted: Iterable[Response] = (),
        constants: bool = False,
        outlier_fraction: float = 0.0,
        runners_up: bool = False,
    ) -> LossPool:
        """Open the pool of a new game.

        Parameters
        ----------
        rows : Rows
            The selection data.
        n_classes : int
            K.
        unboosted : iterable of Response
            Base models without boosting: plain ERM first.
        constants : bool
            Whether the K constants join.
        outlier_fraction : float
            Mass of the rows with the highest cumulative loss; the CVaR leaves them out.
        runners_up : bool
            Whether the next likely classes join.
        """
        members, answers = [], []
        for response in unboosted:
            members.append(response.member)
            answers.append(response.answers)
        if constants:
            members += [constant(k, n_classes) for k in range(n_classes)]
            answers += [np.full(len(rows.y), k) for k in range(n_classes)]
        ledger = CandidateLosses.new(rows, map(rows.wrong, answers), outlier_fraction)
        if n_classes == 2:
            return cls(ledger, members, runners_up=runners_up)
        unboosted_said = [_compact(k) for k in answers]
        return cls(ledger, members, said=[], unboosted_said=unboosted_said, runners_up=runners_up)

    @property
    def members(self) -> list[Any]:
        """All members: the boosted ones first."""
        return [*self.boosted, *self.unboosted]

    @property
    def n_rounds(self) -> int:
        """Number of boosted hypotheses."""
        return len(self.boosted)

    @property
    def answers(self) -> list[NDArray[Any]] | None:
        """Predictions of all base models for the selection data, as class numbers; None for random draws."""
        if self.said is None and not isinstance(self.ledger.boosted, BitLosses):
            return None
        return [self.answer(member) for member in range(len(self.boosted) + len(self.unboosted))]

    def answer(self, member: int) -> NDArray[Any]:
        """Return the predictions of a base model for the selection data, as class numbers, shape (n,)."""
        t = self.n_rounds
        if self.said is not None:
            return self.said[member] if member < t else self.unboosted_said[member - t]
        y, ledger = self.ledger.rows.y, self.ledger
        wrong = ledger.boosted.row(member) if member < t else ledger.unboosted.row(member - t)
        return np.where(wrong, 1 - y, y).astype(np.uint8)

    def shares(self, ensemble: MixtureEnsemble) -> Floats:
        """Return the label distribution of an ensemble on the selection data, shape (n, K)."""
        used = np.flatnonzero(ensemble.weights > 0).tolist()
        n = len(self.ledger.rows.y)
        return ensemble.mix(map(self.answer, used), n, lambda m, rows: self.answer(m)[rows])

    def together(self, response: Response) -> Response:
        """Return the response of a round by the sum of the probabilities of all rounds so far.

        Without probabilities the response is unchanged.

        Raises
        ------
        ValueError
            If the probabilities of the rounds before were not kept.
        """
        P = response.probabilities
        if P is None:
            return response
        table = response.member.table_
        if self.boosted:
            P, table = self.summed(P), self.boosted[-1].table_.with_models_of(table)
        answers = P.argmax(axis=1)
        wrong = self.ledger.rows.wrong(answers)
        return replace(response, member=Ranked(table), losses=wrong, answers=answers, probabilities=P)

    def summed(self, P: NDArray[np.float32], rows: Mask | slice = slice(None)) -> NDArray[np.float32]:
        """Return class probabilities of some rows, added to the probabilities of earlier rounds."""
        if self.n_rounds not in self.probabilities:
            raise ValueError(
                "rounds can be added to a fit only in the process that made it, or from its checkpoint_dir: "
                "a copy or file of a model does not hold the class probabilities of its training rows"
            )
        return self.probabilities[self.n_rounds][rows] + P

    def take(self, response: Response) -> None:
        """Add the newest base model and, after the first, the next likely classes."""
        t, P, rows = self.n_rounds, response.probabilities, self.ledger.rows
        if P is not None:
            self.probabilities = {s: p for s, p in self.probabilities.items() if s == t} | {t + 1: P}
        if P is not None and t == 0 and self.runners_up:
            ranks = range(1, min(RUNNERS_UP + 1, P.shape[1]))
            answers = [ranked(P, rank) for rank in ranks]
            self.ledger = self.ledger.with_unboosted(map(rows.wrong, answers))
            self.unboosted = [*self.unboosted, *(Ranked(response.member.table_, rank) for rank in ranks)]
            if self.said is not None:
                self.unboosted_said = [*self.unboosted_said, *(_compact(k) for k in answers)]
        self.ledger = self.ledger.append(rows.wrong(response.answers))
        if self.said is not None:
            self.said.append(_compact(response.answers))
        self.boosted.append(response.member)

    def first(self, n_rounds: int) -> None:
        """Drop all but the first base models: an interrupt may have left `take` unfinished."""
        del self.boosted[n_rounds:]
        if self.said is not None:
            del self.said[n_rounds:]
        if self.ledger.boosted.shape[0] > n_rounds:
            self.ledger = self.ledger.first(n_rounds)

    def judged_on(self, X: Any, rows: Rows) -> LossPool:
        """Return a pool of the same base models on other rows."""
        kept: list[NDArray[Any]] = []

        def wrong_of(answers: Ints) -> Mask:
            if self.said is not None:
                kept.append(_compact(answers))
            return rows.wrong(answers)

        wrong = map(wrong_of, predict_models(self.members, X))
        boosted = [next(wrong) for _ in self.boosted]
        ledger = CandidateLosses.new(rows, wrong, self.ledger.outlier_fraction)
        for w in boosted:
            ledger = ledger.append(w)
        t = self.n_rounds
        said, unboosted_said = (None, []) if self.said is None else (kept[:t], kept[t:])
        return replace(
            self, ledger=ledger, boosted=list(self.boosted), said=said, unboosted_said=unboosted_said
        )

    def regrouped(self, groups: Ints) -> LossPool:
        """Return a pool of the same base models with other groups of the rows."""
        return replace(self.snapshot(), ledger=self.ledger.regrouped(groups))

    def part(self, chosen: Mask) -> LossPool:
        """Return a pool of the same base models on some of the rows."""
        said = None if self.said is None else [k[chosen] for k in self.said]
        unboosted_said = [k[chosen] for k in self.unboosted_said]
        return replace(
            self.snapshot(), ledger=self.ledger.part(chosen), said=said, unboosted_said=unboosted_said
        )

    def snapshot(self) -> LossPool:
        """Return a copy. Further rounds do not change this copy."""
        said = None if self.said is None else list(self.said)
        return replace(self, boosted=list(self.boosted), said=said)


def _compact(answers: Ints) -> NDArray[Any]:
    """Return class numbers in as few bytes as they need."""
    return answers.astype(np.min_scalar_type(int(answers.max(initial=0))))
