"""Costs of rows, from every way in, against all rules of a coarse score."""

from itertools import product

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

import tailboost as tb
from tailboost import RobustMixtureClassifier, rates

N, VALUES = 600, 4
RNG = np.random.default_rng(0)
SCORE = RNG.integers(VALUES, size=N)
Y = (RNG.random(N) < np.array([0.1, 0.3, 0.6, 0.85])[SCORE]).astype(int)
AMOUNT = RNG.exponential(3, N) + 2.0 * (SCORE == 0)
COSTS = np.column_stack([np.where(Y == 1, 1 + AMOUNT / 4, 0), np.where(Y == 0, AMOUNT, 0)])
X = np.column_stack([SCORE, RNG.normal(size=N)])
WEIGHT = RNG.integers(0, 3, N).astype(float)


class Frequencies(ClassifierMixin, BaseEstimator):
    """Answers the share of ones among the rows of the same score."""

    def fit(self, X, y, sample_weight=None):
        weight = np.ones(len(y)) if sample_weight is None else sample_weight
        self.classes_ = np.unique(y)
        self.p_ = np.array([np.average(y[X[:, 0] == k], weights=weight[X[:, 0] == k]) for k in range(VALUES)])
        return self

    def predict_proba(self, X):
        p = self.p_[X[:, 0].astype(int)]
        return np.column_stack([1 - p, p])


def met(answers, rows=slice(None), weight=None):
    costs = COSTS[rows]
    each = costs[np.arange(len(costs)), answers]
    return np.average(each, weights=weight)


def least(rows=slice(None), weight=None):
    """The least mean cost of a rule of the score."""
    return min(met(np.array(rule)[SCORE[rows]], rows, weight) for rule in product((0, 1), repeat=VALUES))


MODEL = Frequencies().fit(X, Y)
P = {"m": MODEL.predict_proba(X)}


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_probabilities_with_costs_give_the_cheapest_rule(weight):
    given = {"objective": rates.cost(), "costs": COSTS, "sample_weight": weight}
    mix = RobustMixtureClassifier.from_probabilities(P, Y, **given)
    assert met(mix.predict(P), weight=weight) == pytest.approx(least(weight=weight))
    assert mix.rates_.lines[0].value == pytest.approx(least(weight=weight))
    # No threshold serves answers that pay the other way round.
    with pytest.warns(tb.exceptions.UselessRuleWarning):
        again = mix.reweight(P, Y, costs=COSTS[:, ::-1])
    assert met(again.predict(P)) > least()


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_fitted_models_with_costs_give_the_cheapest_rule(weight):
    tuned = tb.tune(MODEL, X, Y, objective=rates.cost(), costs=COSTS, sample_weight=weight)
    assert met(tuned.predict(X), weight=weight) == pytest.approx(least(weight=weight))
    fitted = RobustMixtureClassifier([("m", Frequencies())], objective=rates.cost(), random_state=0)
    fitted.fit(X, Y, costs=COSTS, sample_weight=weight)
    assert met(fitted.predict(X), weight=weight) <= 1.02 * least(weight=weight)
    assert fitted.rates_.lines[0].value <= 1.02 * least(weight=weight)


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_costs_of_validation_rows_are_theirs(weight):
    part, rest = slice(0, 200), slice(200, None)
    mix = RobustMixtureClassifier([("m", Frequencies())], objective=rates.cost(), random_state=0)
    given = {} if weight is None else {"sample_weight": weight[part], "sample_weight_val": weight[rest]}
    mix.fit(X[part], Y[part], X_val=X[rest], y_val=Y[rest], costs_val=COSTS[rest], **given)
    own = None if weight is None else weight[rest]
    assert met(mix.predict(X[rest]), rest, own) == pytest.approx(least(rest, own))
    assert mix.rates_.lines[0].value == pytest.approx(least(rest, own))
    with pytest.raises(ValueError, match="costs_val"):
        mix.fit(X[part], Y[part], costs=COSTS[part], X_val=X[rest], y_val=Y[rest])
    with pytest.raises(ValueError, match="costs_val"):
        mix.fit(X[part], Y[part], X_val=X[rest], y_val=Y[rest], costs_val=COSTS[part])


@pytest.mark.parametrize("first", ["miss(1, by=g) <= 100%", "miss(1, by=h) <= 100%", "deferred <= 0%"])
@pytest.mark.parametrize("objective", [rates.cost(), rates.error()])
def test_another_selection_reads_the_costs_of_rows(first, objective):
    groups = {"g": SCORE % 2, "h": SCORE // 2 % 2}
    tuned = tb.tune(MODEL, X, Y, objective=objective, limits=[first], groups=groups, costs=COSTS)
    again = tuned.reweight(objective=rates.cost(), limits=["miss(1, by=h) <= 100%"])
    assert again.rates_.lines[0].value == pytest.approx(met(again.predict(X))) == pytest.approx(least())


def test_a_limit_on_costs_holds_by_group():
    groups, limits = {"sex": (RNG.random(N) < 0.5).astype(int)}, [rates.cost(by="sex") <= 0.6]
    given = {"objective": rates.miss(1), "limits": limits, "costs": COSTS, "groups": groups}
    mix = RobustMixtureClassifier.from_probabilities(P, Y, **given)
    found = rates.measure(rates.cost(by="sex"), Y, mix.predict(P), groups=groups, costs=COSTS)
    assert mix.limits_met_
    assert max(found.values()) <= 0.6 + 0.02
    assert {line.subgroup: line.value for line in mix.rates_ if line.limit} == pytest.approx(found, abs=0.02)


@pytest.mark.filterwarnings("ignore:.*rows trained the model is not checked")
def test_costs_of_rows_are_certified_between_stated_ends():
    tuned = tb.tune(MODEL, X[:300], Y[:300], objective=rates.cost(), costs=COSTS[:300])
    answers = tuned.predict(X[300:])
    given = {"rates": [rates.cost() <= 1.5], "costs": COSTS[300:], "cost_range": (0, 40)}
    cert = tb.certify(tuned, X[300:], Y[300:], **given)
    assert cert.bounds[0].estimate == pytest.approx(met(answers, slice(300, None)))
    assert cert.bounds[0].upper > cert.bounds[0].estimate
    with pytest.raises(ValueError, match=r"costs=.* predicted"):  # and no row is used up
        tuned.tradeoff().predicted(X[300:], Y[300:])
    assert tuned.ledger_.judged == ()
