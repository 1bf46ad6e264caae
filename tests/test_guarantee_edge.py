"""Guarantees where log n is 0 or worse: one group, and sample weights that sum to next to nothing."""

import json

import numpy as np
import pytest
from conftest import noisy

import tailboost as tb
from tailboost.learners import HistTreeClassifier

TREE = HistTreeClassifier(max_depth=2)


def bounds_of(guarantee):
    return (*guarantee.promised, *guarantee.observed)


@pytest.mark.parametrize(
    "make",
    [
        lambda **p: tb.WorstClassBoostClassifier(TREE, n_estimators=3, **p),
        lambda **p: tb.WorstClassBoostClassifier(TREE, n_estimators=3, class_loss="error", **p),
        lambda **p: tb.GroupDROBoostClassifier(TREE, n_estimators=3, **p),
        lambda **p: tb.GroupDROBoostClassifier(TREE, n_estimators=3, eta="theory", **p),
        lambda **p: tb.GroupDROBoostClassifier(TREE, n_estimators=3, eta=0.5, **p),
    ],
)
@pytest.mark.parametrize("group", [0, "all"])
def test_one_group_is_its_own_bound(make, group):
    """After every such fit the guarantee can be read, written, and is true."""
    X, y = noisy(0, n=90)
    guarantee = make(random_state=0).fit(X, y, groups=np.full(len(y), group)).guarantee_
    assert str(guarantee)
    assert json.dumps(guarantee.to_dict())
    for bound in guarantee.observed:
        if bound.bound is not None and bound.achieved is not None:
            assert bound.achieved <= bound.bound + 1e-12


def test_one_group_adds_no_regret():
    X, y = noisy(0, n=90)
    clf = tb.GroupDROBoostClassifier(TREE, n_estimators=3, eta="theory", random_state=0)
    clf.fit(X, y, groups=np.zeros(len(y)))
    (observed,) = clf.guarantee_.observed
    assert observed.bound == pytest.approx(clf.trace_.weighted_loss.mean())
    assert observed.achieved == pytest.approx(observed.bound)
    (promised,) = clf.guarantee_.promised
    assert promised.bound == pytest.approx(clf.trace_.weighted_loss.max())  # g: log n = 0


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("weight", [1e-300, 1e-30, 1e-3])
@pytest.mark.parametrize(
    "clf",
    [
        tb.OCOBoostClassifier(TREE, n_estimators=3, random_state=0),
        tb.AverageBoostClassifier(TREE, n_estimators=3, eta="theory", random_state=0),
        tb.AdaLPBoostClassifier(TREE, n_estimators=3, eta="theory", random_state=0),
    ],
    ids=lambda clf: type(clf).__name__,
)
def test_light_weights_promise_nothing_false(clf, weight):
    """Weights that sum to less than 1 leave no log n: a bound is then absent with its reason, or true."""
    X, y = noisy(0, n=90)
    guarantee = clf.fit(X, y, sample_weight=np.full(len(y), weight)).guarantee_
    assert str(guarantee)
    for bound in bounds_of(guarantee):
        assert bound.bound is not None or bound.note
        if bound.bound is not None and bound.achieved is not None:
            assert bound.achieved <= bound.bound + 1e-9
    for bound in guarantee.promised:
        assert bound.bound is None
        assert "sum to 1 or more" in bound.note
