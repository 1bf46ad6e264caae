"""Probabilities are read by the names of their columns; an implausible order gives a warning."""

import warnings
from itertools import permutations

import numpy as np
import pytest

from tailboost import RobustMixtureClassifier
from tailboost.selection.outputs import better_order

RNG = np.random.default_rng(0)


def said(y, K, merit, rng=RNG):
    """Probabilities of a model of some merit."""
    scores = rng.normal(size=(len(y), K))
    scores[np.arange(len(y)), y] += merit
    odds = np.exp(scores)
    return odds / odds.sum(axis=1, keepdims=True)


def mixed(P, y, **params):
    return RobustMixtureClassifier.from_probabilities({"net": P}, y, objective="error", **params)


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("labels", ["0…", "1…", "text"])
def test_names_decide_in_any_order_of_the_classes(K, labels):
    pandas = pytest.importorskip("pandas")
    names = np.array({"0…": range(K), "1…": range(1, K + 1), "text": list("abc")[:K]}[labels])
    index = RNG.integers(K, size=300)
    y, P = names[index], said(index, K, 3.0)
    want = names[P.argmax(axis=1)]  # predictions of the model for any order
    for classes in permutations(names.tolist()):
        for columns in permutations(range(K)):
            frame = pandas.DataFrame(P[:, columns], columns=names[list(columns)])
            mix = mixed(frame, y, classes=list(classes))
            assert np.mean(mix.predict({"net": frame}) == want) > 0.95
            assert mix.classes_.tolist() == list(classes)


def test_a_column_named_by_the_first_class_is_not_the_second():
    pandas = pytest.importorskip("pandas")
    y = RNG.integers(2, size=100)
    P = said(y, 2, 2.0)
    with pytest.raises(ValueError, match="class"):
        mixed(pandas.Series(P[:, 0], name=0), y)
    for name in (1, None, "score"):
        mix = mixed(pandas.Series(P[:, 1], name=name), y)
        assert np.mean(mix.predict({"net": P[:, 1]}) == P.argmax(axis=1)) > 0.95


@pytest.mark.filterwarnings("ignore::tailboost.exceptions.UselessRuleWarning")
@pytest.mark.parametrize("share", [0.5, 0.02])
def test_swapped_columns_are_asked_about(share):
    y = (RNG.random(2000) < share).astype(int)
    P, labels = said(y, 2, 2.0), np.array(["good", "bad"])[y]  # sorted, bad comes first
    with pytest.warns(UserWarning, match="classes"):
        mix = mixed(P, labels)
    with pytest.warns(UserWarning, match="classes"):
        mix.reweight({"net": P}, labels, error_budget=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mixed(P, labels, classes=["good", "bad"])


def test_an_order_is_seldom_suspected_without_cause():
    """No warning for uninformative or correct models: probability 1e-6, 1,200 tried."""
    found = [
        better_order(np.log(said(y, K, merit)), y)
        for K in (2, 3, 8)
        for n in (30, 300)
        for merit in (0.0, 0.5)
        for y in RNG.choice(K, p=RNG.dirichlet(np.ones(K)), size=(100, n))
    ]
    assert all(order is None for order in found)


@pytest.mark.parametrize("K", [2, 3, 8])
def test_the_order_found_is_that_in_which_the_columns_stand(K):
    y = RNG.integers(K, size=1500)
    P = said(y, K, 2.0)
    for _ in range(10):
        order = RNG.permutation(K)
        found = better_order(np.log(P[:, np.argsort(order)]), y)
        assert np.array_equal(np.arange(K) if found is None else found, order)
