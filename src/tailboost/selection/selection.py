"""The selection: a rule selected among candidates for a problem, with its rates, warnings and summary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tailboost.core.array_types import Floats, Ints, Mask
from tailboost.core.exceptions import (
    BoundNotMetWarning,
    ConfidenceNotReachedWarning,
    SmallSubgroupsWarning,
    UselessRuleWarning,
    warn_user,
)
from tailboost.core.spelling import joined
from tailboost.rates import Limit, Rate, Statistic, error
from tailboost.rows.subgroups import HUMAN_REVIEW, unit_name
from tailboost.selection.outputs import LOG_ODDS, LogProbabilities
from tailboost.selection.problem import Problem
from tailboost.selection.rule import Rule, ThresholdRule
from tailboost.selection.search import (
    Program,
)
from tailboost.selection.table import RateTable
from tailboost.selection.thresholds import (
    FEW,
    Thresholds,
    costs_of,
)
from tailboost.selection.weights import expected_costs

if TYPE_CHECKING:
    from tailboost.selection.engine import Engine

# Maximum number of subgroups in a warning.
SUBGROUPS_SHOWN = 4
# A rule is useless if a larger fraction of the rows gets one action. If a fraction r > .9 of the rows has
# this label, the limit is (1 + r)/2.
MOST_EQUAL = 0.95
# A warning names rates over fewer rows.
FEW_ROWS = 10


@dataclass(frozen=True, eq=False)
class Selection:
    """The rule selected for a problem among the candidates on selection data, with its rates there.

    Another problem gives another selection: no model is fitted, no classifier is needed, and nothing warns.

    Attributes
    ----------
    engine : Engine
        The candidates on the selection data.
    problem : Problem
        The objective within limits.
    program : Program
        The rates of the problem and all limits, including the error budget.
    rule : ndarray
        The selected candidate: thresholds with the sign of the score, shape (m, A − 1), or costs of actions,
        shape (S, A).
    counts : ndarray of shape (W, A)
        The confusion counts of the rule on the selection data.
    gap : float
        Possible decrease of the objective by a mixture of candidates.
    is_sure : bool
        Whether the rule keeps limits with the margin of the confidence.
    """

    engine: Engine
    problem: Problem
    program: Program
    rule: Floats
    counts: Floats
    gap: float = 0.0
    is_sure: bool = True

    def within(self, limits: Sequence[Limit]) -> Selection:
        """Return the selection within other limits, without a confidence; raises as `Engine.select`."""
        return self.engine.select(replace(self.problem.within(tuple(limits)), confidence=None))

    def stated_within(self, limits: Sequence[Limit]) -> Selection:
        """Return the same rule with other limits as the stated ones; nothing is selected."""
        problem = replace(self.problem, limits=tuple(limits), confidence=None)
        program = self.program.within(limits)
        return replace(self, problem=problem, program=program)

    # -- the rule ----------------------------------------------------------------------------------------

    @cached_property
    def on_score(self) -> ThresholdRule:
        """The rule of thresholds on the score; of several models on the log-odds of their average."""
        score = self.engine.models.score
        family: Any = self.engine.family
        sign = int(family.sign)
        classes = list(self.program.strata.classes)
        first, last = classes[::sign]
        bands = []
        for ends in np.sort(sign * self.rule, axis=1).tolist():
            lower = [-np.inf, ends[0], ends[-1], np.inf]
            ranges = zip(pairwise(lower), [first, HUMAN_REVIEW, last], strict=True)
            bands.append([(low, action) for (low, high), action in ranges if low < high])
            bands[-1][0] = (None, bands[-1][0][1])
        groups, column = self.engine.groups_read
        kept = (score.kind, score.missing, score.made_by)
        return ThresholdRule(score.column_list[0], classes, groups, bands, *kept, column)

    @property
    def written(self) -> ThresholdRule | Rule:
        """The rule alone. Thresholds on log-odds, which no column has, are costs: 0 at a threshold."""
        models, p, costs = self.engine.models, self.engine.probabilities, self.rule
        if isinstance(self.engine.family, Thresholds):
            if models.score is not LOG_ODDS:
                return self.on_score
            costs = costs_of(costs)
        else:
            costs = costs.reshape(p.strata.n_classes, p.strata.n_combinations, -1)
            costs = costs.transpose(1, 0, 2)
            if not p.models:
                of_place = np.eye(p.places.max() + 1)[p.places]
                costs = np.einsum("kg,gka,gm->mka", p.shares, costs, of_place)
        weights = {models.names[i]: float(models.weights[i]) for i in models.used}
        return Rule(
            list(p.strata.classes),
            self.engine.groups_read[0],
            weights,
            models.offset.tolist(),
            costs.tolist(),
            bool(p.models),
        )

    def answers(self, table: LogProbabilities) -> tuple[Ints, Mask]:
        """Return class numbers, and which rows are deferred; these get the label that would be answered."""
        p = self.engine.probabilities
        if isinstance(self.engine.family, Thresholds):
            labels = self.on_score.numbers(table.score, table.groups)
            deferred = labels == 2
            if deferred.any():
                labels = np.where(deferred, table.pooled.argmax(axis=1), labels)
            return labels, deferred
        costs = expected_costs(p.predict(table), self.rule)
        K = p.strata.n_classes
        return costs[:K].argmin(axis=0), costs.argmin(axis=0) == K

    # -- rates on the selection data ---------------------------------------------------------------------

    @property
    def n_rows(self) -> float:
        """Number of selection rows; of weighted rows the effective number."""
        return float(self.program.strata.size.sum())

    def value(self, measured: Statistic) -> float:
        """Return another objective, or the gap or ratio of a family."""
        return measured.value(measured.rate.terms(self.program.strata).values(self.counts))

    def rates(self, stated: Iterable[Rate | Limit]) -> RateTable:
        """Return the table of rates and limits."""
        return RateTable.counted(
            stated,
            self.program.strata,
            self.counts,
            self.engine.words,
            spread=self.engine.spread,
            by_group=self.engine.probabilities.told is not None,
        )

    @cached_property
    def estimates(self) -> RateTable:
        """The rates of the objective and the limits by subgroup."""
        return self.rates([self.program.objective.rate, *self.program.limits])

    @cached_property
    def errors(self) -> RateTable:
        """The errors of the subgroups of the problem."""
        kinds = [rate.by for rate in self.problem.rates if rate.by is not None]
        return self.rates([error(by=[*kinds, "class"][0])])

    # -- warnings ----------------------------------------------------------------------------------------

    def warn(self) -> None:
        """Warn of violated limits, few rows, and a rule with nearly one answer."""
        strata = self.program.strata
        keeps = self.program.keeps(self.counts)
        if not keeps:
            warn_user(
                f"limits violated on {self.engine.words} by the best rule found: {self.estimates.broken}",
                BoundNotMetWarning,
            )
        if self.problem.confidence and not self.is_sure:
            warn_user(
                f"confidence={self.problem.confidence:g}: no rule found keeps all limits with such a margin; "
                "widen the limits, bring more rows, or calibrate on fresh rows",
                ConfidenceNotReachedWarning,
            )
        shares = self.counts[: len(strata.mass)].sum(axis=0)
        answer = int(shares.argmax())
        # A frequent label may be a frequent answer; deferral is no label.
        frequency = strata.mass[strata.y == answer].sum()
        if shares[answer] > max(MOST_EQUAL, (1.0 + frequency) / 2.0) and keeps:
            name = unit_name([*strata.classes, HUMAN_REVIEW][answer])
            warn_user(
                f"the rule answers {name} in {shares[answer]:.1%} of {self.engine.words}",
                UselessRuleWarning,
            )
        few = [
            f"{line.rate} of {line.texts[1]} ({line.rows:.0f})"
            for line in self.estimates
            if line.rows < FEW_ROWS
        ]
        if few:
            warn_user(
                f"few rows of selection data ({self.engine.words}): fewer than {FEW_ROWS} for "
                f"{joined([*dict.fromkeys(few)], SUBGROUPS_SHOWN, '; ')}",
                SmallSubgroupsWarning,
            )

    # -- thresholds --------------------------------------------------------------------------------------

    @cached_property
    def thresholds(self) -> Thresholds | None:
        """The rules by few thresholds on a score; None for rules of another form.

        None also with an error budget, because errors within the family have no limit on the selection data,
        and with costs of rows.
        """
        family = self.engine.family
        if not isinstance(family, Thresholds) or family.data.costs is not None:
            return None
        if self.problem.error_budget is not None:
            return None
        return replace(family, most=FEW)

    def at(self, ends: Floats) -> Selection:
        """Return the selection with the rule of thresholds (m, A − 1), which may break limits."""
        family: Any = self.engine.family
        place = family.places[family.data.stratum]
        moved = replace(self, problem=replace(self.problem, confidence=None), rule=ends)
        counts = family.data.of(moved.on_score.numbers(family.sign * family.scores, place))
        return replace(moved, counts=counts, gap=0.0)
