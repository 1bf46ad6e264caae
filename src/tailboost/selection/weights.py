"""Rules by weights of classes: the action of least expected cost, by probabilities of strata in each row."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import softmax
from sklearn.base import clone

from tailboost.core import (
    Array,
    Floats,
    Floats32,
    Mask,
    Model,
    Table,
    as_pandas,
    n_rows_of,
    take,
)
from tailboost.learners import HistBoostClassifier
from tailboost.rates import TINY, Counts
from tailboost.rows import hash_rows, stratified_turns
from tailboost.selection.descent import Line, Reached
from tailboost.selection.outputs import Outputs

# About the most rules on a line of a descent. With 1,000 the error plus the excess of limits on fresh rows
# changes by −.0001 ± .0010, at 1.1 times the time of a selection (256 selections of three classes).
MOST = 250
# The least raise of an action's cost at which a row leaves the action. At 0 two costs may be equal, and then
# the row keeps its action.
FIRST_RAISE = np.nextafter(0.0, 1.0)
# The model of groups, small because it is fitted several times, and its folds.
GROUP_MODEL = HistBoostClassifier(
    n_estimators=60, max_depth=5, learning_rate=0.15, min_child_weight=5.0
)
GROUP_FOLDS = 3
# Smaller probabilities of a row's groups in its class are raised to this one in the log loss of this model.
LEAST_JUDGED = 1e-4
# The most columns from which groups are estimated. Tables with more columns, such as images, use the models'
# probabilities.
MOST_FEATURES = 1000


def expected_costs(probabilities: Floats32, action_costs: Floats) -> Floats:
    """Return Σ_s p(s | x) Q[s, a] for each action, shape (A, n), of probabilities of shape (S, n).

    The sum runs stratum by stratum, so rounding in a row does not depend on the other rows.
    """
    total = np.zeros((action_costs.shape[1], probabilities.shape[1]))
    for s, a in zip(*np.nonzero(action_costs), strict=True):
        total[a] += probabilities[s] * action_costs[s, a]
    return total


class CostMove(NamedTuple):
    """What moves on a line: the cost of an action in some strata."""

    action: int
    in_strata: Floats  # shape (S,): 1 in these strata, otherwise 0
    slope: Floats  # shape (n,): their probability, by which the expected cost of a row grows


@dataclass(eq=False)
class ClassWeights:
    """All rules of least expected cost on the selection data. A candidate is costs of actions, shape (S, A).

    The expectation is over p(s | x) = p(y | x) p(combination | x, y): class models, and frequencies or a
    model of groups.

    Parameters
    ----------
    data : Counts
        The rows.
    group_column : int or None
        Column of groups that rules read; None for group-blind rules.
    probabilities : ndarray of shape (S, n)
        p(s | x) of the rows.
    by_features : bool
        Whether groups are estimated from the features of a row, or from the probabilities of all models.
    models : sequence of models
        p(combination | x) of each class; none if combinations have their frequencies in each class.

    Attributes
    ----------
    places : ndarray of int, shape (G,)
        Number of the read group for each combination; 0 for group-blind rules.
    shares : ndarray of shape (K, G)
        p(combination | read group, y), the shares of combinations in each class.
    """

    data: Counts
    group_column: int | None = None
    probabilities: Any = None
    by_features: bool = False
    models: Sequence[Model] = ()

    def __post_init__(self) -> None:
        strata = self.data.strata
        self.places = strata.place(self.group_column)[: len(strata.combinations)]
        # One pseudo-row in each class, divided among the combinations as all rows are, gives each combination
        # a positive share in each class. Shares are among the combinations in the same place.
        mass = strata.mass.reshape(strata.n_classes, -1) * strata.size.sum()
        mass = mass + mass.sum(axis=0) / mass.sum()
        self.shares = mass / (mass @ (self.places[:, None] == self.places))

    # -- the family of the search ------------------------------------------------------------------------

    def best(self, costs: Floats) -> Floats:
        """Return costs of actions as a candidate: centred at the middle one, and scaled to at most 1."""
        # The middle cost, of two the larger one, is often that of most actions.
        centred = costs - np.sort(costs, axis=1)[:, [costs.shape[1] // 2]]
        return centred / max(np.abs(centred).max(), TINY)

    def counts(self, candidate: Array) -> Floats:
        """Return the confusion counts of a candidate, shape (W, A)."""
        return self.data.counts(self.reached(candidate).actions)

    def moves(self, compares: bool) -> list[CostMove]:
        """Return the moves of a descent, of the cost of an action in all strata or in one.

        Beside groups each stratum moves alone, too: the worst cell of six groups within budgets is .01 lower
        than with a line for each group.
        """
        p = self.probabilities
        all_strata = np.ones(len(p))
        moved = [(all_strata, all_strata @ p)]
        if len(self.data.strata.combinations) > 1:
            moved += zip(np.eye(len(p)), p, strict=True)
        n_actions = self.data.strata.n_actions
        actions = range(n_actions) if n_actions > 2 else [1]  # of two the cost of one suffices
        return [CostMove(action, *strata) for strata, action in product(moved, actions)]

    def reached(self, candidate: Array) -> Reached:
        """Return a candidate as the first one of a descent."""
        costs = expected_costs(self.probabilities, candidate)
        return Reached(candidate, costs, costs.argmin(axis=0))

    def line(self, reached: Reached, move: CostMove, table: Floats) -> Line:
        """Return the candidates with other costs of one action in some strata.

        A row changes its action once as the cost grows: from this action to the best other one. By how much
        the cost of a candidate is larger, or smaller, than that of the reached one is its raise. ``table``
        has the summands of numerators and denominators over confusion counts, shape (W, A, 2, R).
        """
        action, in_strata, slope = move
        # The best other action of each row, which is new for the rows of this action alone.
        other = reached.actions.copy()
        has_action = other == action
        costs_of_others = reached.costs[:, has_action]
        costs_of_others[action] = np.inf
        other[has_action] = costs_of_others.argmin(axis=0)
        other_cost = reached.costs[other, np.arange(len(other))]
        # A row leaves the action at the raise with which its cost reaches the other one. Where the cost does
        # not grow, the row never leaves this action, or never has it.
        leaves_at = np.where(has_action, np.inf, -np.inf)
        lead = other_cost - reached.costs[action]
        np.divide(lead, slope, out=leaves_at, where=slope > 0)
        np.maximum(leaves_at, FIRST_RAISE, out=leaves_at, where=has_action)
        # The raises of the candidates: 0, and one between each two neighbours among some of these, and beyond
        # either end.
        ends = np.unique(leaves_at[np.isfinite(leaves_at)])
        ends = ends[:: len(ends) // MOST + 1]
        middles = (ends[1:] + ends[:-1]) / 2.0
        raises = np.sort(np.r_[0.0, ends[:1] - 1.0, middles, ends[-1:] + 1.0])

        def to(number: int) -> Reached:
            raised = raises[number]
            candidate = reached.candidate.copy()
            candidate[:, action] += raised * in_strata
            costs = reached.costs.copy()
            costs[action] += raised * slope
            return Reached(candidate, costs, np.where(leaves_at > raised, action, other))

        # At its step, the first candidate with such a raise, a row enters the counts of its other action.
        step = np.searchsorted(raises, leaves_at)
        n_steps = len(raises) + 1
        n_actions = table.shape[1]
        moved = self.data.sums(step * n_actions + other, n_steps * n_actions, other)
        moved = moved.reshape(n_steps, n_actions, -1)
        moved[:, action] -= self.data.sums(step, n_steps, action)
        sums = np.tensordot(moved[:-1], table, ([1, 2], [1, 0])).cumsum(axis=0)
        return Line(to, slice(None), sums - sums[np.searchsorted(raises, 0.0)])

    def kept(self, candidate: Floats) -> Floats:
        """Return the candidate, of which a selection keeps all."""
        return candidate

    def costs(self, candidate: Floats) -> Floats:
        """Return a candidate as costs by read or estimated group, class and action, shape (groups, K, A)."""
        costs = candidate.reshape(*self.shares.shape, -1)
        if self.models:
            return costs.transpose(1, 0, 2)
        of_place = np.eye(self.places.max() + 1)[self.places]
        return np.einsum("kg,kga,gm->mka", self.shares, costs, of_place)

    # -- probabilities of strata -------------------------------------------------------------------------

    def with_groups(self, outputs: Outputs) -> Self:
        """Return the rules with a model of groups, fitted on the selection data; p(s | x) is out of fold.

        Folds are stratified, and rows of equal content share a fold. The model is dropped if its log loss out
        of fold is at least as large as with the frequencies.
        """
        stratum = self.data.stratum
        weight = outputs.models.rows.weight
        y = self.data.strata.y[stratum]
        given = as_pandas(outputs.X)
        # Another selection on the same rows has no features: these are not kept.
        by_features = np.ndim(given) == 2 and given.shape[1] <= MOST_FEATURES
        X = features(outputs, by_features)

        def fitted(rows: Mask) -> list[Model]:
            parts = [rows & (y == k) for k in np.unique(y[rows])]
            return [
                clone(GROUP_MODEL).fit(take(X, own), stratum[own], weight[own]) for own in parts
            ]

        outside = np.zeros(self.probabilities.shape)
        fold = stratified_turns(hash_rows(X), stratum, weight) % GROUP_FOLDS
        for number in np.unique(fold):
            own = fold == number
            outside[:, own] = self._groups(fitted(~own), take(X, own))
        # Of the group alone, given the class: that of the class is the same in both.
        estimated = outside[stratum, np.arange(len(stratum))].clip(LEAST_JUDGED)
        if weight @ np.log(estimated / self.shares.ravel()[stratum]) <= 0.0:
            return self
        return replace(
            self,
            probabilities=self._joint(outputs, outside),
            by_features=by_features,
            models=fitted(np.ones(len(fold), bool)),
        )

    def predict(self, outputs: Outputs) -> Floats32:
        """Return p(s | x) of the rows of a table, shape (S, n)."""
        if self.models:
            X = features(outputs, self.by_features)
            return self._joint(outputs, self._groups(self.models, X))
        in_place = outputs.groups == self.data.strata.place(self.group_column)[:, None]
        return self._joint(outputs, self.shares.reshape(-1, 1) * in_place)

    def _groups(self, models: Sequence[Model], X: Table) -> Floats:
        """Return p(combination | x, y) of n rows in each stratum, shape (S, n)."""
        groups = np.zeros((len(self.data.strata.mass), n_rows_of(X)))
        if groups.size:  # models refuse a table without rows
            for model in models:
                groups[model.classes_] = model.predict_proba(X).T
        return groups

    def _joint(self, outputs: Outputs, groups: Floats) -> Floats32:
        """Return p(s | x) by p(combination | x, y), both of shape (S, n)."""
        probabilities = softmax(outputs.pooled, axis=1).T[self.data.strata.y]
        probabilities *= groups
        return probabilities.astype(np.float32)


def features(outputs: Outputs, by_features: bool) -> Table:
    """Return the input of the model of groups: features, or log-probabilities of all models."""
    if by_features:
        return as_pandas(outputs.X)
    return np.hstack([outputs.logs(i) for i in range(len(outputs.models.names))])
