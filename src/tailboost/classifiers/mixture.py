"""Classifiers that mix their hypotheses: label shares as answer, re-weighting, and what was promised."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from tailboost._checks import check_number, n_rows_of
from tailboost._rows import Sketch
from tailboost._torch_rows import unpack
from tailboost._typing import Floats, Ints
from tailboost._units import group_uses
from tailboost._warn import warn_user
from tailboost.classifiers._base import BaseBoostClassifier
from tailboost.classifiers._base import routed_params as routed_params
from tailboost.classifiers._base import with_callbacks as with_callbacks
from tailboost.classifiers.docs import documented
from tailboost.classifiers.input import ValidationRows, judged_rows, named_groups, rows_given
from tailboost.classifiers.plan import Plan, Schedule
from tailboost.classifiers.randomized import RandomizedClassifier
from tailboost.classifiers.target_game import warn_of_targets
from tailboost.classifiers.tradeoff import Source, TradeOff, checked_budget, trace
from tailboost.combiners import Mixture, MixtureEnsemble, Objective
from tailboost.combiners.objective import WorstUnit, objective_named
from tailboost.data import GroupNames, Rows, n_group_rows
from tailboost.statements.guarantee import Bounds, Guarantee, guarantee
from tailboost.statements.known_rows import ResubstitutionWarning, noting_seen
from tailboost.targets import checked_targets
from tailboost.thresholds import RateTable

# What serves where no rows are given to `reweight`.
KEPT = (
    "the losses kept with the model (objective='worst_group' then takes the groups of the training rows "
    "alone)"
)


class MixtureClassifier(BaseBoostClassifier, RandomizedClassifier):
    """A randomised classifier: draw a hypothesis with probability λ, answer as it does."""

    ensemble_: MixtureEnsemble

    @abstractmethod
    def _bounds(self) -> Bounds:
        """Return the promised and the observed bounds of the fitted game."""

    def _unit_table(self) -> RateTable | None:
        """Return the errors of the units of the game, where there are few and they are known."""
        return None

    @property
    def combiner_(self) -> Mixture:
        """The pool of hypotheses with their losses on the judged rows, and how they were combined."""
        return cast("Mixture", self._run.plan.combiner)

    @property
    def objective_(self) -> Objective:
        """What the mixture makes small, or what it is judged by."""
        return self.combiner_.objective

    @property
    def gap_(self) -> float:
        """Largest optimality gap of a solve; of one member alone what members that share could gain."""
        check_is_fitted(self)
        return max(0.0, *self.trace_.gap.tolist(), self.combiner_.gap(self.ensemble_))

    def _set_ensemble(self, ensemble: MixtureEnsemble) -> None:
        self.ensemble_ = ensemble
        self.__dict__.pop("_guarantee", None)
        self.__dict__.pop("certificate_", None)  # of `tailboost.calibrate`, about other shares

    def _rows_kept(self) -> Rows:
        return self.combiner_.pool.ledger.rows

    def _own_groups(self, rows: Rows) -> Rows:
        """Return rows with their groups numbered as the units of the fitted game."""
        return rows

    def reweight(
        self,
        X: Any = None,
        y: Any = None,
        *,
        alpha: float | None = None,
        objective: str | Objective | None = None,
        groups: Any = None,
        sample_weight: Any = None,
        mean_budget: float | None = None,
        max_error: Any = None,
    ) -> Self:
        """Return a new classifier with the same members and other shares λ; nothing is trained.

        Parameters
        ----------
        X, y : optional
            Rows to choose λ on, which the members were not fitted on; without them the losses kept with the
            model serve: out-of-fold losses of the training rows, or those of a held-out part or of ``X_val``.
        alpha : float in (0, 1], optional
            Tail mass for ``objective="cvar"``; by default the classifier's own.
        objective : {"cvar", "worst_class", "worst_group"} or Objective, optional
            What λ minimises; by default "cvar" where an ``alpha`` is known, else what the classifier was
            fitted for. Or an objective itself, such as a `tailboost.WorstUnit`.
        groups : array-like of shape (n,) or table of n rows, optional
            Groups, as in `fit`, of the rows of X or, without X and for "worst_group", of those given where
            the losses kept are from: to `fit` as X, or as ``X_val``, or to the last `reweight`.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows of X.
        mean_budget : float in [0, 1], optional
            λ is chosen among the mixtures whose mean error, on the rows of the choice, is at most
            ``mean_budget`` above the least of a member; by default the classifier's own budget, if it has
            one. 1 sets no limit. `tradeoff` shows what each budget buys.
        max_error : float in (0, 1] or dict, optional
            Targets for the units of an objective over classes, groups or cells, as of
            `WorstClassBoostClassifier`: of the mixtures that keep them, by the estimate on halves of the
            rows, the one of least mean error answers, and where none does the one that is least beyond them.
            `predict` is judged, or the drawn member where the answers of the members are not known (more than
            two classes, and a classifier over rows). By default the classifier's own, where the objective is
            its own.

        Returns
        -------
        classifier
            Of the same class; this one is unchanged.

        Raises
        ------
        ValueError
            If an argument is not as described, or a group has no row whose loss is known.

        Warns
        -----
        ResubstitutionWarning
            Where members were fitted on the rows (see `seen_share`): they err less there than on fresh rows.
        BoundNotMetWarning
            Names the units whose error is above their target.
        """
        check_is_fitted(self)
        alpha = self._alpha_for(objective, alpha)
        own = objective is None and alpha is None
        aim = self.objective_ if own else objective_named(objective or "cvar", alpha)
        combiner: Mixture = self.combiner_
        budget = combiner.mean_budget if mean_budget is None else checked_budget(mean_budget)
        new = copy.copy(self)
        if alpha is not None and "alpha" in self.get_params(deep=False):
            new.alpha = alpha
        X, y = unpack(X, y)
        numbers = None
        if rows_given("reweight", X, y, sample_weight=sample_weight):
            if groups is not None and not own:
                new._name_groups(groups, n_rows_of(X))
            if objective == "worst_group" and groups is None:
                raise ValueError("objective='worst_group' needs groups")
            given = ValidationRows(X, y, groups, sample_weight)
            X, rows = judged_rows(new, self._learner(), given, "", "the {:,} rows given to reweight")
            rows = noting_seen(self.seen_rows_, X, rows, KEPT)
            new.chosen_rows_ = (*self.chosen_rows_, Sketch.of_rows(X))
            limited = max_error is not None or (own and combiner.limit is not None)
            combiner = combiner.judged_on(X, self._own_groups(rows) if own else rows, limited)
        elif groups is not None:
            if objective != "worst_group":
                raise ValueError("groups without X and y need objective='worst_group'")
            numbers = new._groups_of_judged(groups)
        limit = combiner.limit if own else None
        if max_error is not None:
            if aim.unit is None:
                raise ValueError(
                    f"max_error={max_error!r} has no meaning with the {aim}: give objective='worst_class' or "
                    "'worst_group'"
                )
            names = new._names_of(cast("WorstUnit", aim))
            allowed = checked_targets(max_error, names, aim.unit)
            aim, limit = cast("WorstUnit", aim).held_to(allowed)
            new._take_targets(aim, max_error, allowed)
        found = self._combined_by(new, combiner.aiming_at(aim, numbers, budget, limit), X is not None)
        if max_error is not None:
            warn_of_targets(found.combiner_, names, allowed)
        return found

    def _names_of(self, objective: WorstUnit) -> list[Any]:
        """Return the names of the units of an objective."""
        names: list[Any] = (self.classes_ if objective.unit == "class" else self.groups_).tolist()
        return names

    def _take_targets(self, objective: WorstUnit, max_error: Any, allowed: Floats) -> None:
        """Take targets for the units of an objective, where the classifier has targets of its own."""

    def _alpha_for(self, objective: Any, alpha: float | None) -> float | None:
        """Return the tail mass of an objective as given to `reweight`, checked; None where it has none."""
        if alpha is None and objective in (None, "cvar"):
            alpha = self.get_params(deep=False).get("alpha")
        if objective == "cvar" and alpha is None:
            raise ValueError(f"alpha is needed: {type(self).__name__} has none of its own")
        if objective not in (None, "cvar") and alpha is not None:
            raise ValueError(f"alpha={alpha!r} has no meaning with objective={objective!r}")
        return None if alpha is None else check_number(alpha, "alpha", 0, 1)

    def _combined_by(self, new: Self, combiner: Mixture, elsewhere: bool = False) -> Self:
        """Let a copy of this classifier mix the members by another combiner."""
        own = self.combiner_
        if own.chooses_shares and "mean_budget" in self.get_params(deep=False):
            new.set_params(mean_budget=combiner.mean_budget)
        # More rounds for this classifier must not reach the new one, nor the other way round.
        new._run = replace(
            self._run,
            plan=replace(self._run.plan, combiner=combiner),
            game=self.game_.snapshot(),
            judged_elsewhere=self._run.judged_elsewhere or elsewhere,
        )
        new.trace_ = new.game_.trace
        new._set_ensemble(combiner.settle(new.game_))
        return new

    def tradeoff(self, budgets: Sequence[float] | None = None) -> TradeOff:
        """Return what a lower worst error costs in mean error, without training anything.

        Parameters
        ----------
        budgets : sequence of float in [0, 1], optional
            Points wanted, as mean errors above the least of a member; None gives the breakpoints of the whole
            curve, between which it is straight.

        Returns
        -------
        TradeOff
            On the rows λ was chosen on; its ``at(mean_budget)`` gives the classifier of a point, and
            ``predicted(X, y)`` what `predict` does on other rows. For a vote, that of a mixture of its
            voters.

        Raises
        ------
        ValueError
            If a budget is not in [0, 1].
        """
        check_is_fitted(self)
        mixture = self.combiner_.aiming_at(self.objective_)
        source = Source(self.ensemble_, self.objective_, self._within, self._judge, self._checked)
        return trace(mixture, source, budgets)

    def _within(self, mean_budget: float) -> Self:
        combiner = self.combiner_.aiming_at(self.objective_, mean_budget=mean_budget)
        return self._combined_by(copy.copy(self), combiner)

    def _judge(self, X: Any, y: Any, groups: Any, sample_weight: Any) -> tuple[Rows, Sequence[NDArray[Any]]]:
        """Return rows to measure errors on, and the answers of all members to them."""
        X, y = unpack(X, y)
        pool = self.combiner_.pool
        if not rows_given("predicted", X, y, groups=groups, sample_weight=sample_weight):
            if pool.answers is None:
                raise ValueError(
                    f"the answers of the members to {pool.ledger.rows.words} were not kept: give X and y"
                )
            return pool.ledger.rows, pool.answers
        given = ValidationRows(X, y, groups, sample_weight)
        X, rows = judged_rows(self, self._learner(), given, "", "the {:,} rows given to predicted")
        small = np.min_scalar_type(len(self.classes_) - 1)  # all at once, so in as few bytes as they need
        return self._own_groups(rows), [k.astype(small) for k in self.ensemble_.answers(X)]

    def _name_groups(self, groups: Any, n: int) -> GroupNames:
        """Take the names of other groups than those of fit, of n rows."""
        names = GroupNames.of(groups, "groups", n, np.ones(n, dtype=np.bool_))
        self.__dict__.update(named_groups(self, names))
        return names

    def _groups_of_judged(self, groups: Any) -> Ints:
        """Take the names of groups, and return the numbers of those of the rows whose losses are kept."""
        rows = self.combiner_.pool.ledger.rows
        given = rows.given
        if given is None:
            raise ValueError("groups without X and y: it is not known to which rows the losses kept belong")
        n = n_group_rows(groups)
        if n != given.n_rows:
            raise ValueError(
                f"groups has {n} entries, but the losses kept are of {rows.words}, from a table "
                f"given with {given.n_rows:,} rows: one group for each of those is needed"
            )
        names = self._name_groups(groups, n)
        numbers = names.number(groups, "groups", n)
        kept = numbers if given.index is None else numbers[given.index]
        if len(absent := np.setdiff1d(np.arange(len(names.names)), kept)):
            absent_names = names.names[absent].tolist()
            raise ValueError(
                f"the losses kept, of {rows.words}, are of no row in group(s) {absent_names}: "
                "give X and y with rows of every group, or fit with validation='cv'"
            )
        if rows.fitted:
            warn_user(
                f"the losses kept are of {rows.words}, which members were fitted on, and smaller than on "
                "fresh rows: fit with another validation than 'train', or give rows that were not fitted on",
                ResubstitutionWarning,
            )
        return kept

    @property
    def guarantee_(self) -> Guarantee:
        """What was promised, observed and achieved (computed when first asked for)."""
        check_is_fitted(self)
        if "_guarantee" not in self.__dict__:
            found = guarantee(
                self.game_,
                self.combiner_,
                self.estimator_weights_,
                self.gap_,
                self._bounds(),
                self.classes_.tolist(),
            )
            self._guarantee = replace(found, units=self._unit_table(), groups=group_uses(self))
        return self._guarantee

    # -- prediction ----------------------------------------------------------------------------------

    @documented
    def predict_proba(self, X: Any) -> Floats:
        """Return P(y | x): the λ-average of the members' class probabilities, constants left out.

        Where constants have all of λ the other members count alike. They are the members' own probabilities:
        of members that a game trained on reweighted rows those of such rows, and of members that answer
        labels alone their votes. What is answered is `predict`, how often `predict_shares`.

        {{shares}}
        """
        check_is_fitted(self)
        return self.ensemble_.probabilities(self._checked(X))

    @documented
    def staged_predict_shares(self, X: Any) -> Iterator[Floats]:
        """Yield ``predict_shares`` after 1, 2, … rounds, λ solved anew on each prefix.

        {{staged_shares}}
        """
        check_is_fitted(self)
        answers = list(self.ensemble_.answers(self._checked(X)))
        for t in range(1, self.n_iter_):
            yield self.combiner_.stage(t).scores_of(answers)
        yield self.ensemble_.scores_of(answers)

    @documented
    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """Yield ``predict`` after 1, 2, … rounds, λ solved anew on each prefix.

        {{staged_labels}}
        """
        for shares in self.staged_predict_shares(X):
            yield self.classes_[shares.argmax(axis=1)]


class ValidatedMixtureClassifier(MixtureClassifier):
    """A mixture whose λ is chosen on rows that members were not fitted on, and whose game may end early."""

    n_iter_no_change: Any
    tol: float
    validation: Any
    include_constants: bool

    def _schedule(self, plan: Plan) -> Schedule:
        return Schedule.of(self._most_rounds(), self.n_iter_no_change, self.tol, self.max_time, self.verbose)

    def _validation(self) -> Any:
        return self.validation
