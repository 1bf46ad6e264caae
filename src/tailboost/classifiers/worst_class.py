"""Boosting for the worst class (group, cell) by targets: Saito et al. 2024, and what really bounds it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from tailboost._rows import unit_name
from tailboost.classifiers._base import BaseBoostClassifier, Problem, with_callbacks
from tailboost.classifiers._targets import DECIMALS, THETAS, TargetUnits, edge_from_share, targets_of
from tailboost.classifiers._weak_learning import BoundNotMetWarning, WeakLearningGame
from tailboost.classifiers.group import check_group_arguments
from tailboost.combine import Objective, Tally, settle_ties, shares
from tailboost.game import EndOfGame, Floats, Ints, Response, round_seed
from tailboost.guarantee import Bound
from tailboost.learners import LogitAdjustedClassifier
from tailboost.solvers import MixtureSolution
from tailboost.validation import CrossFitted, HeldOut, Rows, Scheme

# Rounds of the error game, where no γ says how many.
ERROR_ROUNDS = 30
# Rounds without a lower value after which a game ends in which every round costs fits.
PATIENCE = 10
# Classes that a warning names.
NAMED = 5


class WorstClassBoostClassifier(WeakLearningGame):
    """Boosting towards a target for the error of every class: "no class more than 1 − θ wrong".

    The player weighs classes (or groups, or class × group cells). The learner is grown only until its
    weighted loss is good enough, on rows it was not fitted on. Two games and two ways to combine:

    * ``class_loss="indicator"`` [1]_: the loss of a class is 1 where its error is at least 1 − θ, and the
      learner must have ``Σ_k w_k ℓ_k ≤ ½ − γ`` in every round. Then each class is fine for more than half of
      the voters. That their majority vote is fine is **not** implied: three voters wrong on 40 % of a class
      each can be wrong on 60 % of it together. So it is measured (`class_errors_`, `bound_met_`), never
      claimed.
    * ``class_loss="error"``: the loss is the class error itself, the ordinary minimax game, which serves two
      classes or groups too. With `combine="mixture"`, λ minimises the largest class error on the validation
      rows, and its value **is** the bound there, for the randomised classifier whose label distribution is
      `predict_proba`.

    Without a target (``theta="auto"``, ``gamma="auto"``) the error of the worst class is made as small as
    can be.

    Parameters
    ----------
    estimator : classifier, optional
        The base learner; one that can grow (`HistBoostClassifier`, forests, multi-layer perceptrons, SGD, …)
        is grown only as far as asked. None is `HistBoostClassifier`, and `LogitAdjustedClassifier` where the
        error game is played over classes: it answers a round by an argmax instead of a fit.
    theta : float in [0, 1), dict or "auto", default="auto"
        θ = 1 − allowed error. A dict has one per class (group, cell; for a cell its class serves too), key
        None for the rest: ``{1: .95, None: .8}`` allows class 1 at most 5 % wrong, the others 20 %. "auto"
        takes the largest of .1, …, .9, .95 for which the balanced model of round 1 meets the weak-learning
        condition on the validation rows (indicator), or that the mixture meets there (error).
    gamma : float in (0, 0.5] or "auto", default="auto"
        γ of the weak-learning condition; "auto" is ``⌊qK⌋/K − ½ − .0005``. Takes no part in the error game.
    q : float in (0, 1], default=0.8
        Share of the classes that must be fine in round 1, for ``gamma="auto"``.
    n_estimators : int or "auto", default="auto"
        Rounds T; "auto" is ``⌈2 ln K/γ²⌉`` in the indicator game, which can be hundreds (`n_iter_no_change`
        ends most games long before, without the theorem's conditions then), and 30 in the error game.
    eta : float or "theory", default="theory"
        Learning rate of Hedge; "theory" is √(8 ln K/T).
    class_loss : {"auto", "indicator", "error"}, default="auto"
        "auto" is the published game, "indicator", where a target is stated (``theta`` or ``gamma``) and
        γ > 0, else "error". To have a target met, whatever the game, say "error".
    combine : {"auto", "vote", "mixture"}, default="auto"
        "vote" is the majority vote of the first rounds, as many as have the least largest class error on the
        validation rows; "mixture" the optimal λ. "auto" is "vote" in the indicator game, else "mixture".
    units : {"auto", "class", "group", "cell"}, default="auto"
        What has targets: "auto" is "group" where `fit` is given groups, else "class"; "cell" is class ×
        group.
    max_rounds : int, optional
        Go on beyond ``n_estimators`` until the bound is really met on the validation rows, for at most so
        many rounds in all; `n_iter_no_change` takes no part then.
    validation : {"auto", "cv", "train"} or float in (0, 1), default="auto"
        The rows on which classes are measured, as in `AdaLPBoostClassifier`.
    include_constants : bool, default=True
        Whether the K constants join the mixture, beside plain ERM; a vote has neither.
    n_iter_no_change : int, None or "auto", default="auto"
        Stop when so many rounds together lowered the largest class error of the combination by less than
        ``tol``; None plays all. "auto" is 10, or None with the default learner of the error game over
        classes, whose rounds cost next to nothing.
    tol, max_time, checkpoint_dir, warm_start, n_jobs, random_state, verbose
        As in `AdaLPBoostClassifier`.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    units_ : ndarray of shape (m,)
        Names of the classes, the groups, or the (class, group) cells.
    theta_ : ndarray of shape (m,)
        θ of each.
    gamma_ : float or None
        γ; None in the error game.
    eta_ : float
    class_errors_ : ndarray of shape (m,)
        Error of `predict` on the validation rows, on which λ was chosen, too (members refitted to all rows,
        the errors those of their siblings that did not see the row); NaN where a class has none, or only
        rows that no sibling of another fold could learn from, such as a class with one row.
    expected_class_errors_ : ndarray of shape (m,)
        The same of the randomised classifier with the label distribution `predict_proba`.
    bound_met_ : bool
        Whether every class measured is within its target: by `class_errors_` for a vote, by
        `expected_class_errors_`, that is the solver's value, for a mixture.
    class_weights_ : ndarray of shape (T, m)
        The player's weights; None with more than 1,000 units.
    estimators_ : list
        The boosted hypotheses in order, the first the balanced model; for a mixture plain ERM and the
        constants.
    estimator_weights_ : ndarray
        Their shares: for a vote 1/T* on the first T* rounds.
    n_iter_, trace_, gap_, guarantee_, n_features_in_
        As in `AdaLPBoostClassifier`.

    References
    ----------
    .. [1] Saito et al.: Bounding the Worst-class Error: A Boosting Approach, 2024.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BaseBoostClassifier._parameter_constraints,
        "theta": [Interval(Real, 0, 1, closed="left"), dict, StrOptions({"auto"})],
        "gamma": [Interval(Real, 0, 0.5, closed="right"), StrOptions({"auto"})],
        "q": [Interval(Real, 0, 1, closed="right")],
        "n_estimators": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "class_loss": [StrOptions({"auto", "indicator", "error"})],
        "combine": [StrOptions({"auto", "vote", "mixture"})],
        "units": [StrOptions({"auto", "class", "group", "cell"})],
        "max_rounds": [Interval(Integral, 1, None, closed="left"), None],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        theta: Any = "auto",
        gamma: float | str = "auto",
        q: float = 0.8,
        n_estimators: int | str = "auto",
        eta: float | str = "theory",
        class_loss: str = "auto",
        combine: str = "auto",
        units: str = "auto",
        max_rounds: int | None = None,
        validation: Any = "auto",
        include_constants: bool = True,
        n_iter_no_change: int | str | None = "auto",
        tol: float = 1e-3,
        max_time: float | None = None,
        checkpoint_dir: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.theta = theta
        self.gamma = gamma
        self.q = q
        self.n_estimators = n_estimators
        self.eta = eta
        self.class_loss = class_loss
        self.combine = combine
        self.units = units
        self.max_rounds = max_rounds
        self.validation = validation
        self.include_constants = include_constants
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.max_time = max_time
        self.checkpoint_dir = checkpoint_dir
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    @with_callbacks
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        groups_val: Any = None,
        sample_weight_val: Any = None,
        **fit_params: Any,
    ) -> Self:
        """Play the game and combine the hypotheses.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n, d)
            What the base learner takes.
        y : array-like of shape (n,)
            Class labels of any type; None takes those of a torch Dataset given as X.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights; 2 is the row twice, 0 drops it.
        groups : array-like of shape (n,), optional
            Group of each row: targets are for groups, or for class × group cells, then.
        X_val, y_val, groups_val, sample_weight_val : optional
            An explicit validation set; needs ``validation="auto"``.
        **fit_params
            Metadata routed to the base learner's ``fit`` (with metadata routing enabled).

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument is not as described; nothing has been fitted then.

        Warns
        -----
        BoundNotMetWarning
            Names the classes that miss their target, and those that could not be measured.
        """
        check_group_arguments(groups, X_val, groups_val)
        if groups is None and self.units in ("group", "cell"):
            raise ValueError(f"units={self.units!r} needs groups in fit")
        if groups is not None and self.units == "class":
            raise ValueError("units='class' has no use for groups; use units='auto', 'group' or 'cell'")
        self._fit(X, y, sample_weight, groups, (X_val, y_val, groups_val, sample_weight_val), fit_params)
        self._warn()
        return self

    # Model files know no dictionary with the key None.
    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if isinstance(self.theta, Mapping):
            state["theta"] = list(self.theta.items())
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if isinstance(self.theta, list):
            self.theta = dict(self.theta)

    # -- the units and their targets -----------------------------------------------------------------

    def _check_problem(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, validation: tuple[Any, Any, Any, Any]
    ) -> Problem:
        self._kind = ("class" if groups is None else "group") if self.units == "auto" else self.units
        problem = super()._check_problem(X, y, sample_weight, groups, validation)
        if self._kind == "cell":
            assert problem.groups is not None
            K, names, groups_ = len(self.classes_), self.classes_.tolist(), self.groups_.tolist()
            self._cells = np.unique(problem.y + K * problem.groups)
            self.units_ = np.empty(len(self._cells), dtype=object)
            self.units_[:] = [(names[cell % K], groups_[cell // K]) for cell in self._cells]
        else:
            self.units_ = self.classes_ if self._kind == "class" else self.groups_
        self._count = float(len(self.units_))
        problem.groups = self._unit_numbers(problem.rows)
        if problem.validation is not None:
            X_val, rows = problem.validation
            problem.validation = X_val, replace(rows, groups=self._unit_numbers(rows))
        gamma = self._gamma()
        if self.class_loss == "indicator" and gamma <= 0:
            raise ValueError(
                f"gamma='auto' with q={self.q:g} gives γ = {gamma:.4g} for {len(self.units_)} units, which "
                "is not positive: use class_loss='error', or give gamma"
            )
        self.theta_ = targets_of(self.theta, self.units_.tolist(), self._kind)
        return problem

    def _unit_numbers(self, rows: Rows) -> Ints:
        if self._kind == "class":
            return rows.y
        assert rows.groups is not None
        if self._kind == "group":
            return rows.groups
        cell = rows.y + len(self.classes_) * rows.groups
        index = np.searchsorted(self._cells, cell).clip(max=len(self._cells) - 1)
        return np.where(self._cells[index] == cell, index, -1).astype(np.intp)

    def _gamma(self) -> float:
        return edge_from_share(self.q, len(self.units_)) if self.gamma == "auto" else float(self.gamma)

    @property
    def _aims(self) -> bool:
        """Whether a target is stated; without one the worst class's error shall be as small as can be."""
        return self.theta != "auto" or self.gamma != "auto"

    @property
    def _indicator(self) -> bool:
        """Whether the loss of a class is the indicator."""
        return self.class_loss == "indicator" or (
            self.class_loss == "auto" and self._aims and self._gamma() > 0
        )

    @property
    def _by_argmax(self) -> bool:
        """Whether the default learner is one that answers weights of classes without a fit."""
        return self.estimator is None and self._kind == "class" and not self._indicator

    def _learner(self) -> Any:
        # Before the units are known any learner serves: all defaults take the same tables.
        if hasattr(self, "units_") and self._by_argmax:
            return LogitAdjustedClassifier(n_jobs=self.n_jobs, random_state=getattr(self, "_entropy", None))
        return super()._learner()

    @property
    def _voting(self) -> bool:
        return self.combine == "vote" or (self.combine == "auto" and self._indicator)

    def _scheme(self, problem: Problem, fit_params: dict[str, Any]) -> Scheme:
        scheme = super()._scheme(problem, fit_params)
        if not isinstance(scheme, (CrossFitted, HeldOut)):
            return scheme
        # A class on one side only is not known to the models that are judged there.
        side = scheme.fold if isinstance(scheme, CrossFitted) else scheme.held.astype(np.intp)
        first, last = np.full(problem.n_classes, side.max()), np.zeros(problem.n_classes, dtype=side.dtype)
        np.minimum.at(first, problem.y, side)
        np.maximum.at(last, problem.y, side)
        judged = scheme.judged
        assert judged.groups is not None
        known = (first < last)[judged.y]
        if not known.any():  # a row per class: better a bad number than none
            return scheme
        return replace(scheme, judged=replace(judged, groups=np.where(known, judged.groups, -1)))

    def _units(self, problem: Problem, scheme: Scheme) -> TargetUnits:
        judged = scheme.judged
        assert problem.groups is not None
        assert judged.groups is not None
        inside, m = judged.groups >= 0, len(self.units_)
        measured = np.bincount(judged.groups[inside], weights=judged.weight[inside], minlength=m) > 0
        weight = np.where(inside, judged.weight, 0.0)
        units = TargetUnits.groups(problem.groups, problem.weight, judged.groups.clip(0), weight)
        allowed: Floats = np.where(np.isnan(self.theta_), 1.0, 1.0 - self.theta_).round(DECIMALS)
        allowed = np.where(measured, allowed, allowed[measured].max())
        return replace(units, allowed=allowed, indicator=self._indicator, measured=measured)

    # -- the game ------------------------------------------------------------------------------------

    @property
    def _targeted(self) -> TargetUnits:
        units = self._game.units
        assert isinstance(units, TargetUnits)
        return units

    def _edge(self) -> float | None:
        return self._gamma() if self._indicator else None

    def _rounds(self) -> int:
        if self.n_estimators == "auto" and not self._indicator:
            return ERROR_ROUNDS
        return super()._rounds()

    def _last_round(self) -> int:
        return max(self._rounds(), self.max_rounds or 0)

    def _patience(self) -> int | None:
        if self.max_rounds is not None:
            return None
        if self.n_iter_no_change == "auto":
            return None if self._by_argmax else PATIENCE
        patience: Any = self.n_iter_no_change
        return None if patience is None else int(patience)

    def _tied_to_rounds(self) -> str:
        tied = super()._tied_to_rounds()
        return tied or ("" if self._indicator or self.theta == "auto" else "the growth of the learner")

    def _demand(self) -> float:
        if self._indicator:
            return super()._demand()
        if self.theta == "auto":  # as good as it gets
            return 0.0
        # Σ_k w_k R_k ≤ 1 − θ − √(ln K/(2T)), in the scale of the losses
        units, T = self._targeted, self._rounds()
        allowed = float(units.allowed.max() / (1.0 + units.penalty.max()))
        return max(0.0, allowed - math.sqrt(math.log(self._count) / (2 * T)))

    def _respond(self, scheme: Scheme, u: Floats, seed: int) -> Response:
        t, rounds = self._game.n_rounds, self._game.trace.rounds
        if t and round(rounds[-1].value, DECIMALS) <= 0.0:
            raise EndOfGame(f"the objective reached 0 in round {t}")
        if self.max_rounds is not None and t >= self._rounds() and self._is_met(rounds[-1].value):
            raise EndOfGame(f"all targets are met on the validation rows after {t} rounds")
        return super()._respond(scheme, u, seed)

    def _is_met(self, excess: float) -> bool:
        return round(excess - float(self._targeted.allowed.max()), DECIMALS) <= 0

    def _open(self, problem: Problem, scheme: Scheme) -> None:
        if self._indicator and self.theta == "auto":
            theta = self._theta_of_first_round(scheme)
            allowed = np.full(len(self.units_), round(1.0 - theta, DECIMALS))
            self._game.units = replace(self._targeted, allowed=allowed)
        super()._open(problem, scheme)
        self._said: list[NDArray[Any]] = []
        self._tally = Tally(np.zeros((len(scheme.judged.y), problem.n_classes)))

    def _theta_of_first_round(self, scheme: Scheme) -> float:
        """Return the largest θ for which a stage of the balanced model meets the weak-learning condition."""
        units, demand, curve = self._targeted, super()._demand(), []

        def note(losses: NDArray[Any], answers: Ints) -> float:
            curve.append(np.nan_to_num(units.errors(answers != scheme.judged.y)))
            return 1.0

        scheme(units.density(units.base), round_seed(self._entropy, 0), note)
        R = np.array(curve)
        feasible = [
            theta
            for theta in THETAS
            if ((np.round(R - 1.0 + theta, DECIMALS) >= 0) @ units.base).min() <= demand
        ]
        return max(feasible, default=THETAS[0])

    def _objective(self) -> Objective:
        return Objective("worst_group", None, tuple(self._targeted.penalty.tolist()), self._kind)

    def _even_mixture(self) -> bool:
        return self._voting

    def _with_erm(self) -> bool:
        return not self._voting

    def _with_constants(self) -> bool:
        return self.include_constants and not self._voting

    # -- the combination -----------------------------------------------------------------------------

    def _join_pool(self, problem: Problem, scheme: Scheme) -> tuple[list[Any], list[Ints]]:
        members, answers = super()._join_pool(problem, scheme)
        self._extras_said = [_compact(k, problem.n_classes) for k in answers]
        return members, answers

    def _record(self, response: Response, state: Any) -> None:
        super()._record(response, state)
        self._said.append(_compact(response.answers, len(self.classes_)))
        if self._voting:
            self._tally.count(self._said, self._ledger.by_mean_loss())
            wrong = self._tally.decision != self._ledger.rows.y
            excess = self._targeted.excess(self._targeted.errors(wrong))
            mean = float(np.average(wrong, weights=self._ledger.rows.weight))
            self._tally.results.append((round(excess, DECIMALS), round(mean, DECIMALS)))

    def _forget(self, n_rounds: int) -> None:
        super()._forget(n_rounds)
        del self._said[n_rounds:]
        del self._tally.results[n_rounds:]

    def _value(self) -> tuple[float, float]:
        if self._voting:
            return min(self._tally.results)[0], 0.0
        solution = self._mixture()
        assert solution is not None
        return solution.value, solution.gap

    def _weights_of(self, solution: MixtureSolution | None, n_rounds: int) -> Floats:
        weights = super()._weights_of(solution, n_rounds)
        if solution is None:  # the best prefix: least excess, then least mean error, then the shortest
            results = self._tally.results[:n_rounds]
            voters = results.index(min(results)) + 1
            weights = np.where(np.arange(len(weights)) < voters, 1.0 / voters, 0.0)
        return weights

    def _judge_again(self, X: Any, rows: Rows) -> None:
        super()._judge_again(X, rows)
        self._said = []  # what the members said is about other rows
        for name in ("class_errors_", "expected_class_errors_", "bound_met_"):
            self.__dict__.pop(name, None)

    def _set_mixture(self, solution: MixtureSolution | None) -> None:
        super()._set_mixture(solution)
        units = self._targeted
        self.gamma_, self.eta_ = self._edge(), float(self._game.rule.eta)  # type: ignore[attr-defined]
        self.class_weights_ = self.trace_.weights
        if len(self._said) != self.n_iter_:
            return
        y, answers = self._ledger.rows.y, [*self._said, *self._extras_said]
        used = np.flatnonzero(self.estimator_weights_ > 0)
        P = shares(self.estimator_weights_[used], (answers[m] for m in used), len(y), len(self.classes_))
        self.expected_class_errors_ = units.errors(1.0 - P[np.arange(len(y)), y])
        settle_ties(P, self._settlers(self._order, used), lambda m, rows: answers[m][rows])
        self.class_errors_ = units.errors(P.argmax(axis=1) != y)
        promised = units.excess(self.class_errors_ if self._voting else self.expected_class_errors_)
        if self.theta == "auto":
            theta = 1.0 - float(units.allowed.max())
            if not self._indicator:  # the most demanding one that is met
                met = [theta for theta in THETAS if round(promised - 1.0 + theta, DECIMALS) <= 0]
                theta = max(met, default=THETAS[0])
            self.theta_ = np.full(len(self.units_), round(theta, DECIMALS))
            self.bound_met_ = round(promised - 1.0 + theta, DECIMALS) <= 0
        else:
            self.bound_met_ = self._is_met(promised)

    def _warn(self) -> None:
        errors = self.class_errors_ if self._voting else self.expected_class_errors_
        names = [unit_name(unit) for unit in self.units_.tolist()]
        unmeasured = [name for name, error in zip(names, errors, strict=True) if np.isnan(error)]
        if unmeasured:
            warnings.warn(
                f"{self._kind} {', '.join(unmeasured[:NAMED])}: no row to measure the error on that was not "
                "learnt from, so nothing is said about it",
                BoundNotMetWarning,
                stacklevel=5,
            )
        if not self.bound_met_:
            missed = np.flatnonzero(np.round(errors - 1.0 + self.theta_, DECIMALS) > 0)
            words = [f"{names[k]} ({errors[k]:.3g}, allowed {1 - self.theta_[k]:.3g})" for k in missed]
            more = " and others" if len(words) > NAMED else ""
            warnings.warn(
                f"the bound is not met on {self._ledger.rows.words} for {self._kind} "
                f"{', '.join(words[:NAMED])}{more}; {self.trace_.stop_reason}",
                BoundNotMetWarning,
                stacklevel=5,
            )

    def _bounds(self) -> tuple[tuple[Bound, ...], tuple[Bound, ...]]:
        promised, observed = super()._bounds()
        note = "loss of a voter: 1 where the error is 1 − θ or more" if self._indicator else ""
        promised, observed = (
            tuple(replace(b, note="; ".join(filter(None, (b.note, note)))) for b in bounds)
            for bounds in (promised, observed)
        )
        if len(self._said) == self.n_iter_:
            predict = Bound(
                f"largest error of predict on a {self._kind}, as measured on {self._ledger.rows.words}",
                "1 − θ",
                float(np.nanmax(1.0 - self.theta_)),
                self._targeted.excess(self.class_errors_),
                "a target, not a theorem",
            )
            observed = (*observed, predict)
        return promised, observed


def _compact(answers: Ints, n_classes: int) -> NDArray[Any]:
    return answers.astype(np.min_scalar_type(n_classes))
