"""The hypotheses of a fit, with their losses and answers on the rows that decide the combination."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailboost._typing import Ints, Mask
from tailboost.combiners.ledger import Ledger
from tailboost.data import Rows
from tailboost.game import Response
from tailboost.learners.session import constant, predict_members


@dataclass
class Pool:
    """Boosted hypotheses in order, then the extras (plain ERM, constants), with their losses.

    Parameters
    ----------
    ledger : Ledger
        Losses on the judged rows.
    extras : list
        Members that were not boosted.
    boosted : list
        The hypotheses so far.
    said : list of ndarray, or None
        Class numbers that the boosted hypotheses answered on the judged rows; None where only their losses
        are kept.
    extras_said : list of ndarray
        The same of the extras.
    """

    ledger: Ledger
    extras: list[Any]
    boosted: list[Any] = field(default_factory=list)
    said: list[NDArray[Any]] | None = None
    extras_said: list[NDArray[Any]] = field(default_factory=list)

    @classmethod
    def open(
        cls,
        rows: Rows,
        n_classes: int,
        *,
        extras: Iterable[Response] = (),
        constants: bool = False,
        outlier_fraction: float = 0.0,
        keep_answers: bool = False,
    ) -> Pool:
        """Open the pool of a new game.

        Parameters
        ----------
        rows : Rows
            The judged rows.
        n_classes : int
            K.
        extras : iterable of Response
            Members that join the pool unboosted: plain ERM first.
        constants : bool
            Whether the K constants join.
        outlier_fraction : float
            Mass of the rows with the highest cumulative loss that the CVaR leaves out.
        keep_answers : bool
            Whether answers are kept beside losses.
        """
        members, answers = [], []
        for response in extras:
            members.append(response.member)
            answers.append(response.answers)
        if constants:
            members += [constant(k, n_classes) for k in range(n_classes)]
            answers += [np.full(len(rows.y), k) for k in range(n_classes)]
        ledger = Ledger.new(rows, (k != rows.y for k in answers), outlier_fraction)
        if not keep_answers:
            return cls(ledger, members)
        return cls(ledger, members, said=[], extras_said=[_compact(k) for k in answers])

    @property
    def members(self) -> list[Any]:
        """All members: the boosted ones first."""
        return [*self.boosted, *self.extras]

    @property
    def n_rounds(self) -> int:
        """Number of boosted hypotheses."""
        return len(self.boosted)

    @property
    def answers(self) -> list[NDArray[Any]] | None:
        """Answers of all members on the judged rows, where they are kept."""
        return None if self.said is None else [*self.said, *self.extras_said]

    def take(self, response: Response) -> None:
        """Add the newest hypothesis."""
        self.ledger = self.ledger.append(response.answers != self.ledger.rows.y)
        if self.said is not None:
            self.said.append(_compact(response.answers))
        self.boosted.append(response.member)

    def first(self, n_rounds: int) -> None:
        """Drop all but the first hypotheses: an interrupt may have left `take` unfinished."""
        del self.boosted[n_rounds:]
        if self.said is not None:
            del self.said[n_rounds:]
        if self.ledger.boosted.shape[0] > n_rounds:
            self.ledger = self.ledger.first(n_rounds)

    def judged_on(self, X: Any, rows: Rows, keep_answers: bool = False) -> Pool:
        """Return a pool of the same members, judged on other rows; answers are kept where that is asked."""
        kept: list[NDArray[Any]] = []

        def wrong_of(answers: Ints) -> Mask:
            if keep_answers:
                kept.append(_compact(answers))
            return answers != rows.y

        wrong = map(wrong_of, predict_members(self.members, X))
        boosted = [next(wrong) for _ in self.boosted]
        ledger = Ledger.new(rows, wrong, self.ledger.outlier_fraction)
        for w in boosted:
            ledger = ledger.append(w)
        t = self.n_rounds
        said, extras_said = (kept[:t], kept[t:]) if keep_answers else (None, [])
        return replace(self, ledger=ledger, boosted=list(self.boosted), said=said, extras_said=extras_said)

    def regrouped(self, groups: Ints) -> Pool:
        """Return a pool of the same members with other groups of the judged rows."""
        return replace(self.snapshot(), ledger=self.ledger.regrouped(groups))

    def part(self, chosen: Mask) -> Pool:
        """Return a pool of the same members, judged on some of the rows."""
        said = None if self.said is None else [k[chosen] for k in self.said]
        extras_said = [k[chosen] for k in self.extras_said]
        return replace(self.snapshot(), ledger=self.ledger.part(chosen), said=said, extras_said=extras_said)

    def snapshot(self) -> Pool:
        """Return a copy that further rounds leave as it is."""
        said = None if self.said is None else list(self.said)
        return replace(self, boosted=list(self.boosted), said=said)


def _compact(answers: Ints) -> NDArray[Any]:
    """Return class numbers in as few bytes as they need."""
    return answers.astype(np.min_scalar_type(int(answers.max(initial=0))))
