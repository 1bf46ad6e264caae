"""Rules by weights of classes: the action of least expected cost in each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailboost.core.array_types import Floats, Floats32, Ints, Mask
from tailboost.selection.data import SelectionData, Uncached
from tailboost.selection.outputs import LogProbabilities, Models
from tailboost.selection.probabilities import StratumProbabilities
from tailboost.selection.rule import Rule

# The most rules on a line of a descent. With many of them labels of more than three answers fit noise.
MOST = 1_000
FEW = 80


def expected_costs(probabilities: Floats32, action_costs: Floats) -> Floats:
    """Return Σ_s p(s | x) Q[s, a] for each action, shape (A, n), of probabilities of shape (S, n).

    The sum runs stratum by stratum, so rounding in a row does not depend on the other rows.
    """
    total = np.zeros((action_costs.shape[1], probabilities.shape[1]))
    for s, a in zip(*np.nonzero(action_costs), strict=True):
        total[a] += probabilities[s] * action_costs[s, a]
    return total


def decide(costs: Floats) -> Ints:
    """Return the cheapest action of each row, shape (n,), by costs (A, n); the first of equal ones."""
    return costs.argmin(axis=0).astype(np.intp)


@dataclass(frozen=True, eq=False)
class ClassWeights(Uncached):
    """All rules of least expected cost on the selection data; a rule is costs of actions, shape (S, A)."""

    data: SelectionData
    probabilities: Floats32  # shape (S, n): p(s | x)

    def best(self, costs: Floats) -> Floats:
        """Return the rule of least expected cost: scaled to at most 1, and centred so that most are 0."""
        usual = np.sort(costs, axis=1)[:, costs.shape[1] // 2]
        centred = costs - usual[:, None]
        return centred / max(float(np.abs(centred).max()), 1e-300)

    def counts(self, rule: Floats) -> Floats:
        """Return the confusion counts of a rule, shape (W, A)."""
        return self.data.count(decide(expected_costs(self.probabilities, rule)))

    def lines(self, *, compares: bool) -> list[Any]:
        """Return the action of each line, and the strata in which its cost moves, shape (S,).

        These are all strata and, beside groups, each one alone: the worst cell of six groups within budgets
        is .01 lower than with a line for each group.
        """
        strata = self.data.strata
        moved = [np.ones(len(strata.mass))]
        if strata.n_combinations > 1:
            moved += [*np.eye(len(strata.mass))]
        # Of two actions the cost of one suffices.
        actions = range(strata.n_actions == 2, strata.n_actions)
        return [(action, of_strata) for of_strata in moved for action in actions]

    def line(self, rule: Floats, line: tuple[int, Floats]) -> tuple[Floats, Floats]:
        """Return the rules with other costs of one action in some strata, and their counts.

        A row changes its action once as the cost grows. So the counts are cumulative sums over the rows in
        the order of their changes.
        """
        action, strata = line
        n_actions = rule.shape[1]
        costs = expected_costs(self.probabilities, rule)
        own = costs[action].copy()
        costs[action] = np.inf
        other = decide(costs)
        by_row = strata @ self.probabilities
        saving = costs[other, np.arange(len(other))] - own
        change = np.where(saving > 0, np.inf, -np.inf)  # of rows that never change
        moving = by_row > 0
        change[moving] = saving[moving] / by_row[moving]
        finite = np.unique(change[np.isfinite(change) & (self.data.weights > 0)])
        if not len(finite):
            return rule[None], self.counts(rule)[None]
        is_label = action < self.data.strata.n_classes
        most = FEW if is_label and n_actions > 3 else MOST
        places = np.unique(np.linspace(0, len(finite) - 1, most).astype(np.intp))
        ends = finite[places]
        moves = np.concatenate([ends[:1] - 1.0, (ends[1:] + ends[:-1]) / 2.0, ends[-1:] + 1.0])
        first_after = np.searchsorted(moves, change)  # the first rule with the other action
        n_cells = len(moves) + 1
        before = self.data.sums(first_after, n_cells, action)
        after = self.data.sums(first_after * n_actions + other, n_cells * n_actions, other)
        counts = after.reshape(n_cells, n_actions, -1).cumsum(axis=0)[:-1].transpose(0, 2, 1)
        counts[..., action] = before[::-1].cumsum(axis=0)[:-1][::-1]
        is_action = np.arange(n_actions) == action
        return rule + moves[:, None, None] * strata[:, None] * is_action, counts


@dataclass(frozen=True, eq=False)
class ProbabilityRule:
    """A rule by weights of classes as a member of an ensemble."""

    models: Models
    probabilities: StratumProbabilities
    costs: Floats  # shape (S, A)

    @property
    def rule(self) -> None:
        """None: the answers follow from costs and probabilities, not from thresholds."""

    @property
    def is_constant(self) -> bool:
        """Whether every row gets the same action."""
        return bool((self.costs == self.costs[0]).all())

    @property
    def source(self) -> tuple[int, ...]:
        """Numbers of the models behind the answers."""
        if self.is_constant:
            return ()
        if self.weighs_groups and not self.probabilities.by_features:
            return tuple(range(len(self.models.names)))  # groups are estimated from all models
        return tuple(self.models.average.used_models.tolist())

    @property
    def n_places(self) -> int:
        """Number of groups with weights of their own."""
        return int(self.probabilities.places.max()) + 1

    @property
    def weighs_groups(self) -> bool:
        """Whether the rule weighs an estimate of p(group | x, y) for each row."""
        return self.probabilities.estimates_groups and not self.is_constant

    @property
    def defers(self) -> bool:
        """Whether the rule may defer rows."""
        return self.costs.shape[1] > self.probabilities.strata.n_classes

    def answers(self, table: LogProbabilities) -> tuple[Ints, Mask]:
        """Return class numbers, and which rows are deferred; these get the label of least cost."""
        if self.is_constant:
            costs = np.repeat(self.costs[0][:, None], table.n_rows, axis=1)
        else:
            costs = expected_costs(self.probabilities.predict(table), self.costs)
        K = self.probabilities.strata.n_classes
        return decide(costs[:K]), decide(costs) == K

    def as_rule(self, classes: list[Any], groups: list[Any] | None) -> Rule:
        """Return the rule as numbers and lists, with costs by group of the column that it reads."""
        p = self.probabilities
        costs = self.costs.reshape(p.strata.n_classes, p.strata.n_combinations, -1)
        if self.is_constant:
            costs = costs[:, : self.n_places].transpose(1, 0, 2)
        elif p.estimates_groups:
            costs = costs.transpose(1, 0, 2)
        else:
            of_place = np.eye(self.n_places)[p.places]
            costs = np.einsum("kg,gka,gm->mka", p.shares, costs.transpose(1, 0, 2), of_place)
        return rule_of(self.models, classes, groups, costs, self)


def rule_of(
    models: Models, classes: list[Any], groups: list[Any] | None, costs: Floats, member: Any
) -> Rule:
    """Return a rule of costs, shape (groups, K, A), on the average of models."""
    average = models.average
    weights = {}
    offsets = [0.0] * len(classes)
    if not member.is_constant:
        used = average.used_models.tolist()
        weights = {models.names[i]: float(average.weights[i]) for i in used}
        offsets = average.offset.tolist()
    return Rule(classes, groups, weights, offsets, costs.tolist(), member.weighs_groups)
