"""Which rows a hypothesis is fitted on, whose losses drive the player, and whose losses decide λ.

A scheme is an oracle of the game: it takes the density of the player's weights and answers with a member
and its losses. A strong learner leaves no training losses, so the member that stays is fitted on all rows
while its losses are measured on rows that a sibling of it did not see.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from tailboost.game import Floats, Ints, Response
from tailboost.learners import Session

Mask = NDArray[np.bool_]
Bits = NDArray[np.bool_]

SIGNIFICANT_BITS = 16
# A density below this is a solver's way of saying 0.
NEGLIGIBLE = 2.0**-32


def round_significant(x: Floats, bits: int = SIGNIFICANT_BITS) -> Floats:
    """Round to ``bits`` significant bits, so that equal rows get equal weights whatever the order of sums."""
    x = np.where(x < NEGLIGIBLE, 0.0, x)
    mantissa, exponent = np.frexp(x)
    scale = float(2**bits)
    return np.ldexp(np.rint(mantissa * scale) / scale, exponent)


@dataclass(frozen=True)
class Rows:
    """The rows on which members are judged: class numbers, sample weights and, if any, group numbers."""

    y: Ints
    weight: Floats
    groups: Ints | None
    words: str


class Scheme(Protocol):
    """An oracle that also says which rows the player weighs and on which rows members are judged."""

    @property
    def judged(self) -> Rows:
        """Rows on which members are judged."""

    @property
    def player_rows(self) -> Mask | None:
        """Rows the player weighs; None for all."""

    def __call__(self, u: Floats, seed: int) -> Response:
        """Fit for the density ``u`` of the rows, shape (n,)."""


def fit_without(held: Mask, session: Session, weight: Floats, train: Rows, seed: int) -> Any:
    """Fit on the rows that are not held; where the player left them no weight at all, plain ERM."""
    rest = ~held
    return session.fit(weight if weight[rest].any() else train.weight, seed, rest)


@dataclass(frozen=True)
class Resubstitution:
    """Losses on the rows the member was fitted on: what the papers do for small data."""

    session: Session
    train: Rows
    judged: Rows

    player_rows = None

    def __call__(self, u: Floats, seed: int) -> Response:
        """Fit on all rows and look at the same rows."""
        member = self.session.fit(self.train.weight * round_significant(u), seed)
        answers = self.session.predict(member)
        return Response(member, answers != self.train.y, answers)


@dataclass(frozen=True)
class External:
    """λ from a validation set of the user's; the player lives on training losses."""

    session: Session
    train: Rows
    judged: Rows
    predict: Callable[[Any], Ints]

    player_rows = None

    def __call__(self, u: Floats, seed: int) -> Response:
        """Fit on all rows, judge on the validation set."""
        member = self.session.fit(self.train.weight * round_significant(u), seed)
        return Response(member, self.session.predict(member) != self.train.y, self.predict(member))


@dataclass(frozen=True)
class HeldOut:
    """The combination from a held-out fraction; the member that stays may be fitted again, on all rows."""

    session: Session
    train: Rows
    judged: Rows
    held: Mask
    refit: bool

    @property
    def player_rows(self) -> Mask:
        """The rows that are not held out."""
        return ~self.held

    def __call__(self, u: Floats, seed: int) -> Response:
        """Fit without the held-out rows for the losses and, to refit, with them for the ensemble."""
        weight = self.train.weight * round_significant(u)
        member = fit_without(self.held, self.session, weight, self.train, seed)
        answers = self.session.predict(member)
        wrong = answers != self.train.y
        if self.refit:
            member = self.session.fit(weight, seed)
        return Response(member, wrong[~self.held], answers[self.held])


@dataclass(frozen=True)
class CrossFitted:
    """Out-of-fold losses for player and λ; the member that stays is fitted on all rows."""

    session: Session
    train: Rows
    judged: Rows
    fold: Ints
    n_jobs: int | None

    player_rows = None

    def __call__(self, u: Floats, seed: int) -> Response:
        """Fit one model per fold for the losses and one on all rows for the ensemble."""
        weight = self.train.weight * round_significant(u)
        predicted = np.empty(len(self.fold), dtype=np.intp)

        def out_of_fold(j: int) -> None:
            held = self.fold == j
            model = fit_without(held, self.session, weight, self.train, seed)
            predicted[held] = self.session.predict(model, held)

        n_jobs = self.n_jobs if self.session.concurrent else 1
        Parallel(n_jobs=n_jobs, prefer="threads")(delayed(out_of_fold)(j) for j in range(self.fold.max() + 1))
        return Response(self.session.fit(weight, seed), predicted != self.train.y, predicted)


def folds(places: Ints, k: int) -> Ints:
    """Deal places (see `draw_lots`) into ``k`` folds."""
    return places % k


def held_out(places: Ints, fraction: float) -> Mask:
    """Hold out every (1/fraction)-th place (see `draw_lots`)."""
    held: Mask = np.floor((places + 1) * fraction) > np.floor(places * fraction)
    return held
