"""From hypotheses to one classifier: the mixture, its optimal shares, and its answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tailboost.game import Floats, Ints
from tailboost.rules.outliers import keep
from tailboost.solvers import BitLosses, MixtureSolution, cvar, minimize_cvar_mixture, mixture_path
from tailboost.validation import Bits, Rows

# Shares closer than this are a tie.
TIE_DECIMALS = 9
# Errors of units are kept to this, so that the order in which rows are summed is not seen in λ.
LOSS_DECIMALS = 12

Kind = Literal["cvar", "worst_row", "worst_class", "worst_group"]


@dataclass(frozen=True)
class Objective:
    """What is to be small: the CVaR at level ``alpha`` over rows, or the largest row, class or group loss.

    ``penalty`` is added to the losses of the groups before the largest is taken, where they are not all
    allowed the same; ``units`` is what the groups are called.
    """

    kind: Kind
    alpha: float | None = None
    penalty: tuple[float, ...] | None = None
    units: str = ""

    def __str__(self) -> str:
        if self.kind == "cvar":
            return f"CVaR at α = {self.alpha:g}"
        plus = " + its penalty" if self.penalty is not None and any(self.penalty) else ""
        return f"largest expected loss of any {self.units or self.kind.removeprefix('worst_')}{plus}"


@dataclass(frozen=True)
class Ledger:
    """Zero-one losses of every member of the pool on the rows that decide the combination.

    Parameters
    ----------
    rows : Rows
        The judged rows.
    boosted : BitLosses of shape (T, n)
        Losses of the boosted hypotheses.
    extras : BitLosses of shape (E, n)
        Losses of what joins the pool without being boosted: plain ERM in group games, the constants.
    outlier_fraction : float
        Mass of the rows with the highest cumulative loss that is left out of the CVaR.
    """

    rows: Rows
    boosted: BitLosses
    extras: BitLosses
    outlier_fraction: float = 0.0
    # Errors of the boosted hypotheses on the units of an objective: found once, asked for every round.
    _known: dict[str, list[Floats]] = field(default_factory=dict)

    @classmethod
    def new(cls, rows: Rows, extras: Iterable[Bits], outlier_fraction: float = 0.0) -> Ledger:
        """Open a ledger with the losses of the extras and no boosted hypothesis yet."""
        bits = BitLosses(len(rows.y))
        for wrong in extras:
            bits = bits.append(wrong)
        return cls(rows, BitLosses(len(rows.y)), bits, outlier_fraction)

    def append(self, wrong: Bits) -> Ledger:
        """Return the ledger with one more boosted hypothesis."""
        return replace(self, boosted=self.boosted.append(wrong))

    def first(self, n_rounds: int) -> Ledger:
        """Return the ledger of the first ``n_rounds`` boosted hypotheses."""
        known = {kind: errors[:n_rounds] for kind, errors in self._known.items()}
        return replace(self, boosted=self.boosted.select(members=np.arange(n_rounds)), _known=known)

    def pool(self, n_rounds: int | None = None) -> BitLosses:
        """Losses of the first ``n_rounds`` boosted hypotheses (all by default), then of the extras."""
        t = self.boosted.shape[0]
        pool = self.boosted if n_rounds in (None, t) else self.boosted.select(members=np.arange(n_rounds))
        for e in range(self.extras.shape[0]):
            pool = pool.append(self.extras.row(e))
        return pool

    def base(self, n_rounds: int | None = None) -> Floats:
        """Return the base measure of the rows: the normalised weights, without the outliers."""
        p = self.rows.weight / self.rows.weight.sum()
        if self.outlier_fraction == 0.0:
            return p
        t = self.boosted.shape[0] if n_rounds is None else n_rounds
        cumulative = np.zeros(len(p))
        for s in range(t):
            cumulative += self.boosted.row(s)
        return keep(p, cumulative, self.outlier_fraction)

    def evaluate(self, objective: Objective, weights: Floats) -> float:
        """Return the objective of a mixture of the pool."""
        if objective.kind in ("worst_class", "worst_group"):
            return float((weights @ self.unit_losses(objective)).max())
        loss, p = self.pool().combine(weights), self.base()
        return float(loss[p > 0].max()) if objective.alpha is None else cvar(loss, objective.alpha, p)

    def unit_losses(self, objective: Objective, n_rounds: int | None = None) -> Floats:
        """Error of every member of the pool on every class or group that has rows, shape (T + E, m).

        With the objective's penalties added. Rows of group number −1 are outside.
        """
        index = self.rows.y if objective.kind == "worst_class" else self.rows.groups
        if index is None:
            raise ValueError("objective='worst_group' needs groups, and these losses were kept without any")
        inside = index >= 0
        used, index = np.unique(index[inside], return_inverse=True)
        weight = self.rows.weight[inside]
        share = weight / np.bincount(index, weights=weight)[index]

        def errors(wrong: Bits) -> Floats:
            sums = np.bincount(index, weights=share * wrong[inside], minlength=len(used))
            return sums.astype(np.float64).round(LOSS_DECIMALS)

        known, t = self._known.setdefault(objective.kind, []), self.boosted.shape[0]
        known += [errors(self.boosted.row(s)) for s in range(len(known), t)]
        extras = [errors(self.extras.row(e)) for e in range(self.extras.shape[0])]
        losses = np.array([*known[:n_rounds], *extras])
        return losses if objective.penalty is None else losses + np.array(objective.penalty)[used]

    def solve(self, objective: Objective, n_rounds: int | None = None) -> MixtureSolution:
        """Return the optimal mixture of the pool."""
        if objective.alpha is not None:
            return minimize_cvar_mixture(self.pool(n_rounds), objective.alpha, self.base(n_rounds))
        losses = self.unit_losses(objective, n_rounds)
        return minimize_cvar_mixture(losses, 1.0 / losses.shape[1])  # cap 1: the whole simplex

    def path(self, alphas: Floats) -> list[MixtureSolution]:
        """Return the optimal mixtures for many CVaR levels."""
        return mixture_path(self.pool(), alphas, self.base())

    def mean_losses(self) -> Floats:
        """Mean loss of every member of the pool on the judged rows, shape (T + E,)."""
        return self.pool().means(self.rows.weight / self.rows.weight.sum())

    def by_mean_loss(self) -> Ints:
        """Members of the pool, the one with the least mean loss first; the earlier one if they are equal."""
        return np.argsort(np.round(self.mean_losses(), TIE_DECIMALS), kind="stable")


def shares(weights: Floats, predictions: Iterable[Ints], n_rows: int, n_classes: int) -> Floats:
    """``P(k) = Σ_t λ_t 1[h_t(x) = k]`` for every row, shape (n, K).

    Parameters
    ----------
    weights : ndarray of shape (T,)
        The positive λ.
    predictions : iterable of T arrays of shape (n,)
        Class numbers, in the same order. Rows are summed member by member, so that a row's share does not
        depend on the batch it came in.
    """
    P = np.zeros(n_rows * n_classes)
    first = np.arange(n_rows) * n_classes
    for weight, k in zip(weights, predictions, strict=True):
        P[first + k] += weight
    return P.reshape(n_rows, n_classes)


def add_vote(scores: Floats, step: float, answers: Ints) -> None:
    """Add a hypothesis to additive scores of shape (n, K), in place: ``a·K/(K−1)`` to the class it answers.

    Up to a constant per row that is ``a·z`` with z = 1 for the answer and −1/(K−1) for the rest.
    """
    K = scores.shape[1]
    scores[np.arange(len(scores)), answers] += step * K / (K - 1)


def settle_ties(P: Floats, order: Iterable[int], answer: Callable[[int, Ints], Ints]) -> Floats:
    """Give every tie to the answer of the first member, in ``order``, that names one of the tied classes.

    At small α the exact optimum is often a coin flip, and a bare argmax would then say the first class to
    everyone. The winner is lifted by one unit in the last place above the others, so that the argmax of the
    returned shares is the decision.

    Parameters
    ----------
    P : ndarray of shape (n, K)
        Shares; compared after rounding to 1e-9. Changed in place.
    order : iterable of int
        Members, the one with the least mean loss first.
    answer : callable
        ``answer(member, rows) -> class numbers`` of a member for some of the rows.
    """
    rounded = np.round(P, TIE_DECIMALS)
    tied = rounded == rounded.max(axis=1, keepdims=True)
    open_rows = np.flatnonzero(tied.sum(axis=1) > 1)
    for member in order:
        if len(open_rows) == 0:
            break
        k = answer(member, open_rows)
        named = tied[open_rows, k]
        rows, winner = open_rows[named], k[named]
        P[rows, winner] = np.nextafter(P[rows].max(axis=1), 2.0)
        open_rows = open_rows[~named]
    return P


class Tally:
    """The votes of the rounds so far on the judged rows, and what their majority decides."""

    def __init__(self, counts: Floats) -> None:
        self.counts, self.counted = counts, 0
        self.decision: Ints = np.zeros(len(counts), dtype=np.intp)
        # After each round: largest error of a class with its penalty, mean error.
        self.results: list[tuple[float, float]] = []

    def count(self, said: list[NDArray[Any]], order: Ints) -> None:
        """Bring the tally to all that was said; ties go to the members that come first in the order."""
        rows = np.arange(len(self.counts))
        if self.counted >= len(said):  # rounds were taken back
            self.counts[:], self.counted = 0.0, 0
        for k in said[self.counted :]:
            self.counts[rows, k] += 1.0
        self.counted = len(said)
        P = settle_ties(self.counts / len(said), order, lambda m, some: said[m][some])
        self.decision = P.argmax(axis=1)


def draw(P: Floats, rng: np.random.RandomState) -> NDArray[np.intp]:
    """Draw a class number per row from its shares."""
    cumulative = P.cumsum(axis=1)
    u = rng.random_sample(len(P)) * cumulative[:, -1]
    return (u[:, None] >= cumulative).sum(axis=1).clip(max=P.shape[1] - 1)
