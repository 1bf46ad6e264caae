"""What all classifiers here share: the rows, the learner of a game, and the game that was played."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import field
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import is_regressor
from sklearn.ensemble import StackingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.utils import Tags, get_tags
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from tailboost.boosting.game import Hypothesis, Player, Units
from tailboost.core import (
    Array,
    Column,
    Constraints,
    Floats,
    Ints,
    Mask,
    Model,
    Partitions,
    Seed,
    Table,
    check_indexes,
    fitting_apart,
    frozen_value,
    how_many,
    positions,
    row_weights,
    streamed,
    take,
)
from tailboost.core.ranges import BELOW_ONE, COUNT, NON_NEGATIVE, POSITIVE, SHARE, TO_ONE, UNIT
from tailboost.learners import HistTreeClassifier
from tailboost.learners.base import Classifier, check_labelled_rows, checked_rows, seed_of
from tailboost.learners.foreign import class_scores, first_step, open_session, predict_models
from tailboost.learners.named import named_learner


class LabelledRows(NamedTuple):
    """A table of n rows, class numbers 0 … K − 1, positive sample weights, and the rows' numbers as given."""

    X: Any
    y: Ints
    weight: Floats
    used: Ints

    def part(self, mask: Mask) -> LabelledRows:
        """Return the rows of a mask."""
        return LabelledRows(*(take(each, mask) for each in self))


@frozen_value
class RoundLearner:
    """Fits a hypothesis to the weights of a round, and measures it on the rows of the fit and those judged.

    Parameters
    ----------
    session : Session
        The base learner with the rows, see `tailboost.learners.protocols`.
    rows : LabelledRows
        Rows of the fit.
    units : Units
        What the player weighs.
    seed : int
        Root of the seeds of the rounds.
    judged : LabelledRows
        Rows that select the rule: those of the fit, or others.
    loss : callable, optional
        Returns losses of units from those of rows; None if the units are rows.
    target : float, default=inf
        The weighted loss that a hypothesis may have at most.
    grows : bool, default=False
        Whether a learner that can grow, such as a forest, grows until its hypothesis meets the target only.

    Attributes
    ----------
    last : list
        The weights and the hypothesis of the last round, if the learner has no random numbers.
    """

    session: Any
    rows: LabelledRows
    units: Units
    seed: int
    judged: LabelledRows
    loss: Callable[[Array], Array] | None = None
    target: float = np.inf
    grows: bool = False
    last: list[Any] = field(default_factory=list, init=False)

    def __call__(self, w: Floats, t: int) -> Hypothesis:
        """Return the hypothesis of round t, from 0, for weights w of the units.

        The loss of a row is 1[h ≠ y] for labels, and (1 − h_y)/2 for real h.
        """
        # After equal losses of all units Hedge weighs as before, and such a learner answers as before.
        if self.last and np.array_equal(w, self.last[0]):
            return self.last[1]
        weight = self.rows.weight * self.units.density(w)
        seed = np.random.SeedSequence([self.seed, t]).generate_state(1).item()
        y = self.rows.y
        K = y.max() + 1
        session = self.session
        if self.grows and hasattr(session, "stages"):
            stages = session.stages(weight, seed)
        else:
            stages = [session.fit(weight, seed)]
        for model in stages:
            answers = session.predict(model)
            if answers.dtype.kind == "f":
                losses = (1 - class_scores(answers, K)[np.arange(len(y)), y]) / 2
            else:
                losses = answers != y
            if self.loss:
                losses = self.loss(losses)
            weighted_loss = (w * losses).sum()
            if weighted_loss <= self.target + 1e-9:
                break
        if self.judged is not self.rows:
            (answers,) = predict_models([model], self.judged.X)
        if answers.dtype.kind != "f":  # a fit holds the answers of all rounds
            answers = answers.astype(np.min_scalar_type(K))
        h = Hypothesis(model, losses, weighted_loss, answers)
        if hasattr(session, "deterministic"):
            self.last[:] = w, h
        return h


# -- the base of the classifiers

EDGE = Interval(Real, 0, 0.5, closed="right")
AUTO = StrOptions({"auto"})
THEORY = StrOptions({"theory"})


class Boosting(Classifier):
    """Base of all classifiers here: allowed parameters, the rows, the learner, and the game."""

    estimator: Model
    random_state: Seed
    _takes_regressors = False
    _default_learner = HistTreeClassifier()
    _parameter_constraints: ClassVar[Constraints] = {
        # One with the default final_estimator has predict only after its fit.
        "estimator": [HasMethods(["fit", "predict"]), StackingClassifier, str, None],
        "alpha": [TO_ONE],
        "beta": [POSITIVE, THEORY, None],
        "C": [POSITIVE, None],
        "combine": [StrOptions({"average", "mixture"})],
        "confidence": [SHARE],
        "cv": ["cv_object", StrOptions({"train"})],
        "delta": [SHARE],
        "effective_dim": [COUNT, AUTO],
        "eta": [POSITIVE, THEORY],
        "gamma": [EDGE, AUTO],
        "rank_labels": ["boolean"],
        "loss": [StrOptions({"linear", "quadratic"})],
        "n_estimators": [COUNT],
        "n_iter_no_change": [COUNT, None],
        "p": [TO_ONE],
        "player": [Player],
        "radius": [NON_NEGATIVE, AUTO],
        "random_state": ["random_state"],
        "theta": [BELOW_ONE],
        "whole": ["boolean"],
        "variance_weight": [UNIT],
    }

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also those of the learner, as ``estimator__max_depth``.

        Raises
        ------
        ValueError
            If a parameter is unknown, or the learner is a name.
        """
        learner = params.get("estimator", self.estimator)
        nested = [name for name in params if name.startswith("estimator__")]
        if isinstance(learner, str) and nested:
            raise ValueError(
                f"{nested[0]}: estimator={learner!r} is a name, which stands for default "
                f"parameters; give the learner itself, estimator={named_learner(learner)!r}"
            )
        return super().set_params(**params)

    def _learner(self) -> Any:
        """Return the base learner: as given, of this name, or a binned tree."""
        learner = self.estimator
        if learner is None:
            return self._default_learner
        return named_learner(learner) if isinstance(learner, str) else learner

    def _checked(self, X: Table, *, reset: bool = False) -> Any:
        """Return a table, checked as the learner allows; ``reset`` sets the columns."""
        if not reset:
            check_is_fitted(self)
        X, _ = streamed(X)
        if isinstance(X, Partitions):
            if reset:
                learner = self._learner()
                if not isinstance(learner, HistTreeClassifier):
                    raise TypeError(
                        f"X is a table of partitions, which estimator={learner!r} does not read: give "
                        "estimator='tree', or the table in memory, as by its compute()"
                    )
                self._checked(next(iter(X)), reset=True)
                X = X.counted()
            return X.then(self._checked)  # when they are read
        return checked_rows(self, X, reset=reset)

    def _read(self, X: Table, y: Column, sample_weight: Column, *, reset: bool) -> LabelledRows:
        """Return the rows of positive weight; ``reset`` checks the parameters and sets classes and columns.

        Raises
        ------
        ValueError
            If labels are no classes, are all equal, or are unknown to a classifier that is not reset.
        """
        X, y = streamed(X, y)
        if isinstance(X, Partitions) and not reset:
            X = X.counted()
        X, labels, place, weight = check_labelled_rows(self, X, y, sample_weight, reset=reset)
        check_indexes(X=X, y=y, sample_weight=sample_weight)  # of partitions, counted by now
        weight = row_weights(weight, len(weight))
        used = np.flatnonzero(weight)
        if reset:
            self._validate_params()
            present, numbers = np.unique(place[used], return_inverse=True)
            self.classes_ = labels[present]
        else:
            numbers = positions(labels[place[used]], self.classes_, "y_val")
        if len(self.classes_) > 2 and not get_tags(self).classifier_tags.multi_class:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass, and "
                f"{type(self).__name__} boosts {self._learner()!r}, for two labels; "
                "AdaLPBoostClassifier of estimator='tree' is for more"
            )
        return LabelledRows(take(X, used), numbers, weight[used], used)

    @abstractmethod
    def _run(self, learn: RoundLearner) -> None:
        """Play the game, and set the rule."""

    def _open(
        self, X: Table, y: Column, sample_weight: Column, *validation: Any
    ) -> RoundLearner:
        """Return the learner on checked rows, which are the units.

        ``validation`` are X, y and sample_weight of other rows that select the rule, or None.
        """
        rows = judged = self._read(X, y, sample_weight, reset=True)
        if any(part is not None for part in validation):
            judged = self._read(*validation, reset=False)
        return self._learner_on(rows, judged, seed_of(self.random_state))

    def _learner_on(self, rows: LabelledRows, judged: LabelledRows, seed: int) -> RoundLearner:
        """Return the learner on some rows, with others that select the rule."""
        learner = self._learner()
        if isinstance(learner, FrozenEstimator):
            raise ValueError(
                f"estimator={learner!r} is frozen, but every round fits the learner"
            )
        if is_regressor(learner) and not self._takes_regressors:
            raise ValueError(f"estimator={learner!r} is a regressor; a classifier is needed")
        session = open_session(learner, rows.X, rows.y, self.classes_, rows.weight, seed)
        return RoundLearner(session, rows, Units.rows(rows.weight), seed, judged)

    def _set_game(self, learn: RoundLearner, rounds: list[Hypothesis]) -> None:
        """Set what is known of the game."""
        self.units_ = learn.units
        self.n_iter_ = len(rounds)
        self.game_losses_ = np.array([h.losses for h in rounds])
        self.weighted_losses_ = np.array([h.weighted_loss for h in rounds])

    def unit_weights(self, t: int) -> Floats:
        """Return the player's weights w of round t, from 1, shape (m,)."""
        check_is_fitted(self)
        if not 1 <= t <= self.n_iter_:
            raise ValueError(f"t={t}: the fit has {how_many(self.n_iter_, 'round')}, from 1 on")
        state = self.player_.start(self.units_.p)
        for losses in self.game_losses_[: t - 1]:
            state = self.player_.update(state, losses)
        return self.player_.weights(state)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        learner = self._learner()
        of_learner = get_tags(learner).classifier_tags
        tags.input_tags = get_tags(first_step(learner)).input_tags
        if of_learner:
            tags.classifier_tags.multi_class = of_learner.multi_class
        return tags


class RowBoosting(Boosting):
    """Base of the classifiers whose units are rows, and whose rule other rows may select."""

    def fit(
        self,
        X: Table,
        y: Column = None,
        sample_weight: Column = None,
        *,
        X_val: Table = None,
        y_val: Column = None,
        sample_weight_val: Column = None,
    ) -> Self:
        """Play the game on the rows, and set the rule.

        Parameters
        ----------
        X : table of shape (n, d)
            Training rows, in a form that the learner accepts. For "tree" also a table larger than memory: a
            data frame or an array of Dask, or a Parquet data set of pyarrow.
        y : array-like of shape (n,)
            Labels of any type. None takes those of a torch Dataset given as X.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights, to which the base measure p is proportional. Weight 2 equals the row twice.
        X_val, y_val, sample_weight_val : optional
            Validation rows, which select the rule: λ of a mixture (line 7 of Zhai's algorithms), or the round
            at which a sum ends (``n_iter_no_change``).

        Returns
        -------
        self
        """
        with fitting_apart(self) as clf:
            clf._run(clf._open(X, y, sample_weight, X_val, y_val, sample_weight_val))
        return self


# For classifiers whose theorem states the number of rounds.
ROUNDS_OR_AUTO = {**Boosting._parameter_constraints, "n_estimators": [COUNT, AUTO]}
