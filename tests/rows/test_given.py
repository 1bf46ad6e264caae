"""Each line of the table of rules refuses its features together, and a public call with them."""

from collections import defaultdict
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import tailboost as tb
from tailboost import rates
from tailboost.rows.given import ARGUMENT_RULES, refuse

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 2))
Y = (X[:, 0] + RNG.normal(size=240) > 0).astype(int)
G = np.where(X[:, 1] > 0, "a", "b")
FIT, FRESH = slice(0, 120), slice(120, 240)
ONES = np.ones(120)
COSTS = np.zeros((120, 2))
CLUSTERS = np.arange(120)
LIMIT = ["miss(1) <= .9"]
SELECTED = ["selected(1) <= .9"]
OF_GROUPS = ["miss(1, by='group') <= .9"]
COST = rates.cost()


@cache
def model():
    return LogisticRegression().fit(X[FIT], Y[FIT])


@cache
def boosted():
    return tb.WorstClassBoostClassifier(n_estimators=2, random_state=0).fit(X[FIT], Y[FIT])


@cache
def blind():
    return tb.tune(model(), X[FIT], Y[FIT], limits=SELECTED, random_state=0)


@cache
def aware():
    return tb.tune(model(), X[FIT], Y[FIT], groups=G[FIT], by_group=True, limits=SELECTED, random_state=0)


def fit(y=Y[FIT], **given):
    params = {
        name: given.pop(name) for name in ("objective", "alpha", "by_group", "cv", "limits") if name in given
    }
    estimators = [("model", LogisticRegression())]
    return tb.RobustMixtureClassifier(estimators, random_state=0, **params).fit(X[FIT], y, **given)


def certify(judge=None, rows=X[FRESH], y=Y[FRESH], **given):
    return tb.certify(blind() if judge is None else judge, rows, y, **given)


ANSWERS = np.repeat([0, 1], 60)
VAL = {"X_val": X[FRESH], "y_val": Y[FRESH]}
MORE = {"X_unlabeled": X[FRESH] + 9}
CVAR = {"objective": "cvar", "alpha": 0.3}

CALLS = {
    ("X is a number", "no y"): lambda: boosted().reweight(0.02),
    ("X is a text", "no y"): lambda: boosted().reweight("error() <= 0.02"),
    ("reweight", "X", "no y"): lambda: boosted().reweight(X[FRESH]),
    ("reweight", "no X", "y"): lambda: boosted().reweight(None, Y[FRESH]),
    ("reweight", "no X", "sample_weight"): lambda: boosted().reweight(sample_weight=ONES),
    ("reweight", "no X", "costs"): lambda: blind().reweight(costs=COSTS),
    ("boosting", "confidence"): lambda: boosted().reweight(confidence=0.9),
    ("boosting", "costs"): lambda: boosted().reweight(X[FRESH], Y[FRESH], costs=COSTS),
    ("no groups", "groups_val"): lambda: fit(**VAL, groups_val=G[FRESH]),
    ("groups", "X_val", "no groups_val"): lambda: fit(**VAL, groups=G[FIT]),
    ("validation", "no X_val"): lambda: fit(y_val=Y[FRESH]),
    ("validation", "no y_val"): lambda: fit(X_val=X[FRESH]),
    ("validation", "cv"): lambda: fit(**VAL, cv=3),
    ("validation", "X_val without rows"): lambda: fit(X_val=X[:0], y_val=Y[:0]),
    ("validation", "clusters"): lambda: fit(**VAL, clusters=CLUSTERS),
    ("selection", "no X_unlabeled", "groups_unlabeled"): lambda: fit(groups_unlabeled=G[FRESH]),
    ("selection", "no groups", "groups_unlabeled"): lambda: fit(**MORE, groups_unlabeled=G[FRESH]),
    ("selection", "X_unlabeled", "groups", "no groups_unlabeled"): lambda: fit(**MORE, groups=G[FIT]),
    ("selection", "X_unlabeled", "CVaR"): lambda: fit(**MORE, **CVAR),
    ("selection", "X_unlabeled", "rate of costs"): lambda: fit(**MORE, objective=COST, costs=COSTS),
    ("selection", "X_unlabeled", "clusters"): lambda: fit(**MORE, clusters=CLUSTERS),
    ("selection", "X_unlabeled", "X_unlabeled without rows"): lambda: fit(X_unlabeled=X[:0]),
    ("one batch", "no y"): lambda: tb.calibrate(model(), X[FRESH], None, limits=SELECTED),
    ("fresh", "no X_unlabeled", "groups_unlabeled"): lambda: certify(groups_unlabeled=G[FRESH]),
    ("fresh", "X", "no y", "X_unlabeled"): lambda: certify(y=None, **MORE, rates=SELECTED),
    ("fresh", "no X", "no y", "groups"): lambda: certify(
        rows=None, y=None, groups=G[FRESH], **MORE, rates=SELECTED
    ),
    ("fresh", "y", "X_unlabeled", "groups", "no groups_unlabeled"): lambda: certify(groups=G[FRESH], **MORE),
    ("fresh", "y", "X_unlabeled", "no groups", "groups_unlabeled"): lambda: certify(
        groups_unlabeled=G[FRESH], **MORE
    ),
    ("fresh", "X_unlabeled", "errors"): lambda: certify(**MORE, rates=()),
    ("fresh", "X_unlabeled", "array of answers"): lambda: certify(ANSWERS, None, **MORE, rates=SELECTED),
    ("fresh", "X_unlabeled", "rate of costs"): lambda: certify(**MORE, rates=[COST]),
    ("fresh", "X_unlabeled", "clusters"): lambda: certify(**MORE, rates=SELECTED, clusters=CLUSTERS),
    ("fresh", "X_unlabeled", "sample_weight"): lambda: certify(**MORE, rates=SELECTED, sample_weight=ONES),
    ("CVaR", "by_group"): lambda: fit(**CVAR, by_group=True, groups=G[FIT]),
    ("named objective of groups", "no groups"): lambda: fit(objective="worst_group"),
    ("selection", "rate of groups", "no groups"): lambda: fit(limits=OF_GROUPS),
    ("by_group", "no groups"): lambda: fit(by_group=True),
    ("certificate", "rate of groups", "no groups"): lambda: certify(rates=OF_GROUPS),
    ("blind rule", "groups"): lambda: blind().predict(X[FRESH], groups=G[FRESH]),
    ("group-aware rule", "no groups"): lambda: aware().predict(X[FRESH]),
    ("rate of costs", "kept rows"): lambda: blind().reweight(objective=COST),
    ("certificate", "rate of costs", "no costs"): lambda: certify(rates=[COST], cost_range=(0, 1)),
    ("certificate", "rate of costs", "no cost_range"): lambda: certify(rates=[COST], costs=COSTS),
    ("array of answers", "training_rows"): lambda: certify(ANSWERS, None, training_rows=X[FIT]),
    ("array of answers", "X"): lambda: certify(ANSWERS),
    ("array of answers", "rate of deferral", "no deferred"): lambda: certify(
        ANSWERS, None, rates=["deferred() <= .5"]
    ),
    ("classifier", "deferred"): lambda: certify(deferred=ANSWERS == 1),
    ("classifier", "no X"): lambda: certify(rows=None),
}

WORDS = defaultdict(lambda: "word")


def test_the_table_has_no_line_twice_and_a_call_for_each():
    assert [features for features, _ in ARGUMENT_RULES] == list(CALLS)


@pytest.mark.parametrize(("features", "message"), ARGUMENT_RULES)
def test_features_are_refused_together_only(features, message):
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        refuse(*features, details=WORDS)
    assert str(refused.value) == message.format_map(WORDS)
    for fewer in combinations(features, len(features) - 1):
        refuse(*fewer, details=WORDS)


@pytest.mark.parametrize(("features", "message"), ARGUMENT_RULES)
def test_a_public_call_with_these_features_is_refused(features, message):
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        CALLS[features]()
    for part in message.replace("{", "}").split("}")[::2]:
        assert part in str(refused.value)


def test_absent_arguments_are_features():
    refuse("blind rule", groups=None)
    with pytest.raises(ValueError, match="leave them out"):
        refuse("blind rule", groups=G)
    with pytest.raises(ValueError, match="are needed"):
        refuse("group-aware rule", groups=None)
