"""What every boosting classifier shares: data in, the game, predictions out."""

from __future__ import annotations

import copy
import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils import Tags, _safe_indexing, check_random_state, column_or_1d, get_tags
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _raise_for_params,
    process_routing,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from tailboost._rows import distinct, draw_lots, fingerprint, hash_rows
from tailboost.classifiers._checkpoint import Checkpoints
from tailboost.combine import Ledger, Objective, draw, settle_ties, shares
from tailboost.game import Floats, Game, Ints, Response, Rule, Stopping, Trace, Units, play
from tailboost.guarantee import (
    COIN_TOLERANCE,
    Bound,
    Guarantee,
    beats_coin_flip_from,
)
from tailboost.learners import HistBoostClassifier, constant, open_session, predict_members
from tailboost.solvers import MixtureSolution
from tailboost.validation import CrossFitted, External, HeldOut, Resubstitution, Rows, Scheme, folds, held_out

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as with_callbacks
except ImportError:  # scikit-learn < 1.9 has no callbacks

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""

    def with_callbacks(method: Any) -> Any:
        """Return the method as it is."""
        return method


# "auto": cross-fitting costs 6 fits a round, a held-out fifth 2; from here on the fifth is large enough.
CROSS_FIT_UP_TO = 50_000
N_FOLDS = 5
HELD_OUT = 0.2
LEAST_HELD_OUT = 20  # rows that a held-out fifth of the smallest class or group must have
# Rows of a batch at prediction, to bound the memory of a converted table.
BATCH = 262_144


class FitInterruptedWarning(UserWarning):
    """A fit was ended early, by Ctrl-C or a time limit, and keeps the rounds it has."""


@dataclass
class Problem:
    """A checked training set: rows of positive weight, labels and groups as numbers."""

    X: Any
    y: Ints
    weight: Floats
    groups: Ints | None
    n_classes: int
    validation: tuple[Any, Rows] | None

    @property
    def rows(self) -> Rows:
        """The training rows, as rows to be judged on."""
        return Rows(self.y, self.weight, self.groups, f"the {len(self.y):,} training rows")


def take(X: Any, rows: NDArray[Any]) -> Any:
    """Return some rows of a table."""
    return _safe_indexing(X, np.flatnonzero(rows) if rows.dtype == np.bool_ else rows)


def n_rows_of(X: Any) -> int:
    """Return the number of rows of a table."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


class BaseBoostClassifier(CallbackSupportMixin, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """The scikit-learn face of a boosting game with a mixture of its hypotheses.

    A subclass names its rule, its units and its objective; everything else is here.
    """

    estimator: Any
    n_estimators: int
    class_weight: Any
    max_time: float | None
    checkpoint_dir: Any
    warm_start: bool
    n_jobs: int | None
    random_state: Any
    verbose: int

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "alpha": [Interval(Real, 0, 1, closed="right")],
        "eta": [Interval(Real, 0, None, closed="neither"), StrOptions({"theory"})],
        "beta": [Interval(Real, 0, None, closed="neither")],
        "validation": [Interval(Real, 0, 1, closed="neither"), StrOptions({"auto", "cv", "train"})],
        "include_constants": ["boolean"],
        "combine": [StrOptions({"minimax", "average"})],
        "outlier_fraction": [Interval(Real, 0, 1, closed="left")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "checkpoint_dir": [str, HasMethods(["__fspath__"]), None],
        "warm_start": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    # -- what a subclass says ------------------------------------------------------------------------

    @abstractmethod
    def _rule(self, units: Units) -> Rule[Any]:
        """Return the weight player."""

    @abstractmethod
    def _objective(self) -> Objective:
        """Return what shall be small, and what λ minimises unless the mixture is even."""

    @abstractmethod
    def _bounds(self) -> tuple[tuple[Bound, ...], tuple[Bound, ...]]:
        """Return the promised and the observed bounds of the fitted game."""

    def _units(self, problem: Problem, scheme: Scheme) -> Units:
        """Return what gets weight: by default every row the player weighs."""
        return Units.samples(problem.weight, scheme.player_rows)

    def _even_mixture(self) -> bool:
        """Whether λ is 1/T on the boosted hypotheses instead of the solution of a linear program."""
        return False

    def _with_erm(self) -> bool:
        """Whether plain ERM joins the pool without being boosted."""
        return False

    def _param(self, name: str, without: Any) -> Any:
        """Return a parameter that not every subclass has."""
        return getattr(self, name, without)

    # -- fitting -------------------------------------------------------------------------------------

    def _learner(self) -> Any:
        return HistBoostClassifier(n_jobs=self.n_jobs) if self.estimator is None else self.estimator

    def _check_X(self, X: Any, y: Any = None, **options: Any) -> Any:
        reset = y is not None
        given: dict[str, Any] = {} if y is None else {"y": y}
        if hasattr(X, "iloc"):  # data frames go to the learner as they are; it checks their columns
            return validate_data(self, X, reset=reset, skip_check_array=True, **given)
        tags = get_tags(self._learner()).input_tags
        return validate_data(
            self,
            X,
            reset=reset,
            accept_sparse=["csr", "csc"] if tags.sparse else False,
            ensure_all_finite="allow-nan" if tags.allow_nan else True,
            **given,
            **options,
        )

    def _numbers(self, y: Any, name: str = "y") -> Ints:
        y = column_or_1d(y, warn=True)
        index = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        unknown = self.classes_[index] != y
        if np.any(unknown):
            raise ValueError(f"{name} holds labels not seen in fit: {sorted(set(y[unknown].tolist()))[:5]}")
        return index.astype(np.intp)

    def _group_numbers(self, groups: Any, name: str, n: int) -> Ints:
        groups = column_or_1d(groups)
        if len(groups) != n:
            raise ValueError(f"{name} has {len(groups)} entries, X has {n} rows")
        index = np.searchsorted(self.groups_, groups).clip(max=len(self.groups_) - 1)
        unknown = self.groups_[index] != groups
        if np.any(unknown):
            raise ValueError(
                f"{name} holds groups not seen in fit: {sorted(set(groups[unknown].tolist()))[:5]}"
            )
        return index.astype(np.intp)

    def _class_factors(self, y: Ints, weight: Floats) -> Floats:
        """Factor of each class; "balanced" by weight, not by rows, so that weight 2 is the row twice."""
        if self.class_weight is None:
            return np.ones(len(self.classes_))
        if self.class_weight == "balanced":
            total = np.bincount(y, weights=weight, minlength=len(self.classes_))
            return weight.sum() / (len(self.classes_) * total)
        factors: Floats = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_[y])
        return factors

    def _check_problem(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, validation: tuple[Any, Any, Any, Any]
    ) -> Problem:
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        X, y = self._check_X(X, y)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        if len(y) != n_rows_of(X):
            raise ValueError(f"y has {len(y)} labels, X has {n_rows_of(X)} rows")
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        used = weight > 0
        if not used.any():
            raise ValueError("sample_weight: all weights are zero, at least one must be positive")
        self.classes_, index = np.unique(y[used], return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y holds one class only ({self.classes_[0]!r}) among the rows of positive weight; "
                "a classifier needs at least two classes"
            )
        weight = weight[used]
        weight = weight * self._class_factors(index, weight)[index]
        numbers = None
        if groups is not None:
            groups = column_or_1d(groups)
            if len(groups) != len(y):
                raise ValueError(f"groups has {len(groups)} entries, X has {len(y)} rows")
            self.groups_, numbers = np.unique(groups[used], return_inverse=True)
        problem = Problem(
            X if used.all() else take(X, used), index, weight, numbers, len(self.classes_), None
        )
        problem.validation = self._check_validation(*validation)
        return problem

    def _check_validation(self, X_val: Any, y_val: Any, groups_val: Any, weight_val: Any) -> Any:
        given = {"X_val": X_val, "y_val": y_val, "sample_weight_val": weight_val, "groups_val": groups_val}
        if X_val is None or y_val is None:
            alone = [name for name, value in given.items() if value is not None]
            if alone:
                raise ValueError(f"{', '.join(alone)} given, but a validation set needs both X_val and y_val")
            return None
        validation = self._param("validation", "train")
        if validation != "auto":
            raise ValueError(f"validation={validation!r} and X_val were both given; use validation='auto'")
        if n_rows_of(X_val) == 0:
            raise ValueError("X_val is empty: it needs at least one row")
        return self._judged_rows(
            X_val, y_val, weight_val, groups_val, suffix="_val", words="the {:,} rows of X_val"
        )

    def _judged_rows(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, suffix: str, words: str
    ) -> tuple[Any, Rows]:
        X = self._check_X(X)
        index = self._numbers(y, f"y{suffix}")
        n = n_rows_of(X)
        if len(index) != n:
            raise ValueError(f"y{suffix} has {len(index)} labels, X{suffix} has {n} rows")
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not weight.sum() > 0:
            raise ValueError(f"sample_weight{suffix}: all weights are zero, at least one must be positive")
        numbers = None
        if groups is not None:
            if not hasattr(self, "groups_"):
                self.groups_ = np.unique(column_or_1d(groups))
            numbers = self._group_numbers(groups, f"groups{suffix}", n)
        used = weight > 0
        rows = Rows(index[used], weight[used], None if numbers is None else numbers[used], "")
        return take(X, used), Rows(rows.y, rows.weight, rows.groups, words.format(len(rows.y)))

    def _scheme(self, problem: Problem, fit_params: dict[str, Any]) -> Scheme:
        X, train = problem.X, problem.rows
        session = open_session(self._learner(), X, train.y, problem.n_classes, train.weight, fit_params)
        if problem.validation is not None:
            X_val, judged = problem.validation
            return External(session, train, judged, lambda member: next(predict_members([member], X_val)))
        validation = self._param("validation", "train")
        if validation == "train":
            return Resubstitution(session, train, train)
        hashes = hash_rows(X, seed=self._entropy)
        strata = train.y
        if train.groups is not None:
            _, strata = np.unique(train.y + problem.n_classes * train.groups, return_inverse=True)
        places = draw_lots(hashes, strata, train.weight)
        n_distinct = int(places.max()) + 1
        if validation == "auto":
            smallest = np.bincount(strata[distinct(hashes)[0]]).min()
            enough = n_distinct > CROSS_FIT_UP_TO and smallest * HELD_OUT >= LEAST_HELD_OUT
            validation = HELD_OUT if enough else "cv"
        if validation == "cv":
            k = min(N_FOLDS, n_distinct)
            if k < 2:
                raise ValueError("validation='cv' needs at least two distinct rows in X")
            words = f"out-of-fold losses of the {len(train.y):,} training rows ({k} folds)"
            judged = Rows(train.y, train.weight, train.groups, words)
            return CrossFitted(session, train, judged, folds(places, k), self.n_jobs)
        held = held_out(places, validation)
        if not held.any() or held.all():
            raise ValueError(
                f"validation={validation:g} leaves {'no' if not held.any() else 'only'} validation rows "
                f"of {n_distinct} distinct ones; use 'cv', another fraction or more rows"
            )
        groups = None if train.groups is None else train.groups[held]
        judged = Rows(train.y[held], train.weight[held], groups, f"the {held.sum():,} held-out rows")
        return HeldOut(session, train, judged, held)

    def _open_ledger(self, problem: Problem, scheme: Scheme) -> tuple[list[Any], Ledger]:
        """Return the members that join the pool without being boosted, and a ledger with their losses."""
        judged, extras, wrong = scheme.judged, [], []
        if self._with_erm():
            response = scheme(np.ones(len(problem.y)), seed=self._entropy)
            extras.append(response.member)
            wrong.append(response.judged)
        if self._param("include_constants", False):
            extras += [constant(k, problem.n_classes) for k in range(problem.n_classes)]
            wrong += [judged.y != k for k in range(problem.n_classes)]
        return extras, Ledger.new(judged, wrong, self._param("outlier_fraction", 0.0))

    def _continue(self, problem: Problem, same: str) -> bool:
        """Whether this fit goes on with the rounds of the last one."""
        if not (self.warm_start and hasattr(self, "_game")):
            return False
        if getattr(self, "eta", None) == "theory":
            raise ValueError("eta='theory' depends on n_estimators, so warm_start cannot add rounds to it")
        if same != self._fingerprint:
            raise ValueError(
                "warm_start=True needs the data of the last fit; X, y, weights or groups changed"
            )
        if self.n_estimators < self.n_iter_:
            raise ValueError(
                f"with warm_start=True n_estimators must be at least n_iter_={self.n_iter_}, "
                f"got {self.n_estimators}"
            )
        return True

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, validation: Any, fit_params: dict[str, Any]
    ) -> Self:
        _raise_for_params(fit_params, self, "fit")
        routed = process_routing(self, "fit", **fit_params).estimator.fit if fit_params else {}
        context = None
        if hasattr(self, "_init_callback_context"):
            context = self._init_callback_context(max_subtasks=self.n_estimators)
        problem = self._check_problem(X, y, sample_weight, groups, validation)
        parts = [problem.y, problem.weight] + ([] if problem.groups is None else [problem.groups])
        same = fingerprint(hash_rows(problem.X), *parts)
        goes_on = self._continue(problem, same)
        if not goes_on:
            self._entropy = int(check_random_state(self.random_state).randint(2**31 - 1))
        scheme = self._scheme(problem, routed)
        if not goes_on:
            units = self._units(problem, scheme)
            self._game: Game[Any] = Game.new(self._rule(units), units)
            self._fingerprint = same
            self._boosted: list[Any] = []
            self._extras, self._ledger = self._open_ledger(problem, scheme)
            self.objective_, self._even = self._objective(), self._even_mixture()
        checkpoints = Checkpoints.open(self.checkpoint_dir, self, same)
        checkpoints.replay(self)
        self._play(problem, scheme, checkpoints, context)
        return self._settle()

    def _take_in(self, response: Response) -> tuple[float, float]:
        """Take a response into the pool; return the objective of the pool and the solver's gap."""
        # An interrupt may have come between the member of a round and the end of that round.
        del self._boosted[self._game.n_rounds :]
        if self._ledger.boosted.shape[0] > self._game.n_rounds:
            self._ledger = self._ledger_of(self._game.n_rounds)
        self._boosted.append(response.member)
        self._ledger = self._ledger.append(response.judged)
        if self._param("n_iter_no_change", None) is None and not self.verbose:
            return np.nan, 0.0
        solution = self._mixture()
        return (np.nan, 0.0) if solution is None else (solution.value, solution.gap)

    def _ledger_of(self, n_rounds: int) -> Ledger:
        boosted = self._ledger.boosted.select(members=np.arange(n_rounds))
        return Ledger(self._ledger.rows, boosted, self._ledger.extras, self._ledger.outlier_fraction)

    def _play(self, problem: Problem, scheme: Scheme, checkpoints: Checkpoints, context: Any) -> None:
        if context is not None:
            context.call_on_fit_task_begin(estimator=self, X=problem.X, y=problem.y)
        newest: list[Response] = []

        def oracle(u: Floats, seed: int) -> Response:
            response = scheme(u, seed)
            if self._game.units.loss_index is not None:  # groups are measured where members are judged
                response = Response(response.member, response.judged, response.judged)
            newest[:] = [response]
            return response

        def observe(game: Game[Any]) -> bool:
            checkpoints.save(game, newest[0])
            t, last = game.n_rounds, game.trace.rounds[-1]
            if self.verbose:
                print(
                    f"round {t}/{self.n_estimators}  weighted loss {last.weighted_loss:.4f}  objective "
                    f"{last.value:.4f}  effective size {last.effective_size:.3f}  {last.seconds:.2f} s",
                    flush=True,
                )
            if context is None:
                return False
            return bool(
                context.subcontext(task_name="round").call_on_fit_task_end(
                    estimator=self, X=problem.X, y=problem.y, reconstruction_attributes=self._snapshot
                )
            )

        play(
            self._game,
            oracle,
            self.n_estimators,
            entropy=self._entropy,
            judge=self._take_in,
            stopping=Stopping(self._param("n_iter_no_change", None), self._param("tol", 0.0), self.max_time),
            observe=observe,
        )
        reason = self._game.trace.stop_reason
        if reason.startswith(("interrupted", "time limit")):
            warnings.warn(f"fit {reason}; the rounds so far are kept", FitInterruptedWarning, stacklevel=4)
        if context is not None:
            context.call_on_fit_task_end(
                estimator=self, X=problem.X, y=problem.y, reconstruction_attributes=self._snapshot
            )

    def _snapshot(self) -> dict[str, Any]:
        """Attributes of the classifier as if the fit had stopped here, for callbacks."""
        now = copy.copy(self)._settle()
        names = ("estimators_", "estimator_weights_", "trace_", "n_iter_", "gap_", "_order")
        return {name: getattr(now, name) for name in names}

    def _settle(self) -> Self:
        """Set what a fitted classifier shows, from the game, the members and the ledger."""
        t = self._game.n_rounds
        del self._boosted[t:]
        if self._ledger.boosted.shape[0] > t:
            self._ledger = self._ledger_of(t)
        self.trace_: Trace = self._game.trace
        self.n_iter_ = t
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
            if not 0 < alpha <= 1:
                raise ValueError(f"alpha={alpha!r} must be in (0, 1]")
        elif alpha is not None:
            raise ValueError(f"alpha={alpha!r} has no meaning with objective={objective!r}")
        new = copy.copy(self)
        if alpha is not None and "alpha" in self.get_params(deep=False):
            new.alpha = alpha
        new.objective_, new._even = Objective(objective, alpha), False  # type: ignore[arg-type]
        if X is not None or y is not None:
            if X is None or y is None:
                raise ValueError("reweight needs both X and y, or neither")
            if groups is not None:
                new.groups_ = np.unique(column_or_1d(groups))
            X, rows = new._judged_rows(X, y, sample_weight, groups, "", "the {:,} rows given to reweight")
            if objective == "worst_group" and rows.groups is None:
                raise ValueError("objective='worst_group' needs groups")
            new._ledger = self._judge_again(X, rows)
        elif groups is not None or sample_weight is not None:
            raise ValueError("groups and sample_weight belong to rows: give X and y with them")
        new._set_mixture(new._mixture())
        return new

    def _judge_again(self, X: Any, rows: Rows) -> Ledger:
        wrong = (k != rows.y for k in predict_members(self.estimators_, X))
        boosted = [next(wrong) for _ in self._boosted]
        ledger = Ledger.new(rows, wrong, self._ledger.outlier_fraction)
        for w in boosted:
            ledger = ledger.append(w)
        return ledger

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
        values = np.asarray(alphas, dtype=np.float64)
        if values.ndim != 1 or len(values) == 0 or not np.all((values > 0) & (values <= 1)):
            raise ValueError(f"alphas={alphas!r} must be a non-empty list of numbers in (0, 1]")
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
            is_coin_flip=achieved >= coin - COIN_TOLERANCE,
            beats_coin_flip_from=None if alpha is None else beats_coin_flip_from(ledger, K),
            symbols=symbols,
        )

    # -- prediction ----------------------------------------------------------------------------------

    def _answers(self, X: Any, members: Iterable[int]) -> Iterator[Ints]:
        return predict_members((self.estimators_[m] for m in members), X)

    def _shares(self, X: Any) -> Floats:
        """Shares for a checked table, ties settled; in batches, to bound memory."""
        n = n_rows_of(X)
        if n > BATCH:
            parts = (np.arange(a, min(a + BATCH, n)) for a in range(0, n, BATCH))
            return np.concatenate([self._shares(take(X, part)) for part in parts])
        used = np.flatnonzero(self.estimator_weights_ > 0)
        P = shares(self.estimator_weights_[used], self._answers(X, used), n, len(self.classes_))
        return settle_ties(P, self._order, lambda m, rows: next(self._answers(take(X, rows), [m])))

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
            order = self._order[np.isin(self._order, pool)]
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

    # -- scikit-learn --------------------------------------------------------------------------------

    def get_metadata_routing(self) -> MetadataRouter:
        """Route metadata given to ``fit`` to the learner; ``sample_weight`` is this classifier's own."""
        return (
            MetadataRouter(owner=type(self).__name__)
            .add_self_request(self)
            .add(estimator=self._learner(), method_mapping=MethodMapping().add(caller="fit", callee="fit"))
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        learner = get_tags(self._learner()).input_tags
        tags.input_tags.sparse = learner.sparse
        tags.input_tags.allow_nan = learner.allow_nan
        return tags
