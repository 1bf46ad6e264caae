"""Hypotheses and their weights as one classifier: it predicts, can be re-weighted and is saved.

Answers are class numbers 0 … K − 1; the classifiers translate them into labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tailboost.boosting.candidate_losses import TIE_DECIMALS
from tailboost.boosting.training_set import batches, take
from tailboost.core.array_types import Floats, Ints
from tailboost.core.checks import n_rows_of
from tailboost.learners.session import is_constant, is_real, member_probabilities, predict_members


class Ensemble(Protocol):
    """A fitted combination of hypotheses.

    Attributes
    ----------
    members : list of classifiers
        The hypotheses, which answer class numbers.
    weights : ndarray of shape (n_members,)
        Their shares λ, or their steps.
    n_classes : int
        K.
    gap : float
        Optimality gap of the solve behind the weights.
    """

    @property
    def members(self) -> list[Any]: ...  # noqa: D102 -- documented with the class

    @property
    def weights(self) -> Floats: ...  # noqa: D102

    @property
    def n_classes(self) -> int: ...  # noqa: D102

    @property
    def gap(self) -> float: ...  # noqa: D102

    def scores(self, X: Any) -> Floats:
        """Return a score for every class, shape (n, K); the argmax of a row is the answer."""


@dataclass(frozen=True)
class MixtureEnsemble:
    """Draw a hypothesis with probability λ and answer as it does.

    Parameters
    ----------
    members : list of classifiers
        The pool: the boosted hypotheses in order, then the extras, which were not boosted.
    weights : ndarray of shape (n_members,)
        λ, sums to 1.
    n_classes : int
        K.
    tie_order : ndarray of int
        Numbers of the members that settle ties between shares, in order.
    gap : float
        Optimality gap of the solve behind λ; 0 where nothing was solved.
    """

    members: list[Any]
    weights: Floats
    n_classes: int
    tie_order: Ints
    gap: float = 0.0

    def __len__(self) -> int:
        return len(self.members)

    def answers(self, X: Any, members: Iterable[int] | None = None) -> Iterator[Ints]:
        """Yield the class numbers that some members (all by default) answer, shape (n,)."""
        return _answers(self.members, X, members)

    @property
    def drawing(self) -> Ints:
        """Numbers of the members that answer with shares of the labels, from which the answer is drawn."""
        return np.flatnonzero([getattr(member, "draws", False) for member in self.members])

    @property
    def draws(self) -> bool:
        """Whether an answer is drawn: several members have a share, or the one draws its own answers."""
        used = np.flatnonzero(self.weights > 0)
        return len(used) > 1 or bool(np.isin(used, self.drawing).any())

    def answer(self, member: int, X: Any) -> Ints:
        """Return the class numbers that one member answers, shape (n,)."""
        return next(self.answers(X, [member]))

    def scores(self, X: Any) -> Floats:
        """Return each label's share for the rows of a table, (n, K), ties settled."""
        if len(parts := batches(X)) > 1:
            return np.concatenate([self.scores(take(X, part)) for part in parts])
        return self.mix(
            self.answers(X, np.flatnonzero(self.weights > 0)),
            n_rows_of(X),
            lambda m, rows: self.answer(m, take(X, rows)),
        )

    def probabilities(self, X: Any) -> Floats:
        """Return P(y | x): the λ-average of the members' class probabilities, shape (n, K).

        Constants know nothing of a row and are left out; where they have the whole λ, the others count alike.
        """
        if len(parts := batches(X)) > 1:
            return np.concatenate([self.probabilities(take(X, part)) for part in parts])
        informed = [m for m, member in enumerate(self.members) if not is_constant(member)]
        if not informed:
            return self.scores(X)
        share = self.weights[informed]
        share = share / share.sum() if share.any() else np.full(len(informed), 1.0 / len(informed))
        used = [self.members[informed[i]] for i in np.flatnonzero(share)]
        total = np.zeros((n_rows_of(X), self.n_classes))
        for weight, P in zip(share[share > 0], member_probabilities(used, X, self.n_classes), strict=True):
            total += weight * P
        return total / total.sum(axis=1, keepdims=True)

    def scores_of(self, answers: Any) -> Floats:
        """Return `scores` for rows for which the answers of all members are known, (n_members, n)."""
        used = np.flatnonzero(self.weights > 0)
        return self.mix((answers[m] for m in used), len(answers[0]), lambda m, rows: answers[m][rows])

    def mix(self, answers: Iterable[Ints], n_rows: int, answer: Callable[[int, Ints], Ints]) -> Floats:
        """Return `scores` from the answers of the members of positive weight, in their order."""
        P = shares(self.weights[self.weights > 0], answers, n_rows, self.n_classes)
        return settle_ties(P, self.tie_order, answer)

    def loss_of(self, answers: Any, y: Ints) -> Floats:
        """Return the expected zero-one loss of each row, ``1 − share of y``, from all members' answers."""
        used = np.flatnonzero(self.weights > 0)
        P = shares(self.weights[used], (answers[m] for m in used), len(y), self.n_classes)
        loss: Floats = 1.0 - P[np.arange(len(y)), y]
        return loss


@dataclass(frozen=True)
class AdditiveEnsemble:
    """``f_k = Σ_t a_t z_k(h_t(x))`` with z = 1 for the answer, else −1/(K−1).

    Parameters
    ----------
    members : list of classifiers
        The hypotheses kept.
    weights : ndarray of shape (n_members,)
        Their steps a.
    n_classes : int
        K.
    gap : float
        Optimality gap of the solve behind the weights; 0 where nothing was solved.
    """

    members: list[Any]
    weights: Floats
    n_classes: int
    gap: float = 0.0

    def __len__(self) -> int:
        return len(self.members)

    def answers(self, X: Any, members: Iterable[int] | None = None) -> Iterator[Ints]:
        """Yield the class numbers that some members (all by default) answer, shape (n,)."""
        return _answers(self.members, X, members)

    def _staged_votes(self, X: Any) -> Iterator[Floats]:
        """Yield the votes of each class after every member: the same array every time, changed in place."""
        votes = np.zeros((n_rows_of(X), self.n_classes))
        for a, k in zip(self.weights, self.answers(X), strict=True):
            add_vote(votes, float(a), k)
            yield votes

    def staged_scores(self, X: Any) -> Iterator[Floats]:
        """Yield ``f`` after each member, shape (n, K)."""
        return map(centred, self._staged_votes(X))

    def scores(self, X: Any) -> Floats:
        """Return ``f``, shape (n, K), rows summing to 0; in batches, to bound memory."""
        if len(parts := batches(X)) > 1:
            return np.concatenate([self.scores(take(X, part)) for part in parts])
        *_, votes = self._staged_votes(X)
        return centred(votes)


def _answers(members: list[Any], X: Any, chosen: Iterable[int] | None) -> Iterator[Ints]:
    return predict_members(members if chosen is None else (members[m] for m in chosen), X)


def shares(weights: Floats, predictions: Iterable[Ints], n_rows: int, n_classes: int) -> Floats:
    """``P(k) = Σ_t λ_t 1[h_t(x) = k]`` for every row, shape (n, K).

    Parameters
    ----------
    weights : ndarray of shape (T,)
        The positive λ.
    predictions : iterable of T arrays of shape (n,) or (n, K)
        Class numbers, or shares of a member whose answer is itself drawn, in the same order. Rows are summed
        member by member, so that a row's share does not depend on the batch it came in.
    """
    P = np.zeros(n_rows * n_classes)
    first = np.arange(n_rows) * n_classes
    for weight, k in zip(weights, predictions, strict=True):
        if k.ndim == 1:
            P[first + k] += weight
        else:
            P += weight * k.ravel()
    return P.reshape(n_rows, n_classes)


def add_vote(scores: Floats, step: float, answers: Ints) -> None:
    """Add a hypothesis to additive scores of shape (n, K), in place: ``a·K/(K−1)`` to the class it answers.

    Up to a constant per row that is ``a·z`` with z = 1 for the answer and −1/(K−1) for the rest. A hypothesis
    may answer values h of all classes instead, or of two classes that of class 1, with −h for class 0.
    """
    K = scores.shape[1]
    if answers.ndim == 2:
        scores += step * answers
    elif is_real(answers):
        scores[:, 1] += 2.0 * step * answers
    else:
        scores[np.arange(len(scores)), answers] += step * K / (K - 1)


def centred(votes: Floats) -> Floats:
    """Return additive scores that sum to 0 in every row.

    An answer adds a and takes a/(K−1) elsewhere, while votes hold a·K/(K−1) for the answer alone.
    """
    f: Floats = votes - votes.sum(axis=1, keepdims=True) / votes.shape[1]
    return f


def voted(answers: Iterable[Ints], steps: Iterable[float], n_rows: int, n_classes: int) -> Ints:
    """Return the class number that some hypotheses vote for with their steps, shape (n,)."""
    votes = np.zeros((n_rows, n_classes))
    for step, answer in zip(steps, answers, strict=True):
        if step > 0:
            add_vote(votes, float(step), answer)
    k: Ints = centred(votes).argmax(axis=1)
    return k


def settle_ties(P: Floats, order: Iterable[int], answer: Callable[[int, Ints], Ints]) -> Floats:
    """Give every tie to the answer of the first member, in ``order``, that names one of the tied classes.

    At small α the exact optimum is often a coin flip, and a bare argmax would then answer the first class
    for every row. The winner is lifted by one unit in the last place above the others, so that the argmax of
    the returned shares is the decision.

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
        k = k if k.ndim == 1 else k.argmax(axis=1)
        named = tied[open_rows, k]
        rows, winner = open_rows[named], k[named]
        P[rows, winner] = np.nextafter(P[rows].max(axis=1), 2.0)
        open_rows = open_rows[~named]
    return P


def answers_by(members: Ints, answer: Callable[[int, Ints], Ints]) -> Ints:
    """Return the class number that each row's own member answers, shape (n,).

    Parameters
    ----------
    members : ndarray of shape (n,)
        Whose answer each row gets.
    answer : callable
        ``answer(member, rows) -> class numbers`` of a member for some of the rows.
    """
    k = np.empty(len(members), dtype=np.intp)
    for m in np.unique(members):
        rows = np.flatnonzero(members == m)
        k[rows] = answer(int(m), rows)
    return k


def draw(P: Floats, rng: np.random.RandomState) -> NDArray[np.intp]:
    """Draw a class number per row from its shares."""
    cumulative = P.cumsum(axis=1)
    u = rng.random_sample(len(P)) * cumulative[:, -1]
    return (u[:, None] >= cumulative).sum(axis=1).clip(max=P.shape[1] - 1)
