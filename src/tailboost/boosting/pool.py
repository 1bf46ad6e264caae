"""The candidates of a game, with their answers to the selection data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tailboost.boosting.ensemble import TIE_DECIMALS, MixtureEnsemble
from tailboost.boosting.game import RoundCandidate
from tailboost.boosting.players.hedge import without_outliers
from tailboost.core.array_types import (
    Floats,
    Floats32,
    Ints,
    Mask,
    Model,
    ModelAnswers,
    Table,
    UnitLosses,
)
from tailboost.learners.foreign import constant, predict_models
from tailboost.learners.table import Ranked, class_of_rank
from tailboost.rows.rows import Rows
from tailboost.solvers import BitLosses
from tailboost.solvers.bits import DenseLosses

# Maximum number of runners-up. For models with probabilities, the pool contains predictions of the second
# most likely class, the third, and so on. A mixture can then predict the second most likely class.
RUNNERS_UP = 7
# Errors are rounded to this number of decimals. Mixtures then do not depend on the order of the rows.
ERROR_DECIMALS = 12
# Computed anew after loading.
COMPUTED_ANEW = ("losses", "base", "mean_losses", "by_mean_loss")


@dataclass(frozen=True, eq=False)
class Judged:
    """A model with its answers to the selection data, packed.

    Class numbers take few bytes, and bits for two classes. A model that draws its answers has a label
    distribution, shape (n, K).
    """

    model: Model
    packed: ModelAnswers

    @classmethod
    def of(cls, model: Model, answers: ModelAnswers, n_classes: int) -> Judged:
        """Return a model with its answers, class numbers or a label distribution."""
        if answers.ndim > 1:
            return cls(model, answers)
        if n_classes == 2:
            return cls(model, np.packbits(answers != 0))
        return cls(model, answers.astype(np.min_scalar_type(n_classes - 1)))


@dataclass(frozen=True, eq=False)
class JudgedPool:
    """Candidates with their answers to the selection data: those of the game in order, then others.

    Adding a candidate makes a new pool.

    Attributes
    ----------
    rows : Rows
        The selection data.
    n_classes : int
        K.
    rounds : tuple of Judged
        The models of the game.
    others : tuple of Judged
        Models without boosting: a fit by the sample weights alone, constants, and runners-up.
    outlier_fraction : float
        Mass of the rows with the highest cumulative loss; objectives over rows leave them out.
    runners_up : bool
        Whether the second, third … likeliest class by the models of the first round join the others.
    together : NDArray or None
        Class probabilities of the selection data, summed over the rounds so far, if rounds answer together.
    round_losses : BitLosses or None
        Losses of the models of the game, if a game adds them one by one.
    """

    rows: Rows
    n_classes: int
    rounds: tuple[Judged, ...] = ()
    others: tuple[Judged, ...] = ()
    outlier_fraction: float = 0.0
    runners_up: bool = False
    together: Floats32 | None = None
    round_losses: BitLosses | None = None

    # Only further rounds of the same fit need the probabilities, which are larger than most models.
    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in vars(self).items() if name not in COMPUTED_ANEW}
        return state | {"together": None, "round_losses": None}

    # -- the game ------------------------------------------------------------------------------------

    def joined(self, candidate: RoundCandidate) -> RoundCandidate:
        """Return a candidate that answers together with all rounds so far, by the sum of the probabilities.

        A candidate without probabilities is unchanged.
        """
        summed = candidate.probabilities  # shape (n, K)
        if summed is None:
            return candidate
        trees = candidate.model.table_
        if self.together is not None:
            summed = self.together + summed
            trees = self.rounds[-1].model.table_.with_models_of(trees)
        answers = summed.argmax(axis=1)
        return RoundCandidate(Ranked(trees), self.rows.wrong(answers), answers, summed)

    def adding(self, candidate: RoundCandidate) -> JudgedPool:
        """Return the pool with the candidate of a further round.

        The candidate of the first round brings its runners-up, if they are wanted and it has probabilities:
        models that answer its second, third … likeliest class.
        """
        losses_so_far = self.round_losses
        if losses_so_far is None:  # the first round
            losses_so_far = BitLosses(len(self.rows.y))
        pool = replace(
            self,
            rounds=(
                *self.rounds,
                Judged.of(candidate.model, candidate.answers, self.n_classes),
            ),
            together=candidate.probabilities,
            round_losses=losses_so_far.append(self.rows.wrong(candidate.answers)),
        )
        probabilities = candidate.probabilities
        if probabilities is None or self.rounds or not self.runners_up:
            return pool
        for rank in range(1, min(RUNNERS_UP + 1, self.n_classes)):  # rank 0 is the candidate
            model = Ranked(candidate.model.table_, rank)
            pool = pool.beside(model, class_of_rank(probabilities, rank))
        return pool

    def beside(self, model: Model, answers: ModelAnswers) -> JudgedPool:
        """Return the pool with a further model without boosting."""
        return replace(self, others=(*self.others, Judged.of(model, answers, self.n_classes)))

    def with_constants(self) -> JudgedPool:
        """Return the pool with the K constants."""
        pool = self
        for k in range(self.n_classes):
            answers = np.full(len(self.rows.y), k)
            pool = pool.beside(constant(k, self.n_classes), answers)
        return pool

    # -- other pools ---------------------------------------------------------------------------------

    def first(self, n_rounds: int) -> JudgedPool:
        """Return the pool of the first rounds and the models without boosting."""
        if n_rounds >= self.n_rounds:
            return self
        return replace(self, rounds=self.rounds[:n_rounds], together=None, round_losses=None)

    def places(self, n_rounds: int | None = None) -> Ints:
        """Return the numbers of the candidates of `first` among all; by default all of them."""
        n_all = len(self.judged)
        if n_rounds is None:
            return np.arange(n_all)
        return np.r_[:n_rounds, self.n_rounds : n_all]

    def on_rows(self, X: Table, rows: Rows) -> JudgedPool:
        """Return a pool of the same models on other rows."""
        return self._answering(predict_models(self.base_models, X), rows)

    def part(self, selected: Mask) -> JudgedPool:
        """Return a pool of the same models on some of the rows."""
        answers = (self.answer(m)[selected] for m in range(len(self.judged)))
        return self._answering(answers, self.rows.part(selected))

    def _answering(self, answers: Iterable[ModelAnswers], rows: Rows) -> JudgedPool:
        """Return a pool of the same models on other rows, with the answers of each model to these rows.

        Answers are class numbers, shape (n,), or label distributions, shape (n, K), in the order of `judged`.
        """
        models = self.base_models
        judged = [
            Judged.of(model, model_answers, self.n_classes)
            for model, model_answers in zip(models, answers, strict=True)
        ]
        return replace(
            self,
            rows=rows,
            rounds=tuple(judged[: self.n_rounds]),
            others=tuple(judged[self.n_rounds :]),
            together=None,
            round_losses=None,
        )

    # -- answers -------------------------------------------------------------------------------------

    @property
    def judged(self) -> tuple[Judged, ...]:
        """All models with their answers, those of the game first."""
        return (*self.rounds, *self.others)

    @property
    def base_models(self) -> list[Any]:
        """All models, those of the game first."""
        return [candidate.model for candidate in self.judged]

    @property
    def n_rounds(self) -> int:
        """Number of models of the game."""
        return len(self.rounds)

    def answer(self, number: int) -> ModelAnswers:
        """Return the answers of a candidate: class numbers, shape (n,), or a label distribution, (n, K)."""
        packed = self.judged[number].packed
        if self.n_classes > 2 or packed.ndim > 1:
            return packed
        return np.unpackbits(packed, count=len(self.rows.y))

    def constant_answer(self, number: int) -> int | None:
        """Return the class that a candidate answers to all selection data, or None."""
        answers = self.answer(number)
        if answers.ndim == 1 and np.ptp(answers) == 0:
            return int(answers[0])
        return None

    def rule(
        self, weights: Floats, gap: float = 0.0, among: Ints | None = None
    ) -> MixtureEnsemble:
        """Return the rule with these mixture weights λ.

        Candidates settle ties between classes, in the order of their mean loss: those with numbers ``among``,
        by default all.
        """
        order = self.by_mean_loss
        if among is not None:
            order = order[np.isin(order, among)]
        return MixtureEnsemble(self.base_models, weights, self.n_classes, order, gap)

    def shares(self, ensemble: MixtureEnsemble) -> Floats:
        """Return the label distribution of an ensemble on the selection data, shape (n, K)."""
        used_numbers = np.flatnonzero(ensemble.weights > 0).tolist()
        used_answers = map(self.answer, used_numbers)
        return ensemble.mix(
            used_answers, len(self.rows.y), lambda m, rows: self.answer(m)[rows]
        )

    # -- losses --------------------------------------------------------------------------------------

    def loss(self, number: int) -> UnitLosses:
        """Return the zero-one losses of a candidate, or the expected ones of label distributions."""
        answers = self.answer(number)
        y = self.rows.y
        if answers.ndim == 1:
            return self.rows.wrong(answers)
        return 1.0 - answers[np.arange(len(y)), y]

    @cached_property
    def losses(self) -> BitLosses | DenseLosses:
        """The losses of all candidates on the selection data: bits, unless a round draws its answers."""
        n_candidates = len(self.judged)
        if any(candidate.packed.ndim > 1 for candidate in self.rounds):
            all_losses = [self.loss(m) for m in range(n_candidates)]
            return DenseLosses(np.array(all_losses, dtype=np.float64))
        losses = self.round_losses
        first_missing = self.n_rounds
        if losses is None:
            losses = BitLosses(len(self.rows.y))
            first_missing = 0
        for m in range(first_missing, n_candidates):
            losses = losses.append(self.loss(m))
        return losses

    @cached_property
    def base(self) -> Floats:
        """Base measure of the rows: the normalised weights, without the outliers."""
        if self.outlier_fraction == 0.0:
            return self.rows.base
        cumulative = np.zeros(len(self.rows.y))
        for number in range(self.n_rounds):
            cumulative += self.loss(number)
        return without_outliers(self.rows.base, cumulative, self.outlier_fraction)

    @property
    def mass(self) -> Floats:
        """Base measure of each class, shape (K,)."""
        return np.bincount(self.rows.y, self.base, self.n_classes).astype(np.float64)

    @property
    def dropped(self) -> float:
        """Fraction of the weight left out as outliers; 0 if all rows have the same cumulative loss."""
        if np.array_equal(self.base, self.rows.base):
            return 0.0
        return self.outlier_fraction

    @cached_property
    def mean_losses(self) -> Floats:
        """Mean loss of each candidate, with outliers included, shape (T + E,)."""
        return self.losses.means(self.rows.base).round(ERROR_DECIMALS)

    @cached_property
    def by_mean_loss(self) -> Ints:
        """Numbers of the candidates by ascending mean loss; the earlier one first if equal."""
        return np.argsort(np.round(self.mean_losses, TIE_DECIMALS), kind="stable")
