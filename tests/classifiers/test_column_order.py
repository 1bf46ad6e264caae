"""Probabilities are read by the names of their columns."""

from itertools import permutations

import numpy as np
import pytest

from tailboost import RobustMixtureClassifier

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
    orders = [*permutations(range(K))]
    for of_classes, columns in [*zip(orders, orders, strict=True), *zip(orders, orders[::-1], strict=True)]:
        classes = names[list(of_classes)].tolist()
        frame = pandas.DataFrame(P[:, columns], columns=names[list(columns)])
        mix = mixed(frame, y, classes=classes)
        assert np.mean(mix.predict({"net": frame}) == want) > 0.95
        assert mix.classes_.tolist() == classes


def test_a_column_named_by_the_first_class_is_not_the_second():
    pandas = pytest.importorskip("pandas")
    y = RNG.integers(2, size=100)
    P = said(y, 2, 2.0)
    with pytest.raises(ValueError, match="class"):
        mixed(pandas.Series(P[:, 0], name=0), y)
    for name in (1, None, "score"):
        mix = mixed(pandas.Series(P[:, 1], name=name), y)
        assert np.mean(mix.predict({"net": P[:, 1]}) == P.argmax(axis=1)) > 0.95
