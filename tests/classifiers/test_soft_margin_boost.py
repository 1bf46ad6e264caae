"""Soft margins on noisy labels: never worse than the best constant on the rows they were chosen on."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.model_selection import train_test_split

import tailboost as tb
from tailboost.learners import HistTreeClassifier, StumpClassifier


def flipped(seed, n=1500, noise=0.3, K=2, weights=None):
    """Rows of K classes, a share of whose labels is drawn again: no pool of trees is right on them all."""
    return make_classification(
        n, 12, n_informative=6, n_classes=K, flip_y=noise, weights=weights, class_sep=0.6, random_state=seed
    )


def error_of_constant(y):
    return 1 - np.bincount(y).max() / len(y)


@pytest.mark.parametrize("loss", ["linear", "quadratic"])
@pytest.mark.parametrize("K", [2, 5])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.thinned(2)
def test_training_error_is_never_above_the_best_constants(loss, K, seed):
    """At C = None and at every price a user may name; RLP at α = 0.1 erred on up to 60 % of these rows."""
    X, y = flipped(seed, K=K, weights=[0.25] if K == 2 else None)
    for price in (None, 1.0, 2.0, 10.0, 100.0):
        clf = tb.SoftMarginBoostClassifier(
            HistTreeClassifier(max_depth=2),
            n_estimators=12,
            loss=loss,
            C=None if price is None else price / len(y),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            clf.fit(X, y)
        assert np.mean(clf.predict(X) != y) <= error_of_constant(y) + 1e-12, f"C n = {price}"


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["linear", "quadratic"])
def test_objective_is_never_below_the_constants(loss):
    """Weights with a smaller gain than the constants, in the objective of the program, are rejected."""
    for seed in range(4):
        X, y = flipped(seed, weights=[0.7])
        mass = np.bincount(y).astype(float)
        for price in (1.0, 3.0, 10.0, 100.0):
            C = price / len(y)
            clf = tb.SoftMarginBoostClassifier(n_estimators=10, loss=loss, C=C)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                clf.fit(X, y)
            if len(np.unique(clf.predict(X))) == 1:
                assert any("the best constant is used" in str(w.message) for w in caught)
                continue
            wrong = np.array([m.predict(X) != y for m in clf.estimators_])
            ours, of_constants = (
                tb.solvers.soft_margin_weights(losses, C, weight, loss=loss).value
                for losses, weight in ((wrong, np.ones(len(y))), (1 - np.eye(2), mass))
            )
            assert ours > of_constants if loss == "linear" else ours < of_constants


def test_a_price_above_the_noise_says_so():
    X, y = flipped(0)
    with pytest.warns(UserWarning, match=r"constant.*program's objective.*mixture of constants.*C=None"):
        clf = tb.SoftMarginBoostClassifier(
            HistTreeClassifier(max_depth=2), n_estimators=12, loss="linear", C=10 / len(y)
        ).fit(X, y)
    assert (clf.predict(X) == np.bincount(y).argmax()).all()
    assert 10 / len(y) == clf.C_


def test_a_price_of_nothing_says_so():
    X, y = flipped(0)
    with pytest.warns(UserWarning, match="constant"):
        clf = tb.SoftMarginBoostClassifier(n_estimators=5, loss="quadratic", C=1e-12).fit(X, y)
    assert (clf.predict(X) == np.bincount(y).argmax()).all()


def test_a_vote_worse_than_a_constant_on_held_out_rows_says_so():
    rng = np.random.default_rng(0)
    X, y = flipped(0, noise=0.0)
    X_val = rng.normal(size=(200, X.shape[1]))
    known = tb.AdaBoostClassifier(n_estimators=5).fit(X, y)
    y_val = 1 - known.predict(X_val)  # whatever was learnt is wrong here
    with pytest.warns(UserWarning, match="constant"):
        tb.SoftMarginBoostClassifier(n_estimators=5).fit(X, y, X_val=X_val, y_val=y_val)


def test_held_out_rows_choose_the_price():
    """The price kept is the first that errs least on them, as predict says."""
    X, y = flipped(1)
    X, X_val, y, y_val = train_test_split(X, y, random_state=0)
    for loss, prices in (("linear", (10, 5, 10 / 3, 2, 10 / 7, 1)), ("quadratic", (10, 100))):
        errors = {}
        for price in prices:
            clf = tb.SoftMarginBoostClassifier(n_estimators=10, loss=loss, C=price / len(y))
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                clf.fit(X, y, X_val=X_val, y_val=y_val)
            if not any("the best constant is used" in str(w.message) for w in caught):
                errors[price / len(y)] = np.mean(clf.predict(X_val) != y_val)
        chosen = tb.SoftMarginBoostClassifier(n_estimators=10, loss=loss)
        chosen.fit(X, y, X_val=X_val, y_val=y_val)
        assert pytest.approx(min(errors, key=errors.get)) == chosen.C_


@pytest.mark.parametrize(
    "load",
    [
        load_breast_cancer,
        load_digits,
        load_wine,
        *[
            lambda *, return_X_y, case=case: flipped(case, noise=0.1 * case, K=2 + case % 2)
            for case in range(1, 5)
        ],
    ],
)
@pytest.mark.parametrize("learner", [HistTreeClassifier(), HistTreeClassifier(max_depth=1)])
@pytest.mark.thinned(1)
def test_defaults_generalise(load, learner):
    """Within four points of AdaBoost on fresh rows, and better than the best constant."""
    X, y = load(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, stratify=y, random_state=0)
    errors = [
        np.mean(cls(learner).fit(X, y).predict(X_test) != y_test)
        for cls in (tb.SoftMarginBoostClassifier, tb.AdaBoostClassifier)
    ]
    assert errors[0] <= errors[1] + 0.04
    assert errors[0] < error_of_constant(y_test)


def test_weight_is_repetition():
    X, y = flipped(3, n=300, weights=[0.6])
    stumps = StumpClassifier()
    weight = np.random.default_rng(0).integers(1, 4, len(y))
    for loss in ("linear", "quadratic"):
        one = tb.SoftMarginBoostClassifier(stumps, n_estimators=10, loss=loss)
        two = tb.SoftMarginBoostClassifier(stumps, n_estimators=10, loss=loss)
        one.fit(X, y, sample_weight=weight)
        two.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
        assert one.C_ == two.C_
        np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), rtol=0, atol=1e-6)
