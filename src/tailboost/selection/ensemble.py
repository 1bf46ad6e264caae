"""Candidates and their mixture weights as one classifier, which predicts, can be reweighted and is saved.

Answers are class numbers 0 … K − 1. The public classifiers translate them into labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats, Ints, Table
from tailboost.core.checks import batches, n_rows_of, take
from tailboost.learners.foreign import is_constant, model_probabilities, predict_models

# Decimals to which mean losses and probabilities are compared for ties.
TIE_DECIMALS = 9


@dataclass(frozen=True)
class MixtureEnsemble:
    """Randomised rule: draws a base model with probabilities λ and predicts its label.

    Parameters
    ----------
    base_models : list of classifiers
        The pool: the boosted models in order, then models fitted without boosting weights.
    weights : ndarray of shape (n_base_models,)
        λ, with sum 1.
    n_classes : int
        K.
    tie_order : ndarray of int
        Numbers of base models in the order in which they settle ties between classes.
    gap : float
        Optimality gap of the solution behind λ; 0 if λ has a closed form.
    """

    base_models: list[Any]
    weights: Floats
    n_classes: int
    tie_order: Ints
    gap: float = 0.0

    def __len__(self) -> int:
        return len(self.base_models)

    def answers(self, X: Table, members: Iterable[int] | None = None) -> Iterator[Ints]:
        """Yield the class numbers, shape (n,), of each base model, or only of ``members`` (numbers)."""
        models: Iterable[Any] = self.base_models
        if members is not None:
            models = (self.base_models[m] for m in members)
        return predict_models(models, X)

    @property
    def random_candidates(self) -> Ints:
        """Numbers of the base models with a label distribution as answer."""
        return np.flatnonzero([getattr(member, "draws", False) for member in self.base_models])

    @property
    def draws(self) -> bool:
        """Whether answers are random: several models have positive weight, or a single random model."""
        used = np.flatnonzero(self.weights > 0)
        return len(used) > 1 or bool(np.isin(used, self.random_candidates).any())

    def numbers(self, members: Any, n: int) -> Ints:
        """Return the checked number of the answering base model for each row, shape (n,).

        Raises
        ------
        ValueError
            If ``members`` are not n numbers of base models, or a base model draws its label.
        """
        numbers = np.asarray(members)
        if numbers.shape != (n,) or numbers.dtype.kind not in "iu":
            raise ValueError(
                f"members must be {n:,} integers, one per row; got {numbers.dtype}, "
                f"{numbers.shape}"
            )
        outside = numbers[(numbers < 0) | (numbers >= len(self))]
        if len(outside):
            raise ValueError(
                f"members holds {outside[0]}; there are members 0 … {len(self) - 1}"
            )
        drawing = np.intersect1d(numbers, self.random_candidates)
        if len(drawing):
            raise ValueError(
                f"members holds {drawing[0]}, a candidate that draws its label from "
                "probabilities; a classifier with a rate as its objective has no such "
                "candidates"
            )
        return numbers

    def answer(self, member: int, X: Table) -> Ints:
        """Return the class numbers of one base model, shape (n,)."""
        return next(self.answers(X, [member]))

    def scores(self, X: Table) -> Floats:
        """Return the probability with which the rule answers each class, shape (n, K), with ties settled."""
        parts = batches(X)
        if len(parts) > 1:
            return np.concatenate([self.scores(take(X, part)) for part in parts])
        answers = self.answers(X, np.flatnonzero(self.weights > 0))
        return self.mix(answers, n_rows_of(X), lambda m, rows: self.answer(m, take(X, rows)))

    def probabilities(self, X: Table) -> Floats:
        """Return P(y | x), the λ-average of the base models' class probabilities, shape (n, K).

        Constants carry no information about a row and are left out. If constants have the whole weight, the
        other models have equal weights.
        """
        parts = batches(X)
        if len(parts) > 1:
            return np.concatenate([self.probabilities(take(X, part)) for part in parts])
        informative = np.flatnonzero([not is_constant(model) for model in self.base_models])
        if not len(informative):
            return self.scores(X)
        weights = self.weights[informative]
        if not weights.any():
            weights = np.ones(len(informative))
        weights = weights / weights.sum()
        used_models = [self.base_models[m] for m in informative[weights > 0]]
        probabilities_by_model = model_probabilities(used_models, X, self.n_classes)
        total = np.zeros((n_rows_of(X), self.n_classes))
        for weight, P in zip(weights[weights > 0], probabilities_by_model, strict=True):
            total += weight * P
        return total / total.sum(axis=1, keepdims=True)  # removes rounding errors

    def scores_of(self, answers: Any) -> Floats:
        """Return `scores` from the answers of all base models, shape (n_base_models, n)."""
        used_answers = (answers[m] for m in np.flatnonzero(self.weights > 0))
        return self.mix(used_answers, len(answers[0]), lambda m, rows: answers[m][rows])

    def mix(
        self, answers: Iterable[Ints], n_rows: int, answer: Callable[[int, Ints], Ints]
    ) -> Floats:
        """Return `scores` from the answers of the base models of positive weight, in their order.

        ``answer(member, rows)`` returns class numbers of any base model for some rows, to settle ties.
        """
        P = label_distribution(self.weights[self.weights > 0], answers, n_rows, self.n_classes)
        return settle_ties(P, self.tie_order, answer)


def label_distribution(
    weights: Floats, predictions: Iterable[Ints], n_rows: int, n_classes: int
) -> Floats:
    """Return ``P(k) = Σ_t λ_t 1[h_t(x) = k]`` for each row, shape (n, K), for the positive λ.

    The sum runs model by model, so a row's result does not depend on its batch.

    Parameters
    ----------
    weights : ndarray of shape (T,)
        The positive weights λ of base models h.
    predictions : iterable of T arrays
        Class numbers, shape (n,); or label distributions, shape (n, K), of a base model that draws.
    n_rows, n_classes : int
        n and K.
    """
    # By class: comparisons of the classes of a row are then ten times as fast.
    by_class = np.zeros((n_classes, n_rows))
    rows = np.arange(n_rows)
    for weight, answers in zip(weights, predictions, strict=True):
        if answers.ndim == 1:
            by_class[answers, rows] += weight
        else:
            by_class += weight * answers.T
    return by_class.T


def settle_ties(P: Floats, order: Iterable[int], answer: Callable[[int, Ints], Ints]) -> Floats:
    """Settle ties of P (n, K), in place, by the first base model in ``order`` with a tied class as answer.

    Optima for the CVaR of a small fraction α often have ties. A plain argmax would give each tied row the
    first class. Probabilities are compared after rounding to 1e-9. ``answer(member, rows)`` returns class
    numbers of a base model for some of the rows.
    """
    rounded = np.round(P, TIE_DECIMALS)
    is_tied = rounded == rounded.max(axis=1, keepdims=True)  # shape (n, K)
    open_rows = np.flatnonzero(is_tied.sum(axis=1) > 1)
    for member in order:
        if len(open_rows) == 0:
            break
        answers = answer(member, open_rows)
        if answers.ndim > 1:  # a label distribution
            answers = answers.argmax(axis=1)
        is_settled = is_tied[open_rows, answers]
        rows = open_rows[is_settled]
        winner = answers[is_settled]
        # One unit in the last place above the others: the argmax of P is the decision.
        P[rows, winner] = np.nextafter(P[rows].max(axis=1), 2.0)
        open_rows = open_rows[~is_settled]
    return P
