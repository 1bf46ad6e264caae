"""Classifiers that mix their hypotheses: exact shares λ, re-weighting, and the label shares as answer."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted

from tailboost._rows import unpack
from tailboost.checkpoints import keep
from tailboost.classifiers._base import BaseBoostClassifier, Problem, batches, n_rows_of, take
from tailboost.combine import Ledger, Objective, draw, settle_ties, shares
from tailboost.game import Floats, Ints, Response
from tailboost.guarantee import COIN_TOLERANCE, Bound, Guarantee, beats_coin_flip_from, best_constants
from tailboost.learners import constant, predict_members
from tailboost.solvers import MixtureSolution
from tailboost.solvers.bits import check_number
from tailboost.validation import Rows, Scheme


class MixtureClassifier(BaseBoostClassifier):
    """A randomised classifier: draw a hypothesis with probability λ, answer as it does."""

    @abstractmethod
    def _objective(self) -> Objective:
        """Return what shall be small, and what λ minimises unless the mixture is even."""

    @abstractmethod
    def _bounds(self) -> tuple[tuple[Bound, ...], tuple[Bound, ...]]:
        """Return the promised and the observed bounds of the fitted game."""

    def _even_mixture(self) -> bool:
        """Whether λ is 1/T on the boosted hypotheses instead of the solution of a linear program."""
        return False

    def _with_erm(self) -> bool:
        """Whether plain ERM joins the pool without being boosted."""
        return False

    def _with_constants(self) -> bool:
        """Whether the K constants join the pool."""
        return bool(self._param("include_constants", False))

    def _open(self, problem: Problem, scheme: Scheme) -> None:
        self._extras, answers = self._join_pool(problem, scheme)
        wrong = (k != scheme.judged.y for k in answers)
        self._ledger = Ledger.new(scheme.judged, wrong, self._param("outlier_fraction", 0.0))
        self.objective_, self._even = self._objective(), self._even_mixture()

    def _join_pool(self, problem: Problem, scheme: Scheme) -> tuple[list[Any], list[Ints]]:
        """Return what joins the pool without being boosted, and its answers on the judged rows."""
        members, answers = [], []
        if self._with_erm():
            response = scheme(np.ones(len(problem.y)), seed=self._entropy)
            keep(response.member, self.checkpoint_dir)
            members, answers = [response.member], [response.answers]
        if self._with_constants():
            members += [constant(k, problem.n_classes) for k in range(problem.n_classes)]
            answers += [np.full(len(scheme.judged.y), k) for k in range(problem.n_classes)]
        return members, answers

    def _record(self, response: Response, state: Any) -> None:
        self._ledger = self._ledger.append(response.answers != self._ledger.rows.y)

    def _forget(self, n_rounds: int) -> None:
        if self._ledger.boosted.shape[0] > n_rounds:
            self._ledger = self._ledger.first(n_rounds)

    def _value(self) -> tuple[float, float]:
        if self._patience() is None and not self.verbose:
            return np.nan, 0.0
        solution = self._mixture()
        return (np.nan, 0.0) if solution is None else (solution.value, solution.gap)

    def _settle(self) -> Self:
        self.trace_ = self._game.trace
        self.n_iter_ = self._game.n_rounds
        self.estimators_ = [*self._boosted, *self._extras]
        self._set_mixture(self._mixture())
        return self

    def _mixture(self, n_rounds: int | None = None) -> MixtureSolution | None:
        return None if self._even else self._ledger.solve(self.objective_, n_rounds)

    def _weights_of(self, solution: MixtureSolution | None, n_rounds: int) -> Floats:
        """Return λ over the pool of the first ``n_rounds`` hypotheses and the extras."""
        if solution is None:
            return np.repeat([1.0 / n_rounds, 0.0], [n_rounds, len(self._extras)])
        return solution.weights

    def _set_mixture(self, solution: MixtureSolution | None) -> None:
        self.estimator_weights_ = self._weights_of(solution, self.n_iter_)
        gaps = [0.0, *self.trace_.gap.tolist()] + ([] if solution is None else [solution.gap])
        self.gap_ = max(gaps)
        self._order = self._ledger.by_mean_loss()
        self.__dict__.pop("_guarantee", None)

    # -- after fitting -------------------------------------------------------------------------------

    def reweight(
        self,
        X: Any = None,
        y: Any = None,
        *,
        alpha: float | None = None,
        objective: str = "cvar",
        groups: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Return a new classifier with the same members and other shares λ; nothing is trained.

        Parameters
        ----------
        X, y : optional
            Rows to choose λ on; without them the losses kept with the model serve.
        alpha : float in (0, 1], optional
            Tail mass for ``objective="cvar"``; by default the classifier's own.
        objective : {"cvar", "worst_class", "worst_group"}, default="cvar"
            What λ shall minimise.
        groups : array-like of shape (n,), optional
            Group of each row of X, for ``objective="worst_group"``.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows of X.

        Returns
        -------
        classifier
            Of the same class; this one is unchanged.
        """
        check_is_fitted(self)
        if objective not in ("cvar", "worst_class", "worst_group"):
            raise ValueError(f"objective={objective!r}; allowed are 'cvar', 'worst_class', 'worst_group'")
        if objective == "cvar":
            alpha = getattr(self, "alpha", None) if alpha is None else alpha
            if alpha is None:
                raise ValueError(f"alpha is needed: {type(self).__name__} has none of its own")
            alpha = check_number(alpha, "alpha", 0, 1)
        elif alpha is not None:
            raise ValueError(f"alpha={alpha!r} has no meaning with objective={objective!r}")
        new = copy.copy(self)
        if alpha is not None and "alpha" in self.get_params(deep=False):
            new.alpha = alpha
        new.objective_, new._even = Objective(objective, alpha), False  # type: ignore[arg-type]
        X, y = unpack(X, y)
        if X is not None or y is not None:
            if X is None or y is None:
                raise ValueError("reweight needs both X and y, or neither")
            if groups is not None:
                new.groups_ = np.unique(column_or_1d(groups))
            X, rows = new._judged_rows(X, y, sample_weight, groups, "", "the {:,} rows given to reweight")
            if objective == "worst_group" and rows.groups is None:
                raise ValueError("objective='worst_group' needs groups")
            new._judge_again(X, rows)
        elif groups is not None or sample_weight is not None:
            raise ValueError("groups and sample_weight belong to rows: give X and y with them")
        new._set_mixture(new._mixture())
        return new

    def _judge_again(self, X: Any, rows: Rows) -> None:
        wrong = (k != rows.y for k in predict_members(self.estimators_, X))
        boosted = [next(wrong) for _ in self._boosted]
        self._ledger = Ledger.new(rows, wrong, self._ledger.outlier_fraction)
        for w in boosted:
            self._ledger = self._ledger.append(w)

    def alpha_path(self, alphas: Sequence[float]) -> Floats:
        """Return λ for many α, without training anything.

        Parameters
        ----------
        alphas : sequence of float in (0, 1]
            Tail masses.

        Returns
        -------
        ndarray of shape (len(alphas), n_members)
            One row of `estimator_weights_` per α.
        """
        check_is_fitted(self)
        if np.ndim(alphas) != 1 or np.size(alphas) == 0:
            raise ValueError(f"alphas={alphas!r} must be a non-empty list of numbers in (0, 1]")
        values = np.array([check_number(alpha, "each of alphas", 0, 1) for alpha in alphas])
        return np.array([s.weights for s in self._ledger.path(values)])

    @property
    def guarantee_(self) -> Guarantee:
        """What was promised, observed and achieved (computed when first asked for)."""
        check_is_fitted(self)
        if "_guarantee" not in self.__dict__:
            self._guarantee = self._make_guarantee()
        return self._guarantee

    def _make_guarantee(self) -> Guarantee:
        K, ledger, objective = len(self.classes_), self._ledger, self.objective_
        coin = 1.0 - 1.0 / K
        achieved = ledger.evaluate(objective, self.estimator_weights_)
        # Plain ERM is the first boosted hypothesis, or the first extra of a game over groups.
        alone = np.zeros(len(self.estimators_))
        alone[self.n_iter_ if self._with_erm() else 0] = 1.0
        balanced = self._game.units.loss_index is not None and not self._with_erm()
        promised, observed = self._bounds()
        symbols = {
            "T": f"{self.n_iter_} rounds",
            "K": f"{K} classes",
            "λ": "estimator_weights_, the shares of the members",
            "p": "base measure over units, the normalised sample weights",
            "V": f"mean weighted loss of the rounds, {self.trace_.weighted_loss.mean():.4g}",
            "g": f"largest weighted loss of a round, {self.trace_.weighted_loss.max():.4g}",
        }
        alpha = objective.alpha
        if alpha is not None:
            symbols["α"] = f"tail mass, {alpha:g}"
        return Guarantee(
            promised=promised,
            observed=observed,
            achieved=achieved,
            gap=self.gap_,
            objective=str(objective),
            judged_on=ledger.rows.words,
            coin_flip_value=coin,
            erm_value=ledger.evaluate(objective, alone),
            constants_value=best_constants(ledger, objective, K),
            is_coin_flip=achieved >= coin - COIN_TOLERANCE and not any(objective.penalty or ()),
            beats_coin_flip_from=None if alpha is None else beats_coin_flip_from(ledger, K),
            symbols=symbols,
            alone="the balanced model of round 1" if balanced else "plain ERM",
        )

    # -- prediction ----------------------------------------------------------------------------------

    def _answers(self, X: Any, members: Iterable[int]) -> Iterator[Ints]:
        return predict_members((self.estimators_[m] for m in members), X)

    def _settlers(self, pool: Ints, used: Ints) -> Ints:
        """Members that settle ties, in order: all of the pool, of an even mixture those that it mixes."""
        return self._order[np.isin(self._order, used if self._even else pool)]

    def _shares(self, X: Any) -> Floats:
        """Shares for a checked table, ties settled; in batches, to bound memory."""
        n = n_rows_of(X)
        if len(parts := batches(X)) > 1:
            return np.concatenate([self._shares(take(X, part)) for part in parts])
        used = np.flatnonzero(self.estimator_weights_ > 0)
        P = shares(self.estimator_weights_[used], self._answers(X, used), n, len(self.classes_))
        order = self._settlers(self._order, used)
        return settle_ties(P, order, lambda m, rows: next(self._answers(take(X, rows), [m])))

    def predict_proba(self, X: Any) -> Floats:
        """Return the label distribution of the randomised classifier, the mixture's shares.

        This is **not** P(y | x): it says how often each label would be drawn. Guarantees about the mixture
        are about this distribution; the expected zero-one loss of a row is 1 − its share of the true label.
        For calibrated probabilities wrap the classifier in ``CalibratedClassifierCV``.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, K)
            Columns in the order of ``classes_``; rows sum to 1 (to 1e-9).
        """
        check_is_fitted(self)
        return self._shares(self._check_X(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label with the largest share: deterministic, row by row.

        Shares equal after rounding to 1e-9 are a tie, which goes to the answer of the tied member with the
        least mean loss.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        P = self.predict_proba(X)
        return self.classes_[P.argmax(axis=1)]

    def predict_randomized(self, X: Any, random_state: Any = None) -> NDArray[Any]:
        """Draw a label for every row from ``predict_proba``: for study, never for decisions about people.

        Parameters
        ----------
        X : array-like of shape (n, d)
        random_state : int, RandomState or None
            Seed of the draw.

        Returns
        -------
        ndarray of shape (n,)
        """
        P = self.predict_proba(X)
        return self.classes_[draw(P, check_random_state(random_state))]

    def staged_predict_proba(self, X: Any) -> Iterator[Floats]:
        """Yield ``predict_proba`` after 1, 2, … rounds, λ solved anew on each prefix.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Yields
        ------
        ndarray of shape (n, K)
            The last is that of ``predict_proba``.
        """
        check_is_fitted(self)
        X = self._check_X(X)
        n, T, E = n_rows_of(X), self.n_iter_, len(self._extras)
        answers = np.array(list(self._answers(X, range(T + E))), dtype=np.intp).reshape(T + E, n)
        for t in range(1, T + 1):
            pool = np.r_[:t, T : T + E]
            weights = self.estimator_weights_ if t == T else self._weights_of(self._mixture(t), t)
            used = weights > 0
            P = shares(weights[used], answers[pool[used]], n, len(self.classes_))
            order = self._settlers(pool, pool[used])
            yield settle_ties(P, order, lambda m, rows: answers[m, rows])

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """Yield ``predict`` after 1, 2, … rounds, λ solved anew on each prefix.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Yields
        ------
        ndarray of shape (n,)
            The last is that of ``predict``.
        """
        for P in self.staged_predict_proba(X):
            yield self.classes_[P.argmax(axis=1)]
