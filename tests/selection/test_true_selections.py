"""Printed numbers of a selection with a probability, compared with populations of known truth.

`SETTINGS` has an entry for each kind of rate and of rule. A test fails if a number is wrong more often than
stated, with a binomial p below .001. The share is that of all tables: one without the number states nothing.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost import rates
from tailboost.rates import Counts
from tailboost.rates.rate import DEFINITIONS as KINDS
from tailboost.selection.door import answering

DRAWS, FRESH, LEAST_P = 60, 20_000, 0.001
SEL = rates.selected(1, by="g")
MISS, FALSE_ALARM = rates.miss(1), rates.false_alarm(1)
ODDS = [MISS <= 0.25, FALSE_ALARM <= 0.22]
COST = rates.cost([[0, 1], [3, 0]])


@dataclass(frozen=True)
class Setting:
    """A population of rows with one score, and the problem of a selection on them."""

    n: int = 500
    limits: list = field(default_factory=list)
    groups: int = 1
    shift: float = 1.5  # between the scores of the classes, in standard deviations
    between: float = 0.15  # between the scores of neighbouring groups
    more: dict = field(default_factory=dict)  # arguments of `tune`
    kind: str = "score"

    @property
    def by_group(self):
        return self.more.get("by_group", False)

    def rows(self, rng, n):
        g, y = rng.integers(0, self.groups, n), (rng.random(n) < 0.3).astype(int)
        z = rng.normal(size=n) + self.shift * y + self.between * (g % 3)
        return np.column_stack([1 / (1 + np.exp(1 - z)), 1 / (1 + np.exp(1 - z - rng.normal(size=n)))]), y, g

    def select(self, seed, **more):
        """Return the classifier of one draw; None if no rule keeps the limits."""
        S, y, g = self.rows(np.random.default_rng([31, seed]), self.n)
        given = {"limits": self.limits, **self.more, **more}
        if self.groups > 1:
            given["groups"] = {"g": g}
        try:
            if self.kind == "score":
                return tb.tune(tb.Scores(0, 1), S, y, **given)
            if self.kind == "models":
                return tb.RobustMixtureClassifier.from_probabilities(probabilities(S), y, **given)
            given |= {"estimators": [("line", LogisticRegression())], "cv": 3, "random_state": 0}
            groups = given.pop("groups", None)
            return tb.RobustMixtureClassifier(**given).fit(S, y, groups=groups)
        except tb.InfeasibleLimitsError:
            return None

    def answered(self, clf, fresh):
        """Return fresh rows with the answers of a rule."""
        S, y, g = fresh
        groups = {"groups": {"g": g}} if self.by_group else {}
        X = probabilities(S) if self.kind == "models" else S
        deferred = {"deferred": clf.defers(X, **groups)} if answering(clf).rule.defers else {}
        answers = clf.predict(X, **groups)
        return Counts.answered(y, answers, groups={"g": g}, labels=[0, 1], **deferred)


def probabilities(S):
    return {name: np.column_stack([1 - s, s]) for name, s in zip("ab", S.T, strict=True)}


def limited(*limits, **more):
    return Setting(limits=list(limits), **more)


AWARE = {"by_group": True}
SETTINGS = {
    # A limit on each kind of rate; one score has one threshold.
    "error": limited(rates.error() <= 0.2),
    "miss": limited(MISS <= 0.2),
    "false_alarm": limited(FALSE_ALARM <= 0.1),
    "recall": limited(rates.recall(1) >= 0.7),
    "specificity": limited(rates.specificity(1) >= 0.9),
    "selected": limited(rates.selected(1) <= 0.2),
    "cost": limited(COST <= 0.36),
    "deferred": limited(rates.deferred() <= 0.1),
    "precision": limited(rates.precision(1) >= 0.75, shift=1.0),
    "npv": limited(rates.npv(1) >= 0.9, more={"objective": rates.selected(1)}),
    "jaccard": limited(rates.jaccard(1) >= 0.48),
    "f_score": limited(rates.f_score(1) >= 0.65),
    "answered_error": limited(rates.answered_error() <= 0.1, more={"objective": rates.deferred()}),
    "representation": limited(
        rates.representation(1, by="g") >= {0: 0.45}, n=800, groups=2, between=0.4, more=AWARE
    ),
    # Objectives, several limits, and limits at the edge of the feasible ones.
    "objective error": Setting(250, more={"objective": "error"}),
    "objective F": Setting(more={"objective": rates.f_score(1)}),
    "objective cost": Setting(more={"objective": COST}),
    "worst class": Setting(),
    "room": limited(MISS <= 0.35, FALSE_ALARM <= 0.35),
    "no room": limited(*ODDS),
    "class errors, no room": limited(rates.error(by="class") <= 0.24),
    "error, no room": limited(rates.error() <= 0.165),
    "three limits": limited(MISS <= 0.1, rates.deferred() <= 0.2, FALSE_ALARM <= 0.35),
    # Groups.
    "gap, blind": limited(rates.gap(SEL) <= 0.1, n=900, groups=3),
    "gap": limited(rates.gap(SEL) <= 0.05, n=600, groups=2, between=0.6, more=AWARE),
    "ratio": limited(rates.ratio(SEL) >= 0.8, n=800, groups=2, between=0.6, more=AWARE),
    "by group": limited(rates.miss(1, by="g") <= 0.25, n=900, groups=3, more=AWARE),
    "six groups": limited(rates.miss(1, by="g") <= 0.25, n=1200, groups=6, more=AWARE),
    "worst of twelve": Setting(1200, groups=12, between=0, more={"objective": "worst_group"}),
    # Rules other than one threshold.
    "two models": limited(MISS <= 0.25, kind="models"),
    "cross-fitted": limited(MISS <= 0.25, kind="fitted"),
}


def test_every_kind_of_rate_has_a_setting():
    assert {kind for kind, entry in KINDS.items() if entry.counted} <= set(SETTINGS)


def truths(rate, limit, answered):
    """Return the rates on fresh rows by subgroup, and the gap or ratio of a limit."""
    terms = rate.terms(answered.strata)
    values = terms.values(answered.counts(answered.actions))
    named = dict(zip(terms.names, values.tolist(), strict=True))
    return named | ({limit.form: limit.value(values)} if limit is not None and limit.compares else {})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", SETTINGS)
def test_intervals(name):
    setting, missed = SETTINGS[name], Counter()
    fresh = setting.rows(np.random.default_rng(99), FRESH)
    for seed in range(DRAWS):
        if (clf := setting.select(seed)) is None:
            continue
        answered = setting.answered(clf, fresh)
        stated = [(clf.objective_.rate, None), *((limit.rate, limit) for limit in setting.limits)]
        for rate, limit in stated:
            truth = truths(rate, limit, answered)
            for line in clf.rates_:
                is_own = line.rate == str(rate) and bool(line.limit) == (limit is not None)
                if is_own and not np.isnan(line.low):
                    is_inside = line.low <= truth[line.subgroup] <= line.high
                    missed[line.rate, line.subgroup] += not is_inside
    for what, many in missed.items():
        assert binomtest(many, DRAWS, 0.05, alternative="greater").pvalue >= LEAST_P, (what, many)
